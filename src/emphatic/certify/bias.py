r"""The bias $b(\theta)$ of COF-PAC where an actor starts and where it ends."""

from dataclasses import dataclass

import jax
import numpy as np

from .. import oracle
from ..agents.policies import Softmax
from ..mdp import Problem
from ..oracle.gradient import critics, PolicyFunction
from ..oracle.mean_field import follow
from ..types import Params

MAX_WORK = 3e5  # entries that an evaluation of the mean field may touch: a second or two in all
HORIZON = 1e7  # the time for which it is followed, in units of 1/|d m q|
TOLERANCE = 1e-4  # relative to the gradient at the start


@dataclass(frozen=True)
class Bias:
    r"""The gradient and the bias that Theorem 3 compares, at one $\theta$."""

    objective: float
    """$J(\\theta)$."""
    gradient_norm: float
    """$\\|\\nabla J(\\theta)\\|$."""
    bias_norm: float
    """$\\|b(\\theta)\\|$."""


def bias_at_ends(
    problem: Problem,
    policy: PolicyFunction,
    theta: Params,
    theta_end: Params | None,
    ridge: float | None,
) -> tuple[Bias | None, Bias | None, str]:
    """Computes the bias at the start and at the end, with a note that says where the end is."""
    if not ridge:
        return None, None, "it is that of gem and gq2 with one positive ridge, which was not given"
    start, note = None, "at theta_end"
    try:
        start = _evaluate_bias(problem, policy, theta, ridge)
        if theta_end is None:
            note = "where the mean field of COF-PAC leads"
            theta_end = _follow(problem, policy, theta, ridge)
        return start, _evaluate_bias(problem, policy, theta_end, ridge), note
    except ValueError as error:
        return start, None, str(error)


def _evaluate_bias(problem: Problem, policy: PolicyFunction, theta: Params, ridge: float) -> Bias:
    return Bias(
        oracle.objective(problem, oracle.probabilities(policy, theta)),
        _norm(oracle.policy_gradient(problem, policy, theta)),
        _norm(oracle.bias(problem, policy, theta, ridge)),
    )


def _norm(tree: Params) -> float:
    return float(np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(tree))))


def _follow(problem: Problem, policy: PolicyFunction, theta: Params, ridge: float) -> Params:
    if not isinstance(policy, Softmax):
        raise ValueError("the mean field is followed for a linear softmax only; give theta_end")
    size = problem.xa_rows.shape[1]
    work = problem.behavior.size * size * (len(problem.behavior) + size)
    if work > MAX_WORK:
        raise ValueError(
            f"the mean field is followed where s a l (s + l) <= {MAX_WORK:g}, which is {work:g} "
            "here; give theta_end"
        )
    m, q = critics(problem, oracle.probabilities(policy, theta), ridge)
    scale = _norm((problem.stationary * m)[:, None] * q)
    if scale == 0.0:
        return theta
    return follow(problem, policy, theta, "cof-pac", HORIZON / scale, ridge)[0]
