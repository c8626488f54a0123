"""The paper's assumptions, each as a row: what it says, whether it holds, and the figure."""

from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np
from scipy import sparse

from . import _markov, _quantifiers, oracle
from .agents.policies import Policy, Softmax
from .mdp import Problem
from .oracle.gradient import as_float64, projection_errors
from .oracle.systems import (
    column_sizes,
    LinearSystem,
    RANK_TOLERANCE,
    weighted_gram,
    weighted_norm,
)

Verdict = Literal["holds", "fails", "cannot be decided"]
HOLDS, FAILS, OPEN = "holds", "fails", "cannot be decided"
EXPRESSED = 1e-9  # relative distance below which features express a function


@dataclass(frozen=True)
class Row:
    """One assumption: what it says, whether it holds, and why."""

    key: str
    """A short name, to which [Theorem] refers."""
    source: str
    """Where the paper states it, as the paper numbers it."""
    statement: str
    """What it says."""
    verdict: Verdict
    """Holds, fails, or cannot be decided."""
    figure: str
    """The figure behind the verdict."""
    remedy: str = ""
    """What to change if it fails, or what would decide it."""


def discount(problem: Problem) -> Row:
    gamma, constant = problem.mdp.discount, problem.mdp.constant_discount
    statement = "the discount is a constant gamma < 1"
    if constant is not None:
        return Row("discount", "Section 2", statement, HOLDS, f"gamma = {constant:g}")
    return Row(
        "discount",
        "Section 2",
        statement,
        FAILS,
        f"it varies in [{gamma.min():g}, {gamma.max():g}]: outside the paper's statement",
        "use a constant discount; the exact quantities hold for a varying one too",
    )


def behavior(problem: Problem) -> list[Row]:
    chain = problem.mdp.chain(problem.behavior)
    figure = f"irreducible, period {_markov.period(chain)}"
    if chain.shape[0] <= _markov.DENSE:
        moduli = np.sort(np.abs(np.linalg.eigvals(_markov.as_dense(chain))))
        second = moduli[-2] if len(moduli) > 1 and moduli[-2] > RANK_TOLERANCE else 0.0
        figure += f", second eigenvalue modulus {second:.4g} (mixing)"
    mu = problem.behavior
    s, a = (int(i) for i in np.unravel_index(mu.argmin(), mu.shape))
    positive = mu.min() > 0
    return [
        Row("1.ergodic", "Assumption 1", "the behaviour's chain is ergodic", HOLDS, figure),
        Row(
            "1.positive",
            "Assumption 1",
            "the behaviour takes every action everywhere",
            HOLDS if positive else FAILS,
            f"smallest mu(a|s) = {mu.min():.4g} (state {problem.labels[s]}, action {a})",
            "" if positive else "let the behaviour take every action with positive probability",
        ),
    ]


def features(problem: Problem) -> list[Row]:
    d = problem.stationary
    joint = problem.stationary_actions.ravel()
    rows = []
    for name, words, x, weight in (
        ("C", "state", problem.x, d),
        ("C~", "state-action", problem.xa_rows, joint),
    ):
        smallest, rank, size = _definiteness(weighted_gram(x, weight, x))
        regular, excess = rank == size, "some" if rank is None else size - rank
        rows.append(
            Row(
                f"2.{name}",
                "Assumption 2",
                f"{name} is nonsingular",
                HOLDS if regular else FAILS,
                f"smallest eigenvalue {smallest:.4g}"
                if regular
                else "singular" + ("" if rank is None else f": rank {rank} of {size}"),
                ""
                if regular
                else f"the {words} features are linearly dependent: drop {excess} of them "
                "(least_norm_solution() gives the shortest fixed point)",
            )
        )
    return rows


