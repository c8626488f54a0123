"""Learners agree with their exact mean fields and limits, and with plain NumPy."""

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emphatic import cli, engine, Learner, learners, oracle, problems, schedules
from emphatic.experiments import toml
from emphatic.oracle import enumerate_samples

from ..strategies import build, problems_and_targets, SEEDS
from ..transcriptions import BETA, DECAY, GAMMA, LAMBDA, RIDGE, ZETA

ALPHA, ETA = 0.1, 0.3

# Every learner: how it is made, and where it is affine its state's class and its mean field.
CONTRACT = {
    "gem": (lambda m: learners.gem(ALPHA, ETA), learners.GEMState, oracle.gem_system),
    "gq2": (lambda m: learners.gq2(ALPHA, ETA), learners.GQ2State, oracle.gq2_system),
    "gtd2": (lambda m: learners.gtd2(ALPHA), learners.GTD2State, oracle.gtd2_system),
    "tdc": (lambda m: learners.tdc(ALPHA), learners.TDCState, oracle.tdc_system),
    "tdrc": (lambda m: learners.tdrc(ALPHA), learners.TDRCState, oracle.tdrc_system),
    "pgtd2": (lambda m: learners.pgtd2(ALPHA), None, None),
    "td-trace": (lambda m: learners.td(ALPHA, DECAY), None, None),
    "gtd2-trace": (lambda m: learners.gtd2(ALPHA, trace_decay=DECAY), None, None),
    "tdc-trace": (lambda m: learners.tdc(ALPHA, trace_decay=DECAY), None, None),
    "htd": (lambda m: learners.htd(ALPHA, trace_decay=DECAY), None, None),
    "etd-trace": (lambda m: learners.etd(learners.followon(), ALPHA, DECAY), None, None),
    "vtrace": (lambda m: learners.vtrace(ALPHA, DECAY, 0.8, 1.2), None, None),
    "tree_backup": (lambda m: learners.tree_backup(ALPHA, DECAY), None, None),
    "abtd": (lambda m: learners.abtd(ALPHA, ZETA, 2.0, 3.0), None, None),
    "true_online_etd": (
        lambda m: learners.true_online_etd(learners.followon(), ALPHA, DECAY),
        None,
        None,
    ),
    "lstd": (lambda m: learners.lstd(DECAY, RIDGE), None, None),
    "elstd": (lambda m: learners.elstd(learners.followon(), DECAY, RIDGE), None, None),
    "reverse_td": (
        lambda m: learners.reverse_td(ALPHA),
        learners.ReverseTDState,
        oracle.reverse_td_system,
    ),
    "gem-decay": (
        lambda m: learners.gem(ALPHA, ETA, BETA),
        learners.GEMState,
        lambda problem, target: oracle.gem_system(problem, target, ETA, BETA),
    ),
    "tdec": (lambda m: learners.tdec(ALPHA), learners.TDERCState, oracle.tdec_system),
    "tderc": (
        lambda m: learners.tderc(ALPHA, ETA),
        learners.TDERCState,
        lambda problem, target: oracle.tderc_system(problem, target, ETA),
    ),
    "expected_trace": (lambda m: learners.expected_trace(ALPHA, 3), None, None),
    "lsgem": (lambda m: learners.lsgem(ETA), None, None),
    "cop_td": (
        lambda m: learners.cop_td(ALPHA, GAMMA),
        learners.ReverseTDState,
        lambda problem, target: oracle.cop_td_system(problem, target, GAMMA),
    ),
    "gradient_cop_td": (
        lambda m: learners.gradient_cop_td(ALPHA, GAMMA, ETA),
        learners.GEMState,
        lambda problem, target: oracle.gradient_cop_td_system(problem, target, ETA, GAMMA),
    ),
    "gradient_dice": (
        lambda m: learners.gradient_dice(ALPHA, GAMMA, ETA, LAMBDA),
        lambda *parts: dice_state(jnp.concatenate(parts)),
        lambda problem, target: oracle.gradient_dice_system(problem, target, ETA, GAMMA, LAMBDA),
    ),
    "td": (lambda m: learners.td(ALPHA), lambda nu: learners.ETDState((), nu), oracle.td_system),
    "etd-exact": (
        lambda m: learners.etd(learners.exact(m), ALPHA),
        lambda nu: learners.ETDState((), nu),
        oracle.etd_system,
    ),
    "followon": (lambda m: learners.followon(), None, None),
    "truncated": (lambda m: learners.followon(length=3), None, None),
    "interest": (lambda m: learners.followon(length=0), None, None),
    "restarting": (lambda m: learners.restarting(2, 1), None, None),
    "periodic_etd": (lambda m: learners.periodic_etd(ALPHA, 2, 1), None, None),
    "etd": (lambda m: learners.etd(learners.followon(), ALPHA), None, None),
    "gem-etd": (lambda m: learners.etd(learners.gem(ALPHA, ETA), ALPHA), None, None),
    "lms": (lambda m: learners.lms(learners.followon(), ALPHA), None, None),
    "etq": (lambda m: learners.etq(learners.followon(), ALPHA), None, None),
    "constant": (lambda m: learners.constant(100.0), None, None),
    "exact": (lambda m: learners.exact(m), None, None),
}


