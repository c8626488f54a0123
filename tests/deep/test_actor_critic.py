"""Deep agents do what they are said to do, update by update, in plain NumPy and JAX."""

import dataclasses
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.deep import replay
from emphatic.deep.agents.actor_critic import (
    ace,
    actor_critic,
    AUTHORS,
    cof_pac,
    followed,
    learned,
    off_pac,
    PAPER,
    uncorrected,
)
from emphatic.deep.agents.agent import rmsprop
from emphatic.deep.agents.geoff_pac import geoff_pac
from emphatic.deep.agents.td3 import td3
from emphatic.deep.networks import outputs
from emphatic.deep.policies import Gaussian, Softmax
from emphatic.deep.transition import Transition

SLOW = pytest.mark.slow  # XLA compiles whole agents, and takes seconds for each

WORKERS, GAMMA, ENTROPY = 3, 0.9, 0.05
POLICY = Gaussian([-1.0, -1.0], [1.0, 1.0], hidden=(4,))
SMALL = {"discount": GAMMA, "num_sampled": 2, "warm_up": 1, "target_every": 3, "hidden": (4,)}


VARIANTS = {"authors": AUTHORS, "paper": PAPER}


def made_up(num, seed=0):
    """Iterations of transitions; episodes start and end here and there, and ratios are large."""
    rng = np.random.default_rng(seed)
    shape = (num, WORKERS)
    ends = rng.random(shape) < 0.3
    return [
        Transition(
            observation=jnp.asarray(rng.normal(size=(WORKERS, 3))),
            action=jnp.asarray(rng.uniform(-1, 1, (WORKERS, 2))),
            behavior=jnp.asarray(rng.uniform(0.1, 0.4, WORKERS)),
            reward=jnp.asarray(rng.normal(size=WORKERS)),
            observation_next=jnp.asarray(rng.normal(size=(WORKERS, 3))),
            bootstraps=jnp.asarray(rng.random(WORKERS) < 0.7, float),
            successor=jnp.asarray(rng.normal(size=(WORKERS, 3))),
            continues=jnp.asarray(~ends[t], float),
            start=jnp.asarray(ends[t - 1] if t else np.ones(WORKERS, bool)),
        )
        for t in range(num)
    ]


def larger(state, factor=300.0):
    """The state with output layers that matter."""

    def scaled(layers):
        *hidden, (weight, bias) = layers
        return (*hidden, (factor * weight, bias + 0.3))

    (layers, sigma), rest = state.params["policy"], {}
    for name in set(state.params) - {"policy"}:
        rest[name] = scaled(state.params[name])
    params = {"policy": (scaled(layers), sigma - 0.5), **rest}
    target = {name: params[name] for name in state.target}
    return dataclasses.replace(state, params=params, target=target)


def run(agent, batches, first=larger):
    """The first state, and for each iteration the state after it and what was seen."""
    state = first(agent.init(jax.random.key(0), batches[0], 5))
    path, update = [(state, {})], jax.jit(agent.update)
    for t, batch in enumerate(batches):
        state, seen = update(state, batch, jnp.int32(t), jax.random.key(t))
        path.append((state, seen))
    return path


@cache
def course(make, *variants):
    """Twelve iterations of an agent."""
    settings = {name: value for each in variants for name, value in VARIANTS[each].items()}
    return run(make(POLICY, entropy_weight=ENTROPY, **SMALL, **settings), made_up(12))


def rows(batch):
    for j in range(len(batch.reward)):
        yield jax.tree.map(lambda leaf, j=j: leaf[j], batch)


def ratio(theta, y):
    layers, sigma = theta
    z = (y.action - jnp.tanh(outputs(layers, y.observation))) / jnp.log1p(jnp.exp(sigma))
    scale = jnp.log1p(jnp.exp(sigma))
    return jnp.prod(jnp.exp(-(z**2) / 2) / (jnp.sqrt(2 * jnp.pi) * scale)) / y.behavior


def softplus(layers, x):
    return jnp.log1p(jnp.exp(outputs(layers, x)[0]))


