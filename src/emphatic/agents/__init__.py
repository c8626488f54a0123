"""Policies, and agents that improve them."""

from .damping import Konda as Konda
from .damping import undamped as undamped
from .policies import linear as linear
from .policies import NetworkSoftmax as NetworkSoftmax
from .policies import over_states as over_states
from .policies import Softmax as Softmax
from .policies import tabular as tabular
