"""`emphatic export`: results as files for other programs."""

import shutil

import numpy as np
import pandas
import pytest
import xarray

from emphatic.experiments import toml
from emphatic.experiments.completion import complete
from emphatic.experiments.shards import write
from emphatic.experiments.store import load

from .command import run

TEXT = """
name = "two"
steps = 40
runs = 2
record_every = 20
measures = ["rmsve"]
[problems.boyan]
[problems.two_state]
[learners]
td = "td(step_size)"
lms = "gtd2(0.01)"
[grid]
step_size = [0.1, 1e9]
"""


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The folder of a sweep, which tests leave alone."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "two.toml").write_text(TEXT)
    complete(toml.read(folder / "two.toml"), folder / "swept")
    return folder


@pytest.fixture
def swept(once, tmp_path, monkeypatch):
    """The folder of a sweep, in the working folder."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "swept"


def test_a_sweep_becomes_a_long_table_with_its_coordinates(swept, capsys):
    status, out, err = run(capsys, "export", "swept")
    assert (status, out, err) == (0, "swept: written to swept.csv\n", "")
    table = pandas.read_csv("swept.csv")
    coordinates = ["problem", "learner", "step_size", "run", "time"]
    assert [*table] == [*coordinates, "diverged", "rmsve"]
    dataset = load(swept)
    assert len(table) == dataset["rmsve"].size == 2 * 2 * 2 * 2 * 2
    values = table.set_index(coordinates)["rmsve"].to_xarray()
    expected = dataset["rmsve"].astype(np.float64)
    values = values.sel({name: expected[name] for name in coordinates})
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_netcdf_keeps_everything_and_options_may_come_first(swept, capsys):
    status, out, _ = run(capsys, "export", "--netcdf", "--csv", "--out", "a.b.csv", str(swept))
    assert (status, out.count("written to")) == (0, 2)
    expected = load(swept)
    with xarray.open_dataset("a.b.nc", engine="scipy") as dataset:
        for name, values in expected.variables.items():
            np.testing.assert_array_equal(dataset[name], values)
        assert dataset.attrs["provenance"] == expected.attrs["provenance"]
    assert len(pandas.read_csv("a.b.csv")) == expected["rmsve"].size


def test_each_experiment_of_a_figure_and_the_curves_of_a_training_have_a_file(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    curves = xarray.Dataset(
        {"J": (("run", "steps"), np.eye(2)), "diverged": (("run", "steps"), np.eye(2) > 1)}
        | {"seed": ("run", [5, 6]), "weights": (("run", "steps", "w"), np.ones((2, 2, 9)))},
        {"run": [0, 1], "steps": [0, 10]},
        {"algorithm": "ace"},
    )
    for name in ("one", "two"):
        (tmp_path / "figure" / "data").mkdir(parents=True, exist_ok=True)
        write(tmp_path / "figure" / "data" / f"{name}.safetensors", curves, {})
    (tmp_path / "arm").mkdir()
    curves.to_netcdf(tmp_path / "arm" / "curves.nc", engine="scipy")
    assert run(capsys, "export", "figure", "--csv")[0] == 0
    assert run(capsys, "export", "arm")[0] == 0
    text = "run,steps,J,diverged,seed\n0,0,1.0,False,5\n0,10,0.0,False,5\n"
    text += "1,0,0.0,False,6\n1,10,1.0,False,6\n"
    for name in ("figure-one.csv", "figure-two.csv", "arm.csv"):
        assert (tmp_path / name).read_text() == text


def test_a_named_problem_is_a_problem_whatever_folder_has_its_name(swept, capsys):
    swept.rename("boyan")
    assert run(capsys, "export", "boyan", "--out", "b.npz")[1] == "boyan: written to b.npz\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("export .", "folder: . has no results"),
        ("export two.toml/", "two.toml/"),
        ("export boyan --csv", "Unrecognized options: --csv"),
        ("export swept --target uniform", "Unrecognized options: --target"),
        ("export swept --out nowhere/x.csv", "out: the directory nowhere does not exist"),
    ],
)
def test_what_cannot_be_exported_is_one_line(swept, capsys, arguments, message):
    before = sorted(swept.parent.rglob("*"))
    status, out, err = run(capsys, *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(swept.parent.rglob("*")) == before


def test_parquet_without_pyarrow_is_one_line(swept, capsys, monkeypatch):
    def to_parquet(*_, **__):
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pandas.DataFrame, "to_parquet", to_parquet)
    status, _, err = run(capsys, "export", "swept", "--parquet")
    assert (status, err.count("\n")) == (2, 1)
    assert "run pip install pyarrow" in err
    assert not (swept.parent / "swept.parquet").exists()
