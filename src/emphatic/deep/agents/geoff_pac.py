"""Generalised off-policy actor-critic (Geoff-PAC)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from . import replay
from .actor_critic import restarting
from .agent import Agent, mean_loss, name, rmsprop
from .losses import density_loss, td_error, value_loss
from .networks import HIDDEN, network, Policy, positive, value
from .transition import Transition


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GeoffPACState:
    r"""The networks `policy`, `v` and `c`, their targets and averages, the replay, and the traces.

    For each worker $\gamma\rho_{t-1}F^{(1)}_{t-1}$, $\hat\gamma\rho_{t-1}F^{(2)}_{t-1}$ and
    $c_{t-1}\rho_{t-1}\nabla\log\pi(A_{t-1}|S_{t-1})$; the last two are like the policy's
    parameters.
    """

    params: dict[str, Any]
    target: dict[str, Any]
    averages: Any
    replay: Any
    first: Any
    second: Any
    intrinsic: Any


def geoff_pac(
    policy: Policy,
    *,
    discount: float = 0.99,
    discount_hat: float = 0.2,
    lambda_1: float = 0.7,
    lambda_2: float = 0.6,
    normaliser: float = 1e-3,
    trace: Callable[[Any, Transition], Any] = restarting,
    value_clip: float = 1.0,
    density_clip: float = 2.0,
    actor_clip: float = float("inf"),
    critic_norm: float = 0.5,
    num_sampled: int = 10,
    warm_up: int = 100,
    target_every: int = 200,
    hidden: tuple[int, ...] = HIDDEN,
) -> Agent:
    r"""Geoff-PAC (Zhang, Boehmer, Whiteson 2019), with the networks and updates of [actor_critic].

    It ascends the value of the states of $d_{\hat\gamma}$, between those of the behaviour
    ($\hat\gamma = 0$) and those of the policy ($\hat\gamma = 1$). In place of an emphasis it
    learns the ratio $c = d_{\hat\gamma}/d_\mu$ by discounted COP-TD, see [density_loss], across the
    ends of episodes too: a restart is a transition of the chain as any other. The actor ascends

    $$
    \begin{aligned}
    F^{(1)}_t &= \gamma_t\rho_{t-1}F^{(1)}_{t-1} + c_t, &
    M^{(1)}_t &= (1 - \lambda_1)c_t + \lambda_1F^{(1)}_t, \\
    I_t &= c_{t-1}\rho_{t-1}\nabla\log\pi(A_{t-1}|S_{t-1}), \\
    F^{(2)}_t &= \hat\gamma\rho_{t-1}F^{(2)}_{t-1} + I_t, &
    M^{(2)}_t &= (1 - \lambda_2)I_t + \lambda_2F^{(2)}_t, \\
    \Delta_t &= \hat\gamma v(S_t)M^{(2)}_t + \rho_tM^{(1)}_t\delta_t\nabla\log\pi(A_t|S_t). &&
    \end{aligned}
    $$

    The first term is right where $E_\mu[\rho\nabla\log\pi] = 0$. A [Gaussian] that leaves the box,
    or a clipped ratio, breaks that, and then $v$ moves the policy by its size alone: where all
    rewards are negative, out of the box. With a [TruncatedGaussian] it does not.

    **Arguments:**

    - `policy`: The policy.
    - `discount`, `discount_hat`: $\gamma$ and $\hat\gamma$.
    - `lambda_1`, `lambda_2`: $\lambda_1$ and $\lambda_2$.
    - `normaliser`: The weight that keeps the mean of $c$ at 1.
    - `trace`: What is left of $\gamma\rho_{t-1}F^{(1)}_{t-1}$: [restarting] or [leaking].
    - `value_clip`, `density_clip`, `actor_clip`: Bounds of $\rho$ in the losses of $v$ and $c$, and
      for the actor with its traces.
    - `critic_norm`: The largest norm of a gradient of both critics.
    - `num_sampled`, `warm_up`, `target_every`, `hidden`: As in [actor_critic].
    """
    clip, critics = optax.clip_by_global_norm(critic_norm), ("v", "c")

    def init(key: Any, example: Transition, capacity: int) -> GeoffPACState:
        size, dtype = example.observation.shape[-1], example.observation.dtype
        of_policy, *others = jax.random.split(key, 3)
        params = {"policy": policy.init(of_policy, size, dtype)}
        for each, k in zip(critics, others, strict=True):
            params[each] = network(k, (size, *hidden, 1), dtype=dtype)
        workers = example.reward.shape
        nothing = jax.tree.map(
            lambda leaf: jnp.zeros((*workers, *leaf.shape), dtype), params["policy"]
        )
        return GeoffPACState(
            params=params,
            target={each: params[each] for each in critics},
            averages=jax.tree.map(jnp.zeros_like, params),
            replay=replay.empty(example, capacity),
            first=jnp.zeros(workers, dtype),
            second=nothing,
            intrinsic=nothing,
        )

    def log_density(theta: Any, y: Transition) -> Any:
        return policy.log_density(policy.at(theta, y.observation), y.action)

    def ratio(theta: Any, y: Transition) -> Any:
        return jnp.exp(log_density(theta, y)) / y.behavior

    def critic_loss(params: Any, target: Any, y: Transition, rho: Any, others: Any) -> Any:
        v, v_next = value(params["v"], y.observation), value(target["v"], y.observation_next)
        c, c_next = positive(target["c"], y.observation), positive(params["c"], y.successor)
        of_v = value_loss(
            v, y.reward, discount * y.bootstraps, v_next, jnp.minimum(rho, value_clip)
        )
        back = discount_hat * jnp.minimum(rho, density_clip) * c
        return of_v + density_loss(c_next, discount_hat, back, normaliser, others)

    of_critics = jax.grad(mean_loss(critic_loss, (None, None, 0, 0, 0)))

    def update(
        state: GeoffPACState, batch: Transition, time: Any, key: Any
    ) -> tuple[GeoffPACState, dict[str, Any]]:
        ring = replay.add(state.replay, batch, time)
        past = replay.sample(ring, key, time + 1, num_sampled)

        def learn(params: Any, averages: Any, first: Any, second: Any, intrinsic: Any) -> tuple:
            for data in (past, batch):
                c = jax.vmap(positive, (None, 0))(params["c"], data.successor)
                others = (c.sum() - c) / (len(c) - 1)
                rho = jax.vmap(ratio, (None, 0))(params["policy"], data)
                learning = {each: params[each] for each in critics}
                gradient = of_critics(learning, state.target, data, rho, others)
                gradient, _ = clip.update(gradient, clip.init(learning))
                params, averages = rmsprop(gradient, params, averages)

            def ascend(y: Transition, first: Any, second: Any, intrinsic: Any) -> tuple:
                theta = params["policy"]
                score = jax.grad(log_density)(theta, y)
                rho = jnp.minimum(ratio(theta, y), actor_clip)
                v, c = value(params["v"], y.observation), positive(params["c"], y.observation)
                v_next = value(state.target["v"], y.observation_next)
                delta = td_error(v, y.reward, discount * y.bootstraps, v_next)
                F1 = trace(first, y) + c
                M1 = (1 - lambda_1) * c + lambda_1 * F1
                F2 = jax.tree.map(jnp.add, second, intrinsic)
                Delta = jax.tree.map(
                    lambda i, F, g: (
                        discount_hat * v * ((1 - lambda_2) * i + lambda_2 * F)
                        + rho * M1 * delta * g
                    ),
                    intrinsic,
                    F2,
                    score,
                )
                second = jax.tree.map(lambda F: discount_hat * rho * F, F2)
                intrinsic = jax.tree.map(lambda g: c * rho * g, score)
                return Delta, discount * rho * F1, second, intrinsic

            Delta, first, second, intrinsic = jax.vmap(ascend)(batch, first, second, intrinsic)
            gradient = {"policy": jax.tree.map(lambda g: -g.mean(0), Delta)}
            params, averages = rmsprop(gradient, params, averages)
            return params, averages, first, second, intrinsic

        def wait(*unchanged: Any) -> tuple:
            return unchanged

        params, averages, *traces = jax.lax.cond(
            time >= warm_up,
            learn,
            wait,
            state.params,
            state.averages,
            state.first,
            state.second,
            state.intrinsic,
        )
        copy = (time + 1) % target_every == 0
        target = jax.tree.map(
            lambda new, old: jnp.where(copy, new, old),
            {each: params[each] for each in critics},
            state.target,
        )
        return GeoffPACState(params, target, averages, ring, *traces), {}

    def act(theta: Any, observation: Any, key: Any) -> Any:
        return policy.sample(policy.at(theta, observation), key)

    definition = {
        "algorithm": "geoff_pac",
        "policy": repr(policy),
        "discount": discount,
        "discount_hat": discount_hat,
        "lambda_1": lambda_1,
        "lambda_2": lambda_2,
        "normaliser": normaliser,
        "trace": name(trace),
        "value_clip": value_clip,
        "density_clip": density_clip,
        "actor_clip": actor_clip,
        "critic_norm": critic_norm,
        "num_sampled": num_sampled,
        "warm_up": warm_up,
        "target_every": target_every,
        "hidden": list(hidden),
    }
    return Agent(init, update, lambda state: state.params["policy"], act, definition)
