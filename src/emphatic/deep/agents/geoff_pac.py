"""Generalised off-policy actor-critic (Geoff-PAC)."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Float

from ...types import Array, Key, Number, Params, Scalar
from .. import replay
from ..experience import Action, Observation
from ..losses import density_loss, td_error, value_loss
from ..networks import HIDDEN, positive, value
from ..policies import Policy
from ..transition import Transition
from . import agent
from .actor_critic import restarting
from .agent import Agent, Diagnostics, Networks, Trace


class GeoffPACState(eqx.Module):
    r"""The networks `policy`, `v` and `c`, their targets and averages, the replay, and the traces.

    For each worker $\gamma\rho_{t-1}F^{(1)}_{t-1}$, $\hat\gamma\rho_{t-1}F^{(2)}_{t-1}$ and
    $c_{t-1}\rho_{t-1}\nabla\log\pi(A_{t-1}|S_{t-1})$; the last two are like the policy's
    parameters.
    """

    params: Networks
    target: Networks
    averages: Networks
    replay: Transition
    first: Float[Array, "*runs n"]
    second: Params
    intrinsic: Params


def geoff_pac(
    policy: Policy,
    *,
    discount: float = 0.99,
    discount_hat: float = 0.2,
    lambda_1: float = 0.7,
    lambda_2: float = 0.6,
    normaliser: float = 1e-3,
    trace: Trace = restarting,
    value_clip: float = 1.0,
    density_clip: float = 2.0,
    actor_clip: float = float("inf"),
    critic_norm: float = 0.5,
    num_sampled: int = 10,
    warm_up: int = 100,
    target_every: int = 200,
    hidden: tuple[int, ...] = HIDDEN,
) -> Agent[GeoffPACState]:
    r"""Makes Geoff-PAC (Zhang, Boehmer, Whiteson 2019), which updates as [actor_critic] does.

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

    - `discount`, `discount_hat`: $\gamma$ and $\hat\gamma$.
    - `lambda_1`, `lambda_2`: $\lambda_1$ and $\lambda_2$.
    - `normaliser`: The weight that keeps the mean of $c$ at 1.
    - `trace`: What is left of $\gamma\rho_{t-1}F^{(1)}_{t-1}$: [restarting] or [leaking].
    - `value_clip`, `density_clip`, `actor_clip`: Bounds of $\rho$ in the losses of $v$ and $c$, and
      for the actor with its traces.
    - `critic_norm`: The largest norm of a gradient of both critics.
    - `num_sampled`, `warm_up`, `target_every`, `hidden`: As in [actor_critic].
    """
    definition = agent.describe(geoff_pac, locals())
    clip = optax.clip_by_global_norm(critic_norm)
    ratios = jax.vmap(partial(agent.ratio, policy), (None, 0))

    def init(key: Key, example: Transition, capacity: int) -> GeoffPACState:
        params = agent.init_networks(key, policy, ("v", "c"), hidden, example)
        workers, dtype = example.reward.shape, example.observation.dtype
        zeros = jax.tree.map(
            lambda leaf: jnp.zeros((*workers, *leaf.shape), dtype), params["policy"]
        )
        target = {"v": params["v"], "c": params["c"]}
        averages = jax.tree.map(jnp.zeros_like, params)
        ring, first = replay.empty(example, capacity), jnp.zeros(workers, dtype)
        return GeoffPACState(params, target, averages, ring, first, zeros, zeros)

    def critic_loss(
        params: Networks, target: Networks, y: Transition, rho: Scalar, others: Scalar
    ) -> Number:
        v, v_next = value(params["v"], y.observation), value(target["v"], y.observation_next)
        c, c_next = positive(target["c"], y.observation), positive(params["c"], y.successor)
        clipped = jnp.minimum(rho, value_clip)
        v_loss = value_loss(v, y.reward, discount * y.bootstraps, v_next, clipped)
        back = discount_hat * jnp.minimum(rho, density_clip) * c
        return v_loss + density_loss(c_next, discount_hat, back, normaliser, others)

    critic_gradient = jax.grad(agent.mean_loss(critic_loss, (None, None, 0, 0, 0)))

    def update(
        state: GeoffPACState, batch: Transition, time: replay.Count, key: Key
    ) -> tuple[GeoffPACState, Diagnostics]:
        ring = replay.add(state.replay, batch, time)
        past = replay.sample(ring, key, time + 1, num_sampled)

        def learn(params: Networks, averages: Networks, *traces: Params) -> tuple[Params, ...]:
            for data in (past, batch):
                c = jax.vmap(positive, (None, 0))(params["c"], data.successor)
                others = (c.sum() - c) / (len(c) - 1)
                rho = ratios(params["policy"], data)
                critics = {name: params[name] for name in state.target}
                gradient = critic_gradient(critics, state.target, data, rho, others)
                gradient, _ = clip.update(gradient, clip.init(critics))
                params, averages = agent.rmsprop(gradient, params, averages)

            def ascend(
                y: Transition, first: Scalar, second: Params, intrinsic: Params
            ) -> tuple[Params, Scalar, Params, Params]:
                theta = params["policy"]
                score = jax.grad(partial(agent.log_density, policy))(theta, y)
                rho = jnp.minimum(agent.ratio(policy, theta, y), actor_clip)
                v, c = value(params["v"], y.observation), positive(params["c"], y.observation)
                v_next = value(state.target["v"], y.observation_next)
                delta = td_error(v, y.reward, discount * y.bootstraps, v_next)
                F1 = trace(first, y) + c
                M1 = (1 - lambda_1) * c + lambda_1 * F1
                F2 = jax.tree.map(jnp.add, second, intrinsic)
                M2 = jax.tree.map(lambda i, F: (1 - lambda_2) * i + lambda_2 * F, intrinsic, F2)
                Delta = jax.tree.map(
                    lambda M, g: discount_hat * v * M + rho * M1 * delta * g, M2, score
                )
                second = jax.tree.map(lambda F: discount_hat * rho * F, F2)
                intrinsic = jax.tree.map(lambda g: c * rho * g, score)
                return Delta, discount * rho * F1, second, intrinsic

            Delta, *new_traces = jax.vmap(ascend)(batch, *traces)
            gradient = {"policy": jax.tree.map(lambda g: -g.mean(0), Delta)}
            params, averages = agent.rmsprop(gradient, params, averages)
            return params, averages, *new_traces

        learned = state.params, state.averages, state.first, state.second, state.intrinsic
        params, averages, *traces = jax.lax.cond(
            time >= warm_up, learn, lambda *unchanged: unchanged, *learned
        )
        target = agent.copy_networks(params, state.target, (time + 1) % target_every == 0)
        return GeoffPACState(params, target, averages, ring, *traces), {}

    def act(theta: Params, observation: Observation, key: Key) -> Action:
        return policy.sample(policy.distribution(theta, observation), key)

    return Agent(init, update, lambda state: state.params["policy"], act, definition, discount)
