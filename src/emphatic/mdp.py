"""Problems: a Markov decision process, a behaviour policy, an interest and features."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike
from scipy import sparse

from . import _markov, _validation as checks
from ._markov import Matrix
from ._work import require_memory
from .types import Array, Sample, Transition

ArrayField: TypeAlias = Any
"""A field that takes numbers in any form and holds them as a checked, read-only float64 array."""


def policy_matrix(policy: Float[np.ndarray, "s a"]) -> sparse.csr_array:
    r"""The (s, s*a) matrix of the average over actions, $(W_\pi q)(s) = \sum_a\pi(a|s)q(s,a)$.

    With the (s*a, s) kernel $K$ of an MDP, $P_\pi = W_\pi K$ and $\tilde P_\pi = K W_\pi$.
    """
    pointers = np.arange(0, policy.size + 1, policy.shape[1])
    return sparse.csr_array((policy.ravel(), np.arange(policy.size), pointers))


@dataclass(frozen=True, eq=False)
class MDP:
    r"""A finite Markov decision process: $p(s'|s,a)$, $r(s,a,s')$ and $\gamma(s,a,s')$.

    A sparse transition is a csr array of shape (s*a, s) whose row `s * num_actions + a` is
    $p(\cdot|s,a)$. Its stored entries are the possible outcomes: with a reward or discount
    aligned to `transition.data`, two entries may lead to the same state with different
    rewards or discounts (walking to the start state is not being restarted there).

    **Arguments:**

    - `transition`: $p$, an (s, a, s') array or a csr array of shape (s*a, s).
    - `reward`: $r$, a number, an (s, a) array, an (s, a, s') array if the transition is
      dense, or an array aligned with `transition.data` if it is sparse.
    - `discount`: $\gamma$, in the same forms. A number must lie in [0, 1); entries of an array lie
      in [0, 1], and the end of an episode is a discount of 0 straight to a start state.
    """

    transition: ArrayField
    reward: ArrayField
    discount: ArrayField
    num_states: int = field(init=False)
    num_actions: int = field(init=False)

    def __post_init__(self) -> None:
        transition = self.transition
        if sparse.issparse(transition):
            aligned = np.ndim(self.reward) == 1 or np.ndim(self.discount) == 1
            if aligned and transition.format != "csr":
                raise ValueError(
                    f"transition: got the sparse format {transition.format!r}; csr is required "
                    "where the reward or the discount is aligned with transition.data"
                )
            transition = checks.csr("transition", transition, merge=not aligned)
            checks.nonnegative("transition.data", transition.data)
            rows, states = transition.shape
            if not states or not rows or rows % states:
                raise ValueError(
                    f"transition: got shape {transition.shape}; a sparse transition has shape "
                    "(states * actions, states)"
                )
            actions, outcomes = rows // states, transition.data.shape
        else:
            transition = checks.nonnegative("transition", checks.finite("transition", transition))
            if transition.ndim != 3 or transition.shape[0] != transition.shape[2]:
                raise ValueError(
                    f"transition: got shape {transition.shape}; (states, actions, states) is "
                    "required"
                )
            if not transition.size:
                raise ValueError(f"transition: got shape {transition.shape}; it must not be empty")
            states, actions, _ = outcomes = transition.shape
        object.__setattr__(self, "num_states", states)
        object.__setattr__(self, "num_actions", actions)
        rows = checks.stochastic(
            "transition",
            transition if sparse.issparse(transition) else transition.reshape(-1, states),
            lambda k: f"(state {k // actions}, action {k % actions})",
        )
        transition = rows if sparse.issparse(rows) else rows.reshape(transition.shape)
        object.__setattr__(self, "transition", transition)
        for name in ("reward", "discount"):
            value = checks.finite(name, getattr(self, name))
            value = checks.ranged(name, value) if name == "reward" else value
            if value.shape not in ((), (states, actions), outcomes):
                raise ValueError(
                    f"{name}: got shape {value.shape}; a number, {(states, actions)} or {outcomes} "
                    "is required"
                )
            object.__setattr__(self, name, float(value) if value.ndim == 0 else value)
        if isinstance(self.discount, float):
            if not 0.0 <= self.discount < 1.0:
                raise ValueError(f"discount: got {self.discount:g}; a number must lie in [0, 1)")
        elif len(invalid := np.argwhere((self.discount < 0) | (self.discount > 1))):
            index = tuple(invalid[0].tolist())
            got = f"entry {index} is {self.discount[index]:g}"
            raise ValueError(f"discount: {got}; a discount that varies must lie in [0, 1]")

    def __repr__(self) -> str:
        return f"MDP({_describe(self)})"

    @cached_property
    def kernel(self) -> Matrix:
        r"""$p(s'|s,a)$ as an (s*a, s) matrix."""
        return self.transition if self.is_sparse else checks.frozen(self.weighted(1.0))

    def discounted(self, power: int = 1) -> Matrix:
        r"""$p(s'|s,a)\,\gamma(s,a,s')^n$ as an (s*a, s) matrix, $n$ the power."""
        return self.weighted(self.discount**power)

    def dense_discounted(self) -> Float[np.ndarray, "s a s"]:
        r"""$p(s'|s,a)\,\gamma(s,a,s')$ as a dense (s, a, s') array."""
        return _markov.as_dense(self.discounted()).reshape(self.num_states, self.num_actions, -1)

    def chain(self, policy: Float[np.ndarray, "s a"]) -> Matrix:
        r"""The chain of a policy, $P_\pi(s,s') = \sum_a\pi(a|s)p(s'|s,a)$."""
        return policy_matrix(policy) @ self.kernel

    @cached_property
    def mean_reward(self) -> Float[np.ndarray, "s a"]:
        r"""$\tilde r(s,a) = \sum_{s'} p(s'|s,a)\,r(s,a,s')$."""
        mean = np.asarray(self.weighted(self.reward).sum(1))
        return checks.frozen(mean.reshape(self.num_states, self.num_actions))

    @cached_property
    def constant_discount(self) -> float | None:
        r"""The constant $\gamma < 1$ that every possible outcome has, or None."""
        *_, discount = self.outcomes
        low, high = float(discount.min()), float(discount.max())
        return low if low == high < 1.0 else None

    @property
    def is_sparse(self) -> bool:
        """Whether the transition is a csr array."""
        return sparse.issparse(self.transition)

    def outcome(self, values: ArrayLike | float) -> Shaped[np.ndarray, " n"]:
        """A reward or discount of any form, for each entry of the kernel (row by row)."""
        values, p = np.asarray(values), self.transition
        if not self.is_sparse:
            return np.broadcast_to(
                values[..., None] if values.ndim == 2 else values, p.shape
            ).ravel()
        if values.ndim == 2:
            return np.repeat(values.ravel(), np.diff(p.indptr))
        return np.broadcast_to(values, p.data.shape)

    @cached_property
    def outcomes(self) -> tuple[Shaped[np.ndarray, " n"], ...]:
        """Pair `s * num_actions + a`, next state, probability, reward and discount of each outcome
        of positive probability, in the order of the pairs."""
        kernel = self.kernel
        if sparse.issparse(kernel):
            pair = np.repeat(np.arange(kernel.shape[0]), np.diff(kernel.indptr))
            state_next, p = kernel.indices, kernel.data
        else:
            pair, state_next = (index.ravel() for index in np.indices(kernel.shape))
            p = kernel.ravel()
        columns = pair, state_next, p, self.outcome(self.reward), self.outcome(self.discount)
        possible = np.flatnonzero(p > 0)
        return tuple(checks.frozen(column[possible]) for column in columns)

    def weighted(self, weight: ArrayLike | float) -> Matrix:
        r"""Returns $p(s'|s,a)$ times the outcome's weight, with a row for each $(s, a)$."""
        p, weights = self.transition, self.outcome(weight)
        if not self.is_sparse:
            return (weights * p.ravel()).reshape(-1, self.num_states)
        return sparse.csr_array((p.data * weights, p.indices, p.indptr), shape=p.shape)


def _describe(mdp: MDP, features: str = "") -> str:
    low, high = np.min(mdp.discount), np.max(mdp.discount)
    discount = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{mdp.num_states} states, {mdp.num_actions} actions,{features} discount {discount}"


@dataclass(frozen=True, eq=False)
class Problem:
    r"""What is asked of off-policy learning, as read-only NumPy float64 arrays.

    **Arguments:**

    - `mdp`: The process.
    - `behavior`: $\mu(a|s)$, an (s, a) array whose chain is irreducible.
    - `interest`: $i(s) \ge 0$, an (s,) array or a number.
    - `x`: State features $X$, an (s, k) array, dense or csr.
    - `xa`: State-action features $\tilde X$, an (s, a, l) array or a csr array of shape (s*a, l);
      by default $\tilde x(s,a) = e_a \otimes x(s)$.
    - `start`: The distribution of $S_0$; by default the stationary one, $d_\mu$ of the behaviour.
    - `target`: A default target policy $\pi(a|s)$, an (s, a) array.
    - `labels`: What the states are called, whole numbers; by default 0, 1, 2, ...
    """

    mdp: MDP
    behavior: ArrayField
    interest: ArrayField
    x: ArrayField
    xa: ArrayField = None
    start: ArrayField = None
    target: ArrayField = None
    labels: ArrayField = None

    def __post_init__(self) -> None:
        states, actions = shape = self.mdp.num_states, self.mdp.num_actions

        def assign(name: str, value: ArrayField) -> None:
            object.__setattr__(self, name, value)

        assign("behavior", checks.policy("behavior", self.behavior, shape))
        if reason := _markov.why_reducible(self.mdp.chain(self.behavior)):
            raise ValueError(f"behavior: its chain is not irreducible {reason}")
        interest = self.interest if np.ndim(self.interest) else np.full(states, self.interest)
        interest = checks.shaped("interest", interest, (states,), "states")
        if not checks.nonnegative("interest", interest).any():
            raise ValueError("interest: every entry is 0; some state must be of interest")
        assign("interest", checks.ranged("interest", interest))
        assign("x", self._features("x", self.x, (states,), "states, features"))
        if self.xa is None:
            if not sparse.issparse(self.x):
                num_bytes = 24 * states * actions**2 * self.x.shape[1]
                require_memory("xa: the default", num_bytes, "give xa, or a sparse x")
            flat = sparse.kron(self.x, sparse.eye_array(actions), format="csr")
            order = np.arange(flat.shape[1]).reshape(-1, actions).T.ravel()  # a first, then k
            xa = flat[:, order]
            assign("xa", xa if sparse.issparse(self.x) else xa.toarray().reshape(*shape, -1))
        assign("xa", self._features("xa", self.xa, shape, "states, actions, features"))
        labels = np.arange(states) if self.labels is None else np.array(self.labels)
        if labels.shape != (states,) or not np.issubdtype(labels.dtype, np.integer):
            got = f"got {labels.dtype} of shape {labels.shape}"
            raise ValueError(f"labels: {got}; {states} whole numbers are required")
        assign("labels", checks.frozen(labels))
        start = self.stationary if self.start is None else self.start
        start = checks.nonnegative("start", checks.shaped("start", start, (states,), "states"))
        (start,) = checks.stochastic("start", start[None], lambda _: "the distribution")
        assign("start", start)
        if self.target is not None:
            assign("target", self._check_target(self.target))

    def __str__(self) -> str:
        return _describe(self.mdp, f" {self.x.shape[1]} features,")

    def __repr__(self) -> str:
        return f"Problem({self})"

    def _features(self, name: str, value: ArrayField, rows: tuple[int, ...], axes: str) -> Matrix:
        if sparse.issparse(value):
            features, rows = checks.csr(name, value), (int(np.prod(rows)),)
            checks.ranged(name, features.data)
        else:
            features = checks.ranged(name, checks.finite(name, value))
        if features.shape[:-1] != rows or features.shape[-1] == 0:
            raise ValueError(
                f"{name}: got shape {features.shape}; {(*rows, 'k')} ({axes}) is required"
            )
        return features

    def require_target(self, target: ArrayLike | None = None) -> Float[np.ndarray, "s a"]:
        """Returns the target policy as a checked array; None is the problem's own."""
        target = self.target if target is None else target
        if target is None:
            raise ValueError("target: not given, and the problem has no target of its own")
        return self.target if target is self.target else self._check_target(target)

    def _check_target(self, target: ArrayLike) -> Float[np.ndarray, "s a"]:
        target = checks.policy("target", target, (self.mdp.num_states, self.mdp.num_actions))
        with np.errstate(all="ignore"):
            ratio = np.where(target > 0, target / self.behavior, 0.0)
        if np.isinf(ratio).any():
            s, a = np.argwhere(np.isinf(ratio))[0]
            mu = (
                "never does" if self.behavior[s, a] == 0 else f"does with {self.behavior[s, a]:.3g}"
            )
            raise ValueError(
                f"target: takes action {a} in state {s} with probability {target[s, a]:g}, where "
                f"the behavior {mu}; pi(a|s) > 0 requires mu(a|s) > 0, and a finite ratio"
            )
        if not isinstance(self.mdp.discount, float):
            self._require_discounting(target)
        return target

    def _require_discounting(self, target: Float[np.ndarray, "s a"]) -> None:
        """Requires that every state leads to a discount below one: the radius is then below one."""
        mdp, average = self.mdp, policy_matrix(target)
        lost = average @ np.asarray(mdp.weighted(1.0 - np.asarray(mdp.discount)).sum(1))
        chain = mdp.chain(target)
        trapped = ~_markov.reachable(chain.T, lost > 0)
        if trapped.any():
            closed = trapped & _markov.closed(chain)
            raise ValueError(
                f"target: state {closed.argmax()} lies in a closed class where the discount is "
                "always 1, so the discounted chain has spectral radius 1; it must be below 1"
            )

    @cached_property
    def stationary(self) -> Float[np.ndarray, " s"]:
        r"""The stationary distribution of the behaviour, $d_\mu^\top P_\mu = d_\mu^\top$."""
        d = _markov.stationary(self.mdp.chain(self.behavior))
        if not (d > 0).all():  # NaN too
            raise ValueError(
                f"behavior: the stationary probability of state {(~(d > 0)).argmax()} is too "
                "small for a number (below 1e-308); every state must be visited"
            )
        return checks.frozen(d)

    @cached_property
    def stationary_actions(self) -> Float[np.ndarray, "s a"]:
        r"""The stationary distribution of (s, a), $\tilde d_\mu(s,a) = d_\mu(s)\mu(a|s)$."""
        return checks.frozen(self.stationary[:, None] * self.behavior)

    @cached_property
    def xa_rows(self) -> Matrix:
        r"""$\tilde X$ as a matrix of (s*a) rows."""
        return self.xa if sparse.issparse(self.xa) else self.xa.reshape(-1, self.xa.shape[-1])

    @cached_property
    def dense_features(self) -> tuple[Float[np.ndarray, "s k"], Float[np.ndarray, "s a l"]]:
        r"""$X$ and $\tilde X$ as dense (s, k) and (s, a, l) arrays."""
        shape = (self.mdp.num_states, self.mdp.num_actions, -1)
        require_memory("xa: a dense array of it", 8 * math.prod(self.xa_rows.shape))
        return _markov.as_dense(self.x), _markov.as_dense(self.xa).reshape(shape)

    def view(
        self, pi: Float[Array, " a"], pi_next: Float[Array, " a"], sample: Sample
    ) -> Transition:
        r"""What a linear learner sees of a sample under $\pi(\cdot|S_t)$ and $\pi(\cdot|S_{t+1})$.

        The only place where ratios are made: $\rho_t = \pi(A_t|S_t)/\mu(A_t|S_t)$.
        """
        s, a, s_next, a_next = sample.state, sample.action, sample.state_next, sample.action_next
        real = jnp.result_type(float)  # said, since JAX remembers the type that an array had before
        tables = (*self.dense_features, self.behavior, self.interest)
        x, xa, mu, interest = (jnp.asarray(table, real) for table in tables)
        return Transition(
            time=sample.time,
            state=s,
            x=x[s],
            x_next=x[s_next],
            xa=xa[s, a],
            xa_next=xa[s_next, a_next],
            rho=pi[a] / mu[s, a],
            rho_next=pi_next[a_next] / mu[s_next, a_next],
            interest=interest[s],
            interest_next=interest[s_next],
            reward=sample.reward,
            discount=sample.discount,
            pi=jnp.asarray(pi[a]),
            mu=mu[s, a],
        )