def plain_critics(params, target, frozen, y, masked, clip):
    rho = ratio(frozen["policy"], y)
    goal = y.reward + GAMMA * y.bootstraps * outputs(target["v"], y.observation_next)[0]
    of_v = jnp.minimum(rho, clip) * (goal - outputs(params["v"], y.observation)[0]) ** 2
    back, m_next = (
        GAMMA * rho * softplus(target["m"], y.observation),
        softplus(params["m"], y.successor),
    )
    on = y.continues
    of_m = (1 + back - on * m_next) ** 2 if masked else (1 + on * back - m_next) ** 2
    return (of_v + of_m) / 2


def plain_actor(params, target, frozen, y, M, clip):
    goal = y.reward + GAMMA * y.bootstraps * outputs(target["v"], y.observation_next)[0]
    delta = goal - outputs(frozen["v"], y.observation)[0]
    weight = M * jnp.minimum(ratio(frozen["policy"], y), clip) * delta
    entropy = jnp.sum(jnp.log(jnp.log1p(jnp.exp(params["policy"][1]))))  # and a constant
    return -weight * jnp.log(ratio(params["policy"], y)) - ENTROPY * entropy


def in_numpy(gradient, params, averages):
    """RMSprop for every parameter, whether the loss reached it or not."""
    averages = jax.tree.map(lambda n, g: 0.99 * n + 0.01 * g**2, averages, gradient)
    step = jax.tree.map(lambda g, n: 1e-3 * g / (np.sqrt(n) + 1e-8), gradient, averages)
    return jax.tree.map(np.subtract, params, step), averages


def mean_gradient(gradient, params, *args):
    found = [gradient(params, *each) for each in zip(*args, strict=True)]
    return jax.tree.map(lambda *leaves: np.mean(leaves, 0), *found)


def clipped(gradient):
    norm = np.sqrt(sum((np.asarray(leaf) ** 2).sum() for leaf in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda g: np.asarray(g) * min(1.0, 0.5 / norm), gradient)


def transcription(state, batches, source, masked, leaks, value_clip, actor_clip):
    """The iterations of `run`, written out for one transition after the other."""
    of_critics = jax.jit(jax.grad(partial(plain_critics, masked=masked, clip=value_clip)))
    of_actor = jax.jit(jax.grad(partial(plain_actor, clip=actor_clip)))
    ratio_of, m_of = jax.jit(ratio), jax.jit(softplus)
    params, target = (jax.tree.map(np.asarray, tree) for tree in (state.params, state.target))
    averages = jax.tree.map(np.zeros_like, params)
    followon, ring, path = np.zeros(WORKERS), state.replay, []
    for t, batch in enumerate(batches):
        ring = replay.add(ring, batch, t)
        past = replay.sample(ring, jax.random.key(t), t + 1, SMALL["num_sampled"])
        if t >= SMALL["warm_up"]:
            for data in (past, batch):
                gradient = partial(of_critics, frozen=params, target=target)
                gradient = mean_gradient(lambda p, y, g=gradient: g(p, y=y), params, rows(data))
                params, averages = in_numpy(clipped(gradient), params, averages)
            rho = np.array([ratio_of(params["policy"], y) for y in rows(batch)])
            forget = 1 - batch.continues if leaks else batch.start
            M = 1 + np.where(forget, 0.0, followon)
            followon = GAMMA * rho * M
            m = np.array([m_of(params["m"], y.observation) for y in rows(batch)])
            used = {learned: m, followed: M, uncorrected: np.ones(WORKERS)}[source]
            gradient = partial(of_actor, frozen=params, target=target)
            gradient = mean_gradient(
                lambda p, y, M, g=gradient: g(p, y=y, M=M), params, rows(batch), used
            )
            params, averages = in_numpy(gradient, params, averages)
        if (t + 1) % SMALL["target_every"] == 0:
            target = {name: params[name] for name in target}
        path.append((params, target))
    return path


@SLOW
@pytest.mark.parametrize(
    ("make", "source", "variant", "value_clip", "actor_clip"),
    [
        (cof_pac, learned, (), 1.0, 2.0),
        (ace, followed, ("authors",), 1.0, 2.0),
        (off_pac, uncorrected, ("paper",), np.inf, np.inf),
    ],
)
def test_an_iteration_is_two_updates_of_the_critics_and_one_of_the_actor(
    make, source, variant, value_clip, actor_clip
):
    """All that is learned, with the order of updates, one optimiser for all, and late targets."""
    batches, authors = made_up(12)[:4], "authors" in variant
    (first, _), *path = course(make, *variant)[:5]
    expected = transcription(first, batches, source, authors, authors, value_clip, actor_clip)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), first.params, path[-1][0].params)
    assert min(jax.tree.leaves(moved)) > 1e-4
    for (state, _), (params, target) in zip(path, expected, strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), state.params, params)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), state.target, target)