def dice_state(d):
    r"""The state of GradientDICE from $[\kappa; u; w]$."""
    k = len(d) // 2
    return learners.GradientDICEState(d[:k], d[k], d[k + 1 :])


AFFINE = [name for name, (_, state, _) in CONTRACT.items() if state is not None]


def viewer(problem, target):
    """From samples to transitions under one target."""
    pi = jnp.asarray(target)
    return lambda sample: problem.view(pi[sample.state], pi[sample.state_next], sample)


def stream(problem, target, num_steps, seed):
    """A trajectory of the behaviour as a batch of transitions (time first)."""
    rng = np.random.default_rng(seed)
    p, mu = problem.mdp.transition, problem.behavior
    states, actions = mu.shape
    s = np.empty(num_steps + 1, int)
    a = np.empty(num_steps + 1, int)
    s[0] = rng.integers(states)
    a[0] = rng.choice(actions, p=mu[s[0]])
    for t in range(num_steps):
        s[t + 1] = rng.choice(states, p=p[s[t], a[t]])
        a[t + 1] = rng.choice(actions, p=mu[s[t + 1]])
    example = enumerate_samples(problem).sample
    step = (s[:-1], a[:-1], s[1:])
    sample = dataclasses.replace(
        example,
        time=np.arange(num_steps),
        state=s[:-1],
        action=a[:-1],
        reward=problem.mdp.outcome(problem.mdp.reward).reshape(p.shape)[step],
        discount=problem.mdp.outcome(problem.mdp.discount).reshape(p.shape)[step],
        state_next=s[1:],
        action_next=a[1:],
    )
    return jax.vmap(viewer(problem, target))(jax.tree.map(jnp.asarray, sample))


def run(learner: Learner, state, ys):
    """Predictions before each step, and the states after them."""

    def body(state, y):
        after = learner.step(state, y)
        return after, (learner.predict(state, y), after)

    return jax.lax.scan(body, state, ys)[1]


@settings(max_examples=6)
@given(pair=problems_and_targets(), seed=SEEDS)
def test_expected_steps_are_the_mean_fields(pair, seed):
    r"""$\mathbb E[d_{t+1}] - d_t = \alpha(h - Gd_t)$, exactly; of all learners at once."""
    problem, target = pair
    view, m = viewer(problem, target), oracle.emphasis(problem, target)
    rng = np.random.default_rng(seed)
    made, points, systems = {}, {}, {}
    for name in AFFINE:
        make, state_of, system_of = CONTRACT[name]
        arguments = (ETA,) if name in ("gem", "gq2") else ()
        systems[name] = system_of(problem, target, *arguments)
        points[name] = point = rng.normal(size=len(systems[name].vector))
        size = problem.xa.shape[-1] if name == "gq2" else problem.x.shape[1]
        state = state_of(*map(jnp.asarray, np.split(point, range(size, len(point), size))))
        made[name] = make(m), state

    def stepped(sample):
        y = view(sample)
        return {name: learner.step(state, y) for name, (learner, state) in made.items()}

    mean = oracle.expectation(problem, stepped)
    for name, point in points.items():
        moved = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(mean[name])]) - point
        expected = ALPHA * systems[name].drift(point)
        scale = 1.0 + np.abs(expected).max()
        np.testing.assert_allclose(moved / scale, expected / scale, atol=1e-12, err_msg=name)


