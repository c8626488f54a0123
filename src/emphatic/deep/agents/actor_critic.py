"""Actor-critics with networks: COF-PAC, ACE and Off-PAC differ in one expression."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Float

from ...types import Array, Key, Number, Params, Scalar
from .. import replay
from ..experience import Action, Observation
from ..losses import actor_loss, emphasis_loss, masked_emphasis_loss, td_error, value_loss
from ..networks import HIDDEN, positive, value
from ..policies import Policy
from ..transition import Transition
from . import agent
from .agent import Agent, Diagnostics, Networks, Setting, Trace

Emphasis: TypeAlias = Callable[[Scalar, Scalar, Scalar], Scalar]
r"""A source of emphasis: a function of $m(S_t)$, the followon trace and the interest."""
EmphasisLoss: TypeAlias = Callable[[Number, Number, Number, Number], Number]
"""A loss of $m$, such as [emphasis_loss]."""
Learned: TypeAlias = tuple[Networks, Networks, Float[Array, " n"], Diagnostics]


def learned(m: Scalar, trace: Scalar, interest: Scalar) -> Scalar:
    r"""The emphasis of COF-PAC: $m(S_t)$, as the network estimates it."""
    return m


def followed(m: Scalar, trace: Scalar, interest: Scalar) -> Scalar:
    r"""The emphasis of ACE: the followon trace $M_t$."""
    return trace


def uncorrected(m: Scalar, trace: Scalar, interest: Scalar) -> Scalar:
    r"""The emphasis of Off-PAC: the interest $i(S_t)$."""
    return interest


def restarting(followon: Scalar, y: Transition) -> Scalar:
    r"""What is left of $F_t = \gamma\rho_{t-1}M_{t-1}$: nothing where an episode starts."""
    return jnp.where(y.start, 0.0, followon)


def leaking(followon: Scalar, y: Transition) -> Scalar:
    r"""What the authors' code leaves of $F_t$: nothing where an episode *ends* with this step.

    The mask is one step late: the last step of an episode forgets, and the first of the next one
    inherits $\gamma\rho_{t-1}M_{t-1}$ from it.
    """
    return y.continues * followon


def certain(observation: Observation) -> Scalar:
    r"""The interest $i(s) = 1$."""
    return jnp.ones((), observation.dtype)


AUTHORS: dict[str, Setting] = {"emphasis_loss": masked_emphasis_loss, "trace": leaking}
"""What else the authors' code does, besides clipping: arguments of [actor_critic]."""

PAPER: dict[str, Setting] = {"value_clip": float("inf"), "actor_clip": float("inf")}
"""The paper's text, where ratios are not clipped: arguments of [actor_critic]."""


class ActorCriticState(eqx.Module):
    r"""The networks `policy`, `v` and `m`, their targets and averages, the replay, and $F_t$."""

    params: Networks
    target: Networks
    averages: Networks
    replay: Transition
    followon: Float[Array, "*runs n"]


