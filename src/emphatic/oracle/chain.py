"""Exact quantities of the target's chain: values, emphasis, the objective."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _markov, _validation as checks
from .._markov import Matrix, Resolvent
from ..mdp import policy_matrix, Problem

DOUBTFUL, MOST_ERROR = 1e-6, 0.1  # relative errors above which a warning is given, or no answer


class TargetChain:
    """The discounted chain of one target: its matrix, and one shared factorisation.

    The discount is by default the problem's own.
    """

    def __init__(
        self,
        problem: Problem,
        target: Float[np.ndarray, "s a"],
        discount: float | np.ndarray | None = None,
    ):
        average, mdp = policy_matrix(target), problem.mdp
        kernel = mdp.discounted() if discount is None else mdp.weighted(discount)
        self.target = target
        self.matrix: Matrix = average @ kernel  # gamma P_pi
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


def decayed_discount(problem: Problem, decay: float | None) -> float | np.ndarray:
    r"""Returns the discount with a decay $\beta$ in its place where it is positive."""
    discount = problem.mdp.discount
    if decay is None:
        return discount
    checks.probability("decay", decay, "a number")
    return decay * (np.asarray(discount) > 0)


def target_chain(
    problem: Problem, target: ArrayLike | None, decay: float | None = None
) -> TargetChain:
    """Returns the chain of a target; the last one of each problem is cached.

    With a decay, a `ValueError` unless the mean of the trace exists.
    """
    target = problem.require_target(target)
    if decay is not None:
        chain = TargetChain(problem, target, decayed_discount(problem, decay))
        if decay == 1 and _markov.convergent_resolvent(chain.matrix) is None:
            radius = _markov.spectral_radius(chain.matrix)
            raise ValueError(
                f"decay: got {decay:g}, with which the trace has no finite mean: the spectral "
                f"radius of the target's chain is {radius:.6g}; it must be below 1"
            )
        return chain
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


def weighted_emphasis(
    problem: Problem, target: ArrayLike | None, decay: float | None = None
) -> Float[np.ndarray, " s"]:
    r"""$\bar m = D m_\pi = (I - \gamma P_\pi^\top)^{-1} D i$."""
    resolvent = target_chain(problem, target, decay).resolvent
    return resolvent.left(problem.stationary * problem.interest)


def emphasis(
    problem: Problem, target: ArrayLike | None = None, decay: float | None = None
) -> Float[np.ndarray, " s"]:
    r"""The emphasis $m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, the followon trace's mean.

    With a decay $\beta$ in place of the discount where that is positive it is the $f_\beta$ of
    Hallak et al. (2016), $D^{-1}(I - \beta P_\pi'^\top)^{-1}Di$ with the chain $P_\pi'$ that ends
    where the discount is 0. With $\beta = 1$ it exists only where every state leads to an end.
    """
    return weighted_emphasis(problem, target, decay) / problem.stationary


def density_ratio(
    problem: Problem, target: ArrayLike | None = None, discount: float | None = None
) -> Float[np.ndarray, " s"]:
    r"""The density ratio of an excursion of the target: the law of its state relative to $d_\mu$.

    By default the excursion starts from $d_\mu i$ and continues with the problem's discount: it is
    $m_\pi / \sum_s d_\mu(s)m_\pi(s)$, for a constant discount
    $(1-\gamma)m_\pi/\sum_s d_\mu(s)i(s)$.

    With a `discount` $\hat\gamma \in [0, 1]$ it starts from $d_\mu$ itself and continues with the
    same probability at every step, ends of episodes included, since a restart is a transition of
    the chain: it is the limit of [cop_td],

    $$
    c_{\hat\gamma} = (1 - \hat\gamma)D^{-1}(I - \hat\gamma P_\pi^\top)^{-1}d_\mu,
    $$

    from $c_0 = 1$ to $c_1 = \lim_{\hat\gamma \to 1}c_{\hat\gamma}$. That is $d_\pi/d_\mu$, with
    the stationary distribution $d_\pi$ of the target's chain. If the chain has several closed
    classes, $d_\pi$ has those of all, each with the probability that it ends there from $d_\mu$.
    """
    if discount is None:
        weighted = weighted_emphasis(problem, target)
        return weighted / weighted.sum() / problem.stationary
    chain, d = continuing_chain(problem, target, discount), problem.stationary
    law = _eventual_law(chain.matrix, d) if discount == 1 else chain.resolvent.left(d)
    return law / law.sum() / d


def continuing_chain(problem: Problem, target: ArrayLike | None, discount: float) -> TargetChain:
    r"""Returns the chain of a target that goes on with one probability, $\hat\gamma P_\pi$."""
    checks.probability("discount", discount, "a number")
    return TargetChain(problem, problem.require_target(target), discount)


def _eventual_law(chain: Matrix, start: Float[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
    """Returns the limit of the average law of a chain's states, from a law of the first."""
    closed, classes = _markov.closed(chain), _markov.strong_classes(chain)
    law, inside = np.zeros(len(start)), start.copy()
    passing = np.flatnonzero(~closed)
    if len(passing):
        visits = Resolvent(chain[passing][:, passing]).left(start[passing])
        inside += chain[passing].T @ visits
    for label in np.unique(classes[closed]):
        states = np.flatnonzero(classes == label)
        law[states] = inside[states].sum() * _markov.stationary(chain[states][:, states])
    return law


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
