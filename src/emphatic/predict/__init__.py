"""Exact learning curves: what a simulation of a linear learner would show, in closed form.

For a learner that is affine in its weights, with a fixed step size on a finite problem, the mean
and the covariance of the weights at every time follow from a linear recursion, and so do the
error, where it settles, and the step sizes that are stable.
"""

from .affine import Affine as Affine
from .affine import affine as affine
from .best import Best as Best
from .best import best_step_size as best_step_size
from .curve import Curve as Curve
from .curve import learning_curve as learning_curve
from .curve import Limit as Limit
from .curve import limit as limit
from .stability import Lyapunov as Lyapunov
from .stability import lyapunov as lyapunov
from .stability import Thresholds as Thresholds
from .stability import thresholds as thresholds
