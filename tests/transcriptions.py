"""The stream and the learners once more, step by step in Python and NumPy: the references."""

import re
import zlib
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from emphatic import Problem

from .plainly import plainly

MOST = 2**32 - 1
DECAY, ZETA, RIDGE = 0.6, 0.7, 0.5  # of the traces and the least squares of the contract


# The stream


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32-20 of Salmon et al. (2011), on Python's whole numbers."""
    keys = (*key, 0x1BD11BDA ^ key[0] ^ key[1])
    a, b = (counter[0] + keys[0]) & MOST, (counter[1] + keys[1]) & MOST
    for turn in range(20):
        rotation = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        a = (a + b) & MOST
        b = a ^ ((b << rotation | b >> (32 - rotation)) & MOST)
        if turn % 4 == 3:
            block = turn // 4 + 1
            a = (a + keys[block % 3]) & MOST
            b = (b + keys[(block + 1) % 3] + block) & MOST
    return a, b


def drawn(law: list[float], word: int) -> int:
    r"""The first $n$ with $\min(w, 2^{32} - 2) < \min([2^{32}F(n)], 2^{32} - 1)$, F cumulated."""
    upto, total = 0.0, sum(law)
    for number, probability in enumerate(law):
        upto += probability
        if min(word, MOST - 1) < min(round(upto / total * 2**32), MOST):
            return number
    raise AssertionError("a law sums to one")


def outcomes(problem: Problem) -> list[list[tuple[int, int, float, float, float]]]:
    """For each pair (s, a) its outcomes: number, s', probability, reward, discount."""
    mdp, (states, actions) = problem.mdp, problem.behavior.shape
    every, count = [], 0
    for pair in range(states * actions):
        where = divmod(pair, actions)
        if sparse.issparse(mdp.transition):
            stored = range(*mdp.transition.indptr[pair : pair + 2])
            entries = [(mdp.transition.indices[n], mdp.transition.data[n], n) for n in stored]
        else:
            entries = [(s, p, (*where, s)) for s, p in enumerate(mdp.transition[where])]
        found = []
        for state, probability, place in entries:
            if probability > 0:
                values = [
                    value if np.ndim(value) == 0 else value[where if np.ndim(value) == 2 else place]
                    for value in (mdp.reward, mdp.discount)
                ]
                found.append((count, int(state), float(probability), *map(float, values)))
                count += 1
        every.append(found)
    return every


def experience(problem: Problem, seed: int, num_steps: int) -> list[SimpleNamespace]:
    """The samples of a seed, and their rows."""
    actions, known = problem.behavior.shape[1], outcomes(problem)
    key = seed & MOST, seed >> 32
    policy = problem.behavior.tolist()
    one, two = threefry(key, (0, 0))
    s = drawn(problem.start.tolist(), one)
    a = drawn(policy[s], two)
    path = []
    for t in range(num_steps):
        one, two = threefry(key, (t + 1, 0))
        possible = known[s * actions + a]
        number, s_next, _, r, gamma = possible[drawn([each[2] for each in possible], one)]
        a_next = drawn(policy[s_next], two)
        row = number * actions + a_next
        path.append(
            SimpleNamespace(t=t, s=s, a=a, r=r, gamma=gamma, s_next=s_next, a_next=a_next, row=row)
        )
        s, a = s_next, a_next
    return path


def seen(problem: Problem, target: np.ndarray, path: list[SimpleNamespace]) -> list:
    """What a learner sees of a path under a target."""
    mu, i = problem.behavior, problem.interest
    x, xa = problem.dense_features

    def view(y: SimpleNamespace) -> SimpleNamespace:
        return SimpleNamespace(
            **vars(y),
            x=x[y.s],
            x_next=x[y.s_next],
            xa=xa[y.s, y.a],
            xa_next=xa[y.s_next, y.a_next],
            rho=target[y.s, y.a] / mu[y.s, y.a],
            rho_next=target[y.s_next, y.a_next] / mu[y.s_next, y.a_next],
            i=i[y.s],
            i_next=i[y.s_next],
            pi=target[y.s, y.a],
            mu=mu[y.s, y.a],
        )

    return [view(y) for y in path]


# The learners: each from (weights, transition, parameters) to the next weights


def initial(seed: int, name: str, size: int) -> np.ndarray:
    """Standard normal weights of a seed: single precision, whatever the working one."""
    key = jax.random.wrap_key_data(jnp.array([seed >> 32, seed & MOST], jnp.uint32))
    named = jax.random.fold_in(key, zlib.crc32(name.encode()))
    return np.asarray(jax.random.normal(named, (size,), np.float32), np.float64)