def test_one_optimiser_lets_all_averages_decay():
    """A loss that does not reach a network moves nothing in it, but its averages decay."""
    params, averages = (
        {"a": jnp.array(1.0), "b": jnp.array(2.0)},
        dict.fromkeys("ab", jnp.zeros(())),
    )
    a, b, n_a, n_b = 1.0, 2.0, 0.0, 0.0
    for gradient in ({"a": 0.3}, {"b": -0.2}, {}, {"a": 0.1, "b": 0.4}):
        params, averages = rmsprop(jax.tree.map(jnp.asarray, gradient), params, averages)
        g_a, g_b = gradient.get("a", 0.0), gradient.get("b", 0.0)
        n_a, n_b = 0.99 * n_a + 0.01 * g_a**2, 0.99 * n_b + 0.01 * g_b**2
        a, b = a - 1e-3 * g_a / (n_a**0.5 + 1e-8), b - 1e-3 * g_b / (n_b**0.5 + 1e-8)
        np.testing.assert_allclose([params["a"], params["b"]], [a, b], rtol=1e-12)
        np.testing.assert_allclose([averages["a"], averages["b"]], [n_a, n_b], rtol=1e-12)


@pytest.mark.parametrize(("make", "variant"), [(cof_pac, ()), (ace, ("authors",))])
def test_the_trace_starts_anew_with_every_episode_and_leaks_in_the_authors_code(make, variant):
    """Against NumPy, from the ratios that the agent saw."""
    rho_prev, M_prev, inherited = np.zeros(WORKERS), np.zeros(WORKERS), 0
    for batch, (_, seen) in list(zip(made_up(12), course(make, *variant)[1:], strict=True))[1:]:
        mask = np.asarray(batch.continues) if variant else 1.0 - np.asarray(batch.start)
        M = mask * GAMMA * rho_prev * M_prev + 1
        np.testing.assert_allclose(seen["trace"], M)
        inherited += (np.asarray(batch.start) & (M > 1)).sum()
        rho_prev, M_prev = np.asarray(seen["ratio"]), M
    assert (inherited > 0) == bool(variant)


def test_before_the_warm_up_nothing_is_learned():
    (first, _), (second, seen), (third, _) = course(cof_pac)[:3]
    jax.tree.map(np.testing.assert_array_equal, first.params, second.params)
    assert np.isnan(seen["ratio"]).all()
    assert (first.params["v"][0][0] != third.params["v"][0][0]).any()


@SLOW
def test_numbers_of_actions_are_learned_too():
    policy = Softmax(3, hidden=(4,))
    batches = [
        dataclasses.replace(
            batch, action=jnp.arange(WORKERS) % 3, behavior=jnp.full(WORKERS, 1 / 3)
        )
        for batch in made_up(3)
    ]
    *_, (state, seen) = run(cof_pac(policy, **SMALL), batches, first=lambda state: state)
    distribution = jax.vmap(policy.distribution, (None, 0))(
        state.params["policy"], batches[-1].observation
    )
    np.testing.assert_allclose(np.exp(distribution).sum(1), 1.0)
    np.testing.assert_allclose(seen["ratio"], 1.0, atol=0.02)  # the first policy is uniform
    action = cof_pac(policy).act(
        state.params["policy"], batches[0].observation[0], jax.random.key(0)
    )
    assert action.dtype == jnp.int64


