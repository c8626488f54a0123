"""Agents are Algorithm 1, line by line, and follow the gradient that the oracle knows."""

import json
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from emphatic import learners, oracle, problems, schedules, Softmax
from emphatic.agents import Konda, undamped
from emphatic.agents.actor_critic import actor_critic, AgentState
from emphatic.agents.exact import exact_action_values, exact_emphasis, track
from emphatic.engine import run
from emphatic.problems.counterexample import ACTOR_FEATURES

from . import transcriptions as plain
from .strategies import build, random_softmax, SEEDS
from .strategies import problems as some_problems

ALPHA, BETA = schedules.polynomial(0.1, 0.6), schedules.polynomial(0.05, 0.9)
ETA, BOUND = 1e-2, 0.2


def setting():
    """A problem whose discount varies, and a policy with features of its own."""
    problem, _ = build((5, 3, 5, 4), 7, varying=True)
    phi = np.random.default_rng(3).normal(size=(*problem.behavior.shape, 4))
    return problem, Softmax(phi)


def algorithm_1(problem, policy, seed, num_steps, first, emphasis):
    """Theta, kappa, w, kappa~ and u after each step, in plain NumPy."""
    x, xa, mu, i = problem.x, problem.xa, problem.behavior, problem.interest
    phi, theta = policy.features, first["theta"].copy()
    kappa, w, kappa_q, u = (first[name].copy() for name in ("kappa", "w", "kappa_q", "u"))
    trace, path = 0.0, []

    def probabilities(s):
        h = phi[s] @ theta
        return np.exp(h - h.max()) / np.exp(h - h.max()).sum()

    def Gamma(d):
        size = np.linalg.norm(d)
        return 1.0 if size < BOUND else (1.0 + BOUND) / (1.0 + size)

    for step in plain.experience(problem, seed, num_steps):
        t, s, a, s_next, a_next = step.t, step.s, step.a, step.s_next, step.a_next
        gamma, reward = step.gamma, step.r
        pi, pi_next = probabilities(s), probabilities(s_next)
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
        score = phi[s, a] - pi @ phi[s]
        damping = (Gamma(w) if emphasis == "gem" else 1.0) * Gamma(u)
        theta_after = theta + beta * damping * rho * M * (u @ xa[s, a]) * score
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
        num_steps=1000,
        record_every=250,
        seeds=[11],
        measures=["weights"],
        engine=engine,
        dtype="float64",
    )["agent_weights"].isel(seed=0)
    start = plain.initial(11, "u", problem.xa.shape[-1]), plain.initial(11, "w", problem.x.shape[1])
    first = {
        "theta": theta,
        "kappa": np.zeros(problem.x.shape[1]),
        "w": start[1],
        "kappa_q": np.zeros(problem.xa.shape[-1]),
        "u": start[0],
    }
    path = algorithm_1(problem, policy, 11, 1000, first, emphasis)
    assert np.linalg.norm(path[0]["u"]) > BOUND
    names = {
        "theta": "theta",
        "emphasis.kappa": "kappa",
        "emphasis.w": "w",
        "critic.kappa": "kappa_q",
        "critic.u": "u",
    }
    for number, time in enumerate((250, 500, 750, 1000)):
        for ours, theirs in names.items():
            if emphasis != "gem" and ours.startswith("emphasis"):
                continue
            expected = path[time - 1][theirs]
            labels = [f"{ours}[{n}]" for n in range(len(expected))]
            values = found.isel(time=number).sel(agent_weight=labels)
            np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=10)
@given(problem=some_problems(), seed=SEEDS)
def test_with_exact_critics_the_expected_step_is_the_gradient(problem, seed):
    r"""$\mathbb E[\theta_{t+1}] - \theta_t = \beta\nabla J(\theta)$ without damping."""
    policy, theta = random_softmax(problem, seed)
    agent = actor_critic(
        problem,
        policy,
        exact_emphasis(problem),
        exact_action_values(problem),
        0.5,
        undamped,
    )
    state = AgentState(jnp.asarray(theta), (), ())
    mean = oracle.expectation(problem, lambda sample: agent.step(state, sample).theta)
    expected = theta + 0.5 * oracle.policy_gradient(problem, policy, theta)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-9)


@given(some_problems(), SEEDS)
def test_what_is_tracked_is_what_the_oracle_says(problem, seed):
    policy, theta = random_softmax(problem, seed)
    rng = np.random.default_rng(seed)
    thetas = np.stack([theta, rng.normal(size=theta.shape), np.full(theta.shape, np.nan)])
    w, u = rng.normal(size=(3, problem.x.shape[1])), rng.normal(size=(3, problem.xa.shape[-1]))
    found = track(problem, policy, thetas, 0.3, w, u)
    for n in range(2):
        pi = oracle.probabilities(policy, thetas[n])
        gradient = oracle.policy_gradient(problem, policy, thetas[n])
        bias = oracle.bias(problem, policy, thetas[n], 0.3)
        w_limit = oracle.gem_system(problem, pi, 0.3).solution()[-w.shape[1] :]
        u_limit = oracle.gq2_system(problem, pi, 0.3).solution()[-u.shape[1] :]
        expected = {
            "objective": oracle.objective(problem, pi),
            "gradient_norm": np.linalg.norm(gradient),
            "bias_norm": np.linalg.norm(bias),
            "emphasis_tracking": np.linalg.norm(w[n] - w_limit),
            "critic_tracking": np.linalg.norm(u[n] - u_limit),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(found[name][n], value, rtol=1e-7, atol=1e-9)
    assert all(np.isnan(values[2]) for values in found.values())


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
        np.testing.assert_allclose(policy.at(theta, s), every[s], rtol=1e-12)
        for a in range(3):
            score = jax.grad(lambda t, s=s, a=a: jnp.log(policy(t)[s, a]))(theta)
            np.testing.assert_allclose(policy.score(theta, s, a), score, rtol=1e-9, atol=1e-12)


WITHOUT_X64 = """
import json

import numpy as np

from emphatic import learners, problems, Softmax
from emphatic.agents.actor_critic import actor_critic
from emphatic.agents.exact import track
from emphatic.engine import run

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