@given(problems_and_targets(), SEEDS)
def test_gem_is_reversed_gq2(pair, seed):
    """GEM on a step is GQ2 on that step run backwards (Section 3)."""
    problem, target = pair
    y = jax.tree.map(lambda leaf: leaf[0], stream(problem, target, 1, seed))
    kappa, w = jnp.asarray(np.random.default_rng(seed).normal(size=(2, problem.x.shape[1])))
    backward = dataclasses.replace(
        y, xa=y.x_next, xa_next=y.x, rho_next=y.rho, reward=y.interest_next
    )
    forward = learners.gem(ALPHA, ETA).step(learners.GEMState(kappa, w), y)
    reverse = learners.gq2(ALPHA, ETA).step(learners.GQ2State(kappa, w), backward)
    np.testing.assert_allclose(forward.kappa, reverse.kappa, atol=1e-12)
    np.testing.assert_allclose(forward.w, reverse.u, atol=1e-12)


@pytest.mark.parametrize("length", [None, 0, 1, 4])
@pytest.mark.parametrize("varying", [False, True])
def test_the_followon_trace_is_its_definition(length, varying):
    r"""$\sum_j i(S_{t-j})\prod\gamma_{k+1}\rho_k$, written out; an end of episode forgets all."""
    problem, target = build((5, 3, 5, 4), 7, varying)
    ys = stream(problem, target, 40, seed=1)
    learner = learners.followon(length)
    first = jax.tree.map(lambda leaf: leaf[0], ys)
    predicted, _ = run(learner, learner.init(jax.random.key(0), first), ys)
    factor, interest = np.asarray(ys.discount * ys.rho), np.asarray(ys.interest)
    for t in range(40):
        kept = range(max(0, t - (40 if length is None else length)), t + 1)
        expected = sum(interest[j] * factor[j:t].prod() for j in kept)
        np.testing.assert_allclose(predicted[t], expected, rtol=1e-9)


def test_the_decay_replaces_the_discount_except_at_the_end_of_an_episode():
    problem = problems.random_walk()
    ys = stream(problem, problem.target, 60, seed=3)
    learner = learners.followon(decay=0.5)
    first = jax.tree.map(lambda leaf: leaf[0], ys)
    predicted, _ = run(learner, learner.init(jax.random.key(0), first), ys)
    trace = 0.0
    assert (np.asarray(ys.discount) == 0).any()
    for t in range(60):
        trace += float(ys.interest[t])
        np.testing.assert_allclose(predicted[t], trace)
        trace *= 0.5 * float(ys.rho[t]) * (float(ys.discount[t]) > 0)


@given(problems_and_targets(), st.integers(0, 3))
def test_the_conditional_mean_of_the_truncated_trace_is_the_truncated_emphasis(pair, length):
    """Started from its own stationary mean, one more step leaves the mean where it is."""
    problem, target = pair
    means = [oracle.truncated_emphasis(problem, target, n) for n in range(length + 1)]
    # In the stationary regime term j of state s has the mean m_j - m_{j-1} at s.
    terms = [means[0], *(np.subtract(*pair) for pair in zip(means[1:], means, strict=False))]
    learner, view = learners.followon(length), viewer(problem, target)
    table = jnp.asarray(np.stack(terms[1:], axis=1) if length else np.zeros((len(means[0]), 0)))

    def weighted(sample):
        after = learner.step(learners.FollowonState(table[sample.state]), view(sample))
        return after.terms[:, None] * jax.nn.one_hot(sample.state_next, len(means[0]))[None]

    arrived = oracle.expectation(problem, weighted) / problem.stationary
    np.testing.assert_allclose(arrived, np.asarray(table).T, rtol=1e-9, atol=1e-12)


def past_of_etq(problem, target, m):
    r"""$\mathbb E[\gamma_te_{t-1}|S_t = s]$ in the stationary regime, from the law of one step."""
    d, p, mu = problem.stationary, problem.mdp.transition, problem.behavior
    kernel = p * problem.mdp.outcome(problem.mdp.discount).reshape(p.shape)
    fresh = np.einsum("s,sa,sat,sal->tl", d * m, mu, kernel, problem.xa)
    back = np.einsum("sa,sat->ts", target, kernel)
    return np.linalg.solve(np.eye(len(d)) - back, fresh) / d[:, None]


