"""Exact quantities of the target's chain: values, emphasis, the objective."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _markov
from .._markov import Matrix, Resolvent
from ..mdp import policy_matrix, Problem

DOUBTFUL, MOST_ERROR = 1e-6, 0.1  # relative errors above which a warning is given, or no answer


class TargetChain:
    """The discounted chain of one target: its matrix, and one shared factorisation."""

    def __init__(self, problem: Problem, target: Float[np.ndarray, "s a"]):
        average = policy_matrix(target)
        self.target = target
        self.matrix: Matrix = average @ problem.mdp.discounted()  # gamma P_pi
        self.reward = average @ problem.mdp.mean_reward.ravel()  # r_pi

    @cached_property
    def resolvent(self) -> Resolvent:
        r"""$(I - \gamma P_\pi)^{-1}$, refused where it multiplies rounding too often."""
        resolvent = Resolvent(self.matrix)
        steps = resolvent.right(np.ones(len(self.reward)))  # still to come, discounted
        if not steps.min() > 0:
            raise ValueError(_markov.UNIT_RADIUS)
        error = np.finfo(float).eps * float(steps.max())
        reason = f"the rounding of {steps.max():.1g} discounted steps adds up"
        if error > MOST_ERROR:
            raise ValueError(f"target: no digit of its values or emphasis is sure: {reason}")
        if error > DOUBTFUL:
            digits = int(-np.log10(error))
            warnings.warn(f"values and emphasis have {digits} sure digits: {reason}", stacklevel=4)
        return resolvent


_CHAINS: WeakKeyDictionary[Problem, TargetChain] = WeakKeyDictionary()


def target_chain(problem: Problem, target: ArrayLike | None) -> TargetChain:
    """Returns the chain of a target; the last one of each problem is cached."""
    target = problem.require_target(target)
    chain = _CHAINS.get(problem)
    if chain is None or not np.array_equal(chain.target, target):
        chain = _CHAINS[problem] = TargetChain(problem, target)
    return chain


def stationary(problem: Problem, policy: ArrayLike | None = None) -> Float[np.ndarray, " s"]:
    r"""The stationary distribution of a policy's chain, $d^\top P_\pi = d^\top$.

    The chain must be irreducible. The policy is by default the behaviour, and the result $d_\mu$.
    """
    if policy is None:
        return problem.stationary
    chain = problem.mdp.chain(problem.require_target(policy))
    classes = _markov.strong_classes(chain)
    if classes.max() > 0:
        raise ValueError(
            f"policy: its chain is not irreducible ({classes.max() + 1} classes), so that it has "
            "no unique positive stationary distribution; every state must lead to every other"
        )
    return _markov.stationary(chain)


def values(problem: Problem, target: ArrayLike | None = None) -> Float[np.ndarray, " s"]:
    r"""The state values $v_\pi = (I - \gamma P_\pi)^{-1} r_\pi$."""
    chain = target_chain(problem, target)
    return chain.resolvent.right(chain.reward)


def action_values(problem: Problem, target: ArrayLike | None = None) -> Float[np.ndarray, "s a"]:
    r"""The action values $q_\pi(s,a) = \tilde r(s,a) + \sum_{s'}\gamma p(s'|s,a) v_\pi(s')$."""
    mdp = problem.mdp
    future = mdp.discounted() @ values(problem, target)
    return mdp.mean_reward + future.reshape(mdp.mean_reward.shape)


def weighted_emphasis(problem: Problem, target: ArrayLike | None) -> Float[np.ndarray, " s"]:
    r"""$\bar m = D m_\pi = (I - \gamma P_\pi^\top)^{-1} D i$."""
    return target_chain(problem, target).resolvent.left(problem.stationary * problem.interest)


def emphasis(problem: Problem, target: ArrayLike | None = None) -> Float[np.ndarray, " s"]:
    r"""The emphasis $m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, the followon trace's mean."""
    return weighted_emphasis(problem, target) / problem.stationary


def density_ratio(problem: Problem, target: ArrayLike | None = None) -> Float[np.ndarray, " s"]:
    r"""The discounted density ratio towards the interest, $m_\pi / \sum_s d_\mu(s)m_\pi(s)$.

    It is the distribution of the state in an excursion of $\pi$ that starts from $d_\mu i$,
    relative to $d_\mu$; for a constant discount, $(1-\gamma)m_\pi/\sum_s d_\mu(s)i(s)$.
    """
    weighted = weighted_emphasis(problem, target)
    return weighted / weighted.sum() / problem.stationary


def objective(problem: Problem, target: ArrayLike | None = None) -> float:
    r"""The excursion objective $J(\pi) = \sum_s d_\mu(s)i(s)v_\pi(s)$."""
    return float((problem.stationary * problem.interest) @ values(problem, target))


@dataclass(frozen=True)
class Contraction:
    r"""A norm in which $\hat{\mathcal T}y = i + \gamma D^{-1}P_\pi^\top Dy$ contracts.

    $\|\hat{\mathcal T}y - \hat{\mathcal T}z\| \le \beta\|y - z\|$ for $\|y\| = \max_s
    |y(s)|/w(s)$, with weights $w$ and modulus $\beta < 1$.
    """

    weights: Float[np.ndarray, " s"]
    modulus: float


def contraction(problem: Problem, target: ArrayLike | None = None) -> Contraction:
    r"""A weighted maximum norm and a modulus that witness Proposition 1.

    The weights $w = (I - \gamma D^{-1}P_\pi^\top D)^{-1}1$ satisfy $\gamma D^{-1}P_\pi^\top D w
    = w - 1 \le (1 - 1/\max w)\,w$, so that the modulus is $1 - 1/\max_s w(s)$.
    """
    d = problem.stationary
    weights = target_chain(problem, target).resolvent.left(d) / d
    return Contraction(weights, float(1.0 - 1.0 / weights.max()))
