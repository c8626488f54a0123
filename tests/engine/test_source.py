"""A learner of one's own is what its source says: in files, on the command line, in Python."""

import dataclasses
import importlib
import json
import pickle
import runpy
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import learners, problems
from emphatic.engine.source import install, module_texts, trace
from emphatic.experiments import complete, Experiment, store, toml

from ..cli.command import run

HALF = """\
import functools
from emphatic import learners
import half_scale


def half_td(step_size):
    return learners.td(half_scale.scale(step_size))


short = functools.partial(half_td, 0.1)
"""
SCALE = "def scale(number):\n    return 0.5 * number\n"
TOML = """\
steps = 300
runs = 2
problem = "boyan"
[learners]
half = "half:half_td(step_size)"
td = "td(step_size)"
[grid]
step_size = [0.1, 0.2]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a learner of one's own, which nobody has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "half.py").write_text(HALF)
    (tmp_path / "half_scale.py").write_text(SCALE)
    (tmp_path / "unused.py").write_text("")
    (tmp_path / "own.toml").write_text(TOML)
    yield tmp_path
    forget()


def forget() -> None:
    """Forgets the modules, as a new process would."""
    for name in ("half", "half_scale"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def addresses(imports=("half",)) -> dict[str, str]:
    forget()
    return {unit.learner: unit.address for unit in toml.read("own.toml", imports).units}


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--import", "other"]])
def test_a_file_imports_no_code_by_itself(capsys, folder, options):
    status, out, err = run(capsys, "sweep", "own.toml", *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "line 5, learners.half: half:half_td is code" in err
    assert "--import half" in err
    assert "half" not in sys.modules


def test_a_sweep_of_ones_own_learner_is_stored_resumed_and_reported(capsys, folder):
    command = ["sweep", "own.toml", "--import", "half", "--out", "results"]
    assert run(capsys, *command)[0] == 0
    dataset = store.load("results")
    half, td = (dataset["rmsve"].sel(learner=name) for name in ("half", "td"))
    np.testing.assert_array_equal(half.sel(step_size=0.2), td.sel(step_size=0.1))
    assert run(capsys, *command, "--runs", "3")[0] == 0
    assert len(list((folder / "results" / "units").iterdir())) == 4
    forget()
    (folder / "half.py").unlink()
    assert run(capsys, "status", "results")[0] == 0
    assert run(capsys, "report", "results", "--out", "page.html")[0] == 0
    page = (folder / "page.html").read_text()
    assert "half:half_td(step_size)" in page
    assert "emphatic sweep own.toml --runs 3 --import half --out results<" in page


def test_another_source_is_another_learner_and_nothing_else_is(folder):
    before = addresses()
    (folder / "unused.py").write_text("changed = True\n")
    assert addresses() == before
    (folder / "half_scale.py").write_text(SCALE.replace("0.5", "0.25"))
    changed = addresses()
    assert (changed["half"] != before["half"], changed["td"]) == (True, before["td"])
    (folder / "half_scale.py").write_text(SCALE)
    (folder / "half.py").write_text(HALF + "\n# a comment\n")
    assert addresses()["half"] not in (before["half"], changed["half"])


def test_what_was_changed_after_it_was_imported_is_not_mistaken_for_what_runs(folder):
    toml.read("own.toml", ["half"])
    (folder / "half_scale.py").write_text(SCALE.replace("0.5", "0.25"))
    with pytest.raises(ValueError, match="'half_scale' was changed after it was imported"):
        toml.read("own.toml", ["half"])


def test_compare_takes_ones_own_learner_from_the_current_folder(capsys, folder):
    names = ["half:half_td(0.2)", "td(0.1)"]
    size = ["--steps", "200", "--runs", "2", "--json"]
    status, out, _ = run(capsys, "compare", "boyan", "--learners", *names, *size)
    first, second = json.loads(out)["rows"]
    assert (status, json.loads(out)["measure"]) == (0, "rmsve")
    assert first["final"] == second["final"]
    for name, message in (
        ("half:hlf_td(0.2)", "half: unknown name 'hlf_td'; did you mean 'half_td'"),
        ("haf:half_td(0.2)", "import: 'haf' cannot be imported: ModuleNotFoundError"),
        ("half:half_td()", "learners: 'half:half_td()': half:half_td: missing a required"),
    ):
        status, _, err = run(capsys, "compare", "boyan", "--learners", name, "td(0.1)", *size)
        assert (status, err.count("\n")) == (2, 1)
        assert message in err


def test_solve_and_predict_take_ones_own_learner_by_its_name_too(capsys, folder):
    names = ["half:half_td", "half:half_td(step_size)", "td"]
    status, out, _ = run(capsys, "solve", "boyan", "--learners", *names, "--json")
    limits = json.loads(out)
    assert status == 0
    for name in names:
        assert limits[name]["error"] == pytest.approx(limits["td_system"]["error"], rel=1e-9)
    size = ["--steps", "100", "--no-stability", "--json"]
    by_name = run(
        capsys, "predict", "boyan", "--learner", "half:half_td", "--step-size", "0.2", *size
    )
    by_call = run(capsys, "predict", "boyan", "--learner", "half:half_td(0.2)", *size)
    assert by_name[0] == by_call[0] == 0
    assert by_name[1] == by_call[1]


def experiment(make_learners) -> Experiment:
    grid = {"step_size": [0.1]}
    return Experiment(
        "own", problems.boyan, {}, make_learners, ("rmsve",), 50, grid=grid, num_runs=2
    )


def test_a_plain_function_in_python_is_stored_under_its_source(folder):
    sys.path.insert(0, str(folder))
    half = importlib.import_module("half")
    own = experiment(lambda problem: {"half": half.half_td})
    complete(own, folder / "store")
    (path,) = (folder / "store" / "units").iterdir()
    complete(dataclasses.replace(own, num_runs=1), folder / "store")
    assert [path] == list((folder / "store" / "units").iterdir())
    assert trace(half.half_td) == trace(half.half_td)
    assert list(trace(half.half_td).modules) == ["half", "half_scale"]
    assert trace(half.short).definition != trace(half.half_td).definition


def test_what_a_function_has_bound_is_part_of_it():
    def scaled(scale, emphasis=1.0):
        return lambda step_size: learners.etd(learners.constant(emphasis), scale * step_size)

    values = (scaled(1.0), scaled(2.0), scaled(jnp.ones(2)), scaled(1.0, emphasis=2.0))
    assert len({trace(value).definition for value in values}) == 4
    assert trace(scaled(1.0)).definition == trace(scaled(1.0)).definition
    assert trace(learners.gem(0.1)).definition != trace(learners.gem(0.2)).definition
    assert trace(learners.gem).modules == {}
    with pytest.raises(ValueError, match="'object', which it uses, has no source; give a def"):
        trace(scaled(object()))


SCRIPT = """
from emphatic import learners
from emphatic.engine.source import trace
FACTOR = {factor}
OTHER = {other}
def scale(x):
    return FACTOR * x