@pytest.mark.parametrize("length", [None, 0])
@settings(max_examples=10)
@given(pair=problems_and_targets(varying=True), seed=SEEDS)
def test_lms_and_etq_move_towards_the_projections_of_the_emphasis_and_the_values(
    length, pair, seed
):
    r"""Given traces of the right conditional mean, with $m = i$ where no ratio is kept.

    $\mathbb E[w' - w] = \alpha\sum_sd(m - x^\top w)x$ and
    $\mathbb E[u' - u] = \alpha\sum_{s,a}dm\mu(q_\pi - \tilde x^\top u)\tilde x$.
    """
    problem, target = pair
    d, i = problem.stationary, np.asarray(problem.interest)
    m = oracle.emphasis(problem, target) if length is None else i
    source, view = learners.followon(length), viewer(problem, target)
    rng = np.random.default_rng(seed)
    w, u = rng.normal(size=problem.x.shape[1]), rng.normal(size=problem.xa.shape[-1])
    past = past_of_etq(problem, target, m)
    earlier, before = (
        jnp.asarray((m - i)[:, None])[:, : 1 if length is None else 0],
        jnp.array(past),
    )

    def moved(sample):
        s, y = sample.state, view(sample)
        trace = learners.FollowonState(earlier[s])
        one = learners.lms(source, ALPHA).step(learners.LMSState(trace, jnp.asarray(w)), y)
        state = learners.ETQState(trace, before[s], jnp.asarray(u))
        two = learners.etq(source, ALPHA).step(state, y)
        arrived = jax.nn.one_hot(sample.state_next, len(d))
        return one.w, two.u, arrived[:, None] * two.trace[None]

    w_after, u_after, past_after = oracle.expectation(problem, moved)
    expected = w + ALPHA * problem.x.T @ (d * (m - problem.x @ w))
    np.testing.assert_allclose(w_after, expected, rtol=1e-11, atol=1e-11)
    error = oracle.action_values(problem, target) - problem.xa @ u
    pull = np.einsum("sa,sa,sal->l", (d * m)[:, None] * problem.behavior, error, problem.xa)
    scale = 1.0 + np.abs(past).max()
    np.testing.assert_allclose(u_after / scale, (u + ALPHA * pull) / scale, atol=1e-11)
    np.testing.assert_allclose(past_after / scale, d[:, None] * past / scale, atol=1e-11)


def test_sources_of_emphasis_turn_etd_into_the_named_algorithms():
    """A constant is TD, the exact array weighs by it, and GEM learns beside."""
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    y = jax.tree.map(lambda leaf: leaf[5], stream(problem, target, 10, seed=2))
    nu = jnp.linspace(-1.0, 1.0, 5)
    delta = y.reward + y.discount * y.x_next @ nu - y.x @ nu
    m = oracle.emphasis(problem, target)
    gem_state = learners.GEMState(jnp.ones(5), jnp.linspace(0.0, 1.0, 5))
    trace = learners.FollowonState(jnp.asarray([2.5]))
    sources: list[tuple[Learner, Any, Any]] = [
        (learners.constant(1.0), (), 1.0),
        (learners.exact(m), (), m[int(y.state)]),
        (learners.gem(ALPHA, ETA), gem_state, float(y.x @ gem_state.w)),
        (learners.followon(), trace, float(y.interest) + 2.5),
    ]
    for source, state, M in sources:
        after = learners.etd(source, ALPHA).step(learners.ETDState(state, nu), y)
        np.testing.assert_allclose(after.nu, nu + ALPHA * M * y.rho * delta * y.x, rtol=1e-12)
        moved = source.step(state, y)
        jax.tree.map(np.testing.assert_array_equal, after.emphasis, moved)


@pytest.mark.parametrize(
    ("make", "state_of"),
    [
        (learners.tdc, learners.TDCState),
        (learners.gtd2, learners.GTD2State),
        (learners.htd, learners.HTDState),
    ],
)
def test_a_correction_has_a_step_size_of_its_own(make, state_of):
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    y = jax.tree.map(lambda leaf: leaf[0], stream(problem, target, 1, seed=2))
    state = state_of(jnp.ones(5), jnp.linspace(-1.0, 1.0, 5))
    both, apart = (make(*sizes).step(state, y) for sizes in ((0.1,), (0.1, 0.4)))
    np.testing.assert_allclose(apart.nu, both.nu)
    np.testing.assert_allclose(apart.kappa - state.kappa, 4.0 * (both.kappa - state.kappa))


