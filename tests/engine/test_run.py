"""Engines agree with each other and with plain NumPy, whatever runs beside, and refuse early."""

import inspect
import math
import sys
import threading
import warnings
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import _validation as checks, Learner, learners, oracle, Problem, problems, schedules
from emphatic.engine import fused, Measure, MEASURES, prepare, request, run, scan, tasks
from emphatic.engine.fused import cpu, program
from emphatic.engine.stream import Stream

from .. import transcriptions as plain
from ..learners.test_learners import ALPHA, CONTRACT, ETA
from ..strategies import as_sparse, build, of_anything

ENGINES: list[Any] = ["fused", "scan"]
FAMILY = ("tdrc", "pgtd2", "td-trace", "gtd2-trace", "tdc-trace", "htd", "etd-trace", "vtrace")
FAMILY += ("tree_backup", "abtd", "true_online_etd", "lstd", "elstd")  # scanned in a slow test
NAMES = {"fused": [*CONTRACT], "scan": [name for name in CONTRACT if name not in FAMILY]}
CASES = [(engine, name) for engine in ENGINES for name in NAMES[engine]]


@cache
def problem_and_target():
    """Five states, three actions, a discount that varies, a target that is not the behaviour."""
    return build((5, 3, 5, 4), 7, varying=True)


def contract(problem, target) -> dict[str, Learner]:
    """All learners of the contract table."""
    m = plain.emphasis(problem, target)
    return {name: of_anything(make(m)) for name, (make, _, _) in CONTRACT.items()}


