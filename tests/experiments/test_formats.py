"""What is read back from the folder of a store is checked, and no link in it is followed."""

import dataclasses
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from safetensors import safe_open
from xarray.testing import assert_identical

from emphatic import cli, problems
from emphatic._files import checksum, read_arrays, write_arrays
from emphatic.experiments import claims, completion, locks, store, units
from emphatic.experiments.curves import read_curves
from emphatic.experiments.toml import parse

from ..mutations import changed, require_one_line

TEXT = """
name = "tiny"
steps = 20
runs = 2
record_every = 10
measures = ["rmsve"]
[problem]
name = "boyan"
[learners]
td = "td(step_size)"
[grid]
step_size = [0.01, 0.02]
[selection]
measure = "rmsve"
runs = 1
"""
TINY = parse(TEXT)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A finished store, which tests leave alone, and its dataset."""
    folder = tmp_path_factory.mktemp("once") / "tiny"
    return folder, store.load_dataset(completion.complete(TINY, folder))


@pytest.fixture
def folder(once, tmp_path) -> Path:
    """A finished store of a test's own."""
    return Path(shutil.copytree(once[0], tmp_path / "tiny"))


def use(folder: Path, *names: str) -> bool:
    """Uses a store in each way; whether that is possible, where else an error names these."""
    try:
        store.status(folder)
        opened = store.open_store(folder)
        assert all(isinstance(text, str) for text in (opened.text, opened.options))
        assert opened.selection is None or isinstance(opened.measures, list)
        store.load_dataset(opened)
    except ValueError as error:
        require_one_line(error, *names)
        return False
    return True


