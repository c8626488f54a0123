"""Traces: learners agree with their exact mean fields, with each other and with forward views."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import learners, oracle, problems
from emphatic.engine.linearization import is_trace, weight_names

from ..strategies import build
from .test_learners import ALPHA, run, stream, viewer

SHAPE = (5, 3, 5, 4)
BETA, ETA = 0.7, 0.3  # the followon trace's decay, the ridge of GEM
CLIP, CLIPPED = 0.8, 1.2  # the thresholds of V-trace
XI_0, XI_MAX = 2.0, 3.0


class Chain:
    """One step of the behaviour written out, and the means of traces given where it has come to."""

    def __init__(self, problem, target):
        self.x, self.d, self.pi, self.mu = problem.x, problem.stationary, target, problem.behavior
        p = problem.mdp.transition
        self.gamma = problem.mdp.outcome(problem.mdp.discount).reshape(p.shape)
        self.p = p

    def flow(self, cut, gamma=None):
        r"""$\sum_a\mu(a|s)c(s,a)\gamma p$."""
        gamma = self.gamma if gamma is None else gamma
        return np.einsum("sa,sa,sat,sat->st", self.mu, cut, gamma, self.p)

    def past(self, cut, decay, weight=1.0):
        r"""The mean of $e_t = \gamma_tc_{t-1}(\lambda e_{t-1} + M_{t-1}x_{t-1})$ given $S_t$."""
        flow = self.flow(cut)
        fresh = flow.T @ ((self.d * weight)[:, None] * self.x)
        return np.linalg.solve(np.eye(len(self.d)) - decay * flow.T, fresh) / self.d[:, None]

    def followed(self, i, beta=None):
        r"""The mean of the followon trace, with $\beta$ for the discounts above 0."""
        gamma = None if beta is None else np.where(self.gamma > 0, beta, 0.0)
        flow = self.flow(self.pi / self.mu, gamma)
        return np.linalg.solve(np.eye(len(self.d)) - flow.T, self.d * i) / self.d


class Case(NamedTuple):
    """A learner with its system, and its state from the weights and the traces of a state."""

    learner: Any
    system: Any
    state: Any
    traces: Any  # by the names of the state's fields
    uses_kappa: bool = True


def cases(problem, target, decay) -> dict[str, Case]:
    """Every learner of values with a trace of decay lambda."""
    chain, i, x = Chain(problem, target), problem.interest, problem.x
    pi, mu = target, problem.behavior
    ratio, ones = pi / mu, np.ones_like(pi)
    z = {"trace": chain.past(ratio, decay)}
    m, f = chain.followed(i), chain.followed(i, BETA)
    w = np.linspace(-1.0, 2.0, x.shape[1])
    xi = 2 * decay * XI_0 + max(0.0, 2 * decay - 1) * (XI_MAX - 2 * XI_0)
    b = np.minimum(xi, 1 / np.maximum(pi, mu))

    def weighted(emphasis):
        return {"trace": chain.past(ratio, decay, decay * i + (1 - decay) * emphasis)}

    def systems(name, **options):
        return getattr(oracle, f"{name}_system")(problem, target, **options)

    def pair(state):
        return lambda kappa, nu, traces: state(kappa, nu, **traces)

    def single(state):
        return lambda kappa, nu, traces: state(nu, **traces)

    def emphatic(source):
        return lambda kappa, nu, traces: learners.ETDState(
            source(traces.pop("terms", None)), nu, **traces
        )

    def trace_of(terms):
        return learners.FollowonState(terms)

    gem_state = learners.GEMState(jnp.zeros(x.shape[1]), jnp.asarray(w))
    return {
        "gtd2": Case(
            learners.gtd2(ALPHA, trace_decay=decay),
            systems("gtd2", trace_decay=decay),
            pair(learners.GTD2State),
            z,
        ),
        "tdc": Case(
            learners.tdc(ALPHA, trace_decay=decay),
            systems("tdc", trace_decay=decay),
            pair(learners.TDCState),
            z,
        ),
        "tdrc": Case(
            learners.tdrc(ALPHA, 0.6, decay),
            systems("tdrc", regularization=0.6, trace_decay=decay),
            pair(learners.TDRCState),
            z,
        ),
        "htd": Case(
            learners.htd(ALPHA, trace_decay=decay),
            systems("htd", trace_decay=decay),
            pair(learners.HTDState),
            z | {"behavior_trace": chain.past(ones, decay)},
        ),
        "td": Case(
            learners.td(ALPHA, decay),
            systems("td", trace_decay=decay),
            emphatic(lambda terms: ()),
            z,
            False,
        ),
        "etd": Case(
            learners.etd(learners.followon(), ALPHA, decay),
            systems("etd", trace_decay=decay),
            emphatic(trace_of),
            weighted(m) | {"terms": (m - i)[:, None]},
            False,
        ),
        "etd-beta": Case(
            learners.etd(learners.followon(decay=BETA), ALPHA, decay),
            systems("etd", emphasis=f, trace_decay=decay),
            emphatic(trace_of),
            weighted(f) | {"terms": (f - i)[:, None]},
            False,
        ),
        "gem-etd": Case(
            learners.etd(learners.gem(ALPHA, ETA), ALPHA, decay),
            systems("etd", emphasis=x @ w, trace_decay=decay),
            emphatic(lambda terms: gem_state),
            weighted(x @ w),
            False,
        ),
        "vtrace": Case(
            learners.vtrace(ALPHA, decay, CLIP, CLIPPED),
            systems("vtrace", trace_decay=decay, trace_threshold=CLIP, threshold=CLIPPED),
            single(learners.VTraceState),
            {"trace": chain.past(np.minimum(ratio, CLIP), decay)},
            False,
        ),
        "tree_backup": Case(
            learners.tree_backup(ALPHA, decay),
            systems("tree_backup", trace_decay=decay),
            single(learners.TreeBackupState),
            {"trace": chain.past(pi, decay)},
            False,
        ),
        "abtd": Case(
            learners.abtd(ALPHA, decay, XI_0, XI_MAX),
            systems("abtd", zeta=decay, xi_0=XI_0, xi_max=XI_MAX),
            single(learners.ABTDState),
            {"trace": chain.past(b * pi, 1.0)},
            False,
        ),
    }


@pytest.mark.parametrize(("seed", "decay"), [(8, 0.6), (9, 1.0)])
def test_the_mean_trace_is_stationary_and_the_mean_step_is_the_mean_field(seed, decay):
    r"""With a discount that varies, and interests of which some are 0.

    Given traces of the mean that they have at $S_t$, one step leaves them with the mean that they
    have at $S_{t+1}$, and moves the weights by $\alpha(h - Gd)$, exactly.
    """
    problem, target = build(SHAPE, seed, varying=True)
    every, view, d = cases(problem, target, decay), viewer(problem, target), problem.stationary
    kappa, nu = np.random.default_rng(seed).normal(size=(2, problem.x.shape[1]))
    tables = {
        name: {field: jnp.asarray(mean) for field, mean in case.traces.items()}
        for name, case in every.items()
    }

    def moved(sample):
        s, y, found = sample.state, view(sample), {}
        for name, case in every.items():
            traces = {field: table[s] for field, table in tables[name].items()}
            after = case.learner.step(case.state(jnp.asarray(kappa), jnp.asarray(nu), traces), y)
            fields = {"nu": after.nu} | {field: getattr(after, field, ()) for field in case.traces}
            if case.uses_kappa:
                fields["kappa"] = after.kappa
            if "terms" in fields:
                fields["terms"] = after.emphasis.terms
            arrived = jax.nn.one_hot(sample.state_next, len(d))[:, None]
            found[name] = {
                field: value
                if field in ("nu", "kappa")
                else arrived * jnp.atleast_2d(jnp.asarray(value))
                for field, value in fields.items()
            }
        return found

    after = oracle.expectation(problem, moved)
    for name, case in every.items():
        for field, mean in case.traces.items():
            scale = 1.0 + np.abs(mean).max()
            np.testing.assert_allclose(
                after[name][field] / scale, d[:, None] * mean / scale, atol=1e-12, err_msg=name
            )
        point = np.concatenate([kappa, nu]) if case.uses_kappa else nu
        names = ("kappa", "nu") if case.uses_kappa else ("nu",)
        change = np.concatenate([after[name][field] for field in names]) - point
        expected = ALPHA * case.system.drift(point)
        scale = 1.0 + np.abs(expected).max()
        np.testing.assert_allclose(change / scale, expected / scale, atol=1e-12, err_msg=name)


# Decays


DECAYED = {
    "td": lambda decay: learners.td(ALPHA, decay),
    "gtd2": lambda decay: learners.gtd2(ALPHA, trace_decay=decay),
    "tdc": lambda decay: learners.tdc(ALPHA, 0.3, decay),
    "tdrc": lambda decay: learners.tdrc(ALPHA, 0.5, decay),
    "htd": lambda decay: learners.htd(ALPHA, 0.3, decay),
    "pgtd2": lambda decay: learners.pgtd2(ALPHA, 0.3, decay),
    "vtrace": lambda decay: learners.vtrace(ALPHA, decay),
    "tree_backup": lambda decay: learners.tree_backup(ALPHA, decay),
    "abtd": lambda decay: learners.abtd(ALPHA, decay),
    "etd": lambda decay: learners.etd(learners.followon(), ALPHA, decay),
    "true_online_etd": lambda decay: learners.true_online_etd(learners.followon(), ALPHA, decay),
    "lstd": lambda decay: learners.lstd(decay),
    "elstd": lambda decay: learners.elstd(learners.followon(), decay, 2.0),
}


@cache
def experience(num_steps=20, seed=0, target="other"):
    problem, other = build(SHAPE, 7, varying=True)
    target = other if target == "other" else problem.behavior
    ys = stream(problem, target, num_steps, seed)
    return problem, target, ys, jax.tree.map(lambda leaf: leaf[0], ys)


def test_decays_are_lanes_and_one_that_is_0_is_the_learner_without_a_trace():
    (_, _, ys, first), decays = experience(), [0.0, 0.5]

    def final(decay):
        made = {name: make(decay) for name, make in DECAYED.items()}
        states = {name: learner.init(jax.random.key(0), first) for name, learner in made.items()}
        for t in range(3):
            y = jax.tree.map(lambda leaf, t=t: leaf[t], ys)
            states = {name: learner.step(states[name], y) for name, learner in made.items()}
        return {name: state.nu for name, state in states.items()}

    swept = jax.jit(jax.vmap(final))(jnp.asarray(decays))
    for index, decay in enumerate(decays):
        for name, value in final(decay).items():
            np.testing.assert_allclose(swept[name][index], value, rtol=1e-9, err_msg=name)


def test_a_decay_that_is_known_to_be_0_keeps_no_trace():
    _, _, _, first = experience()
    for name, make in DECAYED.items():
        if name != "true_online_etd":
            for decay in (0, 0.0, np.float32(0.0)):
                state = make(decay).init(jax.random.key(0), first)
                assert not any(map(is_trace, weight_names(state)))
            assert any(map(is_trace, weight_names(make(0.5).init(jax.random.key(0), first))))
    assert weight_names(learners.td(0.1).init(jax.random.key(0), first)) == [
        f"nu[{n}]" for n in range(5)
    ]


# Learners that are others


def same_iterates(one, other, num_steps=50, target="other"):
    _, _, ys, first = experience(num_steps, target=target)
    found = [run(each, each.init(jax.random.key(0), first), ys)[0] for each in (one, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("one", "other", "target"),
    [
        # Where every ratio is 1, HTD is TD, and true online TD is not.
        (learners.htd(0.1, 0.3, 0.6), learners.td(0.1, 0.6), "behavior"),
        (learners.tdrc(0.1, 0.0, 0.6), learners.tdc(0.1, trace_decay=0.6), "other"),
        (learners.tdrc(0.1, 0.0), learners.tdc(0.1), "other"),
        # ABTD's trace: that of tree backup in the middle, and the clipped ratio at its end.
        (learners.abtd(0.1, 0.5, 1.0, 9.0), learners.tree_backup(0.1, 1.0), "other"),
        (learners.abtd(0.1, 1.0, 1.0, 1e9), learners.vtrace(0.1, 1.0, 1.0, np.inf), "other"),
        (learners.vtrace(0.1, 0.6, np.inf, np.inf), learners.td(0.1, 0.6), "behavior"),
        (
            learners.true_online_etd(learners.followon(), 0.1, 0.0),
            learners.etd(learners.followon(), 0.1),
            "other",
        ),
    ],
)
def test_learners_meet_where_they_should(one, other, target):
    same_iterates(one, other, target=target)


def test_a_trace_makes_td_another_than_etd_with_a_constant_unless_the_interest_is_1():
    """The interest enters the emphasis of ETD, and not TD."""
    _, _, ys, first = experience()
    td, etd = learners.td(0.1, 0.6), learners.etd(learners.constant(1.0), 0.1, 0.6)

    def both(ys):
        return [run(each, each.init(jax.random.key(0), first), ys)[0] for each in (td, etd)]

    found = both(ys)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    ones = jax.tree.map(lambda leaf: leaf, ys)
    object.__setattr__(ones, "interest", jnp.ones_like(ys.interest))
    np.testing.assert_allclose(*both(ones), rtol=1e-12)


def test_pgtd2_takes_the_step_that_gtd2_takes_in_the_middle():
    _, _, ys, _ = experience()
    rng = np.random.default_rng(1)
    kappa, nu, trace = jnp.asarray(rng.normal(size=(3, 5)))
    y = jax.tree.map(lambda leaf: leaf[4], ys)
    for decay, past in ((0, ()), (0.6, trace)):
        gtd2 = learners.gtd2(0.1, 0.3, decay)
        middle = gtd2.step(learners.GTD2State(kappa, nu, past), y)
        moved = gtd2.step(learners.GTD2State(middle.kappa, middle.nu, past), y)
        found = learners.pgtd2(0.1, 0.3, decay).step(learners.PGTD2State(kappa, nu, past), y)
        np.testing.assert_allclose(found.kappa, kappa + moved.kappa - middle.kappa, rtol=1e-11)
        np.testing.assert_allclose(found.nu, nu + moved.nu - middle.nu, rtol=1e-11)
        jax.tree.map(np.testing.assert_array_equal, found.trace, moved.trace)


# Forward views


def test_true_online_etd_is_the_online_forward_view_at_every_step():
    r"""From $\nu_0$ again for each horizon, with all $n$-step returns written out.

    $G^{(n)}_k = R_{k+1} + \gamma_{k+1}(\rho_{k+1}G^{(n-1)}_{k+1} +
    (1-\rho_{k+1})x_{k+1}^\top\nu_k)$ ends in the estimate $x_{k+n}^\top\nu_{k+n-1}$, and the
    return to the horizon $t$ is $(1-\lambda)\sum_n\lambda^{n-1}G^{(n)}_k$, whose last term has the
    rest of the weight.
    """
    decay, alpha, num_steps = 0.7, 0.1, 12
    _, _, ys, first = experience(num_steps, seed=3)
    learner = learners.true_online_etd(learners.followon(), lambda t: alpha / (1.0 + t), decay)
    start = learner.init(jax.random.key(1), first)
    _, states = run(learner, start, ys)
    x, x_next, rho, gamma, reward, i = (
        np.asarray(each) for each in (ys.x, ys.x_next, ys.rho, ys.discount, ys.reward, ys.interest)
    )
    emphasis, F = [], 0.0
    for t in range(num_steps):
        F += i[t]
        emphasis.append(decay * i[t] + (1 - decay) * F)
        F *= gamma[t] * rho[t]
    nus = [np.asarray(start.nu)]

    def n_step(k, n):
        if n == 0:
            return x[k] @ nus[k - 1]
        later = reward[k] + gamma[k] * (x_next[k] @ nus[k])
        if n == 1:
            return later
        return later + gamma[k] * rho[k + 1] * (n_step(k + 1, n - 1) - x_next[k] @ nus[k])

    def to_horizon(k, t):
        shares = [(1 - decay) * decay ** (n - 1) for n in range(1, t - k)] + [decay ** (t - k - 1)]
        np.testing.assert_allclose(sum(shares), 1.0)
        return sum(share * n_step(k, n + 1) for n, share in enumerate(shares))

    for t in range(1, num_steps + 1):
        nu = nus[0]
        for k in range(t):
            step_size = alpha / (1.0 + k) * rho[k] * emphasis[k]
            nu = nu + step_size * (to_horizon(k, t) - x[k] @ nu) * x[k]
        nus.append(nu)
        np.testing.assert_allclose(states.nu[t - 1], nu, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("decay", [0.0, 0.6])
def test_least_squares_are_the_solution_of_what_was_seen(decay):
    _, _, ys, first = experience(40, seed=2)
    learner = learners.lstd(decay, 0.5)
    emphatic = learners.elstd(learners.followon(), decay, 0.5)
    found = [
        run(each, each.init(jax.random.key(0), first), ys)[1].nu for each in (learner, emphatic)
    ]
    x, x_next, rho, gamma, reward, i = (
        np.asarray(each) for each in (ys.x, ys.x_next, ys.rho, ys.discount, ys.reward, ys.interest)
    )
    for is_emphatic, nus in enumerate(found):
        A, b, z, F = 0.5 * np.eye(5), np.zeros(5), np.zeros(5), 0.0
        for t in range(40):
            past = gamma[t - 1] if t else 0.0
            F = i[t] + (past * rho[t - 1] * F if t else 0.0)
            M = decay * i[t] + (1 - decay) * F if is_emphatic else 1.0
            z = rho[t] * (decay * past * z + M * x[t])
            A += np.outer(z, x[t] - gamma[t] * x_next[t])
            b += reward[t] * z
            np.testing.assert_allclose(nus[t], np.linalg.solve(A, b), rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_least_squares_settle_where_the_oracle_says():
    problem, target, ys, first = experience(200_000, seed=5)
    for learner, system in (
        (learners.lstd(0.6), oracle.td_system(problem, target, 0.6)),
        (
            learners.elstd(learners.exact(oracle.emphasis(problem, target)), 0.6),
            oracle.etd_system(problem, target, trace_decay=0.6),
        ),
    ):
        last = run(learner, learner.init(jax.random.key(0), first), ys)[1].nu[-1]
        np.testing.assert_allclose(last, system.solution(), atol=0.1)


# Arguments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: learners.td(0.1, 1.5), r"trace_decay: got 1\.5; a number in \[0, 1\] is required"),
        (lambda: learners.tdc(0.1, trace_decay=-0.1), "trace_decay: got -0.1"),
        (lambda: learners.gtd2(0.1, -1.0), "correction_step_size: got -1"),
        (lambda: learners.etd(learners.followon(), 0.1, True), "trace_decay: got True"),
        (lambda: learners.tdrc(0.1, -1.0), "regularization: got -1.0; it must be a finite"),
        (lambda: learners.vtrace(0.1, 0.5, 0.0), "trace_threshold: got 0.0; a number above 0"),
        (lambda: learners.vtrace(0.1, 0.5, 1.0, -2.0), "^threshold: got -2.0"),
        (lambda: learners.abtd(0.1, 1.1), "zeta: got 1.1"),
        (lambda: learners.abtd(0.1, 0.5, 0.0), "xi_0: got 0.0"),
        (lambda: learners.abtd(0.1, 0.5, 1.0, np.inf), "xi_max: got inf"),
        (lambda: learners.lstd(ridge=0.0), "ridge: got 0.0; least squares need a positive"),
        (lambda: learners.elstd(learners.followon(), 2.0), "trace_decay: got 2.0"),
        (lambda: oracle.td_system(problems.baird(), trace_decay=1.5), "trace_decay: got 1.5"),
        (lambda: oracle.abtd_system(problems.baird(), zeta=-1.0), "zeta: got -1.0"),
        (
            lambda: oracle.tdrc_system(problems.baird(), regularization=-1.0),
            "regularization: got -1",
        ),
        (lambda: oracle.vtrace_system(problems.baird(), threshold=0.0), "threshold: got 0"),
        (lambda: oracle.solve(problems.baird(), trace_decay=2.0), "trace_decay: got 2"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
