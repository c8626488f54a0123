"""Experiments become one dataset: each case, run and window in its place, also after Ctrl-C."""

import dataclasses

import numpy as np
import pytest
import xarray

from emphatic import engine, learners, oracle, problems
from emphatic.experiments import Experiment, run
from emphatic.problems.baird import Features


def emphasis_learners(problem):
    return {"gem": learners.gem, "followon": learners.followon()}


# Neither axis of its cases is sorted, and the larger step size diverges.
EXPERIMENT = Experiment(
    "small",
    problems.baird,
    {"features": ("one-hot", "aliased"), "solid": (0.3, 0.1)},
    emphasis_learners,
    ("emphasis_error",),
    num_steps=250,
    grid={"step_size": [0.05, 20.0]},
    num_runs=3,
    seed=5,
    record_every=100,
)


@pytest.fixture(scope="module")
def whole() -> tuple[xarray.Dataset, list[tuple[int, int]]]:
    """The results, and how progress was reported."""
    calls: list[tuple[int, int]] = []
    return run(EXPERIMENT, on_progress=lambda *call: calls.append(call)), calls


# What is where


def test_every_combination_of_cases_is_a_point_in_the_order_given(whole):
    pairs = [("one-hot", 0.3), ("one-hot", 0.1), ("aliased", 0.3), ("aliased", 0.1)]
    assert EXPERIMENT.points() == [{"features": f, "solid": s} for f, s in pairs]
    dataset, _ = whole
    assert dataset["features"].values.tolist() == ["one-hot", "aliased"]
    assert dataset["solid"].values.tolist() == [0.3, 0.1]
    assert dataset["learner"].values.tolist() == ["gem", "followon"]
    assert dataset["step_size"].values.tolist() == [0.05, 20.0]
    assert dataset["run"].values.tolist() == [0, 1, 2]
    assert dataset["time"].values.tolist() == [100, 200, 250]
    axes = ("features", "solid", "learner", "step_size", "run", "time")
    assert set(dataset["emphasis_error"].dims) == set(axes)
    assert dataset["emphasis_error"].size == 2 * 2 * 2 * 2 * 3 * 3


@pytest.mark.parametrize(("features", "solid"), [("one-hot", 0.1), ("aliased", 0.3)])
def test_run_n_is_the_engines_run_of_the_seed_2_to_the_32_times_its_seed_plus_n(
    whole, features, solid
):
    problem = problems.baird(features, solid)
    direct = engine.run(
        problem,
        emphasis_learners(problem),
        EXPERIMENT.grid,
        num_steps=250,
        seeds=[5 * 2**32 + n for n in range(3)],
        record_every=100,
    )
    dataset = whole[0].sel(features=features, solid=solid)
    for name in ("emphasis_error", "diverged", "engine"):
        expected = direct[name].rename(seed="run") if "seed" in direct[name].dims else direct[name]
        values = dataset[name].transpose(*expected.dims).values
        if name == "emphasis_error":
            expected = expected.astype(np.float32)
        np.testing.assert_array_equal(values, expected.values)
    curves = dataset["emphasis_error"].sel(learner="followon", step_size=0.05).values
    assert len(np.unique(curves[:, -1])) == 3  # each run has its own stream


def test_the_working_type_is_kept_and_written_down(whole):
    dataset, _ = whole
    assert dataset["emphasis_error"].dtype == np.float32
    assert dataset["diverged"].dtype == bool
    attributes = {"experiment": "small", "seed": 5, "num_steps": 250, "interrupted": 0}
    assert attributes.items() <= dataset.attrs.items()
    assert dataset.attrs["record_every"] == 100
    assert "emphatic" in dataset.attrs["versions"]
    one = dataclasses.replace(
        EXPERIMENT, dtype="float64", cases={"features": ("one-hot",)}, num_runs=1
    )
    assert run(one)["emphasis_error"].dtype == np.float64


def test_divergence_is_data(whole):
    dataset, _ = whole
    large = dataset.sel(learner="gem", step_size=20.0)
    assert large["diverged"].all()
    assert not np.isfinite(large["emphasis_error"].isel(time=-1)).any()
    others = dataset.sel(step_size=0.05)
    assert not others["diverged"].any()
    assert np.isfinite(others["emphasis_error"]).all()


def test_learners_are_made_from_the_problem_of_their_case():
    """Only the exact emphasis of its own problem has no error."""
    exact = dataclasses.replace(
        EXPERIMENT,
        learners=lambda problem: {"exact": learners.exact(oracle.emphasis(problem))},
        cases={"solid": (0.3, 0.05)},
        grid={},
    )
    errors = run(exact)["emphasis_error"]
    assert errors.sizes["solid"] == 2
    assert (errors == 0.0).all()