@pytest.fixture(autouse=True, scope="module")
def long_slices():
    """As few lengths of slices as possible: the scan engine compiles each anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "SLICE", 1e9)
        yield


def weights(found, name: str) -> np.ndarray:
    return found[f"{name}_weights"].values


def assert_same(one, other) -> None:
    """Two datasets are equal to the last bit, apart from how they were run."""
    one, other = (each.drop_vars(["reason", "engine"]) for each in (one, other))
    assert one.identical(other)


# Iterates


@pytest.fixture(scope="module")
def iterates():
    """Every learner on every engine, recorded every 10 of 1000 steps, for two seeds."""
    return {"fused": iterate("auto", NAMES["fused"]), "scan": iterate("scan", NAMES["scan"])}


def iterate(engine, names):
    problem, target = problem_and_target()
    every = contract(problem, target)
    return run(
        problem,
        {name: every[name] for name in names},
        num_steps=1000,
        record_every=10,
        seeds=[3, 2**63],
        target=target,
        measures=["emphasis_error", "weights"],
        dtype="float64",
        engine=engine,
    )


@pytest.fixture(scope="module")
def transcribed():
    """The same learners in NumPy: for each seed and name the states and the predictions."""
    problem, target = problem_and_target()
    m = plain.emphasis(problem, target)
    ys = {
        seed: plain.seen(problem, target, plain.experience(problem, seed, 1000))
        for seed in (3, 2**63)
    }
    found = {
        (seed, name): plain.learn(name, ys[seed], seed, ALPHA, ETA, m=m)
        for seed in ys
        for name in CONTRACT
    }
    return ys, m, found


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_iterates_are_those_of_the_transcription(iterates, transcribed, engine, name):
    found, (_, _, states) = iterates[engine], transcribed
    if f"{name}_weights" not in found:
        assert not plain.LEARNERS[name][0]
        return
    labels = found[f"{name}_weight"].values
    for seed in (3, 2**63):
        expected = plain.labelled(states[seed, name][0][10::10], labels)
        scale = np.abs(expected).max()
        one = found[f"{name}_weights"].sel(seed=seed).values
        np.testing.assert_allclose(one / scale, expected / scale, rtol=0.0, atol=1e-10)
        assert np.ptp(one, axis=0).min() > 0.0


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_window_means_are_those_of_the_transcription(iterates, transcribed, engine, name):
    r"""The mean over ten steps of $|\hat m_t(S_t) - m_\pi(S_t)|$, each before its update."""
    found, (ys, m, states) = iterates[engine].sel(learner=name), transcribed
    for seed, steps in ys.items():
        errors = np.abs(states[seed, name][1] - m[[y.s for y in steps]])
        expected = errors.reshape(-1, 10).mean(1)
        one = found.emphasis_error.sel(seed=seed).values
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9)


def test_both_engines_label_their_results_alike(iterates):
    fused, scanned = (iterates[engine] for engine in ENGINES)
    assert (set(scanned.engine.values), set(scanned.reason.values)) == ({"scan"}, {"asked for"})
    only_fused = [name for name in fused.variables if str(name).startswith(FAMILY)]
    fused = fused.drop_vars(only_fused).sel(learner=scanned.learner)
    assert fused.drop_vars("engine").sizes == scanned.drop_vars("engine").sizes
    assert set(fused.variables) == set(scanned.variables)
    for name in fused.coords:
        np.testing.assert_array_equal(fused[name], scanned[name])
    assert list(fused.gem_weight.values) == [f"{w}[{n}]" for w in ("kappa", "w") for n in range(5)]
    assert list(fused["etd_weight"].values)[:2] == ["emphasis.terms[0]", "nu[0]"]
    assert fused.seed.values.tolist() == [3, 2**63]
    assert fused.time.values.tolist() == list(range(10, 1001, 10))
    assert not fused.diverged.any()


@pytest.mark.slow
def test_the_family_is_scanned_as_it_is_fused(iterates):
    scanned = iterate("scan", FAMILY)
    for name in FAMILY:
        one, other = (weights(found, name) for found in (iterates["fused"], scanned))
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-10 * np.abs(other).max())


@pytest.mark.parametrize("name", CONTRACT)
def test_every_learner_of_the_contract_fuses(iterates, name):
    """Where any engine may run it, the fused one does."""
    found = iterates["fused"].sel(learner=name)
    assert found.engine.item() == "fused"
    assert "every primitive lowers" in found.reason.item()


def test_the_dataset_says_what_ran_and_how():
    problem, target = problem_and_target()
    nonlinear: Learner[Any, Any] = Learner(
        init=lambda key, y: jnp.zeros((), y.x.dtype),
        step=lambda state, y: jnp.tanh(state + y.reward),
        predict=lambda state, y: state,
    )
    both = {"gem": learners.gem(0.1), "nonlinear": nonlinear}
    found = run(problem, both, num_steps=25, record_every=10, target=target)
    assert found.engine.values.tolist() == ["fused", "scan"]
    assert found.reason.values[0] == "every primitive lowers, and a state has 10 numbers"
    assert found.reason.values[1] == "the primitive 'tanh' has no form in lanes"
    assert found.attrs == {
        "num_steps": 25,
        "record_every": 10,
        "device": "CPU and JAX",
        "dtype": "float32",
        "interrupted": 0,
    }


# Windows


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_window_is_shorter_and_long_windows_have_several_chunks(engine):
    """5000 steps in windows of 2300: means over 2300, 2300 and 400 steps."""
    problem, target = problem_and_target()
    found = run(
        problem,
        {"followon": learners.followon(), "reverse_td": learners.reverse_td(0.01)},
        num_steps=5000,
        record_every=2300,
        seeds=[1],
        target=target,
        measures=["emphasis_error", "weights"],
        dtype="float64",
        engine=engine,
    )
    assert found.time.values.tolist() == [2300, 4600, 5000]
    ys = plain.seen(problem, target, plain.experience(problem, 1, 5000))
    m = plain.emphasis(problem, target)
    for name in ("followon", "reverse_td"):
        states, predictions = plain.learn(name, ys, 1, alpha=0.01)
        errors = np.abs(predictions - m[[y.s for y in ys]])
        expected = [part.mean() for part in np.split(errors, [2300, 4600])]
        one = found.emphasis_error.sel(learner=name, seed=1)
        np.testing.assert_allclose(one, expected, rtol=1e-11)
        last = plain.labelled(
            [states[t] for t in found.time.values], found[f"{name}_weight"].values
        )
        np.testing.assert_allclose(weights(found, name)[0], last, rtol=1e-10, atol=1e-12)


def test_windows_are_cut_into_chunks_of_at_most_1024():
    for num_steps, record_every in ((5000, 2300), (1, 1), (1024, 5000), (1025, 1025), (10**6, 999)):
        windows = tasks.Windows(num_steps, record_every)
        assert windows.lengths.sum() == windows.chunks.sum() == num_steps
        assert 1 <= windows.chunks.min() <= windows.chunks.max() <= tasks.CHUNK == 1024
        assert windows.ends_window.sum() == len(windows.ends) == math.ceil(num_steps / record_every)
        for number, length in enumerate(windows.lengths):
            mine = windows.chunks[windows.window_of_chunk == number]
            assert mine.sum() == length
            assert np.ptp(mine) <= 1


def test_long_sums_lose_no_digits():
    r"""The mean of $10^6$ single-precision errors is that of sums of 1024: $1024\epsilon/2$."""
    problem = problems.baird("one-hot", solid=0.3)
    settings: Any = {"num_steps": 10**6, "record_every": 10**6, "measures": ["emphasis_error"]}
    found = run(problem, {"hundred": learners.constant(100.0)}, **settings)
    stream = Stream(problem)
    experience = cpu.Experience(stream)
    _, rows = experience.advance([0], 0, experience.begin([0]), 10**6)
    m = plain.emphasis(problem, problem.target)
    errors = np.abs(100.0 - m[stream.sample(rows[0], 0).state])
    np.testing.assert_allclose(found.emphasis_error.item(), errors.mean(), rtol=512 * 1.2e-7)
    careless = np.add.accumulate(errors.astype(np.float32))[-1] / 10**6
    assert abs(careless / errors.mean() - 1.0) > 512 * 1.2e-7


# Divergence is data


@cache
def diverging(engine: Any, dtype: Any) -> Any:
    """Step sizes of which some diverge and some do not."""
    return run(
        problems.baird("original", solid=0.3),
        {"reverse_td": learners.reverse_td, "td": of_anything(learners.td), "gem": learners.gem},
        {"step_size": [0.001, 0.02, 0.2, 0.5, 2.0, 50.0]},
        num_steps=1200,
        record_every=20,
        seeds=3,
        measures=["emphasis_error", "weights"],
        engine=engine,
        dtype=dtype,
    )


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_engines_agree_on_which_lanes_have_diverged_and_when(dtype):
    fused, scanned = (diverging(engine, dtype) for engine in ENGINES)
    np.testing.assert_array_equal(fused.diverged, scanned.diverged)
    ever = fused.diverged.any("time").mean("seed")
    assert (ever.sel(step_size=0.001) == 0).all()
    assert (ever.sel(step_size=50.0) == 1).all()
    began = fused.diverged.argmax("time").where(fused.diverged.any("time"))
    assert len(np.unique(began.values[np.isfinite(began.values)])) > 5
    for name in ("reverse_td", "td", "gem"):
        finite = np.isfinite(fused[f"{name}_weights"]).all(f"{name}_weight")
        np.testing.assert_array_equal(~finite, fused.diverged.sel(learner=name))
    assert (fused.diverged.astype(int).diff("time") >= 0).all()
    calm = ~fused.diverged.isel(time=-1)
    last = fused.emphasis_error.isel(time=-1)
    assert np.isfinite(last.values[calm.values]).all()
    assert not np.isfinite(last.values[~calm.values]).any()


def test_the_transcription_diverges_at_the_same_records():
    problem = problems.baird("original", solid=0.3)
    found = diverging("fused", "float64").diverged
    for name in ("reverse_td", "td", "gem"):
        for seed, step_size in ((0, 2.0), (1, 50.0), (2, 0.001)):
            ys = plain.seen(problem, problem.target, plain.experience(problem, seed, 1200))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                states, _ = plain.learn(name, ys, seed, step_size, 0.0)
            expected = [
                not all(np.isfinite(value).all() for value in state.values())
                for state in states[20::20]
            ]
            one = found.sel(learner=name, seed=seed, step_size=step_size)
            np.testing.assert_array_equal(one, expected)


# Nothing depends on what runs beside, or on how the work is cut


GRID = {"step_size": np.geomspace(1e-3, 0.5, 7), "ridge": [0.0, 1e-3, 0.1]}


def sweep(**other: Any) -> Any:
    """A small sweep, with whatever is asked for instead."""
    problem, target = problem_and_target()
    arguments: dict[str, Any] = {
        "problem": problem,
        "learners": {"gem": of_anything(learners.gem), "td": of_anything(learners.td)},
        "grid": GRID,
        "num_steps": 3000,
        "record_every": 1100,
        "seeds": [0, 1, 7],
        "target": target,
        "measures": ["emphasis_error", "weights"],
    }
    return run(**(arguments | other))


@pytest.fixture(scope="module")
def reference():
    return sweep(num_threads=1)


@pytest.mark.parametrize("num_threads", [2, 3])
def test_the_number_of_threads_changes_no_bit(reference, num_threads):
    assert_same(sweep(num_threads=num_threads), reference)


@pytest.mark.parametrize("setting", [("SLICE", 0.0), ("SLICE", 1e9), ("SLICE_STEPS", 1)])
def test_slices_of_any_length_give_the_same_bits(reference, monkeypatch, setting):
    monkeypatch.setattr(tasks, *setting)
    assert_same(sweep(num_threads=2), reference)


def test_blocks_of_lanes_give_the_same_bits(reference, monkeypatch):
    monkeypatch.setattr(sys.modules["emphatic.engine.run"], "BLOCK", 8)
    assert_same(sweep(num_threads=2), reference)


def test_a_lane_alone_is_the_lane_in_a_batch(reference):
    """Another width, other neighbours, another seed beside: the same bits."""
    alone = sweep(grid={"step_size": [GRID["step_size"][4]], "ridge": [0.1]}, seeds=[7])
    inside = reference.isel(step_size=[4], ridge=[2]).sel(seed=[7])
    assert_same(alone, inside)


def test_a_learner_alone_is_the_learner_beside_others(reference):
    alone = sweep(learners={"gem": learners.gem}, measures=["weights", "emphasis_error"])
    inside = reference.sel(learner=["gem"])
    np.testing.assert_array_equal(alone.emphasis_error, inside.emphasis_error)
    np.testing.assert_array_equal(alone.gem_weights, inside.gem_weights)
    etd = of_anything(learners.etd(learners.followon(), 0.01))
    beside = sweep(learners={"etd": etd, "gem": learners.gem})
    np.testing.assert_array_equal(beside.gem_weights, inside.gem_weights)


def test_a_measure_does_not_change_what_is_learned(reference):
    more = sweep(measures=["rmsve", "weights", "emphasis_projected_error", "emphasis_error"])
    np.testing.assert_array_equal(more.gem_weights, reference.gem_weights)
    np.testing.assert_array_equal(more.emphasis_error, reference.emphasis_error)


def test_single_precision_is_close_to_double(reference):
    """The streams are the same, so that only roundings differ."""
    double = sweep(dtype="float64")
    assert reference.gem_weights.dtype == np.float32
    assert double.gem_weights.dtype == reference.emphasis_error.dtype == np.float64
    np.testing.assert_allclose(reference.emphasis_error, double.emphasis_error, rtol=1e-4)
    np.testing.assert_allclose(reference.td_weights, double.td_weights, atol=1e-4)


def test_scan_gives_the_same_bits_for_every_number_of_threads():
    """Even where lanes are cut for idle threads, which fused lanes are."""
    some: Any = {
        "learners": {"gem": learners.gem},
        "grid": {"step_size": np.linspace(0.01, 0.1, 70)},
        "engine": "scan",
    }
    one, many = (sweep(**some, num_threads=n) for n in (1, 8))
    assert_same(many, one)


@pytest.mark.parametrize(
    ("learner", "measure", "dtype"),
    [
        ("gq2", "rmsqe", "float64"),
        pytest.param("gq2", "rmsqe", "float32", marks=pytest.mark.slow),
        pytest.param("gtd2", "rmsve", "float64", marks=pytest.mark.slow),
        pytest.param("gtd2", "rmsve", "float32", marks=pytest.mark.slow),
    ],
)
def test_a_scan_grown_by_runs_and_values_has_the_bits_of_one_computed_at_once(
    learner, measure, dtype
):
    steps = 0.0003 * np.arange(1, 41)
    some: Any = {"measures": [measure, "weights"], "dtype": dtype, "engine": "scan"}
    some |= {"num_steps": 900, "record_every": 300}
    problem = problems.garnet(10, 2, 3, num_features=5)
    whole = run(problem, [learner], {"step_size": steps}, seeds=7, **some)
    for values, seeds in ((steps[:5], [0, 3]), (steps[7:8], [6]), (steps[[39, 2]], [1, 2, 5])):
        part = run(problem, [learner], {"step_size": values}, seeds=seeds, **some)
        assert_same(part, whole.sel(step_size=values, seed=seeds))


def test_tiles_are_smaller_where_states_are_larger_and_depend_on_nothing_else():
    sizes = {numbers: scan.tile_size(numbers) for numbers in (0, 6, 64, 65, 160, 4096, 10**6)}
    assert sizes == {0: 64, 6: 64, 64: 64, 65: 32, 160: 16, 4096: 1, 10**6: 1}


# Axes


def test_an_axis_that_a_learner_does_not_take_is_broadcast(reference):
    """TD has no ridge: its results are the same along that axis, its weights do not have it."""
    td = reference.sel(learner="td")
    assert td.emphasis_error.dims == ("step_size", "ridge", "seed", "time")
    for ridge in (1, 2):
        np.testing.assert_array_equal(
            td.emphasis_error.isel(ridge=ridge), td.emphasis_error.isel(ridge=0)
        )
    assert reference.td_weights.dims == ("step_size", "seed", "time", "td_weight")
    assert reference.gem_weights.dims == ("step_size", "ridge", "seed", "time", "gem_weight")
    assert reference.diverged.dims == ("learner", "step_size", "ridge", "seed", "time")


def test_every_point_of_a_grid_is_where_its_labels_say():
    """The axes in any order, each lane with its own step size and ridge."""
    problem, target = problem_and_target()
    small = {"ridge": [0.5, 0.0], "step_size": [0.2, 0.01, 0.05]}
    gem = {"gem": learners.gem}
    found = sweep(learners=gem, grid=small, seeds=[4], num_steps=50, dtype="float64").gem_weights
    assert found.dims == ("ridge", "step_size", "seed", "time", "gem_weight")
    ys = plain.seen(problem, target, plain.experience(problem, 4, 50))
    for ridge in small["ridge"]:
        for step_size in small["step_size"]:
            states, _ = plain.learn("gem", ys, 4, step_size, ridge)
            expected = plain.labelled(states[-1:], found.gem_weight.values)
            one = found.sel(ridge=ridge, step_size=step_size, seed=4)
            np.testing.assert_allclose(one, expected, rtol=1e-10, atol=1e-12)


def test_targets_have_labels():
    """One stream for all of them, and each as if it were alone."""
    problem, target = problem_and_target()
    assert problem.target is not None
    policies = {0.1: problem.target, 0.5: target, 0.3: problem.behavior}
    some: Any = {"learners": {"gem": learners.gem}, "grid": {"step_size": [0.01, 0.1]}}
    found = sweep(target=policies, **some)
    assert found.target.values.tolist() == [0.1, 0.5, 0.3]
    assert found.gem_weights.dims[0] == found.emphasis_error.dims[1] == "target"
    for number, policy in enumerate(policies.values()):
        alone = sweep(target=policy, **some)
        one = found.isel(target=number, drop=True)
        np.testing.assert_array_equal(one.gem_weights, alone.gem_weights)
        np.testing.assert_array_equal(one.emphasis_error, alone.emphasis_error)
        assert "target" not in alone.dims


def test_names_stand_for_the_functions_of_the_library(reference):
    gem = sweep(learners=["gem"])
    np.testing.assert_array_equal(gem.gem_weights, reference.gem_weights)
    np.testing.assert_array_equal(gem.emphasis_error, reference.emphasis_error.sel(learner=["gem"]))


def test_the_default_is_the_error_of_what_the_learners_estimate():
    for name, measure in (("gem", "emphasis_error"), ("td", "rmsve"), ("gq2", "rmsqe")):
        found = sweep(learners=[name], measures=None, num_steps=10, grid={"step_size": [0.1]})
        assert measure in found


def test_a_function_of_the_problem_makes_the_learners_of_each_target():
    problem, target = problem_and_target()
    settings: Any = {"num_steps": 200, "measures": ["emphasis_error"], "record_every": 100}

    def exact(problem):
        return {"exact": learners.exact(oracle.emphasis(problem))}

    targets = {"one": target, "other": problem.behavior}
    found = run(problem, exact, target=targets, **settings)
    np.testing.assert_allclose(found.emphasis_error, 0.0, atol=1e-5)
    fixed = run(problem, exact(problem), target=targets, **settings)
    assert (fixed.emphasis_error > 1e-3).any()


def test_a_learner_without_arguments_needs_no_grid():
    problem, target = problem_and_target()
    found = run(
        problem,
        {"made": lambda: learners.gem(0.1), "given": learners.gem(0.1)},
        num_steps=40,
        target=target,
        measures=["weights"],
    )
    assert found.sizes["seed"] == found.sizes["time"] == 1
    np.testing.assert_array_equal(found.made_weights, found.given_weights)


# Schedules, large problems, initial weights


@pytest.mark.parametrize(
    ("engine", "table"), [("fused", 2**26), ("fused", 0), ("scan", 2**26), ("scan", 0)]
)
def test_schedules_follow_the_time_of_each_step(engine, table, monkeypatch):
    """A decaying step size and a periodic ridge, across windows, chunks, slices and batches."""
    monkeypatch.setattr(tasks, "SLICE_STEPS", 400)
    monkeypatch.setattr(program, "NUM_ROWS", 64)
    for module in (program, scan):
        monkeypatch.setattr(module, "TABLE_BYTES", table)
    problem, target = problem_and_target()

    def ridge(t):
        return 0.2 * (1.0 + jnp.cos(0.05 * t))

    step_size = schedules.polynomial(0.3, 0.4)
    found = run(
        problem,
        {"gem": lambda: learners.gem(step_size, ridge)},
        num_steps=900,
        record_every=150,
        seeds=[2],
        target=target,
        measures=["weights"],
        dtype="float64",
        engine=engine,
    )
    ys = plain.seen(problem, target, plain.experience(problem, 2, 900))
    states, _ = plain.learn("gem", ys, 2, step_size, ridge)
    expected = plain.labelled(states[150::150], found.gem_weight.values)
    np.testing.assert_allclose(weights(found, "gem")[0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_problems_too_large_for_a_table_are_seen_as_they_come(engine, monkeypatch):
    some: Any = {
        "engine": engine,
        "learners": {"gem": learners.gem},
        "grid": {"step_size": [0.01, 0.1]},
        "seeds": [0, 5],
    }
    expected = sweep(**some)
    monkeypatch.setattr(program, "TABLE_BYTES", 0)
    monkeypatch.setattr(scan, "TABLE_BYTES", 0)
    found = sweep(**some)
    if engine == "fused":
        assert_same(found, expected)
    np.testing.assert_allclose(found.gem_weights, expected.gem_weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.emphasis_error, expected.emphasis_error, rtol=1e-5)


def test_sparse_problems_run_as_their_dense_ones():
    problem, _ = problem_and_target()
    some: Any = {"learners": {"gem": learners.gem}, "grid": {"step_size": [0.1]}, "num_steps": 200}
    dense, stored = sweep(**some), sweep(problem=as_sparse(problem), **some)
    np.testing.assert_allclose(stored.gem_weights, dense.gem_weights, rtol=1e-6)
    np.testing.assert_allclose(stored.emphasis_error, dense.emphasis_error, rtol=1e-5)


def first_weights(engine: str, dtype: str, seeds: list[int]) -> dict[str, np.ndarray]:
    """By learner and label, the weights of some learners that stay where they begin."""
    some = {
        "gem": learners.gem(0.1),
        "gem-etd": learners.etd(learners.gem(0.3, 0.2), 0.01),
        "reverse_td": learners.reverse_td(0.1),
        "tdc": learners.tdc(0.1),
    }
    still = {
        name: Learner(each.init, lambda state, y: state, each.predict)
        for name, each in some.items()
    }
    arguments: Any = {"num_steps": 1, "measures": ["weights"], "engine": engine, "dtype": dtype}
    found = run(problems.two_state(), still, seeds=seeds, **arguments)
    return {
        f"{name} {label}": found[f"{name}_weights"].sel({f"{name}_weight": label}).values.ravel()
        for name in some
        for label in found[f"{name}_weight"].values
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_initial_weights_depend_on_the_seed_and_their_name_only(engine):
    seeds = [0, 3, 2**63, 2**64 - 1]
    single, double = (first_weights(engine, dtype, seeds) for dtype in ("float32", "float64"))
    np.testing.assert_array_equal(double["gem w[0]"], double["gem-etd emphasis.w[0]"])
    np.testing.assert_array_equal(double["gem w[0]"], double["reverse_td w[0]"])
    np.testing.assert_array_equal(double["gem-etd nu[0]"], double["tdc nu[0]"])
    assert (double["gem kappa[0]"] == 0).all()
    assert len(np.unique([*double["gem w[0]"], *double["tdc nu[0]"]])) == 8
    expected = [plain.initial(seed, "w", 1)[0] for seed in seeds]
    np.testing.assert_array_equal(double["gem w[0]"], expected)
    for name in double:
        assert single[name].dtype == np.float32
        np.testing.assert_array_equal(single[name].astype(float), double[name])


def test_learners_meet_the_same_states_on_every_engine_and_in_every_precision():
    r"""The error of a constant 0 is $m_\pi(S_t)$, which tells the path."""
    problem, target = problem_and_target()
    m = plain.emphasis(problem, target)
    expected = m[[y.s for y in plain.experience(problem, 6, 64)]]
    ways: list[Any] = [
        ("fused", "float32", [0.0]),
        ("fused", "float64", [0.0, 1.0, 2.0]),
        ("scan", "float32", [0.0, 3.0]),
    ]
    for engine, dtype, values in ways:
        found = run(
            problem,
            {"none": learners.constant},
            {"value": values},
            num_steps=64,
            record_every=1,
            seeds=[6],
            target=target,
            measures=["emphasis_error"],
            engine=engine,
            dtype=dtype,
        )
        np.testing.assert_allclose(found.emphasis_error[0, 0, 0], expected, rtol=1e-6)


# Without llvmlite, without x64, interrupted


def without(monkeypatch, *names: str) -> None:
    """As if these modules were not installed."""
    for name in ("cpu", "program", "llvm"):
        monkeypatch.delitem(sys.modules, f"emphatic.engine.fused.{name}")
        monkeypatch.delattr(fused, name)
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


LLVMLITE = "llvmlite", "llvmlite.binding", "llvmlite.ir"


def test_without_llvmlite_scan_runs_with_one_warning(monkeypatch):
    without(monkeypatch, *LLVMLITE)
    with pytest.warns(UserWarning, match="the fused engine is not used") as caught:
        found = sweep(num_steps=10, grid={"step_size": [0.1]})
    assert len(caught) == 1
    assert "llvmlite is not installed" in str(caught[0].message)
    assert found.engine.values.tolist() == ["scan", "scan"]
    assert set(found.reason.values) == {"llvmlite is not installed"}


def test_without_llvmlite_fused_is_refused(monkeypatch):
    without(monkeypatch, *LLVMLITE)
    with pytest.raises(
        ValueError, match="engine: 'gem' cannot be fused: llvmlite is not installed"
    ):
        sweep(num_steps=10, engine="fused")


def test_asking_for_scan_needs_no_llvmlite_and_warns_of_nothing(monkeypatch):
    without(monkeypatch, *LLVMLITE)
    found = sweep(num_steps=10, grid={"step_size": [0.1]}, engine="scan")
    assert set(found.reason.values) == {"asked for"}


@pytest.mark.parametrize(("engine", "dtype"), [("fused", "float64"), ("scan", "float32")])
def test_results_do_not_depend_on_the_x64_switch_of_jax(engine, dtype):
    some: Any = {
        "engine": engine,
        "dtype": dtype,
        "learners": {"gem": learners.gem},
        "grid": {"step_size": [0.1]},
        "num_steps": 100,
        "seeds": 1,
    }
    expected = sweep(**some)
    with jax.enable_x64(False):
        found = sweep(**some)
    assert found.gem_weights.dtype == dtype
    np.testing.assert_array_equal(found.gem_weights, expected.gem_weights)


def test_progress_counts_updates_up_to_all_of_them(monkeypatch):
    monkeypatch.setattr(tasks, "SLICE", 0.0)
    calls = []
    sweep(on_progress=lambda done, total: calls.append((done, total)))
    done, totals = zip(*calls, strict=True)
    assert set(totals) == {3000 * 3 * (7 * 3 + 7)}
    assert list(done) == sorted(done)
    assert done[-1] == totals[0]
    assert len(set(done)) > 3


@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_keeps_the_windows_that_are_finished(engine, monkeypatch):
    """The kept ones are those of the whole run, and the dataset says that it was interrupted."""
    monkeypatch.setattr(tasks, "SLICE", 0.0)
    some: Any = {
        "engine": engine,
        "learners": {"gem": learners.gem},
        "grid": {"step_size": [0.01, 0.1]},
        "record_every": 200,
        "seeds": [0, 1] if engine == "fused" else [0],
        "measures": ["weights", "emphasis_error"],
    }

    def interrupt(done, total):
        if done >= total / 3:
            raise KeyboardInterrupt

    found = sweep(on_progress=interrupt, **some)
    assert found.attrs["interrupted"] == 1
    assert 1 <= found.sizes["time"] < 15
    whole = sweep(**some)
    assert whole.attrs["interrupted"] == 0
    assert whole.sizes["time"] == 15
    kept = whole.isel(time=slice(found.sizes["time"]))
    for name in ("emphasis_error", "diverged", "gem_weights", "time"):
        np.testing.assert_array_equal(found[name], kept[name])


def test_a_window_is_finished_when_the_slowest_task_has_finished_it(monkeypatch):
    """One task makes three chunks in the time of another's one."""

    def advance(task, windows):
        task.chunk += 1 + task.first
        return 1

    def interrupt(done, total):
        if done >= 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(tasks.Task, "advance", advance)
    windows = tasks.Windows(50 * 3000, 3000)
    assert len(windows.chunks) == 150
    stream = scan.Experience(Stream(problem_and_target()[0]))
    slow, fast = (tasks.Task(stream, jobs=[], first=n, seeds=[0]) for n in (0, 2))
    finished, interrupted = tasks.run_tasks([slow, fast], windows, 1, interrupt)
    assert interrupted
    assert 3 <= slow.chunk < fast.chunk < 30
    assert finished == slow.chunk // 3


