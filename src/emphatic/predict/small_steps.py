"""A learner as its step size goes to 0: traces that move on, and weights that hardly move."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from .._work import require_memory
from ..mdp import Problem
from ..oracle.expectation import enumerate_samples
from ..oracle.linear import LinearSystem
from ..oracle.solution import settle
from ..types import Agent, Critic
from .affine import AffineMap, Factory, find_chain, LATER_TIMES, require_timeless, step_derivatives
from .initial import initial_weights, learner_name
from .moments import arrivals, mean_operator

SIZES = 2.0**10, 2.0**11  # large, so that f = (d' - d)/alpha loses no digit
AFFINE = 1e-9  # relative, of what must be affine in the traces
ROUNDING = 1e-9  # of a drift, relative to the terms that it is the sum of
SMALL, LOST = 1.0, 1e-13  # where a fixed point must be the same, and what (d' - d) loses there
MOVED = 1e-6  # relative to the terms of an equation, of a fixed point that it does not have
MAX_ITERATIONS = 8  # of Newton's method: for weights that learn from other weights two are enough


@dataclass(frozen=True, eq=False)
class SmallSteps:
    r"""A learner near the root $\theta^*$ of its mean field, at all that can happen in a step.

    Its state is $(\zeta_t, \theta_t)$: weights $\theta_{t+1} = \theta_t + \alpha f(\zeta_t,
    \theta_t, Y_t)$, and traces $\zeta_{t+1} = B(Y_t)\zeta_t + b(Y_t)$ that depend neither on the
    step size nor on the weights, such as the followon trace. Since $f$ is affine in $\zeta$, and
    $\zeta_t$ and $Y_t$ are independent given $Z_t$, the mean field is
    $\bar f(\theta) = \mathbb E[f(\mathbb E[\zeta_t|Z_t], \theta, Y_t)]$ in the stationary regime.

    **Arguments:**

    - `names`: The names of the weights.
    - `traces`: The traces along the chain $Z_t$.
    - `probability`: $\Pr(Y_t = y)$.
    - `solution`: $\theta^*$; the shortest one if there are several, the nearest to one if none.
    - `unique`, `exists`: Whether there is only one, and whether there is one.
    - `slowest`: The least real part of an eigenvalue of $-\bar f'(\theta^*)$; None if not all
      weights move in proportion to the step size.
    - `step`, `jacobian`, `gain`: $f$ at $\mathbb E[\zeta_t|Z_t]$ and $\theta^*$, and its
      derivatives with respect to $\theta$ and $\zeta$.
    - `prediction`, `slope`: What is predicted before the step, and its derivative.
    """

    names: Sequence[str]
    traces: AffineMap
    probability: Float[np.ndarray, " y"]
    solution: Float[np.ndarray, " n"]
    unique: bool
    exists: bool
    slowest: float | None
    step: Float[np.ndarray, "y n"]
    jacobian: Float[np.ndarray, "y n n"]
    gain: Float[np.ndarray, "y n m"]
    prediction: Float[np.ndarray, " y"]
    slope: Float[np.ndarray, "y n"]

    @property
    def weights(self) -> AffineMap:
        r"""The weights near $\theta^*$ with $\alpha = 1$ and the mean of the traces."""
        eye = np.eye(len(self.solution))
        return replace(
            self.traces,
            matrix=eye + self.jacobian,
            vector=self.step - self.jacobian @ self.solution,
            slope=self.slope,
            offset=self.prediction - self.slope @ self.solution,
            mean=self.solution,
            covariance=0.0 * eye,
            names=self.names,
            basis=eye,
        )


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """A learner's step at points, split into its traces and its weights."""

    traces: Float[np.ndarray, "y m"]
    trace_matrix: Float[np.ndarray, "y m m"]
    step: Float[np.ndarray, "y n"]
    jacobian: Float[np.ndarray, "y n n"]
    gain: Float[np.ndarray, "y n m"]
    prediction: Float[np.ndarray, " y"]
    slope: Float[np.ndarray, "y n"]
    trace_slope: Float[np.ndarray, "y m"]