@SLOW
def test_geoff_pac_in_plain_numpy():
    """The critics, both traces and the direction of the actor, one worker after the other."""
    batches, hat, l1, l2, k = made_up(4), 0.3, 0.7, 0.6, 0.05
    agent = geoff_pac(POLICY, discount_hat=hat, normaliser=k, actor_clip=2.0, **SMALL)
    (first, _), *path = run(agent, batches)
    params, target = (jax.tree.map(np.asarray, tree) for tree in (first.params, first.target))
    averages, ring = jax.tree.map(np.zeros_like, params), first.replay
    zero = jax.tree.map(np.zeros_like, params["policy"])
    F1, F2, rho_prev, c_prev = (
        np.zeros(WORKERS),
        [zero] * WORKERS,
        np.zeros(WORKERS),
        np.zeros(WORKERS),
    )
    score_prev = [zero] * WORKERS

    score_of = jax.jit(jax.grad(lambda theta, y: jnp.log(ratio(theta, y))))

    def plus(a, x, b, y):
        return jax.tree.map(lambda u, w: a * u + b * w, x, y)

    @jax.jit
    @jax.grad
    def of_critics(p, frozen, target, every):
        c = [softplus(p["c"], y.successor) for y in every]
        fixed = [softplus(frozen["c"], y.successor) for y in every]
        total = 0.0
        for j, y in enumerate(every):
            rho = ratio(frozen["policy"], y)
            v_next = outputs(target["v"], y.observation_next)[0]
            error = y.reward + GAMMA * y.bootstraps * v_next - outputs(p["v"], y.observation)[0]
            back = hat * jnp.minimum(rho, 2.0) * softplus(target["c"], y.observation)
            others = sum(fixed[i] for i in range(len(every)) if i != j) / (len(every) - 1)
            total += jnp.minimum(rho, 1.0) * error**2 / 2 + (back + 1 - hat - c[j]) ** 2 / 2
            total += k * (others - 1) * c[j]
        return total / len(every)

    for t, batch in enumerate(batches):
        ring = replay.add(ring, batch, t)
        if t >= SMALL["warm_up"]:
            for data in (replay.sample(ring, jax.random.key(t), t + 1, 2), batch):
                every = list(rows(data))
                gradient = clipped(of_critics(params, params, target, every))
                params, averages = in_numpy(gradient, params, averages)
            total = zero
            for j, y in enumerate(rows(batch)):
                rho = min(float(ratio(params["policy"], y)), 2.0)
                score = score_of(params["policy"], y)
                v, c = outputs(params["v"], y.observation)[0], softplus(params["c"], y.observation)
                delta = (
                    y.reward
                    + GAMMA * y.bootstraps * outputs(target["v"], y.observation_next)[0]
                    - v
                )
                F1[j] = (0.0 if y.start else GAMMA * rho_prev[j] * F1[j]) + c
                M1 = (1 - l1) * c + l1 * F1[j]
                intrinsic = plus(c_prev[j] * rho_prev[j], score_prev[j], 0.0, zero)
                F2[j] = plus(hat * rho_prev[j], F2[j], 1.0, intrinsic)
                M2 = plus(1 - l2, intrinsic, l2, F2[j])
                total = plus(1.0, total, 1.0, plus(hat * v, M2, rho * M1 * delta, score))
                rho_prev[j], c_prev[j], score_prev[j] = rho, c, score
            gradient = jax.tree.map(np.zeros_like, params)
            gradient["policy"] = jax.tree.map(lambda g: -np.asarray(g) / WORKERS, total)
            params, averages = in_numpy(gradient, params, averages)
        if (t + 1) % SMALL["target_every"] == 0:
            target = {name: params[name] for name in target}
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), path[-1][0].params, params
    )


