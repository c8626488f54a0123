"""Right learners conform, wrong ones are told their slip, and bad ones what is required.

One file, since every learner is compiled once in a process.
"""

import dataclasses
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import Learner, learners, oracle
from emphatic.conformance import assert_conforms, check
from emphatic.conformance.claim import as_claim
from emphatic.conformance.expected_step import ExpectedStep

from .bad import BAD, keeps_hidden_state, RIGHT
from .right import CLAIMS, EXPRESSIONS, transcription, variant
from .wrong import (
    ALPHA,
    broadcast_difference,
    broadcast_error,
    ETA,
    functions,
    GEM,
    predict_nu,
    TD,
    TDC,
    with_error,
    WRONG,
)

# Right learners


FEW = ("gem", "gq2", "tdc", "td", "gem-etd", "followon", "etq")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in EXPRESSIONS]
)
def test_a_transcription_conforms(name):
    verdict = check(transcription(name), EXPRESSIONS[name])
    assert verdict.conforms, str(verdict)
    assert (verdict.precision, verdict.expected_step, verdict.slips) == ("float64", True, ())
    assert verdict.num_steps == 900


def test_nobody_is_accused_wrongly():
    for seed in range(10):
        name = list(CLAIMS)[seed % len(CLAIMS)]
        verdict = check(variant(name, seed), CLAIMS[name])
        assert verdict.conforms, (seed, str(verdict))


@pytest.mark.slow
def test_nobody_is_accused_wrongly_of_a_thousand():
    precisions = set()
    for seed in range(1000):
        name = list(CLAIMS)[seed % len(CLAIMS)]
        verdict = check(variant(name, seed), CLAIMS[name])
        assert verdict.conforms, (seed, str(verdict))
        assert verdict.expected_step
        precisions.add(verdict.precision)
    assert precisions == {"float32", "float64"}


def test_a_learner_in_jax_conforms_to_its_expression_and_to_itself():
    learner = learners.gem(ALPHA, ETA)
    assert check(learner, GEM).conforms
    assert check(lambda: learner, GEM).conforms


def test_float32_is_recognised_and_its_slips_are_named_as_well():
    """What rounding blurs is not taken for the slips that are as small."""
    assert {check(variant("gem", n), GEM).precision for n in range(6)} == {"float32", "float64"}
    learner = learners.gem(ALPHA)

    def single(tree):
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)

    def step(state, y):
        return single(learner.step(single(state), single(y)))

    rough = dataclasses.replace(
        learner, step=step, predict=lambda state, y: learner.predict(single(state), single(y))
    )
    verdict = check(rough, f"gem({ALPHA}, 0.01)")
    words = {slip.words for slip in verdict.slips}
    tiny = {"the ridge twice: its square"}  # which in this precision is none
    assert words - tiny == {"no ridge: 0", "without the term `eta * w`"}


def test_a_term_that_is_small_is_not_missed_in_float64():
    verdict = check(learners.gem(ALPHA), f"gem({ALPHA}, 1e-8)")
    assert "no ridge: 0" in [slip.words for slip in verdict.slips]


@pytest.mark.parametrize(("claim", "system"), [(TDC, oracle.tdc_system), (GEM, oracle.gem_system)])
def test_the_exact_expected_step_is_that_of_the_mean_field(claim, system):
    r"""Two steps of $d + \alpha(h - Gd)$, seen through the prediction."""
    with jax.enable_x64(True):
        expected = ExpectedStep(as_claim(claim), 0)
        problem = expected.trial.problem
        field = system(problem, None, ETA) if claim == GEM else system(problem)
        d = np.concatenate([np.asarray(leaf) for leaf in jax.tree.leaves(expected.initial)])
        for _ in range(2):
            d = d + ALPHA * field.drift(d)
        weights = d[len(d) // 2 :]
        np.testing.assert_allclose(
            expected.exact, [y.x @ weights for y in expected.probes], rtol=1e-12
        )


def test_a_variant_with_other_noise_has_the_exact_expected_step():
    r"""TDC with $\rho_t(\delta_t - x_t^\top\kappa_t)x_t$."""

    def step(d, y):
        kappa, nu = d["kappa"], d["nu"]
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        pull = delta * y.x - y.discount * y.x_next * (y.x @ kappa)
        return {
            "kappa": kappa + ALPHA * y.rho * (delta - y.x @ kappa) * y.x,
            "nu": nu + ALPHA * y.rho * pull,
        }

    right = transcription("tdc")
    verdict = check(type(right)(init=dict, step=step, predict=lambda d, y: y.x @ d["nu"]), TDC)
    assert not verdict.conforms
    assert verdict.expected_step
    (slip,) = verdict.slips
    assert slip.words == "`rho` multiplies the whole update of kappa, not a part of it"
    assert "is the exact one: it differs in its noise, or elsewhere." in str(verdict)


def right_error(d, problem):
    difference = problem.x @ d["nu"] - oracle.values(problem)
    return np.sqrt(problem.stationary @ difference**2)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (right_error, None),
        (broadcast_error, "(states,) times (states, 1) broadcasts to a matrix"),
        (broadcast_difference, "values minus values broadcast to a matrix of all pairs"),
        (lambda d, problem: right_error(d, problem) ** 2, "the root is missing"),
        (lambda d, problem: 2 * right_error(d, problem), "is right"),
        (lambda d, problem: problem.x @ d["nu"], "error returns an array of shape (5,)"),
        (lambda d, problem: d["theta"], "error raises KeyError"),
    ],
)
def test_the_error_that_is_plotted_is_that_of_the_distribution(error, words):
    verdict = check(with_error(error), TD)
    assert verdict.conforms == (words is None)
    assert words is None or words in verdict.reason
    assert verdict.precision == "float64"  # it learns right