def test_ctrl_c_before_any_window_is_finished_leaves_an_empty_time():
    def interrupt(done, total):
        raise KeyboardInterrupt

    found = sweep(on_progress=interrupt, num_steps=10**7, record_every=10**7, seeds=1)
    assert found.attrs["interrupted"] == 1
    assert found.emphasis_error.shape == (2, 7, 3, 1, 0)


def test_an_error_in_a_callback_is_not_swallowed():
    def fail(done, total):
        raise RuntimeError("shown")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="shown"):
        sweep(on_progress=fail)
    assert threading.active_count() == before


# Bad input


def structured(length: float) -> Learner[Any, Any]:
    return Learner(
        init=lambda key, y: jnp.zeros(int(length), y.x.dtype),
        step=lambda state, y: state,
        predict=lambda state, y: jnp.sum(y.x),
    )


SCHEDULE = schedules.polynomial(0.1, 0.5)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"measures": ["emphasis_eror"]}, "measures: unknown .*did you mean 'emphasis_error'"),
        ({"measures": ["weight"]}, "measures: unknown .*did you mean 'weights'"),
        ({"measures": []}, r"measures: got \[\]; a list of names"),
        ({"measures": "weights"}, "measures: got 'weights'; a list of names"),
        ({"measures": ["rmsqe"]}, "measures: 'rmsqe' needs .*linear in the features xa; .*'gem'"),
        ({"learners": ["gme"]}, "learners: unknown name 'gme'; did you mean 'gem'"),
        ({"learners": ["GEMState"]}, "learners: unknown name 'GEMState'"),
        ({"learners": {}}, "learners: got {}; at least one"),
        ({"learners": "gem"}, "learners: got 'gem'; at least one"),
        (
            {"learners": {"a": lambda step_size: step_size}, "grid": {"step_size": [0.1]}},
            "learners: 'a' makes a float; a learner",
        ),
        ({"learners": {"a": lambda: None}, "grid": {}}, "learners: 'a' makes a NoneType"),
        ({"grid": {"stepsize": [0.1]}}, "grid: unknown name 'stepsize'; did you mean 'step_size'"),
        ({"grid": {"length": [1]}}, "grid: unknown name 'length'"),
        ({"grid": {"ridge": [0.1]}}, "grid: learner 'gem' needs 'step_size'; give its values"),
        ({"grid": None}, "grid: learner 'gem' needs 'step_size'"),
        ({"learners": ["gem", "etd"]}, "grid: learner 'etd' needs 'emphasis'"),
        ({"grid": {"step_size": [0.1, np.nan]}}, r"grid: step_size: entry \(1,\) is nan"),
        ({"grid": {"step_size": [np.inf]}}, "grid: step_size: entry .* is inf"),
        ({"grid": {"step_size": [0.1, -0.2]}}, "grid: 'gem' with step_size = -0.2: .*positive"),
        ({"grid": {"step_size": [0.0]}}, "grid: 'gem' with step_size = 0: .*positive"),
        ({"grid": {"step_size": [0.1], "ridge": [0.0, -1]}}, "'gem' with ridge = -1: ridge: got"),
        ({"grid": {"step_size": [SCHEDULE]}}, "grid: step_size has Poly.*a lane needs a number"),
        ({"grid": {"step_size": ["0.1"]}}, "grid: step_size has '0.1'; a lane needs a number"),
        ({"grid": {"step_size": []}}, r"grid: step_size is \[\]; distinct numbers"),
        ({"grid": {"step_size": [0.1, 0.2, 0.1]}}, "grid: step_size is .*distinct numbers"),
        ({"grid": {"seed": [1]}}, "grid: 'seed' is an axis of every result"),
        ({"grid": {"time": [1]}}, "grid: 'time' is an axis of every result"),
        ({"grid": {"target": [1]}}, "grid: 'target' is an axis of every result"),
        ({"grid": {"learner": [1]}}, "grid: 'learner' is an axis of every result"),
        ({"grid": {"diverged": [1]}}, "grid: 'diverged' is the name of a result"),
        ({"grid": {"rmsve": [1]}}, "grid: 'rmsve' is the name of a result"),
        (
            {"learners": {"a": structured}, "grid": {"length": [1, 2]}},
            "grid: 'a' needs the values of length for its structure",
        ),
        ({"seeds": 0}, "seeds: got 0; at least 1"),
        ({"seeds": []}, r"seeds: got \[\]; distinct whole numbers"),
        ({"seeds": [1, 1]}, r"seeds: got \[1, 1\]; distinct whole numbers"),
        ({"seeds": [-1]}, r"seeds: got \[-1\]; distinct whole numbers"),
        ({"seeds": [2**64]}, "seeds: .*distinct whole numbers"),
        ({"num_steps": 0}, "num_steps: got 0; at least 1"),
        ({"num_steps": 10**10}, r"num_steps: got 10000000000; at most 10\^9"),
        ({"record_every": 0}, "record_every: got 0; at least 1"),
        ({"num_threads": 0}, "num_threads: got 0; at least 1"),
        ({"num_threads": -2}, "num_threads: got -2; at least 1"),
        ({"target": {}}, "target: got no policies"),
        ({"target": np.ones((5, 2)) / 2}, r"target: got shape \(5, 2\)"),
        ({"target": {"bad": np.ones((5, 3))}}, "target: the row of state 0 sums to 3"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(other, message, monkeypatch):
    monkeypatch.setattr(sys.modules["emphatic.engine.run"], "run_tasks", None)
    with pytest.raises(ValueError, match=message):
        sweep(**other)


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (learners.followon(), "a trace moves with the chain"),
        (learners.etd(learners.followon(), 0.1), "a trace moves with the chain"),
        (learners.etd(learners.gem(0.1), 0.1), "not affine in its weights"),
        (learners.constant(1.0), "it has no weights"),
    ],
)
def test_a_fixed_point_is_asked_only_of_learners_that_have_one(learner, reason):
    problem, target = problem_and_target()
    with pytest.raises(ValueError, match=f"learner 'it': .*{reason}"):
        run(problem, {"it": learner}, num_steps=5, target=target, measures=["fixed_point_distance"])


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("rmsve", learners.constant(3.0)),
        ("rmsve", learners.gq2(0.1)),
        ("emphasis_projected_error", learners.followon()),
        ("value_projected_error", learners.exact(np.arange(5.0))),
        ("action_value_projected_error", learners.gem(0.1)),
    ],
)
def test_a_measure_of_weights_is_asked_only_of_linear_predictions(name, learner):
    with pytest.raises(ValueError, match=f"measures: {name!r} needs .*linear.*'it' is not"):
        sweep(learners={"it": of_anything(learner)}, grid={}, measures=[name])