def gem(d, y, p):
    kappa, w = d["kappa"], d["w"]
    delta = y.i_next + y.gamma * y.rho * (y.x @ w) - y.x_next @ w
    return {
        "kappa": kappa + p.alpha * (delta - y.x_next @ kappa) * y.x_next,
        "w": w + p.alpha * ((y.x_next - y.gamma * y.rho * y.x) * (y.x_next @ kappa) - p.eta * w),
    }


def gq2(d, y, p):
    kappa, u = d["kappa"], d["u"]
    delta = y.r + y.gamma * y.rho_next * (y.xa_next @ u) - y.xa @ u
    back = y.xa - y.gamma * y.rho_next * y.xa_next
    return {
        "kappa": kappa + p.alpha * (delta - y.xa @ kappa) * y.xa,
        "u": u + p.alpha * (back * (y.xa @ kappa) - p.eta * u),
    }


def _td_error(nu, y):
    return y.r + y.gamma * (y.x_next @ nu) - y.x @ nu


def gtd2(d, y, p):
    kappa, nu = d["kappa"], d["nu"]
    return {
        "kappa": kappa + p.alpha * (y.rho * _td_error(nu, y) - y.x @ kappa) * y.x,
        "nu": nu + p.alpha * y.rho * (y.x - y.gamma * y.x_next) * (y.x @ kappa),
    }


def tdc(d, y, p):
    kappa, nu, delta = d["kappa"], d["nu"], _td_error(d["nu"], y)
    return {
        "kappa": kappa + p.alpha * (y.rho * delta - y.x @ kappa) * y.x,
        "nu": nu + p.alpha * y.rho * (delta * y.x - y.gamma * y.x_next * (y.x @ kappa)),
    }


def tdrc(d, y, p):
    kappa = d["kappa"]
    plain = tdc(d, y, p)
    return {"kappa": plain["kappa"] - p.alpha * 1.0 * kappa, "nu": plain["nu"]}


def _traced(trace, y):
    """The trace of the target, and what is kept of it."""
    z = y.rho * (DECAY * trace + y.x)
    return z, y.gamma * z


def td_trace(d, y, p):
    z, kept = _traced(d["trace"], y)
    return {"nu": d["nu"] + p.alpha * _td_error(d["nu"], y) * z, "trace": kept}


def etd_trace(d, y, p):
    F = y.i + d["emphasis.terms"]
    M = DECAY * y.i + (1 - DECAY) * F
    z = y.rho * (DECAY * d["trace"] + M * y.x)
    nu = d["nu"] + p.alpha * _td_error(d["nu"], y) * z
    return {"emphasis.terms": y.gamma * y.rho * F, "nu": nu, "trace": y.gamma * z}


def gtd2_trace(d, y, p):
    kappa, (z, kept) = d["kappa"], _traced(d["trace"], y)
    ahead = (1 - DECAY) * y.gamma * (z @ kappa) * y.x_next
    return {
        "kappa": kappa + p.alpha * (_td_error(d["nu"], y) * z - (y.x @ kappa) * y.x),
        "nu": d["nu"] + p.alpha * (y.rho * (y.x @ kappa) * y.x - ahead),
        "trace": kept,
    }


def tdc_trace(d, y, p):
    kappa, delta, (z, kept) = d["kappa"], _td_error(d["nu"], y), _traced(d["trace"], y)
    ahead = (1 - DECAY) * y.gamma * (z @ kappa) * y.x_next
    return {
        "kappa": kappa + p.alpha * (delta * z - (y.x @ kappa) * y.x),
        "nu": d["nu"] + p.alpha * (delta * z - ahead),
        "trace": kept,
    }


def htd(d, y, p):
    kappa, delta, (z, kept) = d["kappa"], _td_error(d["nu"], y), _traced(d["trace"], y)
    z_mu = DECAY * d["behavior_trace"] + y.x
    back = y.x - y.gamma * y.x_next
    return {
        "kappa": kappa + p.alpha * (delta * z - back * (z_mu @ kappa)),
        "nu": d["nu"] + p.alpha * (delta * z + back * (z @ kappa - z_mu @ kappa)),
        "trace": kept,
        "behavior_trace": y.gamma * z_mu,
    }


def pgtd2(d, y, p):
    middle = gtd2(d, y, p)
    moved = gtd2(middle, y, p)
    return {name: d[name] + moved[name] - middle[name] for name in d}


