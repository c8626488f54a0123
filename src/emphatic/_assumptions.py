"""The paper's assumptions, each as a row: what it says, whether it holds, and the figure."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import jax
import numpy as np
from scipy import sparse

from . import _markov, _quantifiers, oracle
from .agents.policies import Softmax
from .mdp import policy_matrix, Problem
from .oracle.gradient import as_float64, projection_errors
from .oracle.systems import (
    column_sizes,
    LinearSystem,
    RANK_TOLERANCE,
    require_ridge,
    weighted_gram,
    weighted_norm,
)
from .schedules import Polynomial

Verdict = Literal["holds", "fails", "cannot be decided"]
HOLDS, FAILS, OPEN = "holds", "fails", "cannot be decided"
EXPRESSED = 1e-9  # relative distance below which features express a function
SPECTRUM = 600  # unknowns up to which eigenvalues are computed


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


def schedule(step_size) -> Polynomial | Callable | None:
    if isinstance(step_size, Real):
        return Polynomial(float(step_size))
    if step_size is not None and not callable(step_size):
        raise ValueError(f"step_size: got {step_size!r}; a number or a schedule is required")
    return step_size


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
    chain = policy_matrix(problem.behavior) @ problem.mdp.kernel
    figure = f"irreducible, period {_markov.period(chain)}"
    if chain.shape[0] <= SPECTRUM:
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
    joint = (d[:, None] * problem.behavior).ravel()
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
    lowest = problem.behavior.min()
    if policy is None:
        return Row(
            "3",
            source,
            statement,
            OPEN,
            "the target is fixed: there is no theta",
            "give a policy as target: a Softmax, or a function of theta",
        )
    if isinstance(policy, Softmax):
        if lowest == 0:
            return Row(
                "3",
                source,
                statement,
                FAILS,
                "psi = grad pi / mu is unbounded where mu = 0",
                "let the behaviour take every action with positive probability",
            )
        # With Phi the spread, |grad pi| <= Phi/4 and |hessian of pi| <= Phi^2/4 for every theta.
        bound = max(policy.spread, policy.spread**2) / 4.0 / lowest
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
    return Row(
        "3",
        source,
        statement,
        OPEN if np.isfinite(largest) else FAILS,
        f"checked at this theta: max |psi| = {largest:.4g}",
        "a linear softmax policy decides it",
    )


def ridge(ridge: float | None, fixed: bool) -> Row:
    statement = "the ridge eta is positive"
    if ridge is None:
        return Row("ridge", "Section 3", statement, OPEN, "not given", "give ridge")
    require_ridge(ridge)
    if ridge > 0:
        return Row("ridge", "Section 3", statement, HOLDS, f"eta = {ridge:g}")
    remedy = "make eta positive" + (
        "" if fixed else "; with eta = 0 and a changing policy convergence is an open problem"
    )
    return Row("ridge", "Section 3", statement, FAILS, "eta = 0", remedy)


def robbins_monro(key: str, whose: str, argument: str, schedule) -> Row:
    source, statement = "Sections 3, 4", f"{whose} step sizes satisfy Robbins-Monro"
    if schedule is None:
        return Row(key, source, statement, OPEN, "not given", f"give {argument}")
    if not isinstance(schedule, Polynomial):
        figure = "not a polynomial schedule"
        return Row(key, source, statement, OPEN, figure, "a polynomial schedule decides it")
    power = schedule.power
    if schedule.robbins_monro:
        return Row(key, source, statement, HOLDS, f"{schedule}: 1/2 < {power:g} <= 1")
    why = "the sum is finite: power > 1" if power > 1 else "the squares do not sum: power <= 1/2"
    remedy = "let the step size decay like t^-p with 1/2 < p <= 1"
    return Row(key, source, statement, FAILS, f"{schedule}: {why}", remedy)


def timescales(alpha, beta) -> Row:
    source, statement = "Section 4", "the actor is slower: the sum of (beta/alpha)^d is finite"
    if alpha is None or beta is None:
        figure, remedy = "not given", "give step_size and actor_step_size"
        return Row("timescales", source, statement, OPEN, figure, remedy)
    if not (isinstance(alpha, Polynomial) and isinstance(beta, Polynomial)):
        figure, remedy = "not polynomial schedules", "polynomial schedules decide it"
        return Row("timescales", source, statement, OPEN, figure, remedy)
    if beta.slower_than(alpha):
        figure = (
            f"powers {beta.power:g} > {alpha.power:g}: any d > {1 / (beta.power - alpha.power):.3g}"
        )
        return Row("timescales", source, statement, HOLDS, figure)
    figure = f"powers {beta.power:g} <= {alpha.power:g}"
    remedy = "let the actor's step sizes decay faster than the critics'"
    return Row("timescales", source, statement, FAILS, figure, remedy)


def damping(damping) -> Row:
    source, statement = "Section 4", "the dampings Gamma_1, Gamma_2 bound the actor's step"
    if damping is None:
        return Row("damping", source, statement, OPEN, "not given", "give damping, the paper's C_0")
    if callable(damping):
        figure, remedy = "not the paper's Gamma", "the paper's Gamma, given by its C_0, decides it"
        return Row("damping", source, statement, OPEN, figure, remedy)
    if not (isinstance(damping, int | float) and damping > 0):
        raise ValueError(f"damping: got {damping}; C_0 must be positive")
    if np.isinf(damping):
        figure, remedy = "Gamma = 1: Gamma(d)|d| is unbounded", "give a finite damping C_0"
        return Row("damping", source, statement, FAILS, figure, remedy)
    figure = f"0 < Gamma <= 1, sup Gamma(d)|d| = {1 + damping:g}, Lipschitz"
    return Row("damping", source, statement, HOLDS, figure)


def condition(rows: list[Row], fixed: bool) -> Row:
    source, statement = "Condition 1", "theta changes slowly"
    if fixed:
        return Row("condition", source, statement, HOLDS, "the target is fixed")
    needs = [row for row in rows if row.key in ("1.positive", "3", "beta", "timescales", "damping")]
    bad = [row for row in needs if row.verdict != HOLDS]
    if not bad:
        figure = "the dampings, Assumption 3 and the step sizes give it"
        return Row("condition", source, statement, HOLDS, figure)
    verdict = FAILS if any(row.verdict == FAILS for row in bad) else OPEN
    remedy = "; ".join(row.remedy for row in bad)
    return Row(
        "condition",
        source,
        statement,
        verdict,
        "needs: " + "; ".join(r.statement for r in bad),
        remedy,
    )


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
            rows.append(Row(key, source, statement, OPEN, unknown, "use fewer features"))
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
    if isinstance(policy, Softmax):
        figure = "a softmax takes every action: irreducible for every theta"
        return Row("4c", source, statement, HOLDS, figure)
    chain = policy_matrix(target) @ problem.mdp.kernel
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


def mean_fields(problem: Problem, target: np.ndarray, ridge: float | None) -> list[Row]:
    """Assumption 5(6) of the appendix: the symmetric part of the mean matrix, and its spectrum."""
    rows = []
    for key, name, make in (("5.G", "GEM", oracle.gem_system), ("5.G~", "GQ2", oracle.gq2_system)):
        source = "Assumption 5(6)"
        statement = f"{name}'s mean matrix is uniformly positive definite"
        if ridge is None:
            rows.append(Row(key, source, statement, OPEN, "not given", "give ridge"))
            continue
        system: LinearSystem = make(problem, target, ridge)
        size = len(system.vector) // 2
        smallest, rank, _ = _definiteness(system.matrix[:size, :size])
        definite = rank == size and ridge > 0
        figure = f"d'Gd >= {max(min(smallest, ridge), 0.0) if rank == size else 0.0:.4g} |d|^2"
        if not sparse.issparse(system.matrix) and len(system.vector) <= SPECTRUM:
            slowest = np.linalg.eigvals(system.matrix).real.min()
            slowest = slowest if abs(slowest) > RANK_TOLERANCE else 0.0
            figure += f", slowest mode Re(lambda) = {slowest:.4g}"
        remedy = "" if definite else "it needs a nonsingular C and eta > 0"
        rows.append(Row(key, source, statement, HOLDS if definite else FAILS, figure, remedy))
    return rows


def expressed(problem: Problem, target: np.ndarray) -> list[Row]:
    """Section 5: whether the quantities of interest lie in the span of the features."""
    try:
        emphasis_error, value_error = projection_errors(problem, target)
    except ValueError as error:
        why = (OPEN, str(error), "drop the features that depend on others")
        return [
            Row(f"span.{key}", "Section 5", f"the features express {key}_pi", *why) for key in "mq"
        ]
    d, m = problem.stationary, oracle.emphasis(problem, target)
    q = oracle.action_values(problem, target)
    joint = (d[:, None] * problem.behavior).ravel()
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
