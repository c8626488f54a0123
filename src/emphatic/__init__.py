"""Convergent off-policy learning: problems, exact answers, certificates."""

from . import oracle as oracle
from . import predict as predict
from . import problems as problems
from . import schedules as schedules
from ._types import Learner as Learner
from ._types import Sample as Sample
from ._types import Transition as Transition
from .agents import Softmax as Softmax
from .certify import Bias as Bias
from .certify import Certificate as Certificate
from .certify import certify as certify
from .certify import Row as Row
from .certify import Theorem as Theorem
from .mdp import MDP as MDP
from .mdp import Problem as Problem
from .solve import FixedPoint as FixedPoint
from .solve import solve as solve