def _cut(decay, factor, clipped):
    """TD whose trace is cut by a factor, the update with the ratio or with a clipped one."""

    def update(d, y, p):
        z = decay * d["trace"] + y.x
        move = p.alpha * clipped(y) * _td_error(d["nu"], y) * z
        return {"nu": d["nu"] + move, "trace": y.gamma * factor(y) * z}

    return update


def _abtd_factor(y):
    xi = 2 * ZETA * 2.0 + max(0, 2 * ZETA - 1) * (3.0 - 2 * 2.0)
    return min(xi, 1 / max(y.pi, y.mu)) * y.pi


def true_online_etd(d, y, p):
    F, past, nu = y.i + d["emphasis.terms"], y.rho * DECAY * d["trace"], d["nu"]
    M = DECAY * y.i + (1 - DECAY) * F
    z = past + p.alpha * y.rho * M * (y.x - (past @ y.x) * y.x)
    move = _td_error(nu, y) * z + d["change"] * (z - p.alpha * y.rho * M * y.x)
    return {
        "emphasis.terms": y.gamma * y.rho * F,
        "nu": nu + move,
        "trace": y.gamma * z,
        "change": move @ y.x_next,
    }


def lstd(d, y, p, M=1.0):
    z = y.rho * (DECAY * d["trace"] + M * y.x)
    A = np.linalg.inv(d["inverse"])
    b = A @ d["nu"] + y.r * z
    A = A + np.outer(z, y.x - y.gamma * y.x_next)
    return {"inverse": np.linalg.inv(A), "nu": np.linalg.solve(A, b), "trace": y.gamma * z}


def elstd(d, y, p):
    F = y.i + d["emphasis.terms"]
    after = lstd(d, y, p, DECAY * y.i + (1 - DECAY) * F)
    return {"emphasis.terms": y.gamma * y.rho * F} | after


BETA, GAMMA, LAMBDA = 0.6, 0.8, 0.7  # a trace's decay, a ratio's discount, its mean's weight


def decayed(y):
    return SimpleNamespace(**(vars(y) | {"gamma": BETA if y.gamma > 0 else 0.0}))


def continuing(y):
    i = 1 - GAMMA
    return SimpleNamespace(**(vars(y) | {"gamma": GAMMA, "i": i, "i_next": i}))


def tderc(d, y, p, beta=0.3):
    kappa, w = d["kappa"], d["w"]
    delta = y.i_next + y.gamma * y.rho * (y.x @ w) - y.x_next @ w
    return {
        "kappa": kappa
        + p.alpha * (delta * y.x_next - (y.x_next @ kappa) * y.x_next - beta * kappa),
        "w": w + p.alpha * (delta * y.x_next - y.gamma * y.rho * (y.x_next @ kappa) * y.x),
    }


def expected_trace(d, y, p):
    """The sums of interests and features, each times the ratios and discounts since."""
    w, factor = d["w"], y.gamma * y.rho
    terms = [factor * y.i, *(factor * term for term in d["interests.terms"])]
    features = [factor * y.x, *(factor * x for x in d["trace"])]
    G = y.i_next + sum(terms[:2]) + features[2] @ w
    return {
        "interests.terms": np.array(terms[:2]),
        "trace": np.array(features[:2]),
        "w": w + p.alpha * (G - y.x_next @ w) * y.x_next,
    }


def lsgem(d, y, p):
    """The whole sums, and an inverse and a solution of each."""
    A = d["A"] + np.outer(y.x_next, y.x_next - y.gamma * y.rho * y.x)
    b = d["b"] + y.i_next * y.x_next
    return {"A": A, "b": b, "inverse": np.linalg.inv(A), "w": np.linalg.solve(A, b)}


def gradient_dice(d, y, p):
    kappa, u, w = d["kappa"], d["u"], d["w"]
    tau, f, f_next = y.x @ w, y.x @ kappa, y.x_next @ kappa
    ahead = GAMMA * y.rho * tau * y.x_next
    back = GAMMA * y.rho * f_next * y.x - f * y.x + LAMBDA * u * y.x + p.eta * w
    return {
        "kappa": kappa + p.alpha * ((1 - GAMMA) * y.x + ahead - tau * y.x - f * y.x),
        "u": u + p.alpha * LAMBDA * (tau - 1 - u),
        "w": w - p.alpha * back,
    }


def period_of(time, length=2, growth=1):
    """The length of the period of a time, and how many of its steps are over."""
    number, begin = 0, 0
    while True:
        long = length + growth * ((number + 1).bit_length() - 1)
        if time < begin + long:
            return long, time - begin
        number, begin = number + 1, begin + long


def restarted(terms, y):
    return 0.0 * terms if period_of(y.t)[1] == 0 else terms


