"""What holds for every theta of a linear softmax policy.

The matrices of the theory depend on a policy through its rows pi(.|s), one state at a time:

- A(pi) and A~(pi) change by a rank-one matrix that is linear in the row of one state, so that
  their determinants are affine in each row separately;
- F(pi) and F~(pi) are affine in pi, so that their smallest eigenvalues are concave.

Either way the extremes over all policies are attained at deterministic policies, of which a
small problem has few: they are all looked at. Only for a policy that can come close to each of
them do they also refute; otherwise a theta that fails is sought.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import jax
import numpy as np
from scipy import sparse

from .agents.policies import Softmax
from .mdp import policy_matrix, Problem
from .oracle.systems import column_sizes, gem_system, gq2_system, RANK_TOLERANCE, weighted_gram

MOST = 4096  # deterministic policies that are enumerated
WORK = 2e7  # entries of matrices that are built at once


@dataclass(frozen=True)
class Family:
    """Matrices of one kind at three sets of policies, each of shape (policies, n, n)."""

    here: np.ndarray  # the policy itself
    reached: np.ndarray  # policies that some theta gives, or comes arbitrarily close to
    extreme: np.ndarray | None  # all deterministic policies, if they could be enumerated
    sizes: np.ndarray  # of the features, by which rows and columns are divided before a test
    scale: float  # the size of C, divided likewise, against which a small number is rounding

    def holds_here(self, test) -> bool:
        """Whether `test(matrices, scale)` holds for the policy itself."""
        return self._test(test, self.here)

    def _test(self, test, *matrices: np.ndarray) -> bool:
        scaled = np.concatenate(matrices) / self.sizes[:, None] / self.sizes
        return test(scaled, self.scale)

    def holds_everywhere(self, test) -> bool | None:
        """Whether the test holds for every theta; None if that stays open."""
        if not self._test(test, self.here, self.reached):
            return False
        if self.extreme is None:
            return None
        return self._test(test, self.here, self.extreme) or None


def deterministic(problem: Problem) -> np.ndarray | None:
    """Every deterministic policy, as a (policies, s, a) array, unless there are too many."""
    states, actions = problem.behavior.shape
    if states * np.log(actions) > np.log(MOST):
        return None
    choices = np.array(list(product(range(actions), repeat=states)))
    return np.eye(actions)[choices]


def sampled(policy: Softmax, num: int = 64) -> np.ndarray:
    """Policies of random directions of theta at three lengths."""
    size = policy.features.shape[-1]
    spread = max(policy.spread, 1e-12)
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


def matrices(problem: Problem, target: np.ndarray) -> dict[str, np.ndarray]:
    """A, A~, F and F~ of Section 3 and Assumption 4 at one target."""
    d, average = problem.stationary, policy_matrix(target)
    joint = problem.stationary_actions.ravel()
    x, xa = problem.x, problem.xa_rows
    kernel = problem.mdp.kernel
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


def families(problem: Problem, target: np.ndarray, policy: Softmax | None) -> dict[str, Family]:
    """A, A~, F and F~ at a target, and at the policies that a softmax can reach."""
    here = matrices(problem, target)
    states, actions = problem.behavior.shape
    size = problem.xa_rows.shape[1]
    k = problem.x.shape[1]
    C, C_actions = here["F"][:k, :k], here["F~"][:size, :size]
    about = {}
    for name, gram in (("", C), ("~", C_actions)):
        sizes = column_sizes(gram)
        scale = float(np.linalg.norm(gram / sizes[:, None] / sizes, 2))
        about |= {f"A{name}": (sizes, scale), f"F{name}": (np.tile(sizes, 2), scale)}
    size = max(k, size)
    if policy is None or states * actions * size**2 > WORK:
        return {
            name: Family(matrix[None], matrix[None], None, *about[name])
            for name, matrix in here.items()
        }

    vertices, reached = deterministic(problem), sampled(policy)
    if vertices is not None and len(vertices) * (2 * size) ** 2 > WORK:
        vertices = None
    if vertices is not None and is_complete(policy):
        reached = np.concatenate([reached, vertices])
    build = _builders(problem)
    return {
        name: Family(
            matrix[None],
            build[name](reached),
            None if vertices is None else build[name](vertices),
            *about[name],
        )
        for name, matrix in here.items()
    }


def _builders(problem: Problem) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The same matrices for many policies at once, as sums of what each (s, a) contributes."""
    x, xa = problem.dense_features
    mdp, d = problem.mdp, problem.stationary
    joint = problem.stationary_actions
    C = np.einsum("s,sj,sk->jk", d, x, x)
    C_actions = np.einsum("sa,saj,sak->jk", joint, xa, xa)
    flat = (joint[..., None] * xa).reshape(-1, xa.shape[-1])

    def contributions(kernel):
        onward = np.asarray(kernel @ x).reshape(*joint.shape, -1)  # E[x(S') | s, a]
        arriving = np.asarray(kernel.T @ flat)  # E[x~(S, A); S' = s]
        return (
            np.einsum("s,saj,sk->sajk", d, onward, x),
            np.einsum("sj,sak->sajk", arriving, xa),
        )

    def total(pi, parts):
        return np.einsum("psa,sajk->pjk", pi, parts)

    def bordered(corner, block):
        corner = np.broadcast_to(corner, block.shape)
        return np.block([[corner, block], [np.swapaxes(block, -1, -2), corner]])

    back, back_actions = contributions(mdp.discounted())
    plain, plain_actions = contributions(mdp.kernel)
    return {
        "A": lambda pi: C - total(pi, back),
        "A~": lambda pi: C_actions - total(pi, back_actions),
        "F": lambda pi: bordered(C, total(pi, plain)),
        "F~": lambda pi: bordered(C_actions, total(pi, plain_actions)),
    }


def are_invertible(matrices: np.ndarray, scale: float) -> bool:
    """Whether all determinants have one sign: none between such policies then vanishes."""
    smallest = np.linalg.svd(matrices, compute_uv=False)[:, -1]
    signs = np.linalg.slogdet(matrices)[0]
    return bool((smallest > RANK_TOLERANCE * scale).all() and (signs == signs[0]).all())


def are_semidefinite(matrices: np.ndarray, scale: float) -> bool:
    """Whether no eigenvalue is negative (beyond rounding)."""
    return bool((np.linalg.eigvalsh(matrices)[:, 0] >= -RANK_TOLERANCE * scale).all())
