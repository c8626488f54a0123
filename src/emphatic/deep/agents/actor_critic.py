"""Actor-critics with networks: COF-PAC, ACE and Off-PAC differ in one expression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from . import replay
from .agent import Agent, mean_loss, name, rmsprop
from .losses import actor_loss, emphasis_loss, masked_emphasis_loss, td_error, value_loss
from .networks import HIDDEN, network, Policy, positive, value
from .transition import Transition


def learned(m: Any, trace: Any, interest: Any) -> Any:
    r"""The emphasis of COF-PAC: $m(S_t)$, as the network knows it."""
    return m


def followed(m: Any, trace: Any, interest: Any) -> Any:
    r"""The emphasis of ACE: the followon trace $M_t$."""
    return trace


def uncorrected(m: Any, trace: Any, interest: Any) -> Any:
    r"""The emphasis of Off-PAC: the interest $i(S_t)$."""
    return interest


def restarting(followon: Any, y: Transition) -> Any:
    r"""What is left of $F_t = \gamma\rho_{t-1}M_{t-1}$: nothing where an episode starts."""
    return jnp.where(y.start, 0.0, followon)


def leaking(followon: Any, y: Transition) -> Any:
    r"""What the authors' code leaves of $F_t$: nothing where an episode *ends* with this step.

    The mask is one step late: the last step of an episode forgets, and the first of the next one
    inherits $\gamma\rho_{t-1}M_{t-1}$ from it.
    """
    return y.continues * followon


def certain(observation: Any) -> Any:
    r"""The interest $i(s) = 1$."""
    return jnp.ones((), observation.dtype)


AUTHORS = {"emphasis_loss": masked_emphasis_loss, "trace": leaking}
"""What else the authors' code does, besides clipping: arguments of [actor_critic]."""

