"""The paper's assumptions: each with what it says, whether it holds, and the evidence."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jaxtyping import Float
from scipy import sparse

from .. import _markov, oracle
from .._markov import Matrix, Vector
from ..agents.policies import NetworkSoftmax, Softmax
from ..mdp import Problem
from ..oracle.gradient import as_float64, PolicyFunction, projection_errors
from ..oracle.linear import column_sizes, RANK_TOLERANCE, weighted_gram, weighted_norm
from ..types import Params
from . import every_policy

Verdict: TypeAlias = Literal["holds", "fails", "cannot be decided"]
"""Whether an assumption holds."""
Setting: TypeAlias = Any
"""What a person chose for one critic or the actor: a number, a function, or None."""
HOLDS: Verdict = "holds"
FAILS: Verdict = "fails"
OPEN: Verdict = "cannot be decided"
EVERY_ACTION = "let the behaviour take every action with positive probability"
SQUARES_TOLERANCE = 1e-6  # relative size at which an eigenvalue of C has lost ten digits
SPAN_TOLERANCE = 1e-9  # relative distance below which features express a function


@dataclass(frozen=True)
class Assumption:
    """One assumption: what it says, whether it holds, and why."""

    key: str
    """A short name, to which [Theorem] refers."""
    source: str
    """Where the paper states it, as the paper numbers it."""
    statement: str
    """What it says."""
    verdict: Verdict
    """Holds, fails, or cannot be decided."""
    evidence: str
    """The evidence for the verdict: a number, or a reason."""
    remedy: str = ""
    """What to change if it fails, or what would decide it."""


def decide(
    key: str, source: str, statement: str, holds: bool, evidence: str, remedy: str = ""
) -> Assumption:
    """Returns an assumption that holds, or fails and has a remedy."""
    if holds:
        return Assumption(key, source, statement, HOLDS, evidence)
    return Assumption(key, source, statement, FAILS, evidence, remedy)


def check_discount(problem: Problem) -> Assumption:
    gamma, constant = problem.mdp.discount, problem.mdp.constant_discount
    row = partial(Assumption, "discount", "Section 2", "the discount is a constant gamma < 1")
    if constant is not None:
        return row(HOLDS, f"gamma = {constant:g}")
    evidence = f"it varies in [{gamma.min():g}, {gamma.max():g}]: outside the paper's statement"
    remedy = "use a constant discount; the exact quantities hold for a varying one too"
    return row(FAILS, evidence, remedy)


def check_behavior(problem: Problem) -> list[Assumption]:
    mu, chain = problem.behavior, problem.mdp.chain(problem.behavior)
    mixing = f"irreducible, period {_markov.period(chain)}"
    if chain.shape[0] <= _markov.DENSE:
        moduli = np.sort(np.abs(np.linalg.eigvals(_markov.as_dense(chain))))
        second = moduli[-2] if len(moduli) > 1 and moduli[-2] > RANK_TOLERANCE else 0.0
        mixing += f", second eigenvalue modulus {second:.4g} (mixing)"
    s, a = (int(i) for i in np.unravel_index(mu.argmin(), mu.shape))
    smallest = f"smallest mu(a|s) = {mu.min():.4g} (state {problem.labels[s]}, action {a})"
    ergodic = partial(decide, "1.ergodic", "Assumption 1", "the behaviour's chain is ergodic")
    statement = "the behaviour takes every action everywhere"
    positive = partial(decide, "1.positive", "Assumption 1", statement)
    return [ergodic(True, mixing), positive(bool(mu.min() > 0), smallest, EVERY_ACTION)]


def check_features(problem: Problem) -> list[Assumption]:
    rows: list[Assumption] = []
    for name, kind, x, weight in (
        ("C", "state", problem.x, problem.stationary),
        ("C~", "state-action", problem.xa_rows, problem.stationary_actions.ravel()),
    ):
        smallest, rank, size = _definiteness(x, weight)
        excess, evidence = "some", "numerically singular"
        if rank is not None:
            excess, evidence = size - rank, f"singular: rank {rank} of {size}"
        if rank == size:
            evidence = f"smallest eigenvalue {smallest:.4g}"
        remedy = (
            f"the {kind} features are linearly dependent: drop {excess} of them "
            "(least_norm_solution() gives the shortest fixed point)"
        )
        statement = f"{name} is nonsingular"
        rows.append(decide(f"2.{name}", "Assumption 2", statement, rank == size, evidence, remedy))
    return rows


def _definiteness(x: Matrix, weight: Vector) -> tuple[float, int | None, int]:
    """Returns the smallest eigenvalue, the rank and the size of C = X'DX.

    The rank is that of the features at length 1: small ones are not dependent. Where C leaves it
    open, because its eigenvalues are squares, the singular values of D^(1/2) X decide. That of a
    large sparse matrix is known only where it is full.
    """
    C = weighted_gram(x, weight, x)
    size, sizes = C.shape[0], column_sizes(C)
    if not sparse.issparse(C):
        scaled = C / sizes[:, None] / sizes
        if not _is_doubtful(scaled):
            bound = float(np.linalg.eigvalsh(scaled)[0] * sizes.min() ** 2)
            return max(float(np.linalg.eigvalsh(C)[0]), bound), size, size
        triangle = _triangle(x, weight, sizes)
        sigma = np.linalg.svd(triangle, compute_uv=False)
        rank = int((sigma > RANK_TOLERANCE * sigma[0]).sum())
        if rank < size:
            return 0.0, rank, size
        smallest = np.linalg.svd(triangle * sizes, compute_uv=False)[-1]
        return float(max(smallest, sigma[-1] * sizes.min())) ** 2, rank, size
    from scipy.sparse.linalg import ArpackError, eigsh, splu

    inverse = sparse.diags_array(1.0 / sizes)
    try:
        pivots = splu(sparse.csc_array(inverse @ C @ inverse)).U.diagonal()
        if np.abs(pivots).min() <= RANK_TOLERANCE:
            return 0.0, None, size
        start = np.ones(size)  # a fixed start: the same digits every time
        smallest = eigsh(sparse.csc_array(C), 1, sigma=0.0, v0=start, return_eigenvectors=False)
    except (RuntimeError, ArpackError):
        return 0.0, None, size
    return float(smallest[0]), size, size


def _triangle(
    x: Matrix, weight: Vector, sizes: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k k"]:
    """Returns R of D^(1/2) X = QR, with columns divided by their sizes, from blocks of its rows."""
    size, root = x.shape[1], np.sqrt(weight)
    triangle = np.zeros((size, size))
    step = max(size, 1000)
    for first in range(0, x.shape[0], step):
        rows = slice(first, first + step)
        block = root[rows, None] * _markov.as_dense(x[rows]) / sizes
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, block]), mode="r"))
    return triangle


def separate_features(problem: Problem) -> Problem:
    """Returns the problem with an orthonormal basis for features that are nearly collinear.

    What depends on their span alone is then not lost in rounding; nor do its verdicts change.
    """
    x = _separate(problem.x, problem.stationary)
    xa = _separate(problem.xa_rows, problem.stationary_actions.ravel())
    if x is problem.x and xa is problem.xa_rows:
        return problem
    xa = problem.xa if xa is problem.xa_rows else xa.reshape(*problem.behavior.shape, -1)
    return replace(problem, x=x, xa=xa)


def _separate(x: Matrix, weight: Vector) -> Matrix:
    C = weighted_gram(x, weight, x)
    sizes = column_sizes(C)
    if sparse.issparse(C) or not _is_doubtful(C / sizes[:, None] / sizes):
        return x
    triangle = _triangle(x, weight, sizes)
    sigma = np.linalg.svd(triangle, compute_uv=False)
    if sigma[-1] <= RANK_TOLERANCE * sigma[0]:
        return x
    return np.linalg.solve(triangle.T, (_markov.as_dense(x) / sizes).T).T


def _is_doubtful(C: Float[np.ndarray, "k k"]) -> bool:
    """Whether the smallest eigenvalue, the square of a singular value, has lost most digits."""
    eigenvalues = np.linalg.eigvalsh(C)
    return bool(eigenvalues[0] <= SQUARES_TOLERANCE * eigenvalues[-1])


def check_policy(problem: Problem, policy: PolicyFunction | None, theta: Params) -> Assumption:
    statement = "psi and its gradient are bounded and Lipschitz in theta"
    row = partial(Assumption, "3", "Assumption 3", statement)
    if policy is None:
        remedy = "give a policy as target: a Softmax, or a function of theta"
        return row(OPEN, "the target is fixed: there is no theta", remedy)
    is_softmax = isinstance(policy, Softmax | NetworkSoftmax)
    bound = policy.bound(problem.behavior) if is_softmax else None
    if bound == np.inf:
        return row(FAILS, "psi = grad pi / mu is unbounded where mu = 0", EVERY_ACTION)
    if bound is not None:
        return row(HOLDS, f"linear softmax: C_0 = {bound:.4g} for every theta")
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.jacrev(policy)(as_float64(theta)))
    size = problem.behavior.size
    flat = np.concatenate([np.asarray(leaf).reshape(size, -1) for leaf in leaves], 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.nanmax(np.linalg.norm(flat, axis=1) / problem.behavior.ravel())
    evidence = f"checked at this theta: max |psi| = {largest:.4g}"
    if is_softmax:
        evidence += "; no constant serves every theta of a network"
    verdict = OPEN if np.isfinite(largest) else FAILS
    return row(verdict, evidence, "a linear softmax policy decides it")


def check_closeness(
    problem: Problem, target: Float[np.ndarray, "s a"], policy: PolicyFunction | None
) -> list[Assumption]:
    """Checks Assumption 4: at a fixed target, for every theta of a softmax, or at this theta."""
    softmax = policy if isinstance(policy, Softmax) else None
    families: dict[str, every_policy.Family] = {}
    reason = ""
    try:
        families = every_policy.build_families(problem, target, softmax)
    except ValueError as error:
        reason = str(error)
    undecided = "a linear softmax decides it"
    if softmax:
        undecided = "too many deterministic policies, or some that this policy cannot approach"
    rows: list[Assumption] = []
    for name in ("F", "F~", "A", "A~"):
        if name[0] == "F":
            part, statement, test = "a", "positive semidefinite", every_policy.are_semidefinite
            measure, remedy = _eigenvalue, "bring the target closer to the behaviour"
        else:
            part, statement, test = "b", "nonsingular", every_policy.are_invertible
            measure, remedy = _singular_value, "use other features"
        row = partial(
            Assumption, f"4{part}.{name}", f"Assumption 4({part})", f"{name} is {statement}"
        )
        if name not in families:
            rows.append(row(OPEN, reason))
            continue
        family = families[name]
        holds, evidence = family.holds_at_target(test), measure(family.at_target[0])
        if policy is None:
            verdict = HOLDS if holds else FAILS
        else:
            everywhere = family.holds_everywhere(test) if softmax else (None if holds else False)
            verdict = OPEN if everywhere is None else HOLDS if everywhere else FAILS
            evidence = f"{'checked ' if verdict == OPEN else ''}at this theta: {evidence}"
            if verdict == HOLDS:
                evidence += "; the deterministic policies show it for every theta"
            elif verdict == FAILS and holds:
                evidence += "; it fails at another theta"
        rows.append(row(verdict, evidence, {HOLDS: "", FAILS: remedy, OPEN: undecided}[verdict]))
    return [*rows, _check_target_chain(problem, target, policy)]


def _eigenvalue(matrix: Float[np.ndarray, "n n"]) -> str:
    return f"smallest eigenvalue {np.linalg.eigvalsh(matrix)[0]:.4g}"


def _singular_value(matrix: Float[np.ndarray, "n n"]) -> str:
    return f"smallest singular value {np.linalg.svd(matrix, compute_uv=False)[-1]:.4g}"


def _check_target_chain(
    problem: Problem, target: Float[np.ndarray, "s a"], policy: PolicyFunction | None
) -> Assumption:
    row = partial(Assumption, "4c", "Assumption 4(c)", "the target's chain is ergodic")
    if isinstance(policy, Softmax | NetworkSoftmax):
        return row(HOLDS, "a softmax takes every action: irreducible for every theta")
    chain = problem.mdp.chain(target)
    num_classes = int(_markov.strong_classes(chain).max()) + 1
    if num_classes > 1:
        remedy = "give every action of the target a positive probability"
        return row(FAILS, f"{num_classes} classes", remedy)
    evidence = f"irreducible, period {_markov.period(chain)}"
    if policy is None:
        return row(HOLDS, evidence)
    return row(OPEN, f"checked at this theta: {evidence}", "a softmax decides it")


def check_mean_fields(
    problem: Problem, target: Float[np.ndarray, "s a"], ridges: tuple[Setting, Setting]
) -> list[Assumption]:
    """Checks Assumption 5(6) of the appendix, on the symmetric part of the mean matrix."""
    rows: list[Assumption] = []
    critics = (
        ("5.G", "GEM", oracle.gem_system, problem.x, problem.stationary),
        ("5.G~", "GQ2", oracle.gq2_system, problem.xa_rows, problem.stationary_actions.ravel()),
    )
    for (key, name, build, x, weight), ridge in zip(critics, ridges, strict=True):
        statement = f"{name}'s mean matrix is uniformly positive definite"
        row = partial(Assumption, key, "Assumption 5(6)", statement)
        if ridge is None or callable(ridge):
            rows.append(row(OPEN, "not given", "give ridge, a number"))
            continue
        try:
            system = build(problem, target, ridge)
        except ValueError as error:
            rows.append(row(OPEN, str(error)))
            continue
        smallest, rank, size = _definiteness(x, weight)
        evidence = f"d'Gd >= {max(min(smallest, ridge), 0.0) if rank == size else 0.0:.4g} |d|^2"
        slowest = system.slowest_mode()
        if slowest is not None:
            evidence += f", slowest mode Re(lambda) = {slowest:.4g}"
        if rank == size and ridge > 0:
            rows.append(row(HOLDS, evidence))
        else:
            rows.append(row(FAILS, evidence, "it needs a nonsingular C and eta > 0"))
    return rows


def check_expressiveness(problem: Problem, target: Float[np.ndarray, "s a"]) -> list[Assumption]:
    """Checks whether the emphasis and the action values lie in the span of the features."""
    try:
        errors = projection_errors(problem, target)
    except ValueError as error:
        undecided = partial(Assumption, source="Section 5", verdict=OPEN, evidence=str(error))
        return [undecided(f"span.{k}", statement=f"the features express {k}_pi") for k in "mq"]
    m, q = oracle.emphasis(problem, target), oracle.action_values(problem, target)
    norms = (
        weighted_norm(problem.stationary, m),
        weighted_norm(problem.stationary_actions.ravel(), q.ravel()),
    )
    rows: list[Assumption] = []
    statements = "the features express m_pi", "the state-action features express q_pi"
    for key, statement, error, norm in zip("mq", statements, errors, norms, strict=True):
        relative = error / norm if norm > 0 else 0.0
        holds = bool(relative <= SPAN_TOLERANCE)
        evidence = "relative distance " + ("0" if holds else f"{relative:.4g}")
        remedy = "the limit is biased whatever the ridge: add or change features"
        rows.append(decide(f"span.{key}", "Section 5", statement, holds, evidence, remedy))
    return rows