def test_learners_of_an_experiment_may_be_expressions_which_are_their_definitions():
    by_text = dataclasses.replace(
        EXPERIMENT,
        cases={"solid": (0.3,)},
        learners=lambda problem: {"gem": "gem(step_size, 1e-3)", "exact": "exact(emphasis)"},
    )
    made = dataclasses.replace(
        by_text,
        learners=lambda problem: {
            "gem": lambda step_size: learners.gem(step_size, 1e-3),
            "exact": learners.exact(oracle.emphasis(problem)),
        },
    )
    xarray.testing.assert_equal(run(by_text)["emphasis_error"], run(made)["emphasis_error"])
    definitions = {unit.learner: unit.definition["learner"] for unit in by_text.units}
    assert definitions == {"gem": "gem(step_size, 0.001)", "exact": "exact(emphasis)"}


# Progress


def test_the_updates_are_those_of_all_lanes_runs_steps_and_cases():
    assert EXPERIMENT.num_updates() == (2 + 1) * 3 * 250 * 4
    assert dataclasses.replace(EXPERIMENT, num_runs=1).num_updates() == 3 * 250 * 4
    alone = dataclasses.replace(EXPERIMENT, learners=lambda p: {"gem": learners.gem})
    assert alone.num_updates() == 2 * 3 * 250 * 4


def test_progress_never_goes_back_and_ends_at_all_updates(whole):
    _, calls = whole
    done, total = zip(*calls, strict=True)
    assert set(total) == {EXPERIMENT.num_updates()}
    assert list(done) == sorted(done)
    assert done[-1] == EXPERIMENT.num_updates()


# Bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_runs": 0}, "num_runs: got 0; at least 1"),
        ({"num_runs": -3}, "num_runs: got -3"),
        ({"num_runs": 10**10}, "num_runs: got 10000000000; at most"),
        ({"num_steps": 0}, "num_steps: got 0; at least 1"),
        ({"num_steps": 10**10}, "num_steps: got 10000000000; at most"),
        ({"seed": -1}, "seed: got -1"),
        ({"seed": 2**31}, "seed: got 2147483648; below 2\\^31"),
    ],
)
def test_a_bad_count_or_seed_is_named_when_the_experiment_is_made(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        dataclasses.replace(EXPERIMENT, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record_every": 0}, "record_every: got 0"),
        ({"measures": ("emphasis_eror",)}, "did you mean 'emphasis_error'"),
        ({"grid": {"step_sise": [0.1]}}, "did you mean 'step_size'"),
        ({"grid": {"step_size": [0.1, np.nan]}}, "grid: step_size.* is nan"),
        ({"grid": {"step_size": [0.1, -0.1]}}, "step_size = -0.1.*must be positive"),
        ({"grid": {"step_size": [0.1, 0.1]}}, "distinct numbers"),
        ({"cases": {"solid": (0.1, 1.5)}}, "solid: got 1.5; a probability"),
    ],
)
def test_bad_input_is_found_before_anything_runs(changes, message):
    calls = []
    with pytest.raises(ValueError, match=message):
        run(
            dataclasses.replace(EXPERIMENT, **changes), on_progress=lambda *call: calls.append(call)
        )
    assert calls == []


# Units


def test_units_are_learners_of_a_case_on_their_grid_for_blocks_of_ten_runs():
    units = dataclasses.replace(EXPERIMENT, num_runs=23).units
    assert len(units) == 4 * 2 * 3
    first, *_ = units
    assert (first.case, first.learner, first.grid) == (0, "gem", {"step_size": (0.05, 20.0)})
    assert [unit.runs for unit in units[:3]] == [
        tuple(range(10)),
        tuple(range(10, 20)),
        (20, 21, 22),
    ]
    assert [unit.grid for unit in units if unit.learner == "followon"] == [{}] * 12
    assert first.num_cells == 2 * 10
    assert first.title == "gem, features=one-hot, solid=0.3, runs 0 to 9"


def test_a_run_in_another_block_is_the_same_run():
    one = dataclasses.replace(EXPERIMENT, cases={"features": ("aliased",)}, num_runs=12)
    whole, shorter = run(one), run(dataclasses.replace(one, num_runs=11))
    np.testing.assert_array_equal(
        whole["emphasis_error"].isel(run=slice(11)), shorter["emphasis_error"]
    )


