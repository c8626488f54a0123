"""Learners and grids from words: the same as from Python, and nothing else can be said."""

import inspect
import sys
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import learners, oracle, problems, run, schedules
from emphatic.agents import actor_critic, Konda, linear, tabular, undamped
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
        ("gem(0.1, rigde=0.1)", "gem: argument: unknown name 'rigde'; did you mean 'ridge'"),
        ("gem(step_size", r"cannot be read: got its end at character 14; ',' or '\)' is required"),
        ("step_size", "is not a call"),
        ("gem(-0.1)", "must be positive"),
        ('gem("0.1/s")', "step size: got '0.1/s'"),
        ("gem(lambda: 1)", "cannot be read: got ':' at character 11"),
        ("gem([x for x in y])", "cannot be read: got 'for' at character 8"),
        ("gem(0.1).step", r"cannot be read: got '\.' at character 9"),
        ("__import__('os').system('true')", r"cannot be read: got '\.' at character 17"),
        ("gem(0.1 if 1 else 2)", "cannot be read: got 'if' at character 9"),
    ],
)
def test_what_cannot_be_read_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        expressions.parse_learner(text, ("step_size",))(PROBLEM)()


# What no learner is

NUMBER = 'a number or a schedule such as "0.1/t^0.7" is required'
AGENT = "actor_critic(tabular(), followon(), gq2(0.1), {})"
BAD = {
    "gem(1/0)": "gem: step_size: 1 / 0 is no finite real number",
    "gem(10^400)": "gem: step_size: 10 ^ 400 is no finite real number",
    "gem((-1)^0.5)": "gem: step_size: -1 ^ 0.5 is no finite real number",
    "gem(9^9^9^9)": "gem: step_size: 9 ^ 387420489 is no finite real number",
    "gem(1e308 * 10)": "gem: step_size: 1e+308 * 10 is no finite real number",
    "gem(0.1, 0^-1)": "gem: ridge: 0 ^ -1 is no finite real number",
    "etd(gem(1/0), 0.1)": "gem: step_size: 1 / 0 is no finite real number",
    "gem(emphasis)": f"gem: step_size: got an array of shape (7,); {NUMBER}",
    "td([0.1])": f"td: step_size: got [0.1]; {NUMBER}",
    "td(None)": f"td: step_size: got None; {NUMBER}",
    "gem(True)": f"gem: step_size: got True; {NUMBER}",
    "gem(True + 1)": "gem: step_size: got True where a number is required",
    "gem(undamped)": f"gem: step_size: got the function undamped; {NUMBER}",
    "gem(tabular())": f"gem: step_size: got a policy; {NUMBER}",
    "gem(-0.1)": "gem: step_size: got -0.1; a step size must be positive and finite",
    "tdc(0.1, -1)": "tdc: correction_step_size: got -1; a step size must be positive",
    "gem(0.1, -1)": "gem: ridge: got -1; it must be a finite number >= 0",
    "etd(0.1, 0.1)": "etd: emphasis: got 0.1; a learner such as followon() is required",
    "etd(followon(), gem(0.1))": f"etd: step_size: got the learner gem; {NUMBER}",
    f"etd({AGENT.format(0.1)}, 0.1)": "etd: emphasis: got an agent; a learner such as",
    'constant("1/t")': "constant: value: got the schedule 1/t^1; a number is required",
    "followon(1.5)": "followon: length: got 1.5; a whole number or None is required",
    "followon(-1)": "followon: length: got -1; at least 0 is required",
    "followon(decay=2)": "followon: decay: got 2; a number in [0, 1] is required",
    "exact(1)": "exact: values: got 1; an array of shape (7,) is required",
    "exact([1, 2])": "exact: values: got [1, 2]; an array of shape (7,) is required",
    "exact([1, 2, 3, 4, 5, 6, True])": "exact: values: got [1, 2, 3, 4, 5, 6, ...]; an array",
    "exact([[1, 2], [3]])": "exact: values: got [[1, 2], [3]]; an array of shape (7,)",
    "exact([0:1e12])": "exact: values: a list has 1,000,000,000,001 numbers; at most 100,000",
    "exact([0:1:1e-300])": "exact: values: a list has 1e+300 numbers; at most 100,000",
    "gem([0:3] * [0:2])": "gem: step_size: an array of shape (4,) * an array of shape (3,): equal",
    "actor_critic(1, 2, 3, 4)": "actor_critic: policy: got 1; a policy such as tabular()",
    'actor_critic(tabular(), "1/t", gq2(0.1), 0.1)': "emphasis: got the schedule 1/t^1; a",
    AGENT.format("exact_emphasis()"): f"step_size: got the function emphasis; {NUMBER}",
    AGENT.format('0.1, damping="1/t"'): "damping: got the schedule 1/t^1; a damping",
    AGENT.format("0.1, damping=(undamped, 1)"): "damping: got (the function undamped, 1); a",
    AGENT.format("0.1, damping=Konda(0)"): "Konda: bound: got 0; C_0 must be positive",
    "actor_critic(over_states([[1]], 2), followon(), gq2(0.1), 1)": "over_states: x: got [[1]]; an",
    "gq2()": "gq2: missing a required argument: 'step_size'; gq2(step_size, ridge) is required",
    "gq2(1, 2, 3)": "gq2: too many positional arguments; gq2(step_size, ridge) is required",
    "gem(1, step_size=2)": "gem: multiple values for argument 'step_size'",
    "gem(0.1, rigde=0.1)": "gem: argument: unknown name 'rigde'; did you mean 'ridge'?",
    "gem(a=1, a=2)": "gem: a: it is there twice",
    "gem(ridge=1, 2)": "gem: argument 2 has no name, but one before it has",
    "gem(step_size=)": "cannot be read: got ')' at character 15",
    "gem(*[1])": "cannot be read: got '*' at character 5",
    "gem(**{})": "cannot be read: got '{' at character 7",
    "gem(x:=1)": "cannot be read: got ':' at character 6",
    'gem(f"1")': "cannot be read: got '\"1\"' at character 6",
    "gem(a.b)": "cannot be read: got '.' at character 6",
    "gem(a[0])": "cannot be read: got '[' at character 6",
    "gem(1 if 1 else 2)": "cannot be read: got 'if' at character 7",
    "gem(1else 2)": "cannot be read: got '1' at character 5",
    "gem(1j)": "cannot be read: got '1' at character 5",
    "gem(0x10)": "cannot be read: got '0' at character 5",
    "gem(0.1\0)": r"cannot be read: got '\x00' at character 8",
    "gem(\u03b3)": "cannot be read: got '\u03b3' at character 5",
    "g\u00e9m(1)": "cannot be read: got '\u00e9' at character 2",
    r"td('\d')": r"td: step_size: step size: got '\\d'; write a number like 0.1",
    'gem("1/x")': "gem: step_size: step size: got '1/x'; write a number like 0.1, or 0.1/t^0.7",
    'gem("0/t")': "gem: step_size: scale: got 0.0; a step size must be positive and finite",
    'gem("1/t" * 2)': "gem: step_size: got the schedule 1/t^1 where a number is required",
    "gem(nan)": "name: unknown name 'nan'; known: emphasis, gamma",
    "gem(inf)": "name: unknown name 'inf'; known: emphasis, gamma",
    "gem(1e999)": "'1e999' is too large",
    "polynomial(1, 1)": "'polynomial(1, 1)' is the schedule 1/t^1; a learner is required",
    "gem(0.1) + 1": "'gem(0.1) + 1' is not a call, such as gem(step_size)",
    "()": "cannot be read: got ')' at character 2",
    "": "cannot be read: got its end at character 1",
}
LONG = {
    "minus signs": ("gem(" + "-" * 3000 + "1)", "it is nested more than 30 deep"),
    "parentheses": ("(" * 10**5 + "1" + ")" * 10**5, "it has 200001 characters; at most 10000"),
    "fewer parentheses": ("gem(" + "(" * 4000 + "1" + ")" * 4001, "it is nested more than 30 deep"),
    "calls": ("gem(" * 2000, "it is nested more than 30 deep"),
    "lists": ("exact(" + "[" * 4000, "it is nested more than 30 deep"),
    "powers": ("gem(" + "2^" * 3000 + "1)", "it is nested more than 30 deep"),
    "characters": ("gem(" + "1" * 10**6 + ")", "it has 1000005 characters; at most 10000 are read"),
    "digits": ("gem(" + "9" * 9000 + ")", "is too large"),
    "a list": ("exact([" + "1," * 99 + "])", "an array of shape (7,) is required"),
    "spans": ("exact([" + "0:99998," * 20 + "])", "a list has 199,998 numbers; at most 100,000"),
    "a name": ("gem(" + "a" * 9000 + ")", "unknown name 'aaa"),
    "a keyword": ("gem(" + "a" * 9000 + "=1)", "argument: unknown name 'aaa"),
    "a text": ("gem('" + "1" * 9000 + "x')", "step size: got '111"),
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_learner_is_one_line_that_names_the_function_and_the_argument(text):
    with pytest.raises(ValueError, match=r".") as error:
        expressions.parse_learner(text)(PROBLEM)()
    message = str(error.value)
    assert BAD[text] in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize("name", LONG)
def test_what_is_too_long_or_too_deep_is_refused_and_takes_no_memory(name):
    text, reason = LONG[name]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r".") as error:
            expressions.parse_learner(text)(PROBLEM)()
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert reason in str(error.value)
    assert len(str(error.value)) < 300
    assert peak < 50e6


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10^400", "10 ^ 400 is no finite real number"),
        ("9^9^9^9", "9 ^ 387420489 is no finite real number"),
        ("2^10^400", "10 ^ 400 is no finite real number"),
        ("(-1)^0.5", "-1 ^ 0.5 is no finite real number"),
        ("10^[0:400]", "10 ^ an array of shape (401,) is no finite real number"),
        ("(-1)^[0.5, 1]", "-1 ^ an array of shape (2,) is no finite real number"),
        ("1/[0:2]", "1 / an array of shape (3,) is no finite real number"),
        ("[0:1e12]", "a list has 1,000,000,000,001 numbers; at most 100,000 are possible"),
        ("[0:1:1e-300]", "a list has 1e+300 numbers"),
        ("[-1e308:1e308]", "a list has inf numbers"),
        ("[0:1]^1000000*[0:99999]", "equal shapes are required"),
        ("[[1, 2], [3, 4]]", "is not a number or a list of numbers"),
        ("[True]", "is not a number or a list of numbers"),
        ("None", "is not a number or a list of numbers"),
        ("'0.1'", "is not a number or a list of numbers"),
        ("[]", "is not a number or a list of numbers"),
        ("-" * 3000 + "1", "it is nested more than 30 deep"),
        ("1" * 10**6, "it has 1000000 characters; at most 10000 are read"),
        ("9" * 400, "is too large"),
    ],
)
def test_a_grid_has_finite_numbers_and_not_too_many(text, reason):
    with pytest.raises(ValueError, match=r".") as error:
        expressions.parse_numbers(text)
    assert reason in str(error.value)
    assert len(str(error.value)) < 300


