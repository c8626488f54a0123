"""Agents are Algorithm 1, line by line, and follow the gradient that the oracle knows."""

import inspect
import json
import subprocess
import sys
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from emphatic import learners, oracle, problems, Sample, schedules, Softmax
from emphatic.agents import (
    actor_critic,
    AgentState,
    exact_action_values,
    exact_emphasis,
    Konda,
    NetworkSoftmax,
    tabular,
    undamped,
)
from emphatic.engine import run
from emphatic.oracle import track
from emphatic.problems import ACTOR_FEATURES

from .. import transcriptions as plain
from ..strategies import build, COMPILED, problems as some_problems, random_softmax, SEEDS

ALPHA, BETA = schedules.polynomial(0.1, 0.6), schedules.polynomial(0.05, 0.9)
ETA, BOUND = 1e-2, 0.2


def setting():
    """A problem whose discount varies, and a policy with features of its own."""
    problem, _ = build((5, 3, 5, 4), 7, varying=True)
    phi = np.random.default_rng(3).normal(size=(*problem.behavior.shape, 4))
    return problem, Softmax(phi)


def softmax(h):
    return np.exp(h - h.max()) / np.exp(h - h.max()).sum()


def linear_in_numpy(phi):
    """From theta and a state to the probabilities, and the scores of all actions."""

    def at(theta, s):
        pi = softmax(phi[s] @ theta)
        return pi, phi[s] - pi @ phi[s]

    return at


def network_in_numpy(x, hidden, num_actions):
    """The same for a network with one hidden layer, differentiated by hand."""
    inputs = x.shape[1]
    cuts = np.cumsum([inputs * hidden, hidden, hidden * num_actions])

    def at(theta, s):
        first, bias, last, shift = np.split(theta, cuts)
        last = last.reshape(hidden, num_actions)
        z = np.tanh(x[s] @ first.reshape(inputs, hidden) + bias)
        pi = softmax(z @ last + shift)
        scores = []
        for g in np.eye(num_actions) - pi:
            back = last @ g * (1.0 - z**2)
            scores.append(
                np.concatenate([np.outer(x[s], back).ravel(), back, np.outer(z, g).ravel(), g])
            )
        return pi, np.array(scores)

    return at


def algorithm_1(problem, policy, seed, num_steps, first, emphasis):
    """Theta, kappa, w, kappa~ and u after each step, in plain NumPy."""
    x, xa, mu, i = problem.x, problem.xa, problem.behavior, problem.interest
    theta = first["theta"].copy()
    kappa, w, kappa_q, u = (first[name].copy() for name in ("kappa", "w", "kappa_q", "u"))
    trace, path = 0.0, []

    def Gamma(d):
        size = np.linalg.norm(d)
        return 1.0 if size < BOUND else (1.0 + BOUND) / (1.0 + size)

    for step in plain.experience(problem, seed, num_steps):
        t, s, a, s_next, a_next = step.t, step.s, step.a, step.s_next, step.a_next
        gamma, reward = step.gamma, step.r
        (pi, scores), (pi_next, _) = policy(theta, s), policy(theta, s_next)
        rho, rho_next = pi[a] / mu[s, a], pi_next[a_next] / mu[s_next, a_next]
        alpha, beta = 0.1 * (t + 1.0) ** -0.6, 0.05 * (t + 1.0) ** -0.9
        delta_bar = i[s_next] + gamma * rho * x[s] @ w - x[s_next] @ w
        kappa_after = kappa + alpha * (delta_bar - x[s_next] @ kappa) * x[s_next]
        w_after = w + alpha * ((x[s_next] - gamma * rho * x[s]) * (x[s_next] @ kappa) - ETA * w)
        ahead = gamma * rho_next * xa[s_next, a_next]
        delta = reward + ahead @ u - xa[s, a] @ u
        kappa_q_after = kappa_q + alpha * (delta - xa[s, a] @ kappa_q) * xa[s, a]
        u_after = u + alpha * ((xa[s, a] - ahead) * (xa[s, a] @ kappa_q) - ETA * u)
        M = {"gem": w @ x[s], "followon": i[s] + trace, "interest": i[s]}[emphasis]
        damping = (Gamma(w) if emphasis == "gem" else 1.0) * Gamma(u)
        theta_after = theta + beta * damping * rho * M * (u @ xa[s, a]) * scores[a]
        trace = gamma * rho * (i[s] + trace)
        theta, kappa, w, kappa_q, u = theta_after, kappa_after, w_after, kappa_q_after, u_after
        path.append({"theta": theta, "kappa": kappa, "w": w, "kappa_q": kappa_q, "u": u})
    return path


