"""Exact learning curves: what a simulation of a linear learner would show, in closed form.

For a learner that is affine in its weights, with a fixed step size on a finite problem, the mean
and the covariance of the weights at every time follow from a linear recursion, and so do the
error, where it settles, and the step sizes that are stable.
"""

from .affine import affine_map as affine_map, AffineMap as AffineMap, Factory as Factory
from .best import Best as Best, best_step_size as best_step_size, Criterion as Criterion
from .cost import Cost as Cost
from .curve import (
    Curve as Curve,
    ErrorMeasure as ErrorMeasure,
    learning_curve as learning_curve,
    Limit as Limit,
    limit as limit,
)
from .exponent import Lyapunov as Lyapunov, lyapunov as lyapunov
from .fixed_point import asymptotic_covariance as asymptotic_covariance, fixed_point as fixed_point
from .initial import Initial as Initial
from .small_steps import small_steps as small_steps, SmallSteps as SmallSteps
from .stability import Intervals as Intervals, Thresholds as Thresholds, thresholds as thresholds
from .summary import simulate as simulate, summarize as summarize
