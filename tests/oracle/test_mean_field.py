"""Along an agent's path every quantity is the oracle's; fields are followed as they say."""

import numpy as np
import pytest
from hypothesis import given

from emphatic import oracle, problems, Softmax
from emphatic.agents import over_states, tabular
from emphatic.oracle import follow, mean_field, track
from emphatic.problems import ACTOR_FEATURES

from ..strategies import build, COMPILED, problems as some_problems, random_softmax, SEEDS


def _setting():
    """A problem whose discount varies, and a policy with features of its own."""
    problem, _ = build((5, 3, 5, 4), 7, varying=True)
    phi = np.random.default_rng(3).normal(size=(*problem.behavior.shape, 4))
    return problem, Softmax(phi)


# Recorded paths


@COMPILED
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


def test_what_is_tracked_needs_no_independent_features():
    """Baird's original features: the limit of w is unique though C is singular."""
    problem = problems.baird("original")
    policy, theta = tabular(problem), np.random.default_rng(0).normal(size=14)
    system = oracle.gem_system(problem, oracle.probabilities(policy, theta), 0.1)
    assert system.rank() < len(system.vector)
    w = system.least_norm_solution()[8:]
    found = track(problem, policy, np.stack([theta, theta]), 0.1, w=np.stack([w, w + 1.0]))
    expected = [0.0, np.sqrt(8.0)]
    np.testing.assert_allclose(found["emphasis_tracking"], expected, atol=1e-8)


def test_what_is_tracked_does_not_depend_on_batches(monkeypatch):
    problem, policy = _setting()
    thetas = np.random.default_rng(0).normal(size=(2, 4, 4))
    whole = track(problem, policy, thetas, 0.1)
    assert whole["objective"].shape == (2, 4)
    monkeypatch.setattr(mean_field, "BATCH", 3)
    for name, values in track(problem, policy, thetas, 0.1).items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-12)


# Mean fields


def field_of(problem, policy, name, theta, ridge):
    """The field by the oracle."""
    if name == "exact-gradient":
        return oracle.policy_gradient(problem, policy, theta)
    if name == "cof-pac":
        return oracle.limiting_update(problem, policy, theta, ridge)
    pi = oracle.probabilities(policy, theta)
    u = oracle.gq2_system(problem, pi, ridge).solution()[-problem.xa.shape[-1] :]
    m = oracle.emphasis(problem, pi) if name == "ace" else problem.interest
    weight = (problem.stationary * m)[:, None] * (problem.xa @ u)
    return oracle.weighted_gradient(policy, theta, weight)


@pytest.mark.parametrize("field", mean_field.FIELDS)
def test_a_field_is_followed_as_its_integral_says(field):
    r"""$\theta(1) - \theta(0) = \int_0^1g(\theta(t))\,dt$, by Gauss's rule."""
    problem, policy = _setting()
    theta = np.array([0.3, -0.2, 0.1, 0.5])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    times = [0.0, *(nodes + 1.0) / 2.0, 1.0]
    first, *path, last = follow(problem, policy, theta, field, times, ridge=0.3)
    slopes = [field_of(problem, policy, field, each, 0.3) for each in path]
    np.testing.assert_allclose(first, theta, rtol=1e-14)
    np.testing.assert_allclose(last - first, weights / 2.0 @ slopes, atol=1e-6)
    assert np.linalg.norm(last - first) > 1e-3


def test_fields_lead_where_small_steps_lead():
    """Up to the better optimum along the gradient, and down along that of Off-PAC."""
    problem = problems.counterexample()
    policy, theta = over_states(ACTOR_FEATURES, 2), np.log([9.0, 9.0, 1.0, 1.0])
    near, far = follow(problem, policy, theta, "exact-gradient", [2.0, 1e4])
    slow = theta.copy()
    for _ in range(100):
        slow += 0.02 * oracle.policy_gradient(problem, policy, slow)
    np.testing.assert_allclose(near, slow, atol=2e-3)
    assert np.linalg.norm(near - theta) > 0.1
    assert oracle.objective(problem, oracle.probabilities(policy, far)) > 1.249
    away = follow(problem, policy, theta, "off-pac", 1e4, ridge=1e-3)[0]
    assert oracle.objective(problem, oracle.probabilities(policy, away)) < 0.88


@pytest.mark.parametrize(
    ("field", "times", "message"),
    [
        ("cofpac", [1.0], "field: unknown name 'cofpac'; did you mean 'cof-pac'"),
        ("ace", [-1.0, 1.0], "times: got"),
        ("ace", [1.0, 1.0], "times: got"),
        ("ace", [2.0, 1.0], "times: got"),
        ("ace", [], "times: got"),
        ("ace", [1.0, np.nan], "times: got"),
        ("ace", [1.0, np.inf], "times: got"),
    ],
)
def test_fields_and_times_are_checked(field, times, message):
    problem, policy = _setting()
    with pytest.raises(ValueError, match=message):
        follow(problem, policy, np.zeros(4), field, times)