def test_state_of_any_form_and_learners_with_branches_are_compared():
    """A learner of one's own with a branch, and whole numbers in its state."""

    def init(key, y):
        return {"nu": jnp.ones_like(y.x), "count": jnp.zeros((), jnp.int32)}

    def step(state, y):
        delta = y.reward - y.x @ state["nu"]
        every = jax.lax.cond(state["count"] % 2 == 0, lambda: 0.1, lambda: 0.2)
        return {
            "nu": state["nu"] + every * jnp.minimum(y.rho, 1.0) * delta * y.x,
            "count": state["count"] + 1,
        }

    claim = Learner(init, step, lambda state, y: y.x @ state["nu"], name="alternating")

    def theirs(state, y, bound=1.0):
        nu, count = state
        delta = y.reward - y.x @ nu
        return nu + (0.2 if count % 2 else 0.1) * min(y.rho, bound) * delta * y.x, count + 1

    right = transcription("td")
    right.init = lambda weights: (weights["nu"], 0)
    right.predict = lambda state, y: y.x @ state[0]
    right.step = theirs
    assert check(right, claim).conforms
    right.step = lambda state, y: theirs(state, y, bound=np.inf)
    words = [slip.words for slip in check(right, claim).slips]
    assert "without the bound `1.0`" in words


# Wrong learners


@pytest.mark.parametrize("name", WRONG)
def test_a_slip_is_named(name):
    claim, learner, words = WRONG[name]
    verdict = check(learner, claim)
    assert not verdict.conforms
    found = [slip.words for slip in verdict.slips]
    assert any(words in each for each in found), str(verdict)
    assert len(found) <= 4, str(verdict)


# Bad learners


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_pure_function_gets_a_verdict_of_one_line(name):
    learner, words = BAD[name]
    verdict = check(learner, TD)
    assert not verdict.conforms
    assert words in verdict.reason
    assert "\n" not in verdict.reason


def test_what_becomes_nan_is_no_conforming_learner():
    def step(d, y):
        return {"nu": RIGHT.step(d, y)["nu"] * (np.nan if y.time == 7 else 1.0)}

    verdict = check(functions(step, predict_nu), TD)
    assert "After 8 steps it predicts nan, not" in verdict.reason


def test_a_difference_without_a_name_is_placed():
    """The reward is wrong where rho is above 1, which is no slip of the catalogue."""

    def step(d, y):
        return RIGHT.step(d, replace(y, reward=y.reward + 0.1 * (y.rho > 1)))

    verdict = check(functions(step, predict_nu), TD)
    assert verdict.slips == ()
    assert verdict.place == "Differences begin only where rho is above 1."


@pytest.mark.parametrize(
    ("learner", "claim", "message"),
    [
        (3, TD, "learner: 'int' has no functions init, step and predict"),
        (RIGHT, "td", "as: td lacks step_size, as in td"),
        (RIGHT, "tdd(0.1)", "did you mean 'td'"),
        (RIGHT, "td(-0.1)", "as: td: step_size"),
        ("no_such_module", TD, "cannot be imported: ModuleNotFoundError"),
        ("json:lods", TD, "did you mean 'loads'"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(learner, claim, message):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        check(learner, claim)
    assert message in str(error.value)


def test_the_assertion_says_what_the_verdict_says():
    assert_conforms(RIGHT, TD)
    wrong = functions(keeps_hidden_state, predict_nu)
    with pytest.raises(AssertionError, match="does not conform\n  step gives two results"):
        assert_conforms(wrong, TD)
