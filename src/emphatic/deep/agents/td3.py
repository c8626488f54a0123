"""Twin delayed deep deterministic policy gradient (TD3), with a fixed behaviour."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from . import replay
from .agent import Agent
from .networks import network, outputs, Policy, Softmax
from .transition import Transition


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TD3State:
    """The networks `policy`, `q1` and `q2`, their slow targets, two optimisers, and the replay."""

    params: dict[str, Any]
    target: dict[str, Any]
    actor: Any
    critics: Any
    replay: Any


def td3(
    policy: Policy,
    *,
    discount: float = 0.99,
    step_size: float = 1e-3,
    batch_size: int = 100,
    warm_up: int = 1000,
    noise: float = 0.2,
    noise_clip: float = 0.5,
    delay: int = 2,
    tau: float = 5e-3,
    hidden: tuple[int, ...] = (400, 300),
) -> Agent:
    r"""TD3 (Fujimoto, van Hoof, Meger 2018) on the experience of a behaviour that does not change.

    After the warm-up there is one update for each environment step: as many as workers. Both action
    values descend the mean of $(y - q_j(S_t, A_t))^2$ over transitions of the replay, with

    $$
    y = R_{t+1} + \gamma_{t+1}\min_j\bar q_j(S_{t+1}, \bar\pi(S_{t+1}) + \epsilon),
    \qquad \epsilon = \operatorname{clip}(0.2\,N(0, I), \pm 0.5);
    $$

    every second update the policy ascends $q_1(S_t, \pi(S_t))$ and the targets $\bar\pi, \bar q_j$
    move towards their networks by $\tau$. The noise is in units of the box's half width, and the
    action is clipped to the box. Optimisers are Adam.

    **Arguments:**

    - `policy`: For its box of actions only: the policy here is $c + h\tanh f(s)$.
    - `discount`: $\gamma$.
    - `step_size`: Adam's.
    - `batch_size`: How many transitions an update learns from.
    - `warm_up`: After how many iterations learning begins.
    - `noise`, `noise_clip`: The scale and the bound of $\epsilon$.
    - `delay`: The number of updates for each one of the policy and the targets.
    - `tau`: $\tau$.
    - `hidden`: The sizes of the hidden layers.
    """
    if isinstance(policy, Softmax):
        raise ValueError("policy: TD3 needs a box of actions, not numbers of them")
    centre, half = (policy.low + policy.high) / 2, (policy.high - policy.low) / 2
    optimiser = optax.adam(step_size)

    def init(key: Any, example: Transition, capacity: int) -> TD3State:
        size, dtype = example.observation.shape[-1], example.observation.dtype
        keys, actions = jax.random.split(key, 3), example.action.shape[-1]
        params = {"policy": network(keys[0], (size, *hidden, actions), dtype=dtype)}
        for name, k in zip(("q1", "q2"), keys[1:], strict=True):
            params[name] = network(k, (size + actions, *hidden, 1), dtype=dtype)
        return TD3State(
            params=params,
            target=params,
            actor=optimiser.init(params["policy"]),
            critics=optimiser.init({name: params[name] for name in ("q1", "q2")}),
            replay=replay.empty(example, capacity),
        )

    def adam(gradient: Any, params: Any, moments: Any) -> tuple[Any, Any]:
        change, moments = optimiser.update(gradient, moments, params)
        return optax.apply_updates(params, change), moments

    def box(z: Any) -> Any:
        return jnp.asarray(centre, z.dtype) + jnp.asarray(half, z.dtype) * z

    def deterministic(layers: Any, observation: Any) -> Any:
        return box(jnp.tanh(outputs(layers, observation)))

    def q(layers: Any, observation: Any, action: Any) -> Any:
        return outputs(layers, jnp.concatenate([observation, action]))[0]

    def target_value(target: Any, y: Transition, key: Any) -> Any:
        z = jnp.tanh(outputs(target["policy"], y.observation_next))
        epsilon = jnp.clip(
            noise * jax.random.normal(key, z.shape, z.dtype), -noise_clip, noise_clip
        )
        action = box(jnp.clip(z + epsilon, -1, 1))
        q_next = [q(target[name], y.observation_next, action) for name in ("q1", "q2")]
        return y.reward + discount * y.bootstraps * jnp.minimum(*q_next)

    def critic_loss(twins: Any, data: Transition, goal: Any) -> Any:
        values = [
            jax.vmap(q, (None, 0, 0))(twins[name], data.observation, data.action) for name in twins
        ]
        return sum(((goal - each) ** 2).mean() for each in values)

    def policy_loss(layers: Any, q1: Any, data: Transition) -> Any:
        def worth(observation: Any) -> Any:
            return q(q1, observation, deterministic(layers, observation))

        return -jax.vmap(worth)(data.observation).mean()

    def update(
        state: TD3State, batch: Transition, time: Any, key: Any
    ) -> tuple[TD3State, dict[str, Any]]:
        ring = replay.add(state.replay, batch, time)
        workers = batch.reward.shape[0]

        def once(j: Any, carry: tuple) -> tuple:
            params, target, actor, critics = carry
            for_sample, for_noise = jax.random.split(jax.random.fold_in(key, j))
            data = replay.sample_transitions(ring, for_sample, time + 1, batch_size)
            keys = jax.random.split(for_noise, batch_size)
            goal = jax.vmap(target_value, (None, 0, 0))(target, data, keys)
            twins = {name: params[name] for name in ("q1", "q2")}
            gradient = jax.grad(critic_loss)(twins, data, goal)
            twins, critics = adam(gradient, twins, critics)

            def improve(layers: Any, target: Any, actor: Any) -> tuple:
                gradient = jax.grad(policy_loss)(layers, twins["q1"], data)
                layers, actor = adam(gradient, layers, actor)
                fresh = {"policy": layers, **twins}
                return layers, optax.incremental_update(fresh, target, tau), actor

            layers, target, actor = jax.lax.cond(
                (time * workers + j + 1) % delay == 0,
                improve,
                lambda *unchanged: unchanged,
                params["policy"],
                target,
                actor,
            )
            return {"policy": layers, **twins}, target, actor, critics

        carry = (state.params, state.target, state.actor, state.critics)
        rounds = jnp.where(time >= warm_up, workers, 0)
        params, target, actor, critics = jax.lax.fori_loop(0, rounds, once, carry)
        return TD3State(params, target, actor, critics, ring), {}

    def act(theta: Any, observation: Any, key: Any) -> Any:
        return deterministic(theta, observation)

    definition = {
        "algorithm": "td3",
        "low": np.asarray(policy.low).tolist(),
        "high": np.asarray(policy.high).tolist(),
        "discount": discount,
        "step_size": step_size,
        "batch_size": batch_size,
        "warm_up": warm_up,
        "noise": noise,
        "noise_clip": noise_clip,
        "delay": delay,
        "tau": tau,
        "hidden": list(hidden),
    }
    return Agent(init, update, lambda state: state.params["policy"], act, definition)
