"""Engines: thousands of learners on one stream of experience, compiled."""

from .measures import Measure as Measure
from .measures import MEASURES as MEASURES
from .run import Engine as Engine
from .run import prepare as prepare
from .run import Prepared as Prepared
from .run import run as run