@pytest.mark.parametrize(
    ("learner", "fitting", "other"),
    [
        (learners.gem(0.1), ["emphasis_error", "emphasis_projected_error"], "rmsve"),
        (learners.td(0.1), ["rmsve", "value_projected_error"], "emphasis_error"),
        (learners.gq2(0.1), ["rmsqe", "action_value_projected_error"], "value_projected_error"),
    ],
)
def test_a_measure_is_asked_only_of_learners_that_estimate_what_it_is_an_error_of(
    learner, fitting, other
):
    some: Any = {"grid": {}, "num_steps": 3, "record_every": 3}
    found = sweep(learners={"it": learner}, measures=[*fitting, "fixed_point_distance"], **some)
    assert {*fitting, "fixed_point_distance"} <= set(found.variables)
    with pytest.raises(ValueError, match=f"measures: {other!r} is an error of .*'it' estimates"):
        sweep(learners={"it": learner}, measures=[other], **some)


@pytest.mark.parametrize(
    ("name", "value"), [("engine", "fussed"), ("dtype", "float16"), ("engine", "gpu")]
)
def test_an_unknown_engine_or_type_is_refused(name, value):
    """Without the types that the tests check, as users call it."""
    problem, _ = problem_and_target()
    plainly = inspect.unwrap(prepare)
    with pytest.raises(ValueError, match=f"{name}: unknown name '{value}'"):
        plainly(problem, ["gem"], {"step_size": [0.1]}, num_steps=5, **{name: value})


