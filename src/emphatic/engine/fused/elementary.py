"""Elementary functions of lanes, as polynomials: the same on every machine, and vectors all along.

The coefficients are those of the Cephes library (Moshier, 1989).
"""

from typing import TYPE_CHECKING

import numpy as np

from .values import Lane

if TYPE_CHECKING:
    from .lowering import Lowering

LOG2_E = 1.4426950408889634073599
SINGLE = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)
TOP = 1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1
BOTTOM = (
    *(3.00198505138664455042e-6, 2.52448340349684104192e-3),
    *(2.27265548208155028766e-1, 2.00000000000000000005e0),
)


def exp(lowering: "Lowering", x: Lane) -> Lane:
    r"""Emits $e^x = 2^n e^r$ with $|r| \le \tfrac12\log 2$; relative error below 2e-7 or 5e-16."""
    dtype, double = x.dtype, x.dtype == np.float64
    add, sub, mul = lowering.add, lowering.sub, lowering.mul

    def number(value: float) -> Lane:
        return lowering.constant(value, dtype)

    def horner(coefficients: tuple[float, ...], z: Lane) -> Lane:
        total = number(coefficients[0])
        for coefficient in coefficients[1:]:
            total = add(mul(total, z), number(coefficient))
        return total

    low, high = (-746.0, 710.0) if double else (-104.0, 89.0)  # beyond, 0 and infinity
    clipped = lowering.apply("min", lowering.apply("max", x, number(low)), number(high))
    n = lowering.apply("floor", add(mul(clipped, number(LOG2_E)), number(0.5)))
    # log 2 in two parts, the first with few digits, so that the difference is exact
    first = 6.93145751953125e-1 if double else 0.693359375
    second = 1.42860682030941723212e-6 if double else -2.12194440e-4
    r = sub(sub(clipped, mul(n, number(first))), mul(n, number(second)))
    square = mul(r, r)
    if double:
        numerator = mul(r, horner(TOP, square))
        ratio = lowering.apply("div", numerator, sub(horner(BOTTOM, square), numerator))
        result = add(mul(number(2.0), ratio), number(1.0))
    else:
        result = add(add(mul(horner(SINGLE, r), square), r), number(1.0))
    result = lowering.scale(result, n)
    is_nan = lowering.apply("ne", x, x, dtype=bool)
    return lowering.apply("select", is_nan, x, result)


def logistic(lowering: "Lowering", x: Lane) -> Lane:
    r"""Emits $1 / (1 + e^{-x})$."""
    one = lowering.constant(1.0, x.dtype)
    return lowering.apply("div", one, lowering.add(one, exp(lowering, lowering.apply("neg", x))))