SOURCES: dict[str, Any] = {
    "gem": lambda: learners.gem(ALPHA, ETA),
    "followon": learners.followon,
    "interest": lambda: learners.followon(0),
}


@pytest.mark.parametrize("engine", ["fused", "scan"])
@pytest.mark.parametrize("emphasis", SOURCES)
def test_agents_are_algorithm_1(engine, emphasis):
    """1000 iterations of COF-PAC, ACE and Off-PAC; the damping is at work."""
    problem, policy = setting()
    theta = np.array([0.3, -0.2, 0.1, 0.5])
    in_numpy = linear_in_numpy(policy.features)
    assert_algorithm_1(problem, policy, in_numpy, theta, emphasis, 1000, engine)


def test_the_actor_may_be_a_network_which_runs_by_scan():
    problem, _ = setting()
    policy = NetworkSoftmax(problem.x, 3, (4,))
    theta = np.random.default_rng(5).normal(size=policy.num_parameters)
    in_numpy = network_in_numpy(problem.x, 4, 3)
    found = assert_algorithm_1(problem, policy, in_numpy, theta, "gem", 80, "auto")
    assert found.engine.item() == "scan"


def assert_algorithm_1(problem, policy, in_numpy, theta, emphasis, num_steps, engine):
    agent = actor_critic(
        problem,
        policy,
        SOURCES[emphasis](),
        learners.gq2(ALPHA, ETA),
        BETA,
        Konda(BOUND),
        theta=theta,
    )
    found = run(
        problem,
        {"agent": agent},
        num_steps=num_steps,
        record_every=num_steps // 4,
        seeds=[11],
        measures=["weights"],
        engine=engine,
        dtype="float64",
    )
    start = plain.initial(11, "u", problem.xa.shape[-1]), plain.initial(11, "w", problem.x.shape[1])
    first = {
        "theta": theta,
        "kappa": np.zeros(problem.x.shape[1]),
        "w": start[1],
        "kappa_q": np.zeros(problem.xa.shape[-1]),
        "u": start[0],
    }
    path = algorithm_1(problem, in_numpy, 11, num_steps, first, emphasis)
    assert np.linalg.norm(path[0]["u"]) > BOUND
    names = {
        "theta": "theta",
        "emphasis.kappa": "kappa",
        "emphasis.w": "w",
        "critic.kappa": "kappa_q",
        "critic.u": "u",
    }
    weights = found["agent_weights"].isel(seed=0)
    for number, time in enumerate(found.time.values):
        for ours, theirs in names.items():
            if emphasis != "gem" and ours.startswith("emphasis"):
                continue
            expected = path[time - 1][theirs]
            labels = [f"{ours}[{n}]" for n in range(len(expected))]
            values = weights.isel(time=number).sel(agent_weight=labels)
            np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10)
    return found


@COMPILED
@given(problem=some_problems(), seed=SEEDS)
def test_with_exact_critics_the_expected_step_is_the_gradient(problem, seed):
    r"""$\mathbb E[\theta_{t+1}] - \theta_t = \beta\nabla J(\theta)$ without damping."""
    policy, theta = random_softmax(problem, seed)
    agent = actor_critic(
        problem, policy, exact_emphasis(problem), exact_action_values(problem), 0.5, undamped
    )
    state = AgentState(jnp.asarray(theta), (), ())
    mean = oracle.expectation(problem, lambda sample: agent.step(state, sample).theta)
    expected = theta + 0.5 * oracle.policy_gradient(problem, policy, theta)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-9)