def small_steps(problem: Problem, factory: Factory, target: ArrayLike | None = None) -> SmallSteps:
    """Derives traces, mean field and its root from a learner's own `step`.

    Which numbers of its state are traces is determined, not declared; a `ValueError` says what
    has no exact limit.
    """
    pi, learner = problem.require_target(target), factory(SIZES[0])
    if isinstance(learner, Agent):
        raise ValueError("learner: an agent changes its own target; its critics have limits")
    names, unravel, _ = initial_weights(problem, learner, None)
    enumerated = enumerate_samples(problem, np.ones(problem.mdp.num_states))
    count, size = len(enumerated.outcome), len(names)
    require_memory(f"problem: {count:,} maps of {size} weights", 48 * count * size**2)
    derivatives = step_derivatives(problem, factory, pi, unravel)
    point = np.tile(np.random.default_rng(0).normal(size=size), (count, 1))
    examples = [derivatives(alpha, point, enumerated.sample) for alpha in SIZES]
    later = [derivatives(SIZES[0], point, enumerated.sample, time) for time in LATER_TIMES]
    require_timeless(learner, all(map(_is_close, examples[0] * 2, [*later[0], *later[1]])))
    chain = find_chain(
        problem, enumerated, lambda rows: all(_is_close(x, x[rows]) for x in examples[0])
    )
    row_of = np.searchsorted(chain.rows, np.arange(count), side="right") - 1
    is_trace = _find_traces(point, *examples)
    learned = np.flatnonzero(~is_trace)
    moving = np.flatnonzero(is_trace)
    if not learned.size:
        raise ValueError(f"learner: {learner_name(learner)} has no weights that a step size moves")

    def evaluate(
        zeta: Float[np.ndarray, "y m"], theta: Float[np.ndarray, " n"], alpha: float = SIZES[0]
    ) -> _Evaluation:
        d = np.empty((count, size))
        d[:, moving], d[:, learned] = zeta[row_of], theta
        results = derivatives(alpha, d, enumerated.sample)
        after, prediction, jacobian, slope = (result[chain.rows] for result in results)
        return _Evaluation(
            traces=after[:, moving],
            trace_matrix=jacobian[:, moving][:, :, moving],
            step=(after[:, learned] - theta) / alpha,
            jacobian=(jacobian[:, learned][:, :, learned] - np.eye(len(learned))) / alpha,
            gain=jacobian[:, learned][:, :, moving] / alpha,
            prediction=prediction,
            slope=slope[:, learned],
            trace_slope=slope[:, moving],
        )

    theta = np.zeros(len(learned))
    origin = evaluate(np.zeros((len(chain.rows), len(moving))), theta)
    traces = AffineMap(
        **{name: column for name, column in chain._asdict().items() if name != "rows"},
        matrix=origin.trace_matrix,
        vector=origin.traces,
        slope=np.zeros_like(origin.traces),
        offset=np.zeros(len(chain.rows)),
        mean=np.zeros(len(moving)),
        covariance=np.zeros((len(moving), len(moving))),
        names=[names[n] for n in moving],
        basis=np.eye(len(moving)),
        discount=None if learner.discount is None else float(learner.discount),
    )
    zeta = _mean_traces(learner, traces)[traces.source]
    weight = traces.stationary[traces.source] * traces.probability
    root = next(filter(None, (_find_root(evaluate, zeta, weight, theta + n) for n in (0, 1))), None)
    if root is None:
        raise ValueError(f"learner: Newton's method finds no limit of {learner_name(learner)}")
    theta, here, unique, exists = root
    _require_affine(learner, traces, here, evaluate(1.0 + 2.0 * zeta, theta), zeta)
    G, G_again = (
        -np.tensordot(weight, evaluate(zeta, theta, alpha).jacobian, axes=1) for alpha in SIZES
    )
    terms = np.tensordot(weight, np.abs(here.jacobian), axes=1)
    is_homogeneous = np.allclose(G, G_again, rtol=0.0, atol=ROUNDING * terms.max(initial=0.0))
    if exists and not is_homogeneous:
        _require_root(learner, evaluate, zeta, weight, theta)
    return SmallSteps(
        names=[names[n] for n in learned],
        traces=traces,
        probability=weight,
        solution=theta,
        unique=unique,
        exists=exists,
        slowest=LinearSystem(G, theta).slowest_mode() if is_homogeneous else None,
        step=here.step,
        jacobian=here.jacobian,
        gain=here.gain,
        prediction=here.prediction,
        slope=here.slope,
    )