def test_a_list_is_multiplied_entry_by_entry():
    assert expressions.parse_numbers("2 * [1, 3]") == [2.0, 6.0]
    assert expressions.parse_numbers("[1, 3] + [2, 5]") == [3.0, 8.0]
    assert expressions.parse_numbers("1^9^9 + 0 * (-1)^(10^300)") == [1.0]


def test_everything_that_takes_expressions_refuses_them_alike():
    for text in ("gem(1/0)", "etd(0.1, 0.1)", "gem(", "gem(" + "-" * 3000 + "1)"):
        with pytest.raises(ValueError, match=r"^learners: ") as error:
            run(PROBLEM, [text, "gem(0.1)"], num_steps=1)
        assert len(str(error.value)) < 300


def test_two_dampings_are_written_in_brackets():
    text = AGENT.format("0.1, damping=(undamped, Konda(100))")
    agent = expressions.parse_learner(text)(PROBLEM)()
    assert isinstance(agent, Agent)
    assert agent.dampings == (undamped, Konda(100))


OWN = """
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from emphatic import learners
from emphatic.types import Learner, Number, StateFeatures, StepSize

def typed(alpha: StepSize, n: int = 1, flag: bool = False, x: StateFeatures | None = None):
    return learners.td(alpha)

def plain(alpha, *others, **more):
    return learners.td(0.1)

def of(step: Callable[[float], float], trace: Learner[Any, Any]) -> Learner[Any, Any]:
    return trace

def warm(n: int):
    return lambda time: 1.0

def late(alpha: "NotThere"):
    return learners.td(alpha)

def fails(alpha: float):
    raise ValueError("alpha: is never right")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "kinds.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("kinds", None)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    "text",
    [
        "typed(0.1, 3, True, [[1], [2], [3], [4], [5], [6], [7]])",
        'typed("1/t", flag=False)',
        "typed(kinds:warm(3))",
        "plain(None, [1, [2]], True, other=undamped)",
        "of(kinds:warm(3), followon())",
        'of("0.1", followon())',
        "late(0.1)",
    ],
)
def test_ones_own_functions_take_what_their_annotations_say(text):
    make = expressions.parse_learner(f"kinds:{text}")(PROBLEM)
    assert make().name in ("td", "etd", "followon")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("typed(gem(0.1))", "kinds:typed: alpha: got the learner gem; a number or a schedule"),
        ("typed(0.1, 0.5)", "kinds:typed: n: got 0.5; a whole number is required"),
        ("typed(0.1, flag=1)", "kinds:typed: flag: got 1; True or False is required"),
        ("typed(0.1, x=[1, 2])", r"kinds:typed: x: got \[1, 2\]; an array of shape \(7, n\) or"),
        ("typed(0.1, m=1)", "kinds:typed: argument: unknown name 'm'"),
        ("plain(1/0)", "kinds:plain: alpha: 1 / 0 is no finite"),
        ("plain(1, 2, 1/0)", "kinds:plain: others: 1 / 0 is no finite"),
        ("plain(1, new=1/0)", "kinds:plain: new: 1 / 0 is no finite"),
        ("of(0.1, 0.1)", "kinds:of: step: got 0.1; a function is required"),
        ("fails(0.1)", "kinds:fails: alpha: is never right"),
    ],
)
def test_ones_own_functions_are_checked_like_ours(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        expressions.parse_learner(f"kinds:{text}")(PROBLEM)()