def _definiteness(C) -> tuple[float, int | None, int]:
    """The smallest eigenvalue, the rank and the size of a positive semidefinite matrix.

    The rank is that of the matrix with a unit diagonal: small features are not dependent. That of
    a large sparse matrix is known only where it is full.
    """
    size, sizes = C.shape[0], column_sizes(C)
    if not sparse.issparse(C):
        eigenvalues = np.linalg.eigvalsh(C / sizes[:, None] / sizes)
        rank = int((eigenvalues > RANK_TOLERANCE * eigenvalues[-1]).sum())
        bound = float(eigenvalues[0] * sizes.min() ** 2) if rank == size else 0.0
        return max(float(np.linalg.eigvalsh(C)[0]), bound), rank, size
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


def policy_parameters(problem: Problem, policy, theta) -> Row:
    source, statement = "Assumption 3", "psi and its gradient are bounded and Lipschitz in theta"
    if policy is None:
        return Row(
            "3",
            source,
            statement,
            OPEN,
            "the target is fixed: there is no theta",
            "give a policy as target: a Softmax, or a function of theta",
        )
    bound = policy.bound(problem.behavior) if isinstance(policy, Policy) else None
    if bound == np.inf:
        return Row(
            "3",
            source,
            statement,
            FAILS,
            "psi = grad pi / mu is unbounded where mu = 0",
            "let the behaviour take every action with positive probability",
        )
    if bound is not None:
        return Row(
            "3", source, statement, HOLDS, f"linear softmax: C_0 = {bound:.4g} for every theta"
        )
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.jacrev(policy)(as_float64(theta)))
    flat = np.concatenate(
        [np.asarray(leaf).reshape(problem.behavior.size, -1) for leaf in leaves], 1
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.nanmax(np.linalg.norm(flat, axis=1) / problem.behavior.ravel())
    figure = f"checked at this theta: max |psi| = {largest:.4g}"
    if isinstance(policy, Policy):
        figure += "; no constant serves every theta of a network"
    verdict = OPEN if np.isfinite(largest) else FAILS
    return Row("3", source, statement, verdict, figure, "a linear softmax policy decides it")


def closeness(problem: Problem, target: np.ndarray, policy) -> list[Row]:
    """Assumption 4: at a fixed target, for every theta of a softmax, or at this theta."""
    softmax = policy if isinstance(policy, Softmax) else None
    nearer, other = "bring the target closer to the behaviour", "use other features"
    checks = (
        ("4a.F", "positive semidefinite", _quantifiers.are_semidefinite, _eigenvalue, nearer),
        ("4a.F~", "positive semidefinite", _quantifiers.are_semidefinite, _eigenvalue, nearer),
        ("4b.A", "nonsingular", _quantifiers.are_invertible, _singular_value, other),
        ("4b.A~", "nonsingular", _quantifiers.are_invertible, _singular_value, other),
    )
    families, unknown = {}, ""
    try:
        families = _quantifiers.families(problem, target, softmax)
    except ValueError as error:
        unknown = str(error)
    rows: list[Row] = []
    for key, words, test, measure, remedy in checks:
        name = key[3:]
        source, statement = f"Assumption 4({key[1]})", f"{name} is {words}"
        if name not in families:
            rows.append(Row(key, source, statement, OPEN, unknown))
            continue
        family = families[name]
        here, figure = family.holds_here(test), measure(family.here[0])
        if policy is None:
            verdict = HOLDS if here else FAILS
        else:
            every = family.holds_everywhere(test) if softmax else (None if here else False)
            verdict = OPEN if every is None else HOLDS if every else FAILS
            figure = f"{'checked ' if verdict == OPEN else ''}at this theta: {figure}"
            if verdict == HOLDS:
                figure += "; the deterministic policies show it for every theta"
            elif verdict == FAILS and here:
                figure += "; it fails at another theta"
        if verdict == OPEN:
            remedy = (
                "too many deterministic policies, or some that this policy cannot approach"
                if softmax
                else "a linear softmax decides it"
            )
        rows.append(
            Row(key, source, statement, verdict, figure, "" if verdict == HOLDS else remedy)
        )
    rows.append(_target_chain(problem, target, policy))
    return rows


def _eigenvalue(matrix: np.ndarray) -> str:
    return f"smallest eigenvalue {np.linalg.eigvalsh(matrix)[0]:.4g}"


def _singular_value(matrix: np.ndarray) -> str:
    return f"smallest singular value {np.linalg.svd(matrix, compute_uv=False)[-1]:.4g}"


def _target_chain(problem: Problem, target: np.ndarray, policy) -> Row:
    source, statement = "Assumption 4(c)", "the target's chain is ergodic"
    if isinstance(policy, Policy):
        figure = "a softmax takes every action: irreducible for every theta"
        return Row("4c", source, statement, HOLDS, figure)
    chain = problem.mdp.chain(target)
    num_classes = int(_markov.strong_classes(chain).max()) + 1
    if num_classes > 1:
        remedy = "give every action of the target a positive probability"
        return Row("4c", source, statement, FAILS, f"{num_classes} classes", remedy)
    figure = f"irreducible, period {_markov.period(chain)}"
    if policy is None:
        return Row("4c", source, statement, HOLDS, figure)
    return Row(
        "4c", source, statement, OPEN, f"checked at this theta: {figure}", "a softmax decides it"
    )


def mean_fields(problem: Problem, target: np.ndarray, ridges: tuple) -> list[Row]:
    """Assumption 5(6) of the appendix: the symmetric part of the mean matrix, and its spectrum."""
    rows = []
    critics = (("5.G", "GEM", oracle.gem_system), ("5.G~", "GQ2", oracle.gq2_system))
    for (key, name, make), ridge in zip(critics, ridges, strict=True):
        source = "Assumption 5(6)"
        statement = f"{name}'s mean matrix is uniformly positive definite"
        if ridge is None or callable(ridge):
            rows.append(Row(key, source, statement, OPEN, "not given", "give ridge, a number"))
            continue
        try:
            system: LinearSystem = make(problem, target, ridge)
        except ValueError as error:
            rows.append(Row(key, source, statement, OPEN, str(error)))
            continue
        size = len(system.vector) // 2
        smallest, rank, _ = _definiteness(system.matrix[:size, :size])
        definite = rank == size and ridge > 0
        figure = f"d'Gd >= {max(min(smallest, ridge), 0.0) if rank == size else 0.0:.4g} |d|^2"
        slowest = system.slowest_mode()
        if slowest is not None:
            figure += f", slowest mode Re(lambda) = {slowest:.4g}"
        remedy = "" if definite else "it needs a nonsingular C and eta > 0"
        rows.append(Row(key, source, statement, HOLDS if definite else FAILS, figure, remedy))
    return rows


def expressed(problem: Problem, target: np.ndarray) -> list[Row]:
    """Section 5: whether the quantities of interest lie in the span of the features."""
    try:
        emphasis_error, value_error = projection_errors(problem, target)
    except ValueError as error:
        words = "the features express {}_pi"
        return [
            Row(f"span.{key}", "Section 5", words.format(key), OPEN, str(error)) for key in "mq"
        ]
    d, m = problem.stationary, oracle.emphasis(problem, target)
    q = oracle.action_values(problem, target)
    joint = problem.stationary_actions.ravel()
    norms = weighted_norm(d, m), weighted_norm(joint, q.ravel())
    rows = []
    for key, words, error, norm in (
        ("m", "the features express m_pi", emphasis_error, norms[0]),
        ("q", "the state-action features express q_pi", value_error, norms[1]),
    ):
        relative = error / norm if norm > 0 else 0.0
        holds = relative <= EXPRESSED
        rows.append(
            Row(
                f"span.{key}",
                "Section 5",
                words,
                HOLDS if holds else FAILS,
                "relative distance " + ("0" if holds else f"{relative:.4g}"),
                "" if holds else "the limit is biased whatever the ridge: add or change features",
            )
        )
    return rows