def _find_root(
    evaluate: Callable[..., _Evaluation],
    zeta: Float[np.ndarray, "y m"],
    weight: Float[np.ndarray, " y"],
    theta: Float[np.ndarray, " n"],
) -> tuple[Float[np.ndarray, " n"], _Evaluation, bool, bool] | None:
    """Returns the root of the mean field, the step there, whether it is unique, and whether it is
    one; None if Newton's method does not find one of a mean field that is not affine."""
    here, unique, exists = evaluate(zeta, theta), True, True
    for iteration in range(MAX_ITERATIONS):
        drift, before = weight @ here.step, here.jacobian
        terms = np.tensordot(weight, np.abs(before), axes=1)
        rows = terms.max(1, initial=0.0)
        largest = rows * np.abs(theta).max(initial=0.0) + weight @ np.abs(here.step)
        if iteration and (np.abs(drift) <= ROUNDING * largest).all():
            return theta, here, unique, exists
        rows[rows == 0.0] = 1.0
        G = -np.tensordot(weight, before, axes=1)
        system = LinearSystem(G / rows[:, None], drift / rows, np.ones(len(G)))
        change, unique, exists = settle(system)
        theta = theta + change
        here = evaluate(zeta, theta)
        if not exists:
            return (theta, here, unique, exists) if _is_close(before, here.jacobian) else None
    return None


def _require_root(
    learner: Critic,
    evaluate: Callable[..., _Evaluation],
    zeta: Float[np.ndarray, "y m"],
    weight: Float[np.ndarray, " y"],
    theta: Float[np.ndarray, " n"],
) -> None:
    """Refuses a learner whose fixed point is another one with small steps."""
    first, last = (evaluate(zeta, point, SMALL) for point in (0.0 * theta, theta))
    terms = np.tensordot(weight, np.abs(last.jacobian), axes=1)
    allowed = MOVED * (np.abs(weight @ first.step) + terms @ np.abs(theta))
    if (np.abs(weight @ last.step) > allowed + LOST * (1.0 + np.abs(theta))).any():
        raise ValueError(
            f"learner: where {learner_name(learner)} settles depends on the step size, so its "
            "limit as that goes to 0 is not the fixed point of a step"
        )


def _is_close(x: Float[np.ndarray, "*n"], y: Float[np.ndarray, "*n"]) -> bool:
    return bool(np.abs(x - y).max(initial=0.0) <= AFFINE * np.abs(x).max(initial=0.0))


def _find_traces(
    point: Float[np.ndarray, "y d"], small: list[np.ndarray], large: list[np.ndarray]
) -> Bool[np.ndarray, " d"]:
    """Finds the numbers that move, whatever the step size, by what is among them alone."""
    after, jacobian = small[0], small[2]
    moves, scale = np.abs(after - point).max(0), np.abs(after).max(0)
    is_trace = (np.abs(after - large[0]).max(0) <= AFFINE * scale) & (moves > AFFINE * scale)
    while True:
        reads_weights = (np.abs(jacobian[:, :, ~is_trace]).max((0, 2), initial=0.0)) > 0
        if not (is_trace & reads_weights).any():
            return is_trace
        is_trace &= ~reads_weights


def _mean_traces(learner: Critic, traces: AffineMap) -> Float[np.ndarray, "z m"]:
    r"""$\mathbb E[\zeta_t|Z_t = z]$ in the stationary regime."""
    if not traces.names:
        return np.zeros((len(traces.start), 0))
    operator = mean_operator(traces)
    if np.abs(np.linalg.eigvals(operator)).max() >= 1.0:
        raise ValueError(
            f"learner: {traces.names[0].split('[')[0]} of {learner_name(learner)} has no mean"
        )
    added = arrivals(traces, traces.stationary[traces.source, None] * traces.vector)
    mean = np.linalg.solve(np.eye(len(operator)) - operator, added.ravel())
    return mean.reshape(added.shape) / traces.stationary[:, None]


def _require_affine(
    learner: Critic,
    traces: AffineMap,
    here: _Evaluation,
    there: _Evaluation,
    zeta: Float[np.ndarray, "y m"],
) -> None:
    """Refuses what is not affine in the traces; `there` is at $1 + 2\\zeta$ and not at $\\zeta$."""
    move = 1.0 + zeta
    expected = here.step + np.einsum("ynm,ym->yn", here.gain, move)
    moved = traces.vector + np.einsum("yij,yj->yi", traces.matrix, zeta + move)
    if not (_is_close(expected, there.step) and _is_close(moved, there.traces)):
        raise ValueError(
            f"learner: the step of {learner_name(learner)} is not affine in its traces"
        )
    if np.abs(here.trace_slope).max(initial=0.0) > 0:
        raise ValueError(
            f"learner: what {learner_name(learner)} predicts depends on its trace, which does not "
            "settle"
        )
