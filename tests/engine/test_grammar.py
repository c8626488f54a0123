"""The grammar of expressions: Python's precedence, and bounded work whatever the text is."""

import math

import pytest

from emphatic.engine import expressions, grammar


@pytest.mark.parametrize(
    "text",
    [
        "-2**2",
        "2**-1",
        "2**3**2",
        "-2**-2",
        "--3",
        "1-2-3",
        "8/4/2",
        "2*3+4*5",
        "2*(3+4)",
        "(1)",
        "1-(2-3)",
        "6/2*3",
        "-(1+2)*3",
        " 1e-3 + .5 * 5. ",
        "2*-3",
    ],
)
def test_arithmetic_is_that_of_python(text):
    assert expressions.parse_numbers(text) == [eval(text)]


@pytest.mark.parametrize("seed", range(30))
def test_random_arithmetic_is_that_of_python(seed):
    import random

    rng = random.Random(seed)

    def write(depth):
        if depth == 0:
            return rng.choice(["1", "2", "0.5", "3e-1"])
        left, right = write(depth - 1), write(rng.randrange(depth))
        return rng.choice(
            [f"{left} + {right}", f"({left})*{right}", f"-{left}", f"{left}/({right})", f"({left})"]
        )

    text = write(5)
    try:
        expected = eval(text)
    except ZeroDivisionError:
        expected = math.nan
    if math.isfinite(expected):
        assert expressions.parse_numbers(text) == [expected]
    else:
        with pytest.raises(ValueError, match="no finite"):
            expressions.parse_numbers(text)


def test_an_expression_says_what_it_calls_and_names():
    expression = grammar.parse('etd(my.own:trace(beta), step_size=rate/2, other="name(text)")')
    assert expression.calls == {"etd", "my.own:trace"}
    assert expression.names == {"beta", "rate"}
    assert isinstance(expression.node, grammar.Call)
    values = [expression.text[part.start : part.end] for part in expression.node.arguments]
    assert values == ["my.own:trace(beta)", "rate/2", '"name(text)"']
    assert [part.keyword for part in expression.node.arguments] == [None, "step_size", "other"]


@pytest.mark.parametrize("text", ["f(1,)", "[1, 2,]", "(1, 2)", "f()", "(1,)", "[]"])
def test_commas_are_as_in_python(text):
    grammar.parse(text)


@pytest.mark.parametrize("depth", [grammar.MAX_DEPTH - 2, grammar.MAX_DEPTH])
@pytest.mark.parametrize("brackets", ["()", "[]", "-", "2^"])
def test_nesting_has_an_end(depth, brackets):
    text = brackets[:1] * depth + "1" + brackets[1:] * depth
    text = "2^" * depth + "1" if brackets == "2^" else text
    text = "-" * depth + "1" if brackets == "-" else text
    if depth < grammar.MAX_DEPTH:
        grammar.parse(text)
    else:
        with pytest.raises(ValueError, match="nested more than 30 deep"):
            grammar.parse(text)
