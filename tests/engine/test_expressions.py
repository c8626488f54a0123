"""Learners and grids from words: the same as from Python, and nothing else can be said."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import learners, oracle, problems, schedules
from emphatic.agents import actor_critic, linear, tabular, undamped
from emphatic.engine import expressions
from emphatic.oracle import enumerate_samples
from emphatic.types import Agent

PROBLEM = problems.baird("aliased", 0.3)


def weights_after(learner, problem=PROBLEM, steps=5) -> np.ndarray:
    """Returns all numbers of a learner's state after some transitions."""
    pi = jnp.asarray(problem.target)
    samples = jax.tree.map(jnp.asarray, enumerate_samples(problem).sample)
    first = jax.tree.map(lambda leaf: leaf[0], samples)

    def view(sample):
        return problem.view(pi[sample.state], pi[sample.state_next], sample)

    state = learner.init(jax.random.key(0), first if isinstance(learner, Agent) else view(first))
    for index in range(steps):
        sample = jax.tree.map(lambda leaf, n=index: leaf[3 * n], samples)
        state = learner.step(state, sample if isinstance(learner, Agent) else view(sample))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state)])


# Grids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1 * 2^[1:-6]", [0.1 * 2.0**p for p in range(1, -7, -1)]),
        ("2^-[0:3]", [1.0, 0.5, 0.25, 0.125]),
        ("10^[-2:0:0.5]", [10**p for p in (-2, -1.5, -1, -0.5, 0)]),
        ("[0, 1e-6, 2 / 4]", [0.0, 1e-6, 0.5]),
        ("[3:3]", [3.0]),
        ("[1:3, 5]", [1.0, 2.0, 3.0, 5.0]),
        ("10^[0, -3:-1]", [1.0, 1e-3, 1e-2, 1e-1]),
        ("0.5", [0.5]),
        ("1 - [0:2] / 4", [1.0, 0.75, 0.5]),
    ],
)
def test_grids_are_arithmetic_with_spans_whose_ends_count(text, expected):
    np.testing.assert_allclose(expressions.parse_numbers(text), expected, rtol=1e-15)


@pytest.mark.parametrize("text", ["gem(1)", "x", "2^[0:", "[1:2:0]", "'0.1'", "__import__('os')"])
def test_a_grid_is_numbers_and_nothing_else(text):
    with pytest.raises(ValueError, match=r"."):
        expressions.parse_numbers(text)


# Learners

WRITTEN = {
    "gem(step_size, ridge)": lambda: learners.gem(0.2, 0.01),
    "etd(gem(0.025, ridge), step_size)": lambda: learners.etd(learners.gem(0.025, 0.01), 0.2),
    "etd(followon(3), step_size = step_size/2)": lambda: learners.etd(learners.followon(3), 0.1),
    "etd(exact(emphasis), 2^-3)": lambda: learners.etd(
        learners.exact(oracle.emphasis(PROBLEM)), 0.125
    ),
    "etd(constant(1 / (1 - gamma)), 0.1)": lambda: learners.etd(learners.constant(100.0), 0.1),
    'td("0.5/t^0.7")': lambda: learners.td(schedules.polynomial(0.5, 0.7)),
    "td(polynomial(0.5, 0.7, onset=10))": lambda: learners.td(schedules.polynomial(0.5, 0.7, 10)),
    'actor_critic(tabular(), gem(1, ridge), gq2("1/(1+t/5)^0.6", 0.1), "1/t", damping=undamped)': (
        lambda: actor_critic(
            PROBLEM,
            tabular(PROBLEM),
            learners.gem(1.0, 0.01),
            learners.gq2(schedules.polynomial(1.0, 0.6, 5), 0.1),
            schedules.polynomial(1.0, 1.0),
            damping=undamped,
        )
    ),
    "actor_critic(linear(), followon(), exact_action_values(), 0.05)": lambda: actor_critic(
        PROBLEM,
        linear(PROBLEM),
        learners.followon(),
        expressions.exact_action_values(PROBLEM),
        0.05,
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_learner_in_words_is_the_learner_in_python(text):
    make = expressions.parse_learner(text, ("step_size", "ridge", "other"))(PROBLEM)
    lane = {"step_size": 0.2, "ridge": 0.01}
    parameters = inspect.signature(make).parameters
    assert set(parameters) == {axis for axis in lane if axis in text.replace("step_size =", "")}
    written = make(**{axis: lane[axis] for axis in parameters})
    np.testing.assert_allclose(weights_after(written), weights_after(WRITTEN[text]()), rtol=1e-12)


def test_the_name_of_a_learner_alone_is_its_function():
    make = expressions.parse_learner("gem")(PROBLEM)
    weights = weights_after(make(0.2, ridge=0.01))
    np.testing.assert_array_equal(weights, weights_after(learners.gem(0.2, 0.01)))
    with pytest.raises(ValueError, match="is not a call, such as"):
        expressions.parse_learner("gme")


def test_expressions_have_one_form_whatever_their_spaces_and_digits():
    one, other = "etd( gem(0.0250,ridge) , 1e-3)", "etd(gem(0.025, ridge), 0.001)"
    assert expressions.canonical(one) == expressions.canonical(other) == other
    assert expressions.canonical("td(2^-3)") != expressions.canonical("td(2^-4)")
    assert "^0.7" in expressions.canonical('td("0.5/t^0.7")')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gme(step_size)", "function: unknown name 'gme'; did you mean 'gem'"),
        ("gem(stepsize)", "name: unknown name 'stepsize'; did you mean 'step_size'"),
        ("gem(1, 2, 3, 4)", "gem: too many positional arguments"),
        ("gem(0.1, rigde=0.1)", "gem: got an unexpected keyword argument 'rigde'"),
        ("gem(step_size", r"cannot be read: '\(' was never closed"),
        ("step_size", "is not a call"),
        ("gem(-0.1)", "must be positive"),
        ('gem("0.1/s")', "step size: got '0.1/s'"),
        ("gem(lambda: 1)", "not a call, a name or a number"),
        ("gem([x for x in y])", "unknown name|not a call"),
        ("gem(0.1).step", "is not a call"),
        ("__import__('os').system('true')", "unknown name|is not a call"),
        ("gem(0.1 if 1 else 2)", "not a call, a name or a number"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        expressions.parse_learner(text, ("step_size",))(PROBLEM)()