def test_the_expected_step_of_a_network_is_the_gradient_too():
    problem, _ = setting()
    policy = NetworkSoftmax(problem.x, 3, (4, 3))
    theta = np.random.default_rng(5).normal(size=policy.num_parameters)
    pair = exact_emphasis(problem), exact_action_values(problem)
    agent = actor_critic(problem, policy, *pair, 0.5)
    state = AgentState(jnp.asarray(theta), (), ())
    mean = oracle.expectation(problem, lambda sample: agent.step(state, sample).theta)
    expected = theta + 0.5 * oracle.policy_gradient(problem, policy, theta)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-9)


def test_exact_and_learned_critics_mix_and_each_learned_one_is_damped_by_its_own():
    r"""The expected step is $\beta\Gamma\sum_sd\hat m\sum_a\hat q\nabla\pi$ in each case."""
    problem, policy = setting()
    rng = np.random.default_rng(0)
    theta, w, u = rng.normal(size=4), rng.normal(size=5), rng.normal(size=4)
    pi, d = oracle.probabilities(policy, theta), problem.stationary
    m, q = oracle.emphasis(problem, pi), oracle.action_values(problem, pi)
    gem_state = learners.GEMState(jnp.ones(5), jnp.asarray(w))
    gq2_state = learners.GQ2State(jnp.ones(4), jnp.asarray(u))
    emphases = [
        (exact_emphasis(problem), (), m, 1.0),
        (learners.gem(0.1), gem_state, problem.x @ w, 1.3 / (1.0 + np.linalg.norm(w))),
    ]
    critics = [
        (exact_action_values(problem), (), q, 1.0),
        (learners.gq2(0.1), gq2_state, problem.xa @ u, 1.6 / (1.0 + np.linalg.norm(u))),
    ]
    for (source, of_source, m_hat, one), (critic, of_critic, q_hat, two) in product(
        emphases, critics
    ):
        agent = actor_critic(problem, policy, source, critic, 0.5, (Konda(0.3), Konda(0.6)))
        state = AgentState(jnp.asarray(theta), of_source, of_critic)
        mean = oracle.expectation(problem, lambda y, a=agent, s=state: a.step(s, y).theta)
        field = oracle.weighted_gradient(policy, theta, (d * m_hat)[:, None] * q_hat)
        np.testing.assert_allclose(mean, theta + 0.5 * one * two * field, rtol=1e-9, atol=1e-9)


def test_every_mixture_of_sources_is_an_expression_that_runs():
    problem, policy = setting()
    m, q = exact_emphasis(problem), exact_action_values(problem)
    mixtures: dict[str, tuple[Any, Any]] = {
        "exact-learned": (m, learners.gq2(0.1)),
        "learned-exact": (learners.gem(0.1), q),
        "truncated": (learners.followon(3), learners.gq2(0.1)),
        "reverse": (learners.reverse_td(0.1), learners.gq2(0.1)),
        "traces": (learners.lms(learners.followon(), 0.1), learners.etq(learners.followon(), 0.1)),
    }
    agents = {name: actor_critic(problem, policy, *pair, 0.1) for name, pair in mixtures.items()}
    found = run(problem, agents, num_steps=50, measures=["weights"])
    assert found.engine.values.tolist() == ["scan", "scan", "fused", "fused", "fused"]
    assert not found.diverged.any()
    ends = [found[f"{name}_weights"].values[0, -1, :4] for name in agents]
    assert np.isfinite(ends).all()
    assert len(np.unique(np.round(ends, 4), axis=0)) == len(agents)


# The actor's steps