def test_schedules_set_the_step_and_the_ridge_of_each_time():
    problem, target = build((5, 3, 5, 4), 7, varying=False)
    y = jax.tree.map(lambda leaf: leaf[9], stream(problem, target, 10, seed=2))
    state = learners.GEMState(jnp.ones(5), jnp.ones(5))
    decaying = learners.gem(schedules.polynomial(1.0, 1.0), lambda t: 0.5 / (t + 1.0))
    fixed = learners.gem(0.1, 0.05)
    for found, expected in zip(
        jax.tree.leaves(decaying.step(state, y)), jax.tree.leaves(fixed.step(state, y)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# The contract of every learner


@pytest.mark.parametrize("name", CONTRACT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_states_keep_their_structure_and_type(name, dtype):
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    learner = CONTRACT[name][0](oracle.emphasis(problem, target))

    def cast(leaf):
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    y = jax.tree.map(lambda leaf: cast(leaf[0]), stream(problem, target, 1, seed=0))
    state = learner.init(jax.random.key(0), y)
    after = jax.eval_shape(learner.step, state, y)
    assert jax.tree.structure(state) == jax.tree.structure(after)
    for before, then in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert (before.shape, before.dtype) == (then.shape, then.dtype) == (then.shape, dtype)
    prediction = jax.eval_shape(learner.predict, state, y)
    assert (prediction.shape, prediction.dtype) == ((), dtype)


@pytest.mark.parametrize("name", CONTRACT)
def test_a_learner_with_step_sizes_says_which(name):
    """An actor compares its own with them."""
    step_size = CONTRACT[name][0](np.ones(5)).step_size
    unsized = "followon", "truncated", "interest", "constant", "exact", "restarting"
    if name in (*unsized, "lstd", "elstd", "lsgem"):
        assert step_size is None
    else:
        assert step_size is not None
        assert step_size(7) == ALPHA


BATCHED = ("gem", "gem-etd", "truncated", "td-trace", "lstd", "expected_trace", "gradient_dice")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in BATCHED else pytest.mark.slow) for n in CONTRACT]
)
def test_a_batch_of_streams_is_each_stream_alone(name):
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    learner = CONTRACT[name][0](oracle.emphasis(problem, target))
    batch = [stream(problem, target, 30, seed) for seed in range(3)]
    first = jax.tree.map(lambda leaf: leaf[0], batch[0])
    states = [learner.init(jax.random.key(k), first) for k in range(3)]
    one = jax.jit(lambda state, ys: run(learner, state, ys)[0])
    alone = [one(state, ys) for state, ys in zip(states, batch, strict=True)]
    if jax.tree.leaves(states[0]):
        together = jax.vmap(one)(
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *states),
            jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch),
        )
        np.testing.assert_allclose(together, np.stack(alone), rtol=1e-9, atol=1e-9)


FACTORIES = ("gem", "gq2", "gtd2", "tdc", "reverse_td", "td", "tdec", "tderc")
TRACED = ("etd", "lms", "etq")


@pytest.mark.parametrize("name", [*FACTORIES, *TRACED])
def test_a_sweep_over_step_sizes_is_traced_once(name):
    """Step sizes are lanes: a factory takes a traced one and checks nothing."""
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    ys = stream(problem, target, 20, seed=0)
    first = jax.tree.map(lambda leaf: leaf[0], ys)
    factory = getattr(learners, name)
    traces = []

    def final(alpha):
        traces.append(name)
        learner = factory(learners.followon(), alpha) if name in TRACED else factory(alpha)
        return run(learner, learner.init(jax.random.key(0), first), ys)[0][-1]

    alphas = jnp.asarray([0.01, 0.1, 1e3])
    swept = jax.vmap(final)(alphas)
    assert len(traces) == 1
    np.testing.assert_allclose(swept[:2], [final(0.01), final(0.1)], rtol=1e-9)


