"""Small step sizes: limits of learners with traces, and how far learners stray from them."""

import numpy as np
import pytest

from emphatic import learners, oracle, predict, problems
from emphatic.engine import run

from ..strategies import build

WALK = problems.random_walk()
AFFINE = ["td(step_size)", pytest.param("gq2(step_size, 1e-2)", marks=pytest.mark.slow)]
AFFINE += ["gem(step_size, 1e-2)"]
TRACED = ["etd(followon(), step_size)"]
TRACED += [pytest.param("etq(followon(0), step_size)", marks=pytest.mark.slow)]


def varying():
    """A problem with a discount that varies, and its target."""
    return build((5, 3, 3, 4), 7, True)


@pytest.mark.parametrize("text", AFFINE)
def test_the_covariance_of_small_steps_is_the_limit_of_the_exact_ones(text):
    problem, target = varying()
    covariance = predict.asymptotic_covariance(problem, text, target=target)
    step_size = 2.0**-14
    exact = predict.limit(problem, text.replace("step_size", repr(step_size)), target=target)
    assert exact.covariance is not None
    largest = np.abs(covariance).max()
    np.testing.assert_allclose(exact.covariance / step_size, covariance, atol=5e-3 * largest)


@pytest.mark.parametrize("text", TRACED)
def test_the_variance_of_a_learner_with_a_trace_is_that_of_many_runs(text):
    """The trace and the errors of successive steps are correlated; both widen the variance."""
    step_size, start = 0.004, 20_000
    factory = text.replace("step_size", str(step_size))
    result = run(
        WALK, [factory], num_steps=start, seeds=2000, record_every=start, measures=["weights"]
    )
    weights = result[f"{factory}_weights"].values.reshape(2000, -1)
    names = [str(name) for name in result[f"{factory}_weight"].values]
    own = [n for n, name in enumerate(names) if name.startswith(("nu[", "u["))]
    expected = step_size * predict.asymptotic_covariance(WALK, text)
    found = np.cov(weights[:, own].T)
    np.testing.assert_allclose(np.trace(found), np.trace(expected), rtol=0.08)
    np.testing.assert_allclose(found, expected, atol=0.1 * expected.max())


def test_limits_of_learners_with_traces_are_those_of_the_oracle():
    problem, target = varying()
    etd = predict.fixed_point(problem, "etd(followon(), step_size)", target=target)
    system = oracle.etd_system(problem, target)
    np.testing.assert_allclose(etd.solution, system.solution(), rtol=1e-8)
    assert etd.slowest == pytest.approx(system.slowest_mode())
    assert etd.variance is not None
    m, d = oracle.emphasis(problem, target), problem.stationary
    lms = predict.fixed_point(problem, "lms(followon(), step_size)", target=target)
    gram = problem.x.T @ (d[:, None] * problem.x)
    np.testing.assert_allclose(lms.solution, np.linalg.solve(gram, problem.x.T @ (d * m)))
    truncated = predict.fixed_point(problem, "etd(followon(2), step_size)", target=target)
    short = oracle.truncated_emphasis(problem, target, 2)
    expected = oracle.etd_system(problem, target, short).solution()
    np.testing.assert_allclose(truncated.solution, expected, rtol=1e-8)


def test_weights_that_learn_from_learned_weights_settle_where_both_do():
    """GEM-ETD: with GEM's limit as the emphasis, whether both steps go to 0 or GEM's stays."""
    problem, target = varying()
    w = oracle.gem_system(problem, target, 0.1).solution()[problem.x.shape[1] :]
    system = oracle.etd_system(problem, target, problem.x @ w)
    both = predict.fixed_point(problem, "etd(gem(step_size, 0.1), step_size)", target=target)
    np.testing.assert_allclose(both.solution[-len(w) :], system.solution(), rtol=1e-7)
    fixed = [
        predict.fixed_point(problem, f"etd(gem({alpha}, 0.1), step_size)", target=target)
        for alpha in (1e-3, 1e-5)
    ]
    apart = [np.abs(point.solution - system.solution()).max() for point in fixed]
    assert apart[0] > 50 * apart[1]  # GEM's own weights are correlated with the state
    assert apart[1] < 1e-3


def test_what_does_not_settle_is_infinite_or_refused():
    baird = problems.baird("aliased", solid=0.3)  # whose trace has no variance
    assert predict.fixed_point(baird, "etd(followon(), step_size)").variance == np.inf
    two_states = problems.two_state()
    assert predict.fixed_point(two_states, "td").variance == np.inf
    assert not np.isfinite(predict.asymptotic_covariance(two_states, "td")).any()
    with pytest.raises(ValueError, match=r"learner: emphasis\.terms of etd has no mean"):
        predict.fixed_point(two_states, "etd(followon(decay=1.0), step_size)")
    with pytest.raises(ValueError, match="not all weights of tdc move in proportion"):
        predict.asymptotic_covariance(WALK, "tdc(step_size, 0.1)")
    assert predict.fixed_point(WALK, "tdc(step_size, 0.1)").variance is None
    with pytest.raises(ValueError, match="has no weights that a step size moves"):
        predict.small_steps(WALK, lambda step_size: learners.followon())


def test_weights_that_nothing_moves_have_no_variance():
    """With Baird's original features one direction of the weights is moved by no update."""
    problem = problems.baird("original", solid=0.1)
    point = predict.fixed_point(problem, "gem(step_size, 1e-3)")
    assert point.variance is not None
    assert 0 < point.variance < np.inf
    still = np.linalg.svd(problem.x)[2][-1]
    covariance = predict.asymptotic_covariance(problem, "gem(step_size, 1e-3)")[8:, 8:]
    assert abs(still @ covariance @ still) < 1e-6 * np.abs(covariance).max()
