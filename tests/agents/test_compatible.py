"""Compatible features leave no bias, and agents learn on them as the paper's Section 4 says."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from emphatic import learners, oracle, problems, Sample, schedules
from emphatic.agents import (
    actor_critic,
    AgentState,
    compatible,
    exact_action_values,
    Konda,
    NetworkSoftmax,
    tabular,
    undamped,
)
from emphatic.engine import run

from .. import transcriptions as plain
from ..strategies import build, COMPILED, problems as some_problems, random_softmax, SEEDS

ALPHA, BETA, BOUND = schedules.polynomial(0.1, 0.6), schedules.polynomial(0.5, 0.9), 0.2


def jacobian(policy, theta):
    r"""$\nabla\pi_\theta(a|s)$, an (s, a, n) array."""
    return np.asarray(jax.jacfwd(policy)(jnp.asarray(theta)))


def limiting(problem, slope, found):
    r"""$\hat g$ with the critics that were found."""
    return np.einsum("s,s,san,sa->n", problem.stationary, found.emphasis, slope, found.values)


def magnitude(problem, policy, theta, slope):
    """The sum of the sizes of all terms of the gradient."""
    pi = oracle.probabilities(policy, theta)
    m, q = oracle.emphasis(problem, pi), oracle.action_values(problem, pi)
    return 1.0 + np.einsum("s,sa,san->", problem.stationary * m, np.abs(q), np.abs(slope))


def assert_without_bias(problem, policy, theta):
    found, slope = oracle.compatible_critics(problem, policy, theta), jacobian(policy, theta)
    scale = magnitude(problem, policy, theta, slope)
    gradient = oracle.policy_gradient(problem, policy, theta)
    assert np.abs(found.emphasis_bias).max() < 1e-12 * scale
    assert np.abs(found.value_bias).max() < 1e-12 * scale
    np.testing.assert_allclose(
        limiting(problem, slope, found) / scale, gradient / scale, atol=1e-12
    )


@COMPILED
@given(some_problems(), SEEDS)
def test_projections_on_compatible_features_leave_no_bias(problem, seed):
    assert_without_bias(problem, *random_softmax(problem, seed))


@pytest.mark.parametrize("features", ["original", "one-hot", "zero-hot", "aliased"])
def test_there_is_no_bias_on_baird_where_features_are_dependent(features: Any):
    problem = problems.baird(features)
    theta = np.random.default_rng(0).normal(size=14)
    assert_without_bias(problem, tabular(problem), theta)
    found = oracle.compatible_critics(problem, tabular(problem), np.zeros(14))
    assert max(np.abs(found.emphasis_bias).max(), np.abs(found.value_bias).max()) < 1e-12


@given(some_problems(), SEEDS)
def test_the_bias_is_the_sum_of_its_parts_in_any_norm(problem, seed):
    policy, theta = random_softmax(problem, seed)
    weight = np.random.default_rng(seed).uniform(0.0, 3.0, len(problem.stationary))
    found, slope = (
        oracle.compatible_critics(problem, policy, theta, weight),
        jacobian(policy, theta),
    )
    whole = limiting(problem, slope, found) + found.emphasis_bias + found.value_bias
    scale = magnitude(problem, policy, theta, slope)
    gradient = oracle.policy_gradient(problem, policy, theta)
    np.testing.assert_allclose(whole / scale, gradient / scale, atol=1e-12)
    d, pi = problem.stationary, oracle.probabilities(policy, theta)
    missed = oracle.action_values(problem, pi) - found.values
    m = oracle.emphasis(problem, pi)
    value_bias = np.einsum("s,san,sa->n", d * m, slope, missed)
    np.testing.assert_allclose(found.value_bias / scale, value_bias / scale, atol=1e-12)
    joint = (d * weight)[:, None] * problem.behavior
    normal = np.einsum("sa,san,sa->n", joint, found.value_features, missed)
    np.testing.assert_allclose(normal / scale, 0.0, atol=1e-11)


@given(some_problems(), SEEDS)
def test_compatible_features_are_the_derivatives_of_the_policy(problem, seed):
    policy, theta = random_softmax(problem, seed)
    found, slope = oracle.compatible_critics(problem, policy, theta), jacobian(policy, theta)
    psi = slope / problem.behavior[:, :, None]
    np.testing.assert_allclose(found.value_features, psi, rtol=1e-11, atol=1e-13)
    phi = np.einsum("sa,san,sa->sn", problem.behavior, psi, found.values)
    np.testing.assert_allclose(found.emphasis_features, phi, rtol=1e-10, atol=1e-11)


def test_in_the_norm_of_the_interest_a_bias_of_the_values_stays():
    """Otherwise nothing would be shown: neither critic is exact, and the gradient is large."""
    problem = problems.garnet(num_states=8, num_actions=2, seed=1)
    policy, theta = random_softmax(problem, 1)
    found = oracle.compatible_critics(problem, policy, theta, problem.interest)
    assert np.linalg.norm(found.value_bias) > 0.01
    assert np.linalg.norm(found.emphasis_bias) < 1e-12
    right = oracle.compatible_critics(problem, policy, theta)
    pi = oracle.probabilities(policy, theta)
    assert np.abs(right.values - oracle.action_values(problem, pi)).min() > 1e-3
    assert np.abs(right.emphasis - oracle.emphasis(problem, pi)).min() > 1e-3
    assert np.linalg.norm(oracle.policy_gradient(problem, policy, theta)) > 0.1


# The agent


@settings(max_examples=4)
@given(problem=some_problems(), seed=SEEDS)
def test_with_projected_critics_the_expected_step_on_compatible_features_is_the_gradient(
    problem, seed
):
    r"""$\mathbb E[\theta_{t+1}] - \theta_t = \beta\nabla J(\theta)$, though no critic is exact."""
    policy, theta = random_softmax(problem, seed)
    found = oracle.compatible_critics(problem, policy, theta)
    w, u = (
        jnp.asarray(np.linalg.lstsq(phi.reshape(y.size, -1), y.ravel(), rcond=None)[0])
        for phi, y in (
            (found.emphasis_features, found.emphasis),
            (found.value_features, found.values),
        )
    )
    trace = learners.FollowonState(jnp.zeros(1))
    state = AgentState(
        jnp.asarray(theta), learners.LMSState(trace, w), learners.ETQState(trace, jnp.zeros(4), u)
    )
    agent = actor_critic(
        problem,
        policy,
        learners.lms(learners.followon(), 0.1),
        learners.etq(learners.followon(), 0.1),
        0.5,
        undamped,
        features=compatible(problem, policy),
    )
    mean = oracle.expectation(problem, lambda sample: agent.step(state, sample).theta)
    scale = magnitude(problem, policy, theta, jacobian(policy, theta))
    expected = 0.5 * oracle.policy_gradient(problem, policy, theta)
    np.testing.assert_allclose((mean - theta) / scale, expected / scale, atol=1e-9)


def transcription(problem, policy, theta, seed, num_steps):
    """The parameters and all weights after each step, in plain NumPy."""
    phi, mu, i = policy.features, problem.behavior, problem.interest
    w, u = (plain.initial(seed, name, len(theta)) for name in "wu")
    trace, e, path = 0.0, np.zeros(len(theta)), []

    def Gamma(d):
        size = np.linalg.norm(d)
        return 1.0 if size < BOUND else (1.0 + BOUND) / (1.0 + size)

    for y in plain.experience(problem, seed, num_steps):
        h = np.exp(phi @ theta)
        pi = h / h.sum(1, keepdims=True)
        score = phi - np.einsum("sa,san->sn", pi, phi)[:, None]
        psi = (pi / mu)[:, :, None] * score
        q = psi @ u
        x = np.einsum("sa,san,sa->sn", mu, psi, q)[y.s]
        rho, rho_next = pi[y.s, y.a] / mu[y.s, y.a], (pi / mu)[y.s_next, y.a_next]
        alpha, beta = 0.1 * (y.t + 1.0) ** -0.6, 0.5 * (y.t + 1.0) ** -0.9
        M = i[y.s] + trace
        e = rho * e + M * psi[y.s, y.a]
        delta = y.r + y.gamma * rho_next * q[y.s_next, y.a_next] - q[y.s, y.a]
        step = beta * Gamma(w) * Gamma(u) * rho * (x @ w) * q[y.s, y.a]
        theta = theta + step * score[y.s, y.a]
        w, u = w + alpha * (M - x @ w) * x, u + alpha * delta * e
        trace, e = y.gamma * rho * M, y.gamma * e
        path.append({"theta": theta, "emphasis.w": w, "critic.u": u, "critic.trace": e})
    return path


def learned(problem, policy, **other):
    return actor_critic(
        problem,
        policy,
        learners.lms(learners.followon(), ALPHA),
        learners.etq(learners.followon(), ALPHA),
        BETA,
        features=compatible(problem, policy),
        **other,
    )


def test_the_agent_with_compatible_features_is_its_transcription_and_runs_by_scan():
    problem, _ = build((5, 3, 5, 4), 7, varying=True)
    policy, theta = random_softmax(problem, 3)
    found = run(
        problem,
        {"agent": learned(problem, policy, damping=Konda(BOUND), theta=theta)},
        num_steps=300,
        record_every=100,
        seeds=[11],
        measures=["weights"],
        dtype="float64",
    )
    assert found.engine.item() == "scan"
    path = transcription(problem, policy, theta, 11, 300)
    assert np.linalg.norm(path[-1]["theta"] - theta) > 0.01
    weights = found["agent_weights"].isel(seed=0)
    for number, after in enumerate((path[99], path[199], path[299])):
        for name, expected in after.items():
            labels = [f"{name}[{n}]" for n in range(len(expected))]
            values = weights.isel(time=number).sel(agent_weight=labels)
            np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)


def test_compatible_features_cannot_be_fused():
    problem, _ = build((5, 3, 5, 4), 7, varying=True)
    agent = learned(problem, random_softmax(problem, 3)[0])
    with pytest.raises(ValueError, match=r"'agent' cannot be fused: .*scan would run it"):
        run(problem, {"agent": agent}, num_steps=5, engine="fused", measures=["weights"])


def test_the_features_of_the_emphasis_follow_whatever_gives_the_values():
    """Exact action values, and a policy that is a network."""
    problem, _ = build((3, 2, 2, 5), 5, varying=False)
    policy = NetworkSoftmax(problem.x, 2, (3,))
    theta = jnp.asarray(np.random.default_rng(0).normal(size=policy.num_parameters))
    slope, q = jacobian(policy, theta), oracle.action_values(problem, np.asarray(policy(theta)))
    phi = np.einsum("san,sa->sn", slope, q)
    agent = actor_critic(
        problem,
        policy,
        learners.lms(learners.constant(0.0), 1.0),
        exact_action_values(problem),
        1.0,
        undamped,
        features=compatible(problem, policy),
    )
    w = jnp.asarray(np.random.default_rng(1).normal(size=policy.num_parameters))
    state = AgentState(theta, learners.LMSState((), w), ())
    after = oracle.expectation(problem, lambda sample: agent.step(state, sample))
    pull = np.einsum("s,sn,s->n", problem.stationary, phi, phi @ w)
    np.testing.assert_allclose(after.emphasis.w, w - pull, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after.theta, theta + pull, rtol=1e-9, atol=1e-9)


def test_the_next_features_are_those_of_the_next_state_and_action():
    """With GEM and GQ2 in place of the traces, which look ahead."""
    problem, _ = build((5, 3, 5, 4), 7, varying=True)
    policy, theta = random_softmax(problem, 3)
    rng = np.random.default_rng(2)
    kappa, w, kappa_q, u = rng.normal(size=(4, 4))
    agent = actor_critic(
        problem,
        policy,
        learners.gem(0.1, 0.3),
        learners.gq2(0.1, 0.3),
        0.1,
        features=compatible(problem, policy),
    )
    y = plain.experience(problem, 1, 1)[0]
    slope, mu = jacobian(policy, theta), problem.behavior
    psi, rho = slope / mu[:, :, None], np.asarray(policy(theta)) / mu
    x = np.einsum("san,sa->sn", slope, psi @ u)
    step = plain.SimpleNamespace(
        **vars(y),
        x=x[y.s],
        x_next=x[y.s_next],
        xa=psi[y.s, y.a],
        xa_next=psi[y.s_next, y.a_next],
        rho=rho[y.s, y.a],
        rho_next=rho[y.s_next, y.a_next],
        i_next=problem.interest[y.s_next],
    )
    p = plain.SimpleNamespace(alpha=0.1, eta=0.3)
    numbers = (y.t, y.s, y.a, y.r, y.gamma, y.s_next, y.a_next)
    sample = Sample(*map(jnp.asarray, numbers))
    state = AgentState(
        jnp.asarray(theta),
        learners.GEMState(jnp.asarray(kappa), jnp.asarray(w)),
        learners.GQ2State(jnp.asarray(kappa_q), jnp.asarray(u)),
    )
    after = agent.step(state, sample)
    one = plain.gem({"kappa": kappa, "w": w}, step, p)
    two = plain.gq2({"kappa": kappa_q, "u": u}, step, p)
    for found, expected in ((after.emphasis, one), (after.critic, two)):
        for name, value in expected.items():
            np.testing.assert_allclose(getattr(found, name), value, rtol=1e-9, atol=1e-10)


STATE_VALUES: dict[str, Any] = {
    "td": lambda: learners.td(0.1),
    "etd": lambda: learners.etd(learners.followon(), 0.1),
    "gtd2": lambda: learners.gtd2(0.1),
    "tdc": lambda: learners.tdc(0.1),
}


@pytest.mark.parametrize("name", STATE_VALUES)
def test_a_critic_of_state_values_has_no_compatible_features(name):
    problem, _ = build((3, 2, 2, 5), 5, varying=False)
    policy, _ = random_softmax(problem, 0)
    pair: Any = (problem, policy, learners.followon(), STATE_VALUES[name](), 0.1)
    with pytest.raises(ValueError, match=r"critic: .* would involve the transition kernel p"):
        actor_critic(*pair, features=compatible(problem, policy))
    with pytest.raises(ValueError, match=r"critic: .* an actor needs action values"):
        actor_critic(*pair)