def test_divergence_comes_back_as_data():
    problem = problems.two_state()
    ys = stream(problem, problem.target, 8000, seed=0)
    learner = learners.td(0.5)
    first = jax.tree.map(lambda leaf: leaf[0], ys)
    predicted, _ = run(learner, learner.init(jax.random.key(0), first), ys)
    assert not np.isfinite(predicted[-1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: learners.gem(-0.1), "step_size: got -0.1"),
        (lambda: learners.gem(0.1, -1.0), "ridge: got -1"),
        (lambda: learners.gq2(0.1, np.inf), "ridge: got inf"),
        (lambda: learners.followon(length=-1), "length: got -1"),
        (lambda: learners.followon(decay=1.5), "decay: got 1.5"),
        (lambda: learners.gem(0.1, decay=-0.1), r"decay: got -0.1; a number in \[0, 1\]"),
        (lambda: learners.reverse_td(0.1, decay=np.nan), "decay: got nan"),
        (lambda: learners.tderc(0.1, -1.0), "regularization: got -1.0; it must be a finite"),
        (lambda: learners.tdec(0.1, 0.0), "correction_step_size: got 0"),
        (lambda: learners.expected_trace(0.1, 0), "length: got 0; at least 1"),
        (lambda: learners.restarting(0), "length: got 0; at least 1"),
        (lambda: learners.restarting(2, -1), "growth: got -1; at least 0"),
        (lambda: learners.lsgem(0.0), "ridge: got 0.0; least squares need"),
        (lambda: learners.cop_td(0.1, 1.0), r"discount: got 1.0; a number in \[0, 1\)"),
        (lambda: learners.gradient_cop_td(0.1, -0.5), "discount: got -0.5"),
        (lambda: learners.gradient_dice(0.1, 1.5), r"discount: got 1.5; a number in \[0, 1\]"),
        (lambda: learners.gradient_dice(0.1, 0.9, penalty=0.0), "penalty: got 0.0; a positive"),
        (lambda: learners.exact(np.ones((2, 2))), r"values: got shape \(2, 2\)"),
        (lambda: learners.exact([1.0, np.nan]), "finite"),
    ],
)
def test_bad_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_new_learner_is_known_wherever_a_name_is_taken(monkeypatch, capsys):
    """By the engine, by predictions, by comparisons and in TOML: there is one table."""
    problem = problems.two_state()

    def half_td(step_size):
        return learners.td(0.5 * step_size)

    monkeypatch.setitem(learners.LEARNERS, "half_td", half_td)
    dataset = engine.run(
        problem, ["half_td", "td"], {"step_size": [0.02]}, num_steps=10, measures=["rmsve"]
    )
    assert list(dataset["learner"].values) == ["half_td", "td"]
    experiment = toml.parse("""
        steps = 10
        measures = ["rmsve"]
        problems.two_state = {}
        learners.mine = "half_td(step_size)"
        grid.step_size = [0.02]
    """)
    assert experiment.definitions == {"mine": "half_td(step_size)"}
    printed = []
    for arguments in (
        "compare two_state --learners half_td(0.02) td(0.01) --steps 10 --runs 2 --json",
        "predict two_state --learner half-td --step-size 0.02 --steps 10 --json",
        "predict two_state --learner td --step-size 0.01 --steps 10 --json",
    ):
        assert cli.main(arguments.split()) == 0
        printed.append(json.loads(capsys.readouterr().out))
    np.testing.assert_allclose(printed[1]["value_rmse"], printed[2]["value_rmse"])


@pytest.mark.parametrize("name", learners.LEARNERS)
def test_the_table_of_learners_is_what_the_package_exports(name):
    assert learners.LEARNERS[name] is getattr(learners, name)
    assert learners.LEARNERS[name].__doc__


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gem", "gq2", "gtd2", "tdc", "td", "etd-exact"])
def test_learners_converge_to_the_oracle(name):
    """With decaying step sizes on an on-policy problem, where all of them converge."""
    problem, _ = build((3, 2, 2, 5), 5, varying=False)
    problem = dataclasses.replace(problem, mdp=dataclasses.replace(problem.mdp, discount=0.3))
    target = np.asarray(problem.behavior)
    make = {
        "gem": lambda a: learners.gem(a, 0.01),
        "gq2": lambda a: learners.gq2(a, 0.01),
        "gtd2": learners.gtd2,
        "tdc": learners.tdc,
        "td": learners.td,
        "etd-exact": lambda a: learners.etd(learners.exact(oracle.emphasis(problem, target)), a),
    }[name]
    system_of = CONTRACT[name][2]
    system = system_of(problem, target, *((0.01,) if name in ("gem", "gq2") else ()))
    learner = make(schedules.polynomial(1.0, 0.6))
    ys = stream(problem, target, 200_000, seed=0)
    first = jax.tree.map(lambda leaf: leaf[0], ys)
    _, states = run(learner, learner.init(jax.random.key(0), first), ys)
    last = np.concatenate([np.asarray(leaf)[-20_000:].mean(0) for leaf in jax.tree.leaves(states)])
    np.testing.assert_allclose(last, system.solution(), atol=0.15)