@SLOW
def test_td3_in_plain_jax():
    """Four iterations: twin values from the smaller target, a delayed policy, slow targets."""
    batches, gamma, tau = made_up(4), 0.9, 0.1
    agent = td3(POLICY, discount=gamma, batch_size=2, warm_up=1, noise=0.6, tau=tau, hidden=(4,))
    state = agent.init(jax.random.key(0), batches[0], 5)
    big = {
        name: (*layers[:-1], (900.0 * layers[-1][0], layers[-1][1] + 0.9))
        for name, layers in state.params.items()
    }
    params = target = big
    path = run(agent, batches, first=lambda s: dataclasses.replace(s, params=big, target=big))
    moments = {name: [jax.tree.map(np.zeros_like, big[name])] * 2 for name in big}
    counts = dict.fromkeys(big, 0)

    def adam(name, gradient):
        counts[name] += 1
        first, second = moments[name]
        first = jax.tree.map(lambda n, g: 0.9 * n + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda n, g: 0.999 * n + 0.001 * g**2, second, gradient)
        moments[name], t = [first, second], counts[name]
        return jax.tree.map(
            lambda p, a, b: p - 1e-3 * (a / (1 - 0.9**t)) / (np.sqrt(b / (1 - 0.999**t)) + 1e-8),
            params[name],
            first,
            second,
        )

    def q(layers, o, a):
        return outputs(layers, jnp.concatenate([o, a]))[0]

    def pi(layers, o):
        return jnp.tanh(outputs(layers, o))

    of_critic = jax.jit(jax.grad(lambda w, y, goal: (goal - q(w, y.observation, y.action)) ** 2))
    of_policy = jax.jit(jax.grad(lambda w, q1, y: -q(q1, y.observation, pi(w, y.observation))))

    ring = path[0][0].replay
    for t, batch in enumerate(batches):
        ring = replay.add(ring, batch, t)
        for j in range(WORKERS if t >= 1 else 0):
            for_sample, for_noise = jax.random.split(jax.random.fold_in(jax.random.key(t), j))
            data = list(rows(replay.sample_transitions(ring, for_sample, t + 1, 2)))
            goals = []
            for y, key in zip(data, jax.random.split(for_noise, 2), strict=True):
                epsilon = np.clip(0.6 * np.asarray(jax.random.normal(key, (2,))), -0.5, 0.5)
                a = jnp.clip(pi(target["policy"], y.observation_next) + epsilon, -1, 1)
                worst = min(q(target[n], y.observation_next, a) for n in ("q1", "q2"))
                goals.append(y.reward + gamma * y.bootstraps * worst)
            changed = {
                n: adam(n, mean_gradient(of_critic, params[n], data, goals)) for n in ("q1", "q2")
            }
            params = {**params, **changed}
            if (t * WORKERS + j + 1) % 2 == 0:
                gradient = mean_gradient(of_policy, params["policy"], [params["q1"]] * 2, data)
                params = {**params, "policy": adam("policy", gradient)}
                target = jax.tree.map(lambda new, old: tau * new + (1 - tau) * old, params, target)
    for found, expected in ((path[-1][0].params, params), (path[-1][0].target, target)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), found, expected)
    assert (params["policy"][0][0] != big["policy"][0][0]).any()


def test_td3_needs_a_box():
    with pytest.raises(ValueError, match="a box of actions"):
        td3(Softmax(3))


def test_the_definition_of_an_agent_is_its_arguments():
    """Files are known by it, so that names and values must stay as they are."""
    common = {
        "discount": 0.99,
        "value_clip": 1.0,
        "critic_norm": 0.5,
        "num_sampled": 10,
        "warm_up": 100,
        "target_every": 200,
        "hidden": [64, 64],
        "policy": "Gaussian(low=array([-1., -1.]), high=array([1., 1.]), hidden=(4,))",
    }
    assert ace(POLICY, **AUTHORS).definition == {
        **common,
        "algorithm": "actor_critic",
        "emphasis": "followed",
        "interest": "certain",
        "emphasis_loss": "masked_emphasis_loss",
        "trace": "leaking",
        "actor_clip": 2.0,
        "entropy_weight": 0.01,
    }
    assert geoff_pac(POLICY).definition == {
        **common,
        "algorithm": "geoff_pac",
        "discount_hat": 0.2,
        "lambda_1": 0.7,
        "lambda_2": 0.6,
        "normaliser": 1e-3,
        "trace": "restarting",
        "density_clip": 2.0,
        "actor_clip": float("inf"),
    }
    assert td3(POLICY, tau=0.1).definition == {
        "algorithm": "td3",
        "low": [-1.0, -1.0],
        "high": [1.0, 1.0],
        "discount": 0.99,
        "step_size": 1e-3,
        "batch_size": 100,
        "warm_up": 1000,
        "noise": 0.2,
        "noise_clip": 0.5,
        "delay": 2,
        "tau": 0.1,
        "hidden": [400, 300],
    }


def test_functions_without_a_name_and_other_emphases_have_a_definition_too():
    assert actor_critic(POLICY, lambda m, trace, interest: m + trace).definition["emphasis"] == (
        "test_functions_without_a_name_and_other_emphases_have_a_definition_too.<locals>.<lambda>"
    )
    assert cof_pac(POLICY).definition["emphasis"] == "learned"
    assert off_pac(POLICY).definition["emphasis"] == "uncorrected"