def restarting(d, y, p):
    return {"terms": y.gamma * y.rho * (y.i + restarted(d["terms"], y))}


def periodic_etd(d, y, p):
    long, passed = period_of(y.t)
    terms = restarted(d["emphasis.terms"], y)
    moved = _emphatic(d, y, p, y.i + terms)["nu"]
    nu = moved if passed == long - 1 else d["nu"]
    return {"emphasis.terms": y.gamma * y.rho * (y.i + terms), "nu": nu}


def reverse_td(d, y, p):
    w = d["w"]
    delta = y.i_next + y.gamma * y.rho * (y.x @ w) - y.x_next @ w
    return {"w": w + p.alpha * delta * y.x_next}


def _emphatic(d, y, p, M):
    return {"nu": d["nu"] + p.alpha * M * y.rho * _td_error(d["nu"], y) * y.x}


def _inner(d):
    return {name.removeprefix("emphasis."): d[name] for name in d if name != "nu"}


def _with_emphasis(emphasis):
    """ETD that learns its emphasis beside, from the same transition."""
    _, update, predict = LEARNERS[emphasis]

    def both(d, y, p):
        inner = update(_inner(d), y, p)
        outer = _emphatic(d, y, p, predict(_inner(d), y, p))
        return {f"emphasis.{name}": value for name, value in inner.items()} | outer

    return both


def lms(d, y, p):
    M = y.i + d["emphasis.terms"]
    return {"emphasis.terms": y.gamma * y.rho * M, "w": d["w"] + p.alpha * (M - y.x @ d["w"]) * y.x}


def etq(d, y, p):
    M, u = y.i + d["interest.terms"], d["u"]
    e = y.rho * d["trace"] + M * y.xa
    delta = y.r + y.gamma * y.rho_next * (y.xa_next @ u) - y.xa @ u
    return {
        "interest.terms": y.gamma * y.rho * M,
        "trace": y.gamma * e,
        "u": u + p.alpha * delta * e,
    }


def followon(d, y, p):
    return {"terms": y.gamma * y.rho * (y.i + d["terms"])}


def truncated(d, y, p):
    return {"terms": y.gamma * y.rho * np.array([y.i, *d["terms"]])[: len(d["terms"])]}


def nothing(d, y, p):
    return d


def _of(weight, features="x"):
    return lambda d, y, p: getattr(y, features) @ d[weight]


def _trace(d, y, p):
    return y.i + d["terms"].sum()


