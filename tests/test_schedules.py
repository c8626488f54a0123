"""Step sizes, and the conditions that they say they satisfy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from emphatic import _validation, learners, schedules
from emphatic.schedules import constant, parse, Polynomial, polynomial

POWERS = [0.0, 0.3, 0.5, 0.51, 0.7, 1.0, 1.01, 2.0]


def test_a_polynomial_starts_at_its_scale_and_decays_by_its_power():
    alpha = polynomial(0.3, 0.5)
    assert [alpha(t) for t in (0, 3, 99)] == pytest.approx([0.3, 0.15, 0.03])


def test_a_decay_sets_in_at_its_onset():
    alpha = polynomial(0.3, 0.5, onset=100.0)
    assert [alpha(t) for t in (0, 100, 300, 9900)] == pytest.approx([0.3, 0.3 / 2**0.5, 0.15, 0.03])
    powers = jnp.array([0.5, 0.7])
    np.testing.assert_allclose(
        jax.vmap(lambda p: polynomial(0.3, p, 100.0)(300))(powers), 0.3 * 4.0 ** -np.array(powers)
    )


@pytest.mark.parametrize("onset", [0.0, -1.0, float("inf"), float("nan")])
def test_an_onset_is_a_positive_time(onset):
    with pytest.raises(ValueError, match=f"onset: got {onset}; a positive"):
        polynomial(0.1, 0.5, onset)


def test_a_constant_does_not_change():
    alpha = constant(0.25)
    assert [alpha(t) for t in (0, 1, 10**6)] == [0.25] * 3
    assert alpha == Polynomial(0.25, 0.0)


def test_time_may_be_traced():
    alpha = polynomial(0.5, 0.75)
    times = jnp.arange(5)
    expected = 0.5 * np.arange(1.0, 6.0) ** -0.75
    np.testing.assert_allclose(jax.jit(jax.vmap(alpha))(times), expected, rtol=1e-14)
    np.testing.assert_allclose(jax.vmap(constant(0.1))(times), 0.1, rtol=1e-15)


def growth(power):
    """How much sum_t t^-p gains between 4^10 and 4^20 relative to between 1 and 4^10.

    By the integral test the sum diverges iff p <= 1; then the later part is no smaller.
    """
    if power == 1.0:
        return 1.0
    return (4.0 ** (20 * (1 - power)) - 4.0 ** (10 * (1 - power))) / (4.0 ** (10 * (1 - power)) - 1)


@pytest.mark.parametrize("power", POWERS)
def test_robbins_and_monro_ask_for_a_divergent_sum_and_a_convergent_sum_of_squares(power):
    diverges = growth(power) >= 1.0
    squares_converge = growth(2 * power) < 1.0
    assert polynomial(0.1, power).robbins_monro == (diverges and squares_converge)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("other", POWERS)
def test_a_schedule_is_slower_exactly_when_the_ratio_vanishes(power, other):
    """Then (ratio)^d is summable for d large enough; the scales do not matter."""
    slow, fast = polynomial(5.0, power), polynomial(0.1, other)
    ratios = [slow(t) / fast(t) for t in (0, 10**100)]
    assert slow.slower_than(fast) == (ratios[1] < 0.5 * ratios[0])


@pytest.mark.parametrize("scale", [0.0, -0.1, float("inf"), float("nan")])
def test_a_step_size_must_be_positive(scale):
    with pytest.raises(ValueError, match=f"scale: got {scale}; .* positive and finite"):
        constant(scale)


@pytest.mark.parametrize("power", [-0.5, float("inf"), float("nan")])
def test_a_step_size_must_not_grow(power):
    with pytest.raises(ValueError, match=f"power: got {power}; .* power >= 0"):
        polynomial(0.1, power)


@pytest.mark.parametrize(
    ("text", "scale", "power"),
    [
        ("0.1", 0.1, 0.0),
        ("  2 ", 2.0, 0.0),
        (".5", 0.5, 0.0),
        ("1.", 1.0, 0.0),
        ("1e-3", 1e-3, 0.0),
        ("2.5E+2", 250.0, 0.0),
        ("1/t", 1.0, 1.0),
        ("0.1/t^0.7", 0.1, 0.7),
        ("1e-2/t^.6", 0.01, 0.6),
        ("0.1/t^0", 0.1, 0.0),
    ],
)
def test_a_schedule_is_read_from_text(text, scale, power):
    assert parse(text) == Polynomial(scale, power)


def test_an_onset_is_read_from_text():
    assert parse("0.1/(1+t/1e4)^0.6") == Polynomial(0.1, 0.6, 1e4)
    assert parse("2/(1+t/50)") == Polynomial(2.0, 1.0, 50.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "-0.1",
        "0.1/s",
        "0.1/t^",
        "0.1/t^-1",
        "0.1 0.2",
        "1/t^0.5/t",
        "nan",
        "1e",
        "1/(t)^2",
        "1/(1+t/)",
    ],
)
def test_other_text_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"step size: got '.*'; write .*0\.1/t\^0\.7"):
        parse(text)


@pytest.mark.parametrize("text", ["0", "0/t", "1e999"])
def test_text_for_an_impossible_step_size_is_refused(text):
    with pytest.raises(ValueError, match="scale: got"):
        parse(text)


@given(st.integers(1, 999), st.integers(-6, 3), st.integers(1, 30), st.integers(0, 6))
def test_what_is_printed_is_read_back(digits, exponent, tenths, zeros):
    schedule = polynomial(float(f"{digits}e{exponent}"), tenths / 10, 10.0**zeros)
    assert parse(str(schedule)) == schedule
    assert parse(str(constant(schedule.scale))) == constant(schedule.scale)


def test_the_module_offers_what_the_text_can_say():
    assert str(schedules.constant(0.5)) == "0.5"
    assert str(schedules.polynomial(0.1, 0.7)) == "0.1/t^0.7"


# Numbers of every type


def of_every_type(number):
    """A number as Python, NumPy and JAX have it."""
    kinds = [float, np.float64, np.float32, np.float16, np.asarray, jnp.float32, jnp.asarray]
    kinds += [int, np.int64, jnp.int32] if float(number).is_integer() else []
    return [kind(number) for kind in kinds]


NAN, INF = float("nan"), float("inf")
NO_NUMBERS = [True, np.True_, jnp.asarray(True), "0.1", None, 1j, np.array([0.1]), [0.1]]


def of_all_types(*numbers):
    return [value for number in numbers for value in of_every_type(number)]


@pytest.mark.parametrize("value", of_all_types(-1.0, 0.0, NAN, INF), ids=repr)
def test_a_step_size_is_positive_and_finite_whatever_the_type_of_its_number(value):
    with pytest.raises(ValueError, match=r"^scale: got .*; a step size must be positive"):
        polynomial(value, 0.7)
    with pytest.raises(ValueError, match=r"^onset: got .*; a positive and finite time"):
        polynomial(0.1, 0.7, value)
    with pytest.raises(ValueError, match=r"^step_size: got "):
        learners.gem(value)


@pytest.mark.parametrize("value", of_all_types(-1.0, NAN, INF), ids=repr)
def test_a_power_and_a_ridge_are_not_negative_whatever_the_type_of_their_number(value):
    with pytest.raises(ValueError, match=r"^power: got .*; a step size must not grow"):
        polynomial(1.0, value)
    with pytest.raises(ValueError, match=r"^ridge: got .*; it must be a finite number >= 0"):
        schedules.as_ridge(value)
    with pytest.raises(ValueError, match=r"^ridge: got "):
        learners.gq2(0.1, value)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^scale: got .*; a number is required"):
        _validation.number("scale", value, "a number is required")


@pytest.mark.parametrize("value", of_every_type(1.0), ids=repr)
def test_good_numbers_of_every_type_are_step_sizes(value):
    alpha = polynomial(value, value, value)
    assert float(alpha(1)) == 0.5
    assert float(schedules.as_ridge(value)(3)) == 1.0
    assert alpha.robbins_monro


def test_a_whole_number_too_large_for_a_float_is_refused():
    with pytest.raises(ValueError, match="scale: got 1000"):
        constant(10**400)


@pytest.mark.parametrize("large", [2**31, 2**63, 10**25])
def test_a_whole_number_may_be_larger_than_those_of_jax(large):
    """Such a step size or ridge diverges, which is a result; it is no error of the compiler."""
    step_sizes = constant(large), polynomial(large, 0.0), polynomial(large, 0.5, large)
    for alpha in (*step_sizes, schedules.as_ridge(large)):
        first = jax.jit(lambda x, alpha=alpha: alpha(jnp.int32(0)) * x)(2.0)
        np.testing.assert_allclose(first, 2.0 * large, rtol=1e-6)


def test_traced_step_sizes_pass_untouched():
    """They are lanes: values that nobody knows yet."""
    lanes = jnp.array([-1.0, jnp.nan, 0.5])
    sizes = jax.jit(jax.vmap(lambda c: polynomial(c, c, 2.0 + 0.0 * c).scale))(lanes)
    np.testing.assert_array_equal(sizes, lanes)
    np.testing.assert_array_equal(jax.vmap(lambda c: schedules.as_ridge(c)(0))(lanes), lanes)


@pytest.mark.parametrize("number", [-0.1, 1.1, NAN, INF])
def test_a_decay_lies_between_0_and_1_whatever_the_type_of_its_number(number):
    for value in of_every_type(number):
        with pytest.raises(ValueError, match=r"^decay: got .*; a number in \[0, 1\]"):
            learners.followon(decay=value)


@pytest.mark.parametrize("length", [-1, True])
def test_a_length_is_a_whole_number(length):
    with pytest.raises(ValueError, match=r"^length: got"):
        learners.followon(length)


@pytest.mark.parametrize("value", [NAN, np.float32("inf"), jnp.float32("nan"), True])
def test_a_constant_prediction_is_a_finite_number(value):
    with pytest.raises(ValueError, match=r"^value: got"):
        learners.constant(value)
