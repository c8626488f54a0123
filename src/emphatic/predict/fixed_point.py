"""Where a learner settles as its step size goes to 0, and how far it strays from there."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import linalg

from ..mdp import Problem
from ..oracle.linear import weighted_norm
from ..oracle.solution import FixedPoint
from ..types import LearnerFactory
from .curve import error_measure, truth
from .learner import as_factory
from .moments import arrivals, DENSE, initial_moments, mean_operator, path, recursion
from .small_steps import small_steps, SmallSteps
from .stability import is_stable_in_mean_square

LONG = np.array([10**9])  # steps after which traces have forgotten how they began
NOISE = 1e-12  # relative, of a direction in which weights move by rounding only


def fixed_point(
    problem: Problem, factory: LearnerFactory | str, *, target: ArrayLike | None = None
) -> FixedPoint:
    r"""Solves the mean field of a learner, derived from its own `step`.

    With weights $\theta$, traces $\zeta$ and $\theta_{t+1} = \theta_t + \alpha f(\zeta_t, \theta_t,
    Y_t)$ that is $\mathbb E[f(\mathbb E[\zeta_t|Z_t], \theta, Y_t)] = 0$ in the stationary regime;
    see [SmallSteps]. The oracle knows the same of the paper's learners, by other means.

    **Arguments:**

    - `problem`: The problem.
    - `factory`: A function from a step size to a learner, such as [gem]; or an expression, such as
      `"etd(followon(), step_size)"`. It may have traces, and parts with step sizes of their own.
    - `target`: The target policy; by default the problem's own.

    The slowest mode is None if some weights have a step size of their own, that of TDC's correction
    for example: it then depends on the step sizes, and the fixed point does not. The variance is
    that of [asymptotic_covariance], averaged over the stationary regime as the error is; it is
    infinite if the fixed point is not stable or a trace has no variance, and None without a slowest
    mode or beyond 3000 unknowns.
    """
    factory = as_factory(problem, factory, target)
    learner, small = factory(1.0), small_steps(problem, factory, target)
    correct = truth(problem, target, small.weights, error_measure(learner))
    error = weighted_norm(small.probability, small.prediction - correct)
    variance = None
    if small.slowest is not None and recursion(small.traces).size <= DENSE:
        covariance = _covariance(small)
        spread = np.einsum("yi,ij,yj->y", small.slope, covariance, small.slope)
        is_finite = np.isfinite(covariance).all()
        variance = float(small.probability @ spread) if is_finite else np.inf
    return FixedPoint(
        small.solution,
        small.unique,
        error if small.exists else np.inf,
        small.slowest,
        learner.estimates or "values",
        learner.name,
        variance,
    )


def asymptotic_covariance(
    problem: Problem, factory: LearnerFactory | str, *, target: ArrayLike | None = None
) -> Float[np.ndarray, "n n"]:
    r"""Computes $\Sigma = \lim_{\alpha\to0}\frac1\alpha\mathrm{Cov}[\theta_t]$, in the long run.

    Near the fixed point $\theta_{t+1} - \theta^* \approx (I - \alpha G)(\theta_t - \theta^*) +
    \alpha f_t$ with $f_t = f(\zeta_t, \theta^*, Y_t)$, so that $\Sigma$ solves

    $$
    G\Sigma + \Sigma G^\top = S, \qquad S = \sum_{k=-\infty}^{\infty}\mathbb E[f_tf_{t+k}^\top],
    $$

    where steps are correlated along the chain and by the traces, whose moments are exact. Infinite
    if the fixed point is not stable, or if a trace has no variance.

    **Arguments:**

    - `problem`, `factory`, `target`: As for [fixed_point].
    """
    factory = as_factory(problem, factory, target)
    small = small_steps(problem, factory, target)
    if small.slowest is None:
        name = factory(1.0).name or "the learner"
        raise ValueError(f"learner: not all weights of {name} move in proportion to the step size")
    return _covariance(small)


def _covariance(small: SmallSteps) -> Float[np.ndarray, "n n"]:
    infinite = np.full((len(small.solution),) * 2, np.inf)
    is_stable = small.exists and small.slowest is not None and small.slowest >= 0
    if not is_stable or not is_stable_in_mean_square(small.traces):
        return infinite
    S = _long_run_covariance(small)
    drift = np.tensordot(small.probability, small.jacobian, axes=1)
    Q = _moved_space(small, drift, S)
    reduced = Q.T @ drift @ Q
    slowest = -np.linalg.eigvals(reduced).real.max(initial=-np.inf)
    if slowest <= NOISE * np.abs(drift).max(initial=0.0):
        return infinite
    return Q @ linalg.solve_continuous_lyapunov(reduced, -Q.T @ S @ Q) @ Q.T if Q.size else 0.0 * S


def _long_run_covariance(small: SmallSteps) -> Float[np.ndarray, "n n"]:
    r"""$S = \sum_k\mathbb E[f_tf_{t+k}^\top]$, from the joint moments of the traces and the chain.

    With $U_k(z) = \mathbb E[f_01\{Z_k = z\}]$ and $W_k(z) = \mathbb E[f_0\zeta_k^\top1\{Z_k = z\}]$
    the terms are $\mathbb E[f_0f_k^\top] = \sum_y\Pr(y|z)(U_k(z)c(y)^\top + W_k(z)K(y)^\top)$ for
    $f = c + K\zeta$, and both move by linear recursions, whose sums over $k$ are solved for.
    """
    traces, f, K = small.traces, small.step, small.gain
    operator = recursion(traces)
    joint = operator.unpack(path(operator, initial_moments(traces), LONG).limit())
    mass, z = traces.stationary, traces.source
    mean = joint[:, 1:, 0] / mass[:, None]
    spread = joint[:, 1:, 1:] / mass[:, None, None] - mean[:, :, None] * mean[:, None, :]
    noise = K @ spread[z]
    weight = small.probability
    S = np.einsum("y,yi,yj->ij", weight, f, f) + np.einsum("y,yim,yjm->ij", weight, noise, K)

    B, b = traces.matrix, traces.vector
    moved = np.einsum("yml,yl->ym", B, mean[z]) + b
    first = f[:, :, None] * moved[:, None, :] + noise @ B.swapaxes(1, 2)
    P = arrivals(traces, np.eye(len(mass))[z])
    U = np.linalg.solve(np.eye(len(mass)) - P + mass[:, None], arrivals(traces, mass[z, None] * f))
    added = arrivals(traces, mass[z, None, None] * first + U[z][:, :, None] * b[:, None, :])
    count, size, num_traces = added.shape
    rows = added.swapaxes(1, 2).reshape(count * num_traces, size)
    W = np.linalg.solve(np.eye(len(rows)) - mean_operator(traces), rows)
    W = W.reshape(count, num_traces, size).swapaxes(1, 2)
    constant = f - np.einsum("yim,ym->yi", K, mean[z])
    later = np.einsum("y,yi,yj->ij", traces.probability, U[z], constant)
    later += np.einsum("y,yim,yjm->ij", traces.probability, W[z], K)
    return S + later + later.T


def _moved_space(
    small: SmallSteps, drift: Float[np.ndarray, "n n"], S: Float[np.ndarray, "n n"]
) -> Float[np.ndarray, "n r"]:
    """Returns an orthonormal basis of where noise, and the drift after it, move the weights."""
    scale = small.probability @ np.abs(small.jacobian @ small.solution).max(1, initial=0.0)
    scale = max(scale, small.probability @ np.abs(small.step).max(1, initial=0.0))
    basis = np.zeros((len(S), 0))
    new = S / scale**2 if scale > 0 else np.zeros_like(S)
    largest = max(np.abs(drift).max(initial=0.0), np.finfo(float).tiny)
    while new.size and basis.shape[1] < len(S):
        for _ in range(2):  # twice, for what rounding leaves
            new = new - basis @ (basis.T @ new)
        columns, sizes, _ = np.linalg.svd(new, full_matrices=False)
        columns = columns[:, sizes > NOISE]
        basis = np.concatenate([basis, columns], axis=1)
        new = drift @ columns / largest
    return np.linalg.qr(basis)[0]