@pytest.mark.parametrize("seeds", [[0.5, 1.5], "12", 3.5, [None], ["0"]])
def test_seeds_are_whole_numbers(seeds):
    with pytest.raises(ValueError, match=r"seeds: got .*whole number"):
        inspect.unwrap(request.parse_seeds)(seeds)


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [(np.int64(3), [0, 1, 2]), (np.array([5, 2]), [5, 2]), (range(2, 4), [2, 3])],
)
def test_whole_numbers_of_numpy_are_seeds(seeds, expected):
    assert list(inspect.unwrap(request.parse_seeds)(seeds)) == expected


def test_counts_are_whole_numbers():
    with pytest.raises(ValueError, match=r"num_steps: got 100\.0; a whole number"):
        inspect.unwrap(checks.count)("num_steps", 100.0)


def test_something_that_makes_no_learner_is_refused():
    with pytest.raises(ValueError, match="learners: 'a' is a int; a function that makes a learner"):
        inspect.unwrap(request.parse_learners)({"a": 3}, {}, problem_and_target()[0])


def test_learners_are_expressions_too_with_the_bits_of_the_functions():
    problem = problems.baird(features="aliased", solid=0.1)
    grid = {"step_size": [0.01, 0.02]}
    expressions = ["gem(step_size, 1e-3)", "gem"]
    by_text = run(problem, expressions, grid, num_steps=300)
    by_name = run(problem, {"a": "gem(step_size, 1e-3)"}, grid, num_steps=300)
    made = {"a": lambda step_size: learners.gem(step_size, 1e-3), "gem": learners.gem}
    by_function = run(problem, made, grid, num_steps=300)
    error = by_function["emphasis_error"].values
    assert by_text["learner"].values.tolist() == expressions
    np.testing.assert_array_equal(by_text["emphasis_error"].values, error)
    np.testing.assert_array_equal(by_name["emphasis_error"].values, error[:1])