def mine(step_size):
    return learners.td(scale(step_size))
definition = trace(mine).definition
"""


@pytest.fixture
def script_definitions(tmp_path):
    """The definitions of a learner in scripts that differ in what it uses, or in something else."""
    definitions = []
    for factor, other in ((1, 1), (1, 2), (3, 1)):
        path = tmp_path / f"script{factor}{other}.py"
        path.write_text(SCRIPT.format(factor=factor, other=other))
        definitions.append(runpy.run_path(str(path), run_name="__main__")["definition"])
    return definitions


def test_a_function_of_a_script_is_its_source_and_that_of_what_it_uses(script_definitions):
    first, same, other = script_definitions
    assert first == same
    assert first != other


def test_a_worker_without_the_modules_gets_them_and_never_those_of_another_time(folder):
    sys.path.insert(0, str(folder))
    half = importlib.import_module("half")
    packed, texts = pickle.dumps(half.half_td), module_texts("half")
    (folder / "half_scale.py").write_text(SCALE.replace("0.5", "0.25"))  # what the worker has
    forget()
    install(texts)
    sizes = [float(pickle.loads(packed)(1.0).step_size(0)) for _ in range(2)]
    assert sizes == [0.5, 0.5]
    install(texts)
    assert sys.modules["half_scale"].__file__ != str(folder / "half_scale.py")