PAPER = {"value_clip": float("inf"), "actor_clip": float("inf")}
"""The paper's text, where ratios are not clipped: arguments of [actor_critic]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ActorCriticState:
    r"""The networks `policy`, `v` and `m`, their targets and averages, the replay, and $F_t$."""

    params: dict[str, Any]
    target: dict[str, Any]
    averages: Any
    replay: Any
    followon: Any


def actor_critic(
    policy: Policy,
    emphasis: Callable[[Any, Any, Any], Any],
    *,
    discount: float = 0.99,
    interest: Callable[[Any], Any] = certain,
    emphasis_loss: Callable[[Any, Any, Any, Any], Any] = emphasis_loss,
    trace: Callable[[Any, Transition], Any] = restarting,
    value_clip: float = 1.0,
    actor_clip: float = 2.0,
    entropy_weight: float = 0.01,
    critic_norm: float = 0.5,
    num_sampled: int = 10,
    warm_up: int = 100,
    target_every: int = 200,
    hidden: tuple[int, ...] = HIDDEN,
) -> Agent:
    r"""An actor-critic with three networks, for $\pi_\theta$, $v$ and $m$, and one optimiser.

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

    - `policy`: The policy.
    - `emphasis`: The source of emphasis.
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
    clip, m_loss, critics = optax.clip_by_global_norm(critic_norm), emphasis_loss, ("v", "m")

    def init(key: Any, example: Transition, capacity: int) -> ActorCriticState:
        size, dtype = example.observation.shape[-1], example.observation.dtype
        of_policy, *others = jax.random.split(key, 3)
        params = {"policy": policy.init(of_policy, size, dtype)}
        for each, k in zip(critics, others, strict=True):
            params[each] = network(k, (size, *hidden, 1), dtype=dtype)
        return ActorCriticState(
            params=params,
            target={each: params[each] for each in critics},
            averages=jax.tree.map(jnp.zeros_like, params),
            replay=replay.empty(example, capacity),
            followon=jnp.zeros(example.reward.shape, dtype),
        )

    def ratio(theta: Any, y: Transition) -> Any:
        law = policy.at(theta, y.observation)
        return jnp.exp(policy.log_density(law, y.action)) / y.behavior

    def critic_loss(params: Any, target: Any, y: Transition, rho: Any) -> Any:
        v, v_next = value(params["v"], y.observation), value(target["v"], y.observation_next)
        m, m_next = positive(target["m"], y.observation), positive(params["m"], y.successor)
        of_v = value_loss(
            v, y.reward, discount * y.bootstraps, v_next, jnp.minimum(rho, value_clip)
        )
        return of_v + m_loss(m_next, interest(y.successor), y.continues, discount * rho * m)

    def policy_loss(params: Any, y: Transition, rho: Any, delta: Any, M: Any) -> Any:
        law = policy.at(params["policy"], y.observation)
        return actor_loss(
            policy.log_density(law, y.action),
            policy.entropy(law),
            M,
            jnp.minimum(rho, actor_clip),
            delta,
            entropy_weight,
        )

    of_critics = jax.grad(mean_loss(critic_loss, (None, None, 0, 0)))
    of_actor = jax.grad(mean_loss(policy_loss, (None, 0, 0, 0, 0)))

    def error(params: Any, target: Any, y: Transition) -> Any:
        v, v_next = value(params["v"], y.observation), value(target["v"], y.observation_next)
        return td_error(v, y.reward, discount * y.bootstraps, v_next)

    def update(
        state: ActorCriticState, batch: Transition, time: Any, key: Any
    ) -> tuple[ActorCriticState, dict[str, Any]]:
        ring = replay.add(state.replay, batch, time)
        past = replay.sample(ring, key, time + 1, num_sampled)

        def learn(params: Any, averages: Any, followon: Any) -> tuple:
            theta = params["policy"]
            rho_past, rho = (jax.vmap(ratio, (None, 0))(theta, data) for data in (past, batch))
            for data, of_data in ((past, rho_past), (batch, rho)):
                learning = {each: params[each] for each in critics}
                gradient = of_critics(learning, state.target, data, of_data)
                gradient, _ = clip.update(gradient, clip.init(learning))
                params, averages = rmsprop(gradient, params, averages)
            delta = jax.vmap(error, (None, None, 0))(params, state.target, batch)
            m = jax.vmap(positive, (None, 0))(params["m"], batch.observation)
            i = jax.vmap(interest)(batch.observation)
            M = i + jax.vmap(trace)(followon, batch)
            used = jax.vmap(emphasis)(m, M, i)
            gradient = of_actor({"policy": theta}, batch, rho, delta, used)
            params, averages = rmsprop(gradient, params, averages)
            return params, averages, discount * rho * M, {"ratio": rho, "trace": M, "m": m}

        def wait(params: Any, averages: Any, followon: Any) -> tuple:
            nothing = jnp.full_like(followon, jnp.nan)
            return params, averages, followon, dict.fromkeys(("ratio", "trace", "m"), nothing)

        params, averages, followon, seen = jax.lax.cond(
            time >= warm_up, learn, wait, state.params, state.averages, state.followon
        )
        copy = (time + 1) % target_every == 0
        target = jax.tree.map(
            lambda new, old: jnp.where(copy, new, old),
            {each: params[each] for each in critics},
            state.target,
        )
        return ActorCriticState(params, target, averages, ring, followon), seen

    def act(theta: Any, observation: Any, key: Any) -> Any:
        return policy.sample(policy.at(theta, observation), key)

    definition = {
        "algorithm": "actor_critic",
        "policy": repr(policy),
        "emphasis": name(emphasis),
        "discount": discount,
        "interest": name(interest),
        "emphasis_loss": name(m_loss),
        "trace": name(trace),
        "value_clip": value_clip,
        "actor_clip": actor_clip,
        "entropy_weight": entropy_weight,
        "critic_norm": critic_norm,
        "num_sampled": num_sampled,
        "warm_up": warm_up,
        "target_every": target_every,
        "hidden": list(hidden),
    }
    return Agent(init, update, lambda state: state.params["policy"], act, definition)


def cof_pac(policy: Policy, **settings: Any) -> Agent:
    """COF-PAC: an [actor_critic] whose emphasis is [learned]."""
    return actor_critic(policy, learned, **settings)


def ace(policy: Policy, **settings: Any) -> Agent:
    """ACE: an [actor_critic] whose emphasis is the trace that it [followed]."""
    return actor_critic(policy, followed, **settings)


def off_pac(policy: Policy, **settings: Any) -> Agent:
    """Off-PAC: an [actor_critic] whose emphasis is the interest, [uncorrected]."""
    return actor_critic(policy, uncorrected, **settings)