def test_the_delay_holds_the_actor_and_neither_its_critics_nor_its_schedule():
    problem, policy = setting()
    gem, gq2 = learners.gem(0.1, ETA), learners.gq2(0.1, ETA)
    waiting, usual = (actor_critic(problem, policy, gem, gq2, BETA, delay=n) for n in (20, 0))
    y = plain.experience(problem, 1, 1)[0]
    for time in (19, 20, 21):
        values = (time, y.s, y.a, y.r, y.gamma, y.s_next, y.a_next)
        sample = Sample(*map(jnp.asarray, values))
        state = usual.init(jax.random.key(0), sample)
        one, two = waiting.step(state, sample), usual.step(state, sample)
        jax.tree.map(np.testing.assert_array_equal, one.emphasis, two.emphasis)
        jax.tree.map(np.testing.assert_array_equal, one.critic, two.critic)
        np.testing.assert_array_equal(one.theta, state.theta if time < 20 else two.theta)
        assert (two.theta != state.theta).any()


def test_the_actor_waits_for_its_critics():
    problem, policy = setting()
    agent = actor_critic(
        problem, policy, learners.gem(0.1, ETA), learners.gq2(0.1, ETA), 0.1, delay=20
    )
    found = run(problem, {"agent": agent}, num_steps=40, record_every=20, measures=["weights"])[
        "agent_weights"
    ].isel(seed=0)
    theta = found.sel(agent_weight=[f"theta[{n}]" for n in range(4)]).values
    np.testing.assert_array_equal(theta[0], 0.0)
    assert (theta[1] != 0.0).all()