# For each name the weights (0: zeros, 1: normal; of x unless another size is given; or made from
# the number of features), the update, and the prediction.
LEARNERS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "gem": ({"kappa": 0, "w": 1}, gem, _of("w")),
    "gq2": ({"kappa": (0, "xa"), "u": (1, "xa")}, gq2, _of("u", "xa")),
    "gtd2": ({"kappa": 0, "nu": 1}, gtd2, _of("nu")),
    "tdc": ({"kappa": 0, "nu": 1}, tdc, _of("nu")),
    "reverse_td": ({"w": 1}, reverse_td, _of("w")),
    "tdrc": ({"kappa": 0, "nu": 1}, tdrc, _of("nu")),
    "pgtd2": ({"kappa": 0, "nu": 1}, pgtd2, _of("nu")),
    "td-trace": ({"nu": 1, "trace": 0}, td_trace, _of("nu")),
    "gtd2-trace": ({"kappa": 0, "nu": 1, "trace": 0}, gtd2_trace, _of("nu")),
    "tdc-trace": ({"kappa": 0, "nu": 1, "trace": 0}, tdc_trace, _of("nu")),
    "htd": ({"kappa": 0, "nu": 1, "trace": 0, "behavior_trace": 0}, htd, _of("nu")),
    "etd-trace": ({"emphasis.terms": (0, 1), "nu": 1, "trace": 0}, etd_trace, _of("nu")),
    "vtrace": (
        {"nu": 1, "trace": 0},
        _cut(DECAY, lambda y: min(y.rho, 0.8), lambda y: min(y.rho, 1.2)),
        _of("nu"),
    ),
    "tree_backup": ({"nu": 1, "trace": 0}, _cut(DECAY, lambda y: y.pi, lambda y: y.rho), _of("nu")),
    "abtd": ({"nu": 1, "trace": 0}, _cut(1.0, _abtd_factor, lambda y: y.rho), _of("nu")),
    "true_online_etd": (
        {"emphasis.terms": (0, 1), "nu": 1, "trace": 0, "change": lambda k: np.zeros(())},
        true_online_etd,
        _of("nu"),
    ),
    "lstd": ({"inverse": lambda k: np.eye(k) / RIDGE, "nu": 0, "trace": 0}, lstd, _of("nu")),
    "elstd": (
        {"emphasis.terms": (0, 1), "inverse": lambda k: np.eye(k) / RIDGE, "nu": 0, "trace": 0},
        elstd,
        _of("nu"),
    ),
    "gem-decay": ({"kappa": 0, "w": 1}, lambda d, y, p: gem(d, decayed(y), p), _of("w")),
    "tdec": ({"kappa": 0, "w": 1}, lambda d, y, p: tderc(d, y, p, beta=0.0), _of("w")),
    "tderc": ({"kappa": 0, "w": 1}, tderc, _of("w")),
    "expected_trace": (
        {"interests.terms": (0, 2), "trace": lambda k: np.zeros((2, k)), "w": 1},
        expected_trace,
        _of("w"),
    ),
    "lsgem": (
        {"A": lambda k: 0.3 * np.eye(k), "b": 0, "inverse": lambda k: np.eye(k) / 0.3, "w": 0},
        lsgem,
        _of("w"),
    ),
    "cop_td": ({"w": 1}, lambda d, y, p: reverse_td(d, continuing(y), p), _of("w")),
    "gradient_cop_td": ({"kappa": 0, "w": 1}, lambda d, y, p: gem(d, continuing(y), p), _of("w")),
    "gradient_dice": ({"kappa": 0, "u": lambda k: np.zeros(()), "w": 1}, gradient_dice, _of("w")),
    "td": ({"nu": 1}, lambda d, y, p: _emphatic(d, y, p, 1.0), _of("nu")),
    "etd-exact": ({"nu": 1}, lambda d, y, p: _emphatic(d, y, p, p.m[y.s]), _of("nu")),
    "lms": ({"emphasis.terms": (0, 1), "w": 1}, lms, _of("w")),
    "etq": ({"interest.terms": (0, 1), "trace": (0, "xa"), "u": (1, "xa")}, etq, _of("u", "xa")),
    "followon": ({"terms": (0, 1)}, followon, _trace),
    "truncated": ({"terms": (0, 3)}, truncated, _trace),
    "interest": ({}, nothing, lambda d, y, p: y.i),
    "restarting": (
        {"terms": (0, 1)},
        restarting,
        lambda d, y, p: y.i + restarted(d["terms"], y).sum(),
    ),
    "periodic_etd": ({"emphasis.terms": (0, 1), "nu": 1}, periodic_etd, _of("nu")),
    "constant": ({}, nothing, lambda d, y, p: p.value),
    "exact": ({}, nothing, lambda d, y, p: p.m[y.s]),
}
LEARNERS["etd"] = ({"emphasis.terms": (0, 1), "nu": 1}, _with_emphasis("followon"), _of("nu"))
LEARNERS["gem-etd"] = (
    {"emphasis.kappa": 0, "emphasis.w": 1, "nu": 1},
    _with_emphasis("gem"),
    _of("nu"),
)


def emphasis(problem: Problem, target: np.ndarray) -> np.ndarray:
    r"""$m = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, for a dense problem."""
    plain = plainly(problem, target)
    return np.linalg.solve(np.eye(len(plain.d)) - plain.gP.T, plain.d * plain.i) / plain.d


def learn(
    name: str, ys: list, seed: int, alpha: Any = 0.1, eta: Any = 0.3, value: float = 100.0, m=None
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """The weights before and after every step, and the predictions before; schedules are called."""
    weights, update, predict = LEARNERS[name]
    d = {}
    for full, kind in weights.items():
        if callable(kind):
            d[full] = kind(len(ys[0].x))
            continue
        normal, size = kind if isinstance(kind, tuple) else (kind, "x")
        size = size if isinstance(size, int) else len(getattr(ys[0], size))
        d[full] = initial(seed, full.split(".")[-1], size) if normal else np.zeros(size)
    states, predictions = [d], []
    for y in ys:
        now = [each(y.t) if callable(each) else each for each in (alpha, eta)]
        p = SimpleNamespace(alpha=now[0], eta=now[1], value=value, m=m)
        predictions.append(predict(d, y, p))
        d = update(d, y, p)
        states.append(d)
    return states, np.array(predictions)


def labelled(states: list[dict[str, np.ndarray]], labels: Any) -> np.ndarray:
    """States as rows of numbers in the order of labels such as `w[0]`."""

    def number(state, label):
        name, _, index = str(label).partition("[")
        return state[name][tuple(map(int, re.findall(r"\d+", index)))]

    return np.array([[number(state, label) for label in labels] for state in states])