DEFINED = dataclasses.replace(
    EXPERIMENT, definitions={"gem": "gem(step_size)", "followon": "followon()"}
)
CHANGES = {
    "num_steps": 251,
    "record_every": 50,
    "seed": 6,
    "dtype": "float64",
    "engine": "scan",
    "measures": ("emphasis_error", "weights"),
    "definitions": {"gem": "gem(step_size, 0.1)", "followon": "followon(2)"},
    "cases": {"features": ("one-hot",), "solid": (0.2,)},
    "targets": {"uniform": lambda problem: np.full((7, 2), 0.5)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_defines_a_cell_changes_its_address(change):
    before, after = (
        DEFINED.units[0],
        dataclasses.replace(DEFINED, **{change: CHANGES[change]}).units[0],
    )
    assert before.address != after.address
    assert dataclasses.replace(DEFINED).units[0].address == before.address


@pytest.mark.parametrize(
    "same",
    [{"name": "other"}, {"num_runs": 30}, {"grid": {"step_size": [0.1]}}, {"metadata": {"a": 1}}],
)
def test_neither_grid_nor_runs_nor_words_change_an_address(same):
    assert DEFINED.units[0].address == dataclasses.replace(DEFINED, **same).units[0].address


def test_a_learner_without_a_definition_has_the_address_of_its_source_if_that_is_known():
    def bound(value):
        return lambda problem: {"gem": lambda step_size: (value, learners.gem(step_size))[1]}

    known, other, unknown = (
        dataclasses.replace(EXPERIMENT, learners=bound(value), targets=None).units[0]
        for value in (1, 2, object())
    )
    assert known.address != other.address
    with pytest.raises(ValueError, match=r"^definitions: 'gem' has none, .*'object'"):
        _ = unknown.address


# Ctrl-C


def run_until(experiment: Experiment, after: float) -> xarray.Dataset:
    """Runs an experiment until it reports more updates than these; returns what it holds."""

    def on_progress(done: int, total: int) -> None:
        if done > after:
            raise KeyboardInterrupt

    return run(experiment, num_threads=1, on_progress=on_progress)


UNIT = 2 * 3 * 250  # updates of GEM in a case, and half as many of the trace


@pytest.mark.parametrize(
    ("after", "finished"), [(UNIT, 1), (UNIT + UNIT // 2, 2), (2 * UNIT + UNIT // 2, 3)]
)
def test_ctrl_c_keeps_the_finished_units(whole, after, finished):
    dataset, engines = run_until(EXPERIMENT, after), []
    assert dataset.attrs["interrupted"] == 1
    for features, solid in [tuple(point.values()) for point in EXPERIMENT.points()]:
        for learner in ("gem", "followon"):
            point = {"features": features, "solid": solid, "learner": learner}
            if dataset["engine"].sel(point) == "fused":
                np.testing.assert_array_equal(
                    dataset["emphasis_error"].sel(point), whole[0]["emphasis_error"].sel(point)
                )
            else:
                assert dataset["emphasis_error"].sel(point).isnull().all()
                assert not dataset["diverged"].sel(point).any()
            engines.append(str(dataset["engine"].sel(point).values))
    assert engines == ["fused"] * finished + [""] * (8 - finished)
    assert dataset.sizes == whole[0].sizes


def test_ctrl_c_before_the_first_unit_is_passed_on():
    with pytest.raises(KeyboardInterrupt):
        run_until(EXPERIMENT, 0)


def test_cases_with_other_weights_are_gathered_by_their_names():
    """Six features come before seven, whose weights are then not one after the other."""
    few = {"features": ("aliased", "one-hot"), "solid": (0.1,)}
    recorded = dataclasses.replace(
        EXPERIMENT,
        learners=lambda problem: {"gem": learners.gem},
        cases=few,
        measures=("weights",),
        num_runs=1,
    )
    all_weights = run(recorded).squeeze()["gem_weights"]
    sizes: dict[Features, int] = {"aliased": 6, "one-hot": 7}
    for features, size in sizes.items():
        direct = engine.run(
            problems.baird(features, 0.1),
            {"gem": learners.gem},
            EXPERIMENT.grid,
            num_steps=250,
            seeds=[5 * 2**32],
            record_every=100,
            measures=["weights"],
        ).squeeze()["gem_weights"]
        weights = all_weights.sel(features=features)
        np.testing.assert_array_equal(weights.sel(gem_weight=direct["gem_weight"]), direct)
        assert int(weights.notnull().any(["step_size", "time"]).sum()) == 2 * size


# Files


def write_and_read(dataset: xarray.Dataset, path) -> xarray.Dataset:
    dataset.to_netcdf(path, engine="scipy")
    return xarray.load_dataset(path, engine="scipy")


def test_a_file_keeps_values_coordinates_and_attributes(whole, tmp_path):
    dataset = whole[0].assign_attrs(seed=2**31 - 1)  # the largest seed there is
    again = write_and_read(dataset, tmp_path / "whole.nc")
    xarray.testing.assert_identical(again, dataset)
    assert again["emphasis_error"].dtype == np.float32
    assert again["diverged"].dtype == bool
    assert again["features"].values.tolist() == ["one-hot", "aliased"]
    np.testing.assert_array_equal(again["emphasis_error"], dataset["emphasis_error"])  # inf and NaN