def test_an_exact_quantity_in_an_expression_is_that_of_each_target():
    problem = problems.random_walk()
    targets = {"own": problem.target, "behavior": problem.behavior}
    dataset = run(
        problem, ["exact(emphasis)"], target=targets, num_steps=100, measures=["emphasis_error"]
    )
    assert dataset["emphasis_error"].values.max() < 1e-5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gme", "learners: unknown name 'gme'; did you mean 'gem'"),
        ("gme(0.1)", r"learners: .gme\(0.1\).: function: unknown name 'gme'"),
        ("gem(ridge)", "unknown name 'ridge'"),
    ],
)
def test_an_expression_that_makes_no_learner_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        run(problems.random_walk(), [text], num_steps=10)


def test_the_problem_must_have_a_target_if_none_is_given():
    problem, _ = problem_and_target()
    bare = Problem(problem.mdp, problem.behavior, problem.interest, problem.x)
    with pytest.raises(ValueError, match="target: not given"):
        sweep(problem=bare, target=None)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_runs_of_both_engines_stay_together(dtype):
    """10^5 steps of GEM and ETD on Baird's problem, all feature sets."""
    for features in ("original", "one-hot", "zero-hot", "aliased"):
        problem = problems.baird(features, solid=0.1)
        m = oracle.emphasis(problem)
        found = [
            run(
                problem,
                {
                    "gem": learners.gem,
                    "etd": lambda step_size, m=m: of_anything(
                        learners.etd(learners.exact(m), step_size)
                    ),
                },
                {"step_size": 0.1 * 2.0 ** np.arange(-6, 0)},
                num_steps=10**5,
                seeds=4,
                engine=engine,
                dtype=dtype,
            )
            for engine in ENGINES
        ]
        np.testing.assert_array_equal(found[0].diverged, found[1].diverged)
        tolerance = 1e-2 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(
            found[0].emphasis_error, found[1].emphasis_error, rtol=tolerance, equal_nan=True
        )


def test_a_measure_of_ones_own_is_given_by_name():
    """The same on both engines, beside those of the library; other things are refused."""
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    own = {
        "largest": Measure(lambda shared, lane, learner, state, y: jnp.abs(state.w).max()),
        "emphasis_error": MEASURES["emphasis_error"],
    }
    settings: Any = {"num_steps": 30, "record_every": 10, "target": target, "dtype": "float64"}
    grid = {"step_size": [0.01, 0.1]}
    fused, scanned = (
        run(problem, ["gem"], grid, measures=own, engine=engine, **settings)
        for engine in ("fused", "scan")
    )
    np.testing.assert_allclose(fused["largest"], scanned["largest"], rtol=1e-12)
    usual = run(problem, ["gem"], grid, **settings)
    np.testing.assert_array_equal(fused["emphasis_error"], usual["emphasis_error"])
    for name in ("time", "step_size", "diverged"):
        bad = {name: own["largest"]}
        with pytest.raises(ValueError, match="measures"):
            run(problem, ["gem"], grid, measures=bad, **settings)