def test_an_agent_knows_what_it_is_made_of():
    problem, policy = setting()
    gem, gq2, theta = learners.gem(0.1, ETA), learners.gq2(0.2, ETA), np.ones(4)
    agent = actor_critic(problem, policy, gem, gq2, BETA, Konda(3.0), theta=theta)
    made = agent.policy, agent.emphasis, agent.critic, agent.step_size, agent.theta
    expected = policy, gem, gq2, BETA, theta
    assert all(one is two for one, two in zip(made, expected, strict=True))
    assert agent.dampings == (Konda(3.0), Konda(3.0))
    assert agent.features is None
    assert (gem.step_size, gq2.step_size) == (schedules.constant(0.1), schedules.constant(0.2))
    assert (gem.ridge, gq2.ridge) == (ETA, ETA)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": Softmax(np.ones((4, 3, 2)))}, r"policy: got one of \(4, 3\) states"),
        ({"policy": NetworkSoftmax(np.ones((5, 2)), 2)}, r"policy: got one of \(5, 2\) states"),
        (
            {"policy": learners.gem(0.1)},
            r"policy: got a Learner; a policy is required, such as tab",
        ),
        ({"emphasis": 0.1}, "emphasis: got a float; a learner is required"),
        ({"critic": setting()[1].shape}, "critic: got a tuple; a learner is required"),
        ({"theta": np.zeros(3)}, r"theta: got shape \(3,\); \(4,\) is required"),
        ({"theta": np.zeros((4, 1))}, r"theta: got shape \(4, 1\)"),
        ({"delay": -1}, "delay: got -1"),
        ({"delay": np.nan}, "delay: got nan"),
        ({"step_size": -0.1}, "step_size: got -0.1"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    problem, policy = setting()
    pair = {"emphasis": learners.gem(0.1), "critic": learners.gq2(0.1), "step_size": 0.1}
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(actor_critic)(**{"problem": problem, "policy": policy, **pair, **arguments})


def size(d):
    return jnp.sqrt(d @ d)


DAMPINGS: list[tuple[Any, str | None]] = [
    (lambda d: jnp.exp(size(d)), r"condition \(1\)"),
    (lambda d: 1.0, r"condition \(2\)"),
    (lambda d: 1.0 / (1.0 + jnp.sqrt(size(d))), r"condition \(2\)"),
    (lambda d: -1.0 / (1.0 + size(d) ** 0.8), r"condition \(2\)"),
    (lambda d: jnp.where(size(d) < 2.0, 0.0, (size(d) - 2.0) / size(d) ** 2), r"condition \(3\)"),
    (lambda d: size(d) / (1.0 + size(d)) ** 2, r"condition \(3\)"),
    (lambda d: jnp.where(size(d) < 2.0, 1.0, 1.0 / size(d)), r"condition \(4\)"),
    (lambda d: 1.0 / (1.0 + size(d)), None),
    (lambda d: -1.0 / (1.0 + d @ d), None),
    (lambda d: jnp.minimum(1.0, 5.0 / (1.0 + size(d))), None),
    (Konda(3.0).__call__, None),
    (undamped, None),
]


@pytest.mark.parametrize(("damping", "message"), DAMPINGS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_damping_that_violates_a_condition_is_refused(damping, message, place):
    problem, policy = setting()
    pair: list[Any] = [Konda(), Konda()]
    pair[place] = damping
    arguments: Any = (problem, policy, learners.gem(0.1), learners.gq2(0.1), 0.1, tuple(pair))
    if message is None:
        actor_critic(*arguments)
    else:
        with pytest.raises(ValueError, match=f"damping: violates {message}"):
            actor_critic(*arguments)


@pytest.mark.parametrize(
    ("emphasis", "critic", "beta", "warns"),
    [
        (0.6, 0.6, 0.9, False),
        (0.6, 0.6, 0.6, True),
        (0.6, 0.6, 0.0, True),
        (0.9, 0.6, 0.8, True),
        (0.6, 0.9, 0.8, True),
        (0.0, 0.0, 0.0, False),
        (None, 0.6, 0.6, True),
        (None, 0.6, 0.7, False),
    ],
)
def test_an_actor_that_is_not_the_slower_one_is_warned_about(emphasis, critic, beta, warns):
    problem, policy = setting()
    of = schedules.polynomial
    source: Any = learners.followon() if emphasis is None else learners.gem(of(0.1, emphasis), 0.1)
    pair = source, learners.gq2(of(0.1, critic), 0.1)
    if warns:
        with pytest.warns(UserWarning, match=r"sum of \(beta/alpha\)\^d is infinite"):
            actor_critic(problem, policy, *pair, of(0.1, beta))
    else:
        actor_critic(problem, policy, *pair, of(0.1, beta))


@pytest.mark.parametrize("engine", ["fused", pytest.param("scan", marks=pytest.mark.slow)])
def test_parameters_that_overflow_are_divergence_and_touch_nothing_else(engine):
    problem, policy = setting()

    def agent(step_size, **other):
        gem, gq2 = learners.gem(step_size, ETA), learners.gq2(step_size, ETA)
        return actor_critic(problem, policy, gem, gq2, 0.1, **other)

    def found(agents, step_sizes):
        grid = {"step_size": step_sizes}
        return run(
            problem,
            agents,
            grid,
            num_steps=60,
            record_every=20,
            measures=["weights"],
            dtype="float64",
            engine=engine,
        )

    lost = partial(agent, 0.1, theta=np.array([0.0, np.nan, 0.0, 0.0]))
    both = found({"agent": agent, "lost": lost}, [0.1, 1e60])
    assert both.diverged.sel(learner="agent", step_size=1e60).all()
    assert both.diverged.sel(learner="lost").all()
    calm = both["agent_weights"].sel(step_size=0.1)
    assert not both.diverged.sel(learner="agent", step_size=0.1).any()
    alone = found({"agent": agent}, [0.1])["agent_weights"].sel(step_size=0.1)
    np.testing.assert_allclose(calm, alone, rtol=1e-11, atol=1e-12)
    assert np.isfinite(calm).all()


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_the_bound_of_the_damping_is_positive(bound):
    with pytest.raises(ValueError, match="bound: got"):
        Konda(bound)


def test_agents_choose_their_own_targets_and_are_measured_afterwards():
    problem, policy = setting()
    agent = actor_critic(problem, policy, learners.gem(0.1), learners.gq2(0.1), 0.1)
    with pytest.raises(ValueError, match="target: given to agents"):
        run(problem, {"a": agent}, num_steps=5, target=problem.behavior, measures=["weights"])
    with pytest.raises(ValueError, match="cannot be taken of the agents a"):
        run(problem, {"a": agent}, num_steps=5)
    with pytest.raises(ValueError, match="w: got shape"):
        track(problem, policy, np.zeros((2, 4)), 0.1, w=np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_what_ran_before_on_a_problem_changes_no_bit(dtype):
    def follow(problem):
        gem, gq2 = learners.gem(0.1, 0.01), learners.gq2(0.1, 0.01)
        agent = actor_critic(problem, tabular(problem), gem, gq2, 0.01)
        return run(problem, {"agent": agent}, num_steps=10, measures=["weights"], dtype=dtype)

    def learn(problem):
        return run(problem, ["gem(0.1)"], num_steps=10, measures=["weights"], dtype="float64")

    agent_first, critic_first = (problems.garnet(seed=1) for _ in range(2))
    paths = [follow(agent_first)]
    curves = [learn(critic_first), learn(agent_first)]
    paths.append(follow(critic_first))
    for results in (paths, curves):
        assert results[0].drop_vars("reason").equals(results[1].drop_vars("reason"))


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [1e-3, 1e-5])
def test_the_emphasis_decides_where_an_actor_goes(ridge):
    """The aliasing counterexample: COF-PAC and ACE near 1.25, Off-PAC at 0.87, in every run."""
    problem = problems.counterexample()
    aliased = np.einsum("ab,sk->sabk", np.eye(2), ACTOR_FEATURES).reshape(3, 2, 4)
    policy, theta = Softmax(aliased), np.log([9.0, 9.0, 1.0, 1.0])

    def alpha(t):
        return 0.1 * (1.0 + t / 1e4) ** -0.6

    def beta(t):
        return 0.02 * (1.0 + t / 1e4) ** -0.9

    sources = {"cof-pac": learners.gem(alpha, ridge), "ace": learners.followon()}
    sources["off-pac"] = learners.followon(0)
    agents = {
        name: actor_critic(problem, policy, source, learners.gq2(alpha, ridge), beta, theta=theta)
        for name, source in sources.items()
    }
    found = run(problem, agents, num_steps=200_000, seeds=10, measures=["weights"])
    labels = [f"theta[{n}]" for n in range(4)]
    ends = {
        name: track(
            problem,
            policy,
            found[f"{name}_weights"].isel(time=-1).sel({f"{name}_weight": labels}).values,
            ridge,
        )["objective"]
        for name in agents
    }
    assert (ends["cof-pac"] > 1.24).all()
    assert (ends["ace"] > 1.24).all()
    assert (ends["off-pac"] < 0.9).all()


def test_a_softmax_of_one_state_is_that_of_all():
    _, policy = setting()
    theta = jnp.asarray([0.3, -0.2, 0.1, 0.5])
    every = policy(theta)
    for s in range(5):
        np.testing.assert_allclose(policy.probabilities(theta, s), every[s], rtol=1e-12)
        for a in range(3):
            score = jax.grad(lambda t, s=s, a=a: jnp.log(policy(t)[s, a]))(theta)
            np.testing.assert_allclose(policy.score(theta, s, a), score, rtol=1e-9, atol=1e-12)


WITHOUT_X64 = """
import json

import numpy as np

from emphatic import learners, problems, Softmax
from emphatic.agents import actor_critic
from emphatic.engine import run
from emphatic.oracle import track

problem = problems.baird("one-hot", 0.1)
policy = Softmax(problem.xa)
agent = actor_critic(problem, policy, learners.gem(0.1, 1e-3), learners.gq2(0.1, 1e-3), 0.1)
found = run(problem, {"agent": agent}, num_steps=300, measures=["weights"], dtype="float64")
theta = found["agent_weights"].values[0, 0, :14]
print(json.dumps([*theta.tolist(), float(track(problem, policy, theta, 1e-3)["bias_norm"])]))
"""


def test_double_precision_needs_no_switch_of_jax():
    """The same digits in a process where 64-bit numbers are off."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT_X64], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    space: dict[str, Any] = {}
    exec(WITHOUT_X64.replace("print(json.dumps(", "result = ((", 1), space)
    np.testing.assert_array_equal(json.loads(ran.stdout), space["result"])
