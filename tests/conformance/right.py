"""Right learners in NumPy, in every form that people give them."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from .. import transcriptions
from .wrong import ALPHA, ETA, functions, GEM, GQ2, TD, TDC

ETD = f"etd(followon(), {ALPHA})"
GEM_ETD = f"etd(gem({ALPHA}, {ETA}), {ALPHA})"
CLAIMS = {"td": TD, "tdc": TDC, "gem": GEM, "gq2": GQ2, "etd": ETD}
EXPRESSIONS = {
    **CLAIMS,
    "gem-etd": GEM_ETD,
    "etd-exact": f"etd(exact(emphasis), {ALPHA})",
    "etq": f"etq(followon(), {ALPHA})",
    "followon": "followon()",
}


def transcription(name):
    """The transcription of a learner, as an implementation."""
    _, update, predict = transcriptions.LEARNERS[name]

    def numbers(d, y):
        return SimpleNamespace(alpha=ALPHA, eta=ETA, value=100.0, m=d.get("m"))

    def seen(y):
        names = {"i": y.interest, "i_next": y.interest_next, "r": y.reward, "gamma": y.discount}
        return SimpleNamespace(**vars(y), **names, s=y.state)

    def init(weights, problem):
        return {**weights, "m": transcriptions.emphasis(problem, problem.target)}

    def step(d, y):
        return {"m": d["m"], **update(d, seen(y), numbers(d, y))}

    def value(d, y):
        return np.squeeze(predict(d, seen(y), numbers(d, y)))

    return functions(step, value, init)


def dots(rng):
    """Some way of computing an inner product."""
    order = rng.permutation(64)

    def shuffled(a, b):
        kept = order[order < len(a)]
        return a[kept] @ b[kept]

    return rng.choice(
        [
            np.dot,
            shuffled,
            lambda a, b: (a * b).sum(),
            lambda a, b: sum((a * b)[::-1], start=a.dtype.type(0)),
            lambda a, b: a.dtype.type(math.fsum(a * b)),
            lambda a, b: np.einsum("i,i", a, b),
        ]
    )


def variant(name: str, seed: int):
    """A right learner with random rounding, precision, form and state."""
    rng = np.random.default_rng(seed)
    dot, expands, is_first_scaled = dots(rng), rng.random() < 0.5, rng.random() < 0.5
    real = (np.float32, np.float64)[rng.integers(2)]

    alpha = real(ALPHA)

    def add(w, scalar, x):
        """A step along x, with products in some order."""
        if is_first_scaled:
            return w + (alpha * scalar) * x
        return w + alpha * (scalar * x)

    def error(y, w):
        if expands:
            return -(dot(y.x - y.discount * y.x_next, w) - y.reward)
        return y.reward + y.discount * dot(y.x_next, w) - dot(y.x, w)

    def td(d, y):
        return {"nu": add(d["nu"], y.rho * error(y, d["nu"]), y.x)}

    def tdc(d, y):
        delta, guess = error(y, d["nu"]), dot(y.x, d["kappa"])
        nu = add(d["nu"], y.rho * delta, y.x)
        return {
            "kappa": add(d["kappa"], y.rho * delta - guess, y.x),
            "nu": add(nu, -y.rho * y.discount * guess, y.x_next),
        }

    def gradient(d, name, target, to, back):
        """GEM and GQ2: the error at one end, and features at both."""
        w, kappa = d[name], d["kappa"]
        guess = dot(to, kappa)
        moved = add(add(w, guess, to), -guess, back)
        return {
            "kappa": add(kappa, target + dot(back, w) - dot(to, w) - guess, to),
            name: moved - real(ALPHA * ETA) * w,
        }

    def gem(d, y):
        return gradient(d, "w", y.interest_next, y.x_next, (y.discount * y.rho) * y.x)

    def gq2(d, y):
        return gradient(d, "u", y.reward, y.xa, y.discount * (y.rho_next * y.xa_next))

    def etd(d, y):
        M = d["emphasis.terms"] + y.interest
        return {
            "emphasis.terms": y.discount * M * y.rho,
            "nu": add(d["nu"], M[0] * error(y, d["nu"]) * y.rho, y.x),
        }

    update = {"td": td, "tdc": tdc, "gem": gem, "gq2": gq2, "etd": etd}[name]
    predicted, features = {"gem": ("w", "x"), "gq2": ("u", "xa")}.get(name, ("nu", "x"))
    return _in_some_form(rng, real, update, lambda d, y: dot(getattr(y, features), d[predicted]))


def _in_some_form(rng, real, update, predict):
    """Functions on a dict, a list or a tuple, or a class that changes itself in place."""

    def cast(y):
        return replace(
            y,
            **{
                key: value if key in ("time", "state") else np.asarray(value, real)[()]
                for key, value in vars(y).items()
            },
        )

    def begin(weights):
        return {name: w.astype(real) for name, w in weights.items()}

    if rng.random() < 0.4:

        class InPlace:
            def __init__(self, weights):
                self.weights = begin(weights)

            def step(self, y):
                for name, value in update(self.weights, cast(y)).items():
                    self.weights[name][...] = value

            def predict(self, y):
                return predict(self.weights, cast(y))

        return InPlace
    kind = rng.integers(3)

    def pack(d):
        return (dict(d), list(d.items()), tuple(d.values()))[kind]

    names: list[str] = []

    def unpack(state):
        if kind == 2:
            return dict(zip(names, state, strict=True))
        return dict(state)

    def init(weights):
        names[:] = list(weights)
        return pack(begin(weights))

    def step(state, y):
        d = {name: w.copy() for name, w in unpack(state).items()}
        after = update(d, cast(y))
        for name in d:  # a copy, changed in place
            d[name][...] = after[name]
        return pack(d)

    return functions(step, lambda state, y: predict(unpack(state), cast(y)), init)
