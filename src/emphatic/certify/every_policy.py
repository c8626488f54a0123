"""What holds for every theta of a linear softmax policy.

The matrices of the theory depend on a policy through its rows pi(.|s), one state at a time:

- A(pi) and A~(pi) change by a rank-one matrix that is linear in the row of one state, so that
  their determinants are affine in each row separately;
- F(pi) and F~(pi) are affine in pi, so that their smallest eigenvalues are concave.

Either way the extremes over all policies are attained at deterministic policies, of which a
small problem has few: all are checked. Only for a policy that can come close to each of them do
they also refute; otherwise a theta that fails is sought.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Float
from scipy import sparse

from .._markov import Matrix
from ..agents.policies import Softmax
from ..mdp import policy_matrix, Problem
from ..oracle.emphasis_systems import gem_system
from ..oracle.linear import column_sizes, RANK_TOLERANCE, weighted_gram
from ..oracle.value_systems import gq2_system

Policies: TypeAlias = Float[np.ndarray, "policies s a"]
Matrices: TypeAlias = Float[np.ndarray, "_ n n"]
"""One matrix for each of several policies."""
Test: TypeAlias = Callable[[Matrices, float], bool]
"""A property of matrices, up to rounding on a scale."""

MAX_POLICIES = 4096  # deterministic policies that are enumerated
MAX_ENTRIES = 2e7  # entries of matrices that are built at once


@dataclass(frozen=True)
class Family:
    """Matrices of one kind at three sets of policies."""

    at_target: Float[np.ndarray, "1 n n"]  # the policy itself
    reached: Matrices  # policies that some theta gives, or comes arbitrarily close to
    extreme: Matrices | None  # all deterministic policies, if they could be enumerated
    sizes: Float[np.ndarray, " n"]  # of the features: rows and columns are divided by them first
    scale: float  # the size of C, divided likewise, against which a small number is rounding

    def holds_at_target(self, test: Test) -> bool:
        """Whether `test(matrices, scale)` holds for the policy itself."""
        return self._holds(test, self.at_target)

    def _holds(self, test: Test, *matrices: Matrices) -> bool:
        return test(np.concatenate(matrices) / self.sizes[:, None] / self.sizes, self.scale)

    def holds_everywhere(self, test: Test) -> bool | None:
        """Whether the test holds for every theta; None if that stays open."""
        if not self._holds(test, self.at_target, self.reached):
            return False
        if self.extreme is None:
            return None
        return self._holds(test, self.at_target, self.extreme) or None


def deterministic_policies(problem: Problem) -> Policies | None:
    """Enumerates the deterministic policies, unless there are too many."""
    states, actions = problem.behavior.shape
    if states * np.log(actions) > np.log(MAX_POLICIES):
        return None
    return np.eye(actions)[np.array(list(product(range(actions), repeat=states)))]


def sample_policies(policy: Softmax, num: int = 64) -> Policies:
    """Samples policies: random directions of theta at three lengths."""
    size, spread = policy.num_parameters, max(policy.spread, 1e-12)
    thetas = np.random.default_rng(0).normal(size=(num, size)) / np.sqrt(size)
    # What the actions share changes no policy, but would drown their differences in rounding.
    policy = Softmax(policy.features - policy.features.mean(1, keepdims=True))
    with jax.enable_x64(True):
        return np.concatenate(
            [np.asarray(jax.vmap(policy)(scale / spread * thetas)) for scale in (1.0, 10.0, 100.0)]
        )


def is_complete(policy: Softmax) -> bool:
    """Whether theta sets the preferences of all states freely: every policy is then approached."""
    differences = policy.features[:, 1:] - policy.features[:, :1]
    rows = differences.reshape(-1, differences.shape[-1])
    return int(np.linalg.matrix_rank(rows)) == len(rows)


def matrices_at(
    problem: Problem, target: Float[np.ndarray, "s a"]
) -> dict[str, Float[np.ndarray, "_ _"]]:
    """Returns A, A~, F and F~ of Section 3 and Assumption 4 at one target."""
    d, joint = problem.stationary, problem.stationary_actions.ravel()
    x, xa, kernel, average = problem.x, problem.xa_rows, problem.mdp.kernel, policy_matrix(target)
    C, C_actions = weighted_gram(x, d, x), weighted_gram(xa, joint, xa)
    F = weighted_gram(x, d, average @ (kernel @ x)).T  # X' P' D X
    F_actions = weighted_gram(xa, joint, kernel @ (average @ xa))  # X~' D~ P~ X~
    if any(sparse.issparse(block) for block in (C, C_actions)):
        raise ValueError("xa: too many features for a dense determinant")
    k, k_actions = len(C), len(C_actions)
    return {
        "A": gem_system(problem, target).matrix[:k, k:],
        "A~": gq2_system(problem, target).matrix[:k_actions, k_actions:],
        "F": np.block([[C, F], [F.T, C]]),
        "F~": np.block([[C_actions, F_actions], [F_actions.T, C_actions]]),
    }


def build_families(
    problem: Problem, target: Float[np.ndarray, "s a"], policy: Softmax | None
) -> dict[str, Family]:
    """Builds A, A~, F and F~ at a target, and at the policies that a softmax can reach."""
    matrices = matrices_at(problem, target)
    states, actions = problem.behavior.shape
    scales: dict[str, tuple[np.ndarray, float]] = {}
    for name, k in (("", problem.x.shape[1]), ("~", problem.xa_rows.shape[1])):
        gram = matrices[f"F{name}"][:k, :k]
        sizes = column_sizes(gram)
        scale = float(np.linalg.norm(gram / sizes[:, None] / sizes, 2))
        scales |= {f"A{name}": (sizes, scale), f"F{name}": (np.tile(sizes, 2), scale)}
    size = max(problem.x.shape[1], problem.xa_rows.shape[1])
    if policy is None or states * actions * size**2 > MAX_ENTRIES:
        return {
            name: Family(matrix[None], matrix[None], None, *scales[name])
            for name, matrix in matrices.items()
        }

    vertices, reached = deterministic_policies(problem), sample_policies(policy)
    if vertices is not None and len(vertices) * (2 * size) ** 2 > MAX_ENTRIES:
        vertices = None
    if vertices is not None and is_complete(policy):
        reached = np.concatenate([reached, vertices])
    build = _matrix_builders(problem)
    families: dict[str, Family] = {}
    for name, matrix in matrices.items():
        extreme = None if vertices is None else build[name](vertices)
        families[name] = Family(matrix[None], build[name](reached), extreme, *scales[name])
    return families


def _matrix_builders(problem: Problem) -> dict[str, Callable[[Policies], Matrices]]:
    """Returns functions that build them for many policies, as sums over (s, a)."""
    x, xa = problem.dense_features
    d, joint = problem.stationary, problem.stationary_actions
    C = np.einsum("s,sj,sk->jk", d, x, x)
    C_actions = np.einsum("sa,saj,sak->jk", joint, xa, xa)
    flat = (joint[..., None] * xa).reshape(-1, xa.shape[-1])

    def contributions(
        kernel: Matrix,
    ) -> tuple[Float[np.ndarray, "s a k k"], Float[np.ndarray, "s a l l"]]:
        onward = np.asarray(kernel @ x).reshape(*joint.shape, -1)  # E[x(S') | s, a]
        arriving = np.asarray(kernel.T @ flat)  # E[x~(S, A); S' = s]
        return np.einsum("s,saj,sk->sajk", d, onward, x), np.einsum("sj,sak->sajk", arriving, xa)

    def total(pi: Policies, terms: Float[np.ndarray, "s a n n"]) -> Matrices:
        return np.einsum("psa,sajk->pjk", pi, terms)

    def border(corner: Float[np.ndarray, "k k"], block: Float[np.ndarray, "_ k k"]) -> Matrices:
        corner = np.broadcast_to(corner, block.shape)
        return np.block([[corner, block], [np.swapaxes(block, -1, -2), corner]])

    back, back_actions = contributions(problem.mdp.discounted())
    plain, plain_actions = contributions(problem.mdp.kernel)
    return {
        "A": lambda pi: C - total(pi, back),
        "A~": lambda pi: C_actions - total(pi, back_actions),
        "F": lambda pi: border(C, total(pi, plain)),
        "F~": lambda pi: border(C_actions, total(pi, plain_actions)),
    }


def are_invertible(matrices: Matrices, scale: float) -> bool:
    """Whether all determinants have one sign: none between such policies then vanishes."""
    smallest = np.linalg.svd(matrices, compute_uv=False)[:, -1]
    signs = np.linalg.slogdet(matrices)[0]
    return bool((smallest > RANK_TOLERANCE * scale).all() and (signs == signs[0]).all())


def are_semidefinite(matrices: Matrices, scale: float) -> bool:
    """Whether no eigenvalue is negative (beyond rounding)."""
    return bool((np.linalg.eigvalsh(matrices)[:, 0] >= -RANK_TOLERANCE * scale).all())