def test_whatever_stands_in_the_plan_of_a_store_is_used_or_one_line(folder):
    path = folder / "experiment.json"
    plan, results = json.loads(path.read_text()), {}
    for what, other in changed(plan, most=2):
        path.write_text(json.dumps(other))
        results[what] = use(folder, str(folder))
    refused = {what for what, is_used in results.items() if not is_used}
    assert {"format: removed", "name: None", "layout: []", "problems.0: ../../x"} < refused
    assert {"addresses.0.td: ../../x", "layout.grid.step_size.0: inf", "name: []"} < refused
    assert {"layout.num_runs: -1", "about.selection.by: x"} < refused
    assert "about: {}" not in refused
    assert len(results) > 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 10**5, "is not JSON: it is nested too deep"),
        ('{"format": 1, "format": 1}', "the key 'format' is there twice"),
        ('{"format": 99, "unknown": "\\ud800"}', "is not JSON"),
        ('{"format": 99}', "has the format 99, of a newer version; this one knows 1"),
        ("NaN", "an object is required"),
        ('{"format": 1' + "0" * 5000 + "}", "is not JSON"),
    ],
)
def test_a_plan_that_is_none_is_one_line_with_status_2(folder, capsys, text, message):
    (folder / "experiment.json").write_text(text)
    (folder / "tiny.toml").write_text(TEXT)
    for command in ("status", "report", "export"):
        assert cli.main([command, str(folder)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert error.startswith("emphatic: store: ")
        assert message in error
        assert "experiment.json" in error
    assert cli.main(["sweep", str(folder / "tiny.toml"), "--out", str(folder)]) == 2
    assert message in capsys.readouterr().err


def resign(path: Path, header: dict) -> None:
    """Writes another header into a shard, with its checksum."""
    arrays, _ = read_arrays(path)
    signed = {**header, "checksum": checksum(header, arrays)}
    write_arrays(path, arrays, {"emphatic": json.dumps(signed)})


def read_header(path: Path) -> dict:
    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()["emphatic"])
    del header["checksum"]
    return header


def test_whatever_a_unit_says_of_itself_is_true_or_one_line_that_names_its_file(folder):
    (path,) = (folder / "units").iterdir()
    header, results = read_header(path), {}
    header["description"] |= {"definition": {}, "provenance": {"versions": {"jax": "1"}}}
    for what, other in changed(header):
        resign(path, other)
        try:
            units.read_unit(path)
            results[what] = use(folder, str(folder))
        except ValueError as error:
            require_one_line(error, str(path))
            results[what] = False
    used = {what.partition(":")[0] for what, is_used in results.items() if is_used}
    assert used <= {
        *("attributes.engine", "attributes.reason", "description.diverged", "words"),
        *("description.definition", "description.provenance.versions", "axes.time.0"),
        "description.provenance.versions.jax",
    }
    assert not any(results[f"axes.{name}: removed"] for name in header["axes"])
    assert not results["description.address: ../../x"]
    for change in (
        {"axes": {**header["axes"], "rmsve": ["run", "time", "step_size"]}},
        {"axes": {**header["axes"], "rmsve": ["run", "run", "time"]}},
        {"axes": {**header["axes"], "other": ["run"]}},
        {"coordinates": [name for name in header["coordinates"] if name != "run"]},
        {"coordinates": [*header["coordinates"], "other"]},
        {"words": {"text": [["a"], ["b", "c"]]}, "axes": {**header["axes"], "text": ["run"]}},
        {"description": {**header["description"], "runs": [0, 0]}},
        {"description": {**header["description"], "runs": [0, 7]}},
        {"description": {**header["description"], "grid": {"step_size": [0.01, 0.03]}}},
    ):
        resign(path, {**header, **change})
        assert not use(folder, str(path)), change
    resign(path, header)
    assert use(folder)


def test_a_unit_that_lies_about_itself_is_put_aside_and_computed_again(folder, once):
    (path,) = (folder / "units").iterdir()
    header, messages = read_header(path), []
    resign(path, {**header, "description": {**header["description"], "runs": [0, 7]}})
    done = completion.complete(TINY, folder, on_message=messages.append)
    assert_identical(store.load_dataset(done), once[1])
    assert "its values of 'run' are not those that it describes" in messages.pop()
    path.unlink()
    path.mkdir()  # what is no file is put aside, too; what was put aside before is kept
    completion.complete(TINY, folder, on_message=messages.append)
    assert_identical(store.load(folder), once[1])
    assert len(messages) == 1
    assert "is a directory" in messages[0]
    names = sorted(other.suffixes[-1] for other in (folder / "units").iterdir())
    assert names == [".damaged", ".damaged", ".safetensors"]


def test_reasons_and_claims_of_any_content_are_shown_or_one_line(folder):
    (folder / "aside").mkdir()
    path = folder / "aside" / "x.json"
    for _, other in changed({"unit": "td", "reason": "it is odd"}):
        path.write_text(json.dumps(other))
        use(folder, str(path))
    path.write_text('{"unit": 5, "reason": "odd"}')
    with pytest.raises(ValueError, match=r"x\.json, unit: got 5; a text is required$"):
        store.status(folder)
    path.unlink()
    claim = folder / "running" / TINY.units[0].file_name
    for content in (b"", b"x y z", b"9" * 100, b"\xff" * 50, b" 1 2 {"):
        claim.write_bytes(content)
        with claims.open_lock(claim) as file:
            assert locks.lock(file)
            ((name, *counts),) = store.status(folder).running
            assert name == claim.name
            assert counts in ([0, 0], [1, 2])
            assert claims.describe_claim(claim) == "another process"
            assert "another process" in locks.describe_owner(file)


# Problems


def another(path: Path) -> None:
    problems.save(problems.baird(), path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize("damage", [another, cut, flip, link])
def test_a_damaged_problem_is_named_and_written_again(folder, capsys, damage):
    (path,) = (folder / "problems").iterdir()
    whole, messages = problems.digest(problems.load(path)), []
    damage(path)
    assert cli.main(["report", str(folder), "--out", str(folder.parent / "page.html")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(path) in error
    assert "run the same again to repair it" in error
    store.begin(TINY, folder, messages.append)
    assert len(messages) == 1
    assert str(path) in messages[0]
    assert "is written again" in messages[0]
    assert problems.digest(problems.load(path)) == whole
    assert not path.is_symlink()
    assert os.path.lexists(path.with_suffix(".damaged"))
    assert cli.main(["report", str(folder), "--out", str(folder.parent / "page.html")]) == 0
    store.begin(TINY, folder, messages.append)
    assert len(messages) == 1


# Names


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/b", "", " ", ".", "..", "a\0b", "a\nb", "x" * 201, "\ud800"]
)
def test_a_name_that_leads_out_of_its_folder_is_refused(tmp_path, capsys, monkeypatch, name):
    with pytest.raises(ValueError, match=r"^name: got .*that of a folder is required") as raised:
        dataclasses.replace(TINY, name=name)
    require_one_line(raised.value)
    if name != "\ud800":  # which no file in UTF-8 can hold
        monkeypatch.chdir(tmp_path)
        escaped = json.dumps(name)
        Path("x.toml").write_text(TEXT.replace('name = "tiny"', f"name = {escaped}"))
        assert cli.main(["sweep", "x.toml", "--dry-run"]) == 2
        assert "x.toml, line 2, name: got " in capsys.readouterr().err
    assert not list(tmp_path.glob("*/*"))


def test_a_name_with_spaces_and_letters_of_any_script_is_a_name():
    for name in ("my sweep", "größe", "..x", "-x", "x" * 200):
        assert dataclasses.replace(TINY, name=name).name == name


# Links, pipes and locks


def test_no_link_in_a_store_is_written_through_or_removed(folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (claim,) = {folder / "running" / unit.file_name for unit in TINY.units}
    for path in (claim, folder / ".lock", folder / "running" / "other"):
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
        try:
            with store.begin(TINY, folder).claim(TINY.units[0]) as record:
                assert record is not None
        except ValueError as error:
            require_one_line(error, str(path), "it is a link")
            assert path.name != "other"
        assert victim.read_text() == "precious"
        assert path.is_symlink()
        path.unlink()
    os.link(victim, claim)  # nor is what has another name
    with pytest.raises(ValueError, match="it is not a file of its own"):
        store.begin(TINY, folder)
    claim.unlink()
    (folder / "aside").mkdir()
    (folder / "aside" / "odd.json").symlink_to(victim)
    opened = store.open_store(folder)
    completion.complete_with(opened, TINY.units, lambda claims: (_ for _ in ()))
    assert (folder / "aside" / "odd.json").is_symlink()
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["units", "problems", "running", "aside"])
def test_a_folder_of_a_store_that_is_a_link_is_refused(folder, tmp_path, name):
    other = tmp_path / "other"
    other.mkdir()
    (other / ("a" * 24 + "-" + "b" * 16)).write_text("precious")
    (other / "y.json").write_text("precious")
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).symlink_to(other)
    before = {path: path.read_text() for path in other.iterdir()}

    def write() -> None:
        opened = store.begin(TINY, folder)
        completion.complete_with(opened, TINY.units, lambda claims: (_ for _ in ()))
        opened.set_aside(TINY.units[0], "it is odd")

    with pytest.raises(ValueError, match=rf"{name} is a link; nothing is written there"):
        write()
    assert {path: path.read_text() for path in other.iterdir()} == before


def test_a_pipe_in_the_place_of_any_file_is_one_line_and_nothing_waits(folder):
    (unit,) = (folder / "units").iterdir()
    (problem,) = (folder / "problems").iterdir()
    claim = folder / "running" / TINY.units[0].file_name
    (folder / "aside").mkdir()
    for path in (folder / "experiment.json", unit, problem, claim, folder / ".lock"):
        content = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        use(folder, str(folder))
        try:
            with store.begin(TINY, folder, lambda _: None).claim(TINY.units[0]):
                pass
        except ValueError as error:
            require_one_line(error, str(folder))
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    os.mkfifo(folder / "aside" / "x.json")
    assert not use(folder, "x.json", "a device or a pipe")


def test_who_waits_for_a_lock_says_whose_it_is(folder, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.0)
    messages: list[str] = []
    with locks.open_lock(folder / ".lock") as file:
        assert locks.wait_for_lock(file, folder, messages.append)
        thread = threading.Thread(target=store.begin, args=(TINY, folder, messages.append))
        thread.start()
        while not messages:
            assert thread.is_alive()
    thread.join()
    (message,) = messages
    assert message.startswith(f"{folder} is used by process {os.getpid()} of ")
    assert message.endswith("; waiting for it")


def test_who_waits_for_a_unit_says_who_computes_it(tmp_path, once, monkeypatch):
    monkeypatch.setattr(completion, "PATIENCE", 0.0)
    opened, done = store.begin(TINY, tmp_path / "tiny"), threading.Event()
    messages: list[str] = []

    def complete() -> None:
        completion.complete(TINY, opened.folder, on_message=messages.append)
        done.set()

    with opened.claim(TINY.units[0]):
        threading.Thread(target=complete).start()
        while not messages:
            assert not done.is_set()
    assert done.wait(60)
    (message,) = messages
    owner = (
        f"waiting for td, name=boyan, runs 0 to 2, which is computed by process {os.getpid()} of "
    )
    assert message.startswith(owner.replace("name=boyan", "problem=boyan"))
    assert_identical(store.load(opened.folder), once[1])


def test_a_lock_of_another_user_is_one_line_that_says_whose_it_is(folder, monkeypatch):
    os_open = os.open

    def refuse(path, *arguments, **options):
        if str(path).endswith(".lock"):
            raise PermissionError(13, "Permission denied")
        return os_open(path, *arguments, **options)

    owner = (folder / ".lock").owner()
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ValueError, match=rf"\.lock cannot be .* denied; it belongs to {owner}$"):
        store.begin(TINY, folder)


def test_curves_that_are_cut_or_altered_are_read_or_one_line(tmp_path):
    import numpy as np
    import xarray

    axes, path = ("run", "steps"), tmp_path / "curves.nc"
    curves = {name: (axes, np.ones((2, 3))) for name in ("J", "return")}
    curves["diverged"] = axes, np.zeros((2, 3), bool)
    attributes = {"algorithm": "ace", "environment": "reacher"}
    coordinates = {"run": [0, 1], "steps": [0, 10, 20]}
    xarray.Dataset(curves, coordinates, attributes).to_netcdf(path, engine="scipy")
    whole, refused = path.read_bytes(), 0
    assert read_curves(path).attrs == attributes
    for place in range(0, len(whole), 3):
        for content in (whole[:place], whole[:place] + b"\xff" + whole[place + 1 :]):
            path.write_bytes(content)
            try:
                read_curves(path)
            except ValueError as error:
                require_one_line(error, str(path))
                refused += 1
    assert refused > 100
    assert units.DAMAGED == ".damaged"
