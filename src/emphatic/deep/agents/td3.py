"""Twin delayed deep deterministic policy gradient (TD3), with a fixed behaviour."""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Float, Integer

from ...types import Array, Key, Number, Params, Scalar
from .. import replay
from ..experience import Action, Observation
from ..networks import init_network, Layers, outputs
from ..policies import box, Gaussian, Policy, TruncatedGaussian
from ..transition import Transition
from .agent import Agent, describe, Diagnostics, Networks

TWINS = ("q1", "q2")
Learned: TypeAlias = tuple[Networks, Networks, optax.OptState, optax.OptState]


class TD3State(eqx.Module):
    """The networks `policy`, `q1` and `q2`, their slow targets, two optimisers, and the replay."""

    params: Networks
    target: Networks
    actor: optax.OptState
    critics: optax.OptState
    replay: Transition


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
) -> Agent[TD3State]:
    r"""Makes TD3 (Fujimoto, van Hoof, Meger 2018), which learns from a behaviour that is fixed.

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
    - `delay`: The number of critic updates for each update of the policy and the targets.
    - `tau`: $\tau$.
    - `hidden`: The sizes of the hidden layers.
    """
    definition = describe(td3, locals())
    if not isinstance(policy, Gaussian | TruncatedGaussian):
        raise ValueError("policy: TD3 needs a box of actions, not numbers of them")
    low, high = policy.low, policy.high
    del definition["policy"]
    definition |= {"low": low.tolist(), "high": high.tolist()}
    optimiser = optax.adam(step_size)

    def init(key: Key, example: Transition, capacity: int) -> TD3State:
        size, dtype = example.observation.shape[-1], example.observation.dtype
        keys, action_size = jax.random.split(key, 3), example.action.shape[-1]
        params = {"policy": init_network(keys[0], (size, *hidden, action_size), dtype=dtype)}
        for name, twin_key in zip(TWINS, keys[1:], strict=True):
            params[name] = init_network(twin_key, (size + action_size, *hidden, 1), dtype=dtype)
        actor = optimiser.init(params["policy"])
        critics = optimiser.init({name: params[name] for name in TWINS})
        return TD3State(params, params, actor, critics, replay.empty(example, capacity))

    def adam(
        gradient: Params, params: Params, moments: optax.OptState
    ) -> tuple[Params, optax.OptState]:
        updates, moments = optimiser.update(gradient, moments, params)
        return optax.apply_updates(params, updates), moments

    def in_box(z: Float[Array, " a"]) -> Float[Array, " a"]:
        centre, half = box(low, high, z.dtype)
        return centre + half * z

    def deterministic(layers: Layers, observation: Observation) -> Float[Array, " a"]:
        return in_box(jnp.tanh(outputs(layers, observation)))

    def q(layers: Layers, observation: Observation, action: Action) -> Scalar:
        return outputs(layers, jnp.concatenate([observation, action]))[0]

    def target_value(target: Networks, y: Transition, key: Key) -> Scalar:
        z = jnp.tanh(outputs(target["policy"], y.observation_next))
        epsilon = noise * jax.random.normal(key, z.shape, z.dtype)
        action = in_box(jnp.clip(z + jnp.clip(epsilon, -noise_clip, noise_clip), -1, 1))
        q_next = [q(target[name], y.observation_next, action) for name in TWINS]
        return y.reward + discount * y.bootstraps * jnp.minimum(*q_next)

    def critic_loss(twins: Networks, data: Transition, targets: Float[Array, " n"]) -> Number:
        values = jax.vmap(q, (None, 0, 0))
        errors = (targets - values(twins[name], data.observation, data.action) for name in twins)
        return sum((error**2).mean() for error in errors)

    def policy_loss(layers: Layers, q1: Layers, data: Transition) -> Scalar:
        def value(observation: Observation) -> Scalar:
            return q(q1, observation, deterministic(layers, observation))

        return -jax.vmap(value)(data.observation).mean()

    def update(
        state: TD3State, batch: Transition, time: replay.Count, key: Key
    ) -> tuple[TD3State, Diagnostics]:
        ring = replay.add(state.replay, batch, time)
        num_workers = batch.reward.shape[0]

        def step(j: Integer[Array, ""], carry: Learned) -> Learned:
            params, target, actor, critics = carry
            sample_key, noise_key = jax.random.split(jax.random.fold_in(key, j))
            data = replay.sample_transitions(ring, sample_key, time + 1, batch_size)
            keys = jax.random.split(noise_key, batch_size)
            targets = jax.vmap(target_value, (None, 0, 0))(target, data, keys)
            twins = {name: params[name] for name in TWINS}
            gradient = jax.grad(critic_loss)(twins, data, targets)
            twins, critics = adam(gradient, twins, critics)

            def improve(
                layers: Layers, target: Networks, actor: optax.OptState
            ) -> tuple[Layers, Networks, optax.OptState]:
                gradient = jax.grad(policy_loss)(layers, twins["q1"], data)
                layers, actor = adam(gradient, layers, actor)
                params = {"policy": layers, **twins}
                return layers, optax.incremental_update(params, target, tau), actor

            is_due = (time * num_workers + j + 1) % delay == 0
            layers, target, actor = jax.lax.cond(
                is_due, improve, lambda *unchanged: unchanged, params["policy"], target, actor
            )
            return {"policy": layers, **twins}, target, actor, critics

        carry = (state.params, state.target, state.actor, state.critics)
        num_updates = jnp.where(time >= warm_up, num_workers, 0)
        params, target, actor, critics = jax.lax.fori_loop(0, num_updates, step, carry)
        return TD3State(params, target, actor, critics, ring), {}

    def act(theta: Layers, observation: Observation, key: Key) -> Action:
        return deterministic(theta, observation)

    return Agent(init, update, lambda state: state.params["policy"], act, definition, discount)
