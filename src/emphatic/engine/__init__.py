"""Engines: thousands of learners on one stream of experience, compiled."""

from ..types import DeviceName as DeviceName, LearnerFactory as LearnerFactory
from . import expressions as expressions
from .choice import Choice as Choice, Engine as Engine
from .experience import Experience as Experience, Program as Program
from .measures import Measure as Measure, MEASURES as MEASURES
from .request import Axes as Axes, Learners as Learners, Measures as Measures, Targets as Targets
from .run import prepare as prepare, Prepared as Prepared, run as run
from .tasks import OnProgress as OnProgress