def actor_critic(
    policy: Policy,
    emphasis: Emphasis,
    *,
    discount: float = 0.99,
    interest: Callable[[Observation], Scalar] = certain,
    emphasis_loss: EmphasisLoss = emphasis_loss,
    trace: Trace = restarting,
    value_clip: float = 1.0,
    actor_clip: float = 2.0,
    entropy_weight: float = 0.01,
    critic_norm: float = 0.5,
    num_sampled: int = 10,
    warm_up: int = 100,
    target_every: int = 200,
    hidden: tuple[int, ...] = HIDDEN,
) -> Agent[ActorCriticState]:
    r"""Makes an actor-critic with three networks, for $\pi_\theta$, $v$ and $m$, and one optimiser.

    After the warm-up each iteration takes three steps of [rmsprop]: the critics' on transitions of
    the replay, the critics' on the current ones, and the actor's on these. The critics descend the
    mean of

    $$
    \tfrac12\min(\rho_t,c_v)\,\delta_t^2 + \tfrac12\big(i(S_{t+1}) + \gamma_{t+1}\rho_t\bar m(S_t)
    - m(S_{t+1})\big)^2, \qquad \delta_t = R_{t+1} + \gamma_{t+1}\bar v(S_{t+1}) - v(S_t),
    $$

    by gradients of norm at most 0.5, where $\bar v$ and $\bar m$ are copies of the networks from
    time to time. The actor descends the mean of

    $$
    -M_t\min(\rho_t,c_\pi)\,\delta_t\log\pi_\theta(A_t|S_t) - 0.01\,H(\pi_\theta(\cdot|S_t)).
    $$

    The emphasis $M_t$ is a function of $m(S_t)$, of the followon trace
    $i(S_t) + \gamma_t\rho_{t-1}M_{t-1}$ and of the interest; with [learned] the agent is COF-PAC,
    with [followed] ACE, with [uncorrected] Off-PAC. All of them learn $m$ in the same way.

    **Arguments:**

    - `discount`: $\gamma$, within an episode.
    - `interest`: $i$, a function of an observation.
    - `emphasis_loss`: The loss of $m$, or [masked_emphasis_loss].
    - `trace`: What is left of a trace: [restarting] or [leaking].
    - `value_clip`, `actor_clip`: $c_v$ and $c_\pi$; infinite in the paper's text, see [PAPER].
    - `entropy_weight`: The weight of the entropy $H$.
    - `critic_norm`: The largest norm of a gradient of both critics.
    - `num_sampled`: How many iterations of the replay a step learns from.
    - `warm_up`: After how many iterations learning, and the trace, begin.
    - `target_every`: After how many iterations $\bar v$ and $\bar m$ are copied.
    - `hidden`: The sizes of the critics' hidden layers.
    """
    definition = agent.describe(actor_critic, locals())
    clip, m_loss = optax.clip_by_global_norm(critic_norm), emphasis_loss
    ratios = jax.vmap(partial(agent.ratio, policy), (None, 0))

    def init(key: Key, example: Transition, capacity: int) -> ActorCriticState:
        params = agent.init_networks(key, policy, ("v", "m"), hidden, example)
        target = {"v": params["v"], "m": params["m"]}
        averages = jax.tree.map(jnp.zeros_like, params)
        followon = jnp.zeros(example.reward.shape, example.observation.dtype)
        return ActorCriticState(params, target, averages, replay.empty(example, capacity), followon)

    def critic_loss(params: Networks, target: Networks, y: Transition, rho: Scalar) -> Number:
        v, v_next = value(params["v"], y.observation), value(target["v"], y.observation_next)
        m, m_next = positive(target["m"], y.observation), positive(params["m"], y.successor)
        clipped = jnp.minimum(rho, value_clip)
        v_loss = value_loss(v, y.reward, discount * y.bootstraps, v_next, clipped)
        return v_loss + m_loss(m_next, interest(y.successor), y.continues, discount * rho * m)

    def policy_loss(
        params: Networks, y: Transition, rho: Scalar, delta: Scalar, M: Scalar
    ) -> Number:
        distribution = policy.distribution(params["policy"], y.observation)
        log_pi, H = policy.log_density(distribution, y.action), policy.entropy(distribution)
        return actor_loss(log_pi, H, M, jnp.minimum(rho, actor_clip), delta, entropy_weight)

    critic_gradient = jax.grad(agent.mean_loss(critic_loss, (None, None, 0, 0)))
    actor_gradient = jax.grad(agent.mean_loss(policy_loss, (None, 0, 0, 0, 0)))

    def error(params: Networks, target: Networks, y: Transition) -> Number:
        v, v_next = value(params["v"], y.observation), value(target["v"], y.observation_next)
        return td_error(v, y.reward, discount * y.bootstraps, v_next)

    def update(
        state: ActorCriticState, batch: Transition, time: replay.Count, key: Key
    ) -> tuple[ActorCriticState, Diagnostics]:
        ring = replay.add(state.replay, batch, time)
        past = replay.sample(ring, key, time + 1, num_sampled)

        def learn(params: Networks, averages: Networks, followon: Float[Array, " n"]) -> Learned:
            theta = params["policy"]
            rho_past, rho = ratios(theta, past), ratios(theta, batch)
            for data, rho_data in ((past, rho_past), (batch, rho)):
                critics = {name: params[name] for name in state.target}
                gradient = critic_gradient(critics, state.target, data, rho_data)
                gradient, _ = clip.update(gradient, clip.init(critics))
                params, averages = agent.rmsprop(gradient, params, averages)
            delta = jax.vmap(error, (None, None, 0))(params, state.target, batch)
            m = jax.vmap(positive, (None, 0))(params["m"], batch.observation)
            i = jax.vmap(interest)(batch.observation)
            M = i + jax.vmap(trace)(followon, batch)
            weights = jax.vmap(emphasis)(m, M, i)
            gradient = actor_gradient({"policy": theta}, batch, rho, delta, weights)
            params, averages = agent.rmsprop(gradient, params, averages)
            return params, averages, discount * rho * M, {"ratio": rho, "trace": M, "m": m}

        def wait(params: Networks, averages: Networks, followon: Float[Array, " n"]) -> Learned:
            missing = jnp.full_like(followon, jnp.nan)
            return params, averages, followon, dict.fromkeys(("ratio", "trace", "m"), missing)

        params, averages, followon, diagnostics = jax.lax.cond(
            time >= warm_up, learn, wait, state.params, state.averages, state.followon
        )
        target = agent.copy_networks(params, state.target, (time + 1) % target_every == 0)
        return ActorCriticState(params, target, averages, ring, followon), diagnostics

    def act(theta: Params, observation: Observation, key: Key) -> Action:
        return policy.sample(policy.distribution(theta, observation), key)

    return Agent(init, update, lambda state: state.params["policy"], act, definition, discount)


def cof_pac(policy: Policy, **settings: Setting) -> Agent[ActorCriticState]:
    """Makes COF-PAC, an [actor_critic] whose emphasis is [learned]."""
    return actor_critic(policy, learned, **settings)


def ace(policy: Policy, **settings: Setting) -> Agent[ActorCriticState]:
    """Makes ACE, an [actor_critic] whose emphasis is the trace that it [followed]."""
    return actor_critic(policy, followed, **settings)


def off_pac(policy: Policy, **settings: Setting) -> Agent[ActorCriticState]:
    """Makes Off-PAC, an [actor_critic] whose emphasis is the interest, [uncorrected]."""
    return actor_critic(policy, uncorrected, **settings)
