"""Files hold what was written, whole or not at all, and say what is wrong with them."""

import dataclasses
import hashlib
import os
import secrets
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure
from safetensors.numpy import save as to_safetensors

from emphatic import deep, MDP, Problem, problems
from emphatic._files import (
    as_json,
    atomic_write,
    checksum,
    make_folder,
    output_file,
    read_arrays,
    read_metadata,
    to_jsonable,
    write_arrays,
)
from emphatic.deep.checkpoint import load_checkpoint, save_checkpoint
from emphatic.experiments import shards
from emphatic.figures import style

NUMBERS = np.arange(24.0).reshape(2, 3, 4)
ARRAYS = {
    "as it comes": NUMBERS,
    "Fortran order": np.asfortranarray(NUMBERS),
    "strides": NUMBERS[:, ::-2, 1:3],
    "transposed": NUMBERS.T,
    "big-endian": NUMBERS.astype(">f8"),
    "big-endian integers": np.arange(5, dtype=">i4"),
    "no axis": np.array(2.5),
    "a scalar": np.asarray(np.float32(1.5)),
    "empty": np.zeros((0, 3)),
    "truths": np.array([True, False]),
    "not finite": np.array([np.inf, -np.inf, np.nan], np.float32),
    "unsigned": np.array([2**64 - 1], np.uint64),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_comes_back_whatever_its_order_strides_and_bytes(tmp_path, name):
    array = ARRAYS[name]
    write_arrays(tmp_path / "file", {name: array, "other": NUMBERS}, {"text": "words"})
    arrays, metadata = read_arrays(tmp_path / "file")
    assert metadata == read_metadata(tmp_path / "file") == {"text": "words"}
    assert set(arrays) == {name, "other"}
    np.testing.assert_array_equal(arrays[name], array)
    assert arrays[name].shape == array.shape
    assert arrays[name].dtype == array.dtype.newbyteorder("=")


def test_equal_arrays_and_texts_are_equal_bytes_as_the_library_writes_them(tmp_path):
    arrays, texts = {"b": NUMBERS, "a": NUMBERS}, {str(n): f"é \\ {n}" for n in range(9)}
    for name in ("one", "other"):
        write_arrays(tmp_path / name, arrays, texts)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert read_arrays(tmp_path / "one")[1] == texts
    for few in ({}, {"text": texts["1"]}):
        write_arrays(tmp_path / "few", arrays, few)
        assert (tmp_path / "few").read_bytes() == to_safetensors(arrays, few)


ORDERS = {
    "Fortran order": np.asfortranarray,
    "negative strides": lambda x: x[(slice(None, None, -1),) * x.ndim].copy()[
        (slice(None, None, -1),) * x.ndim
    ],
    "a slice": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
}


def experience(arrange):
    """Recorded experience of arrays that were arranged in memory somehow."""
    observation = NUMBERS.reshape(4, 2, 3).astype(np.float32)
    none, start = np.zeros((3, 2), bool), np.arange(6).reshape(3, 2) < 2
    arrays = observation[:-1], NUMBERS[:, 0, :3].reshape(3, 2, 1), NUMBERS[0, :, :2]
    steps = deep.Step(*map(arrange, (*arrays, observation[1:], none, none, start)))
    bounds = (arrange(np.array([bound])) for bound in (-1.0, 1.0))
    return deep.Experience(steps, arrange(np.full((3, 2), 0.5)), "e", 0, *bounds)


def policies(arrange):
    """Policies of two runs whose weights were arranged in memory somehow."""
    theta = ((arrange(NUMBERS), arrange(NUMBERS[:, 0])),)
    return deep.TrainedPolicies("ace", "reacher", "gaussian", theta, (0, 1), 10, 0.9)


def problem(arrange):
    """A problem whose arrays were arranged in memory somehow."""
    rows = arrange(np.array([[0.25, 0.75], [0.5, 0.5]]))
    transition = arrange(np.array([[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]]))
    mdp = MDP(transition, arrange(NUMBERS[:, :2, :2]), 0.9)
    labels = arrange(np.array([3, 7]))
    return Problem(mdp, rows, arrange(np.ones(2)), arrange(np.eye(2)), labels=labels)


def dataset(arrange):
    """Results whose arrays were arranged in memory somehow."""
    values = {"error": (("run", "x", "time"), arrange(NUMBERS)), "text": ("x", ["a", "b", "c"])}
    coordinates = {"time": arrange(np.arange(4)), "steps": ("time", arrange(np.arange(4.0)))}
    return xarray.Dataset(values, coordinates, {"engine": "none"})


def _load_state(path):
    return load_checkpoint(path)[1]


SAVERS = {
    "experience": (experience, deep.save_experience, deep.load_experience),
    "policies": (policies, deep.save_policies, deep.load_policies),
    "a problem": (problem, problems.save, problems.load),
    "results": (dataset, lambda x, p: shards.write(p, x, {}), lambda path: shards.read(path)[0]),
    "a checkpoint": (
        lambda arrange: {"x": arrange(NUMBERS), "y": arrange(np.arange(3) > 1)},
        lambda arrays, path: save_checkpoint(path, {"a": 1}, arrays),
        _load_state,
    ),
}


def arrays_of(thing):
    """All arrays of something that is saved, by their paths."""
    if isinstance(thing, xarray.Dataset):
        return {name: np.asarray(values) for name, values in thing.variables.items()}
    if dataclasses.is_dataclass(thing):
        thing = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    if isinstance(thing, tuple):
        thing = dict(enumerate(thing))
    if isinstance(thing, dict):
        parts = {name: arrays_of(part) for name, part in thing.items()}
        return {(name, *path): a for name, part in parts.items() for path, a in part.items()}
    return {(): np.asarray(thing)}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("saver", SAVERS)
def test_whatever_is_saved_comes_back_from_any_memory(tmp_path, saver, order):
    """Experience in Fortran order was refused as damaged, and so were big-endian results."""
    make, save, load = SAVERS[saver]
    save(make(ORDERS[order]), tmp_path / "file")
    expected = arrays_of(make(np.ascontiguousarray))
    actual = arrays_of(load(tmp_path / "file"))
    assert expected.keys() == actual.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values)


@pytest.mark.parametrize("value", [1.0j, np.longdouble(1.0), np.datetime64("2026-01-01"), b"bytes"])
def test_what_no_file_can_hold_is_one_line_and_no_file(tmp_path, value):
    array = np.array([value])
    for write in (
        lambda: write_arrays(tmp_path / "file", {"x": array}, {}),
        lambda: shards.write(tmp_path / "file", xarray.Dataset({"x": ("y", array)}), {}),
    ):
        with pytest.raises(ValueError, match="file cannot be written: Unknown dtype") as failure:
            write()
        assert "\n" not in str(failure.value)
    assert list(tmp_path.iterdir()) == []


def test_equal_arrays_are_equal_files_whatever_their_memory(tmp_path):
    files = set()
    for name in ("as it comes", "Fortran order", "big-endian"):
        write_arrays(tmp_path / name, {"x": ARRAYS[name]}, {"text": "words"})
        files.add((tmp_path / name).read_bytes())
    assert len(files) == 1


@pytest.mark.parametrize("content", [None, b"", b"no header", b"\xff" * 100])
def test_a_file_that_cannot_be_read_is_a_value_error(tmp_path, content):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    for read in (read_arrays, read_metadata):
        with pytest.raises(ValueError, match=r"."):
            read(tmp_path / "file")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere does not exist$"):
        read_arrays(tmp_path / "nowhere")


def test_what_fails_while_it_writes_leaves_what_was_there(tmp_path):
    (tmp_path / "file").write_text("before")
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "file") as file:
        file.write(bytes(1 // (file.write(b"after") - 5)))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"
    with atomic_write(tmp_path / "file") as file:
        file.write(b"after")
    assert (tmp_path / "file").read_text() == "after"
    with (
        pytest.raises(ValueError, match="is a directory"),
        atomic_write(make_folder(tmp_path / "a" / "b")),
    ):
        pass


def test_a_checksum_is_of_names_types_shapes_and_bytes():
    """Addresses of results are made of it: it may never change."""
    expected = hashlib.sha256(b'{"a": 1}' + b"x float64 (2, 3, 4)" + NUMBERS.tobytes())
    assert checksum({"a": 1}, {"x": NUMBERS}) == expected.hexdigest()
    for other in (np.asfortranarray(NUMBERS), NUMBERS.astype(">f8")):
        assert checksum({"a": 1}, {"x": other}) == expected.hexdigest()
    for other in (NUMBERS[0], NUMBERS.astype(np.float32), NUMBERS.reshape(4, 3, 2), -NUMBERS):
        assert checksum({"a": 1}, {"x": other}) != expected.hexdigest()


def test_json_has_no_numbers_that_it_does_not_know():
    values = {"a": np.array([np.inf, -np.inf, np.nan]), "b": (1, np.float64(0.5)), "c": {"d": True}}
    expected = {"a": ["inf", "-inf", None], "b": [1, 0.5], "c": {"d": True}}
    assert to_jsonable(values) == expected
    assert (
        as_json(values)
        == """{
  "a": ["inf", "-inf", null],
  "b": [1, 0.5],
  "c": {"d": true}
}"""
    )


# What a file may replace


@contextmanager
def umask(mask):
    """A process whose new files lack these permissions."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def write(path, content=b"new"):
    """Writes a file as every part of the package does."""
    with atomic_write(path) as file:
        file.write(content)


def mode(path):
    return os.stat(path).st_mode & 0o777


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_have_the_mode_that_the_umask_leaves(tmp_path, mask):
    with umask(mask):
        write(tmp_path / "file")
        make_folder(tmp_path / "folder")
    assert mode(tmp_path / "file") == 0o666 & ~mask
    assert mode(tmp_path / "folder") == 0o777 & ~mask


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_written_again_keeps_its_mode(tmp_path, kept):
    (tmp_path / "file").write_text("before")
    os.chmod(tmp_path / "file", kept)
    with umask(0o077), atomic_write(tmp_path / "file") as file:
        file.write(b"new")
        (temporary,) = tmp_path.glob("*.part")
        assert mode(temporary) & ~kept & 0o077 == 0  # nobody reads it while it is written
    assert mode(tmp_path / "file") == kept
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_read_what_was_written_under_a_umask_of_077(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and not mode(folder) & 0o001:
            os.chmod(folder, 0o755)
    with umask(0o077):
        problems.save(problems.two_state(), tmp_path / "problem.npz")
        write_arrays(tmp_path / "arrays", {"x": NUMBERS}, {})
        write(make_folder(tmp_path / "folder") / "inside")
    with umask(0o022):
        write(tmp_path / "open")

    def is_readable(name):
        other = {"user": 65534, "group": 65534, "extra_groups": []}
        reader = subprocess.run(["cat", tmp_path / name], capture_output=True, text=True, **other)
        assert reader.returncode == 0 or "Permission denied" in reader.stderr
        return reader.returncode == 0

    assert is_readable("open")
    for name in ("problem.npz", "arrays", "folder/inside"):
        assert not is_readable(name)


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_device_link(path):
    path.symlink_to("/dev/full")


def make_dangling_link(path):
    path.symlink_to(path.with_name("nothing"))


def make_circle(path):
    path.symlink_to(path)


OBSTACLES = {
    make_pipe: "is a device, a pipe or a socket; a file is required",
    make_socket: "is a device, a pipe or a socket; a file is required",
    Path.mkdir: "is a directory; a file is required",
    make_device_link: "is a device, a pipe or a socket; a file is required",
    make_dangling_link: "is a link to .*nothing, which does not exist",
    make_circle: "cannot be written|does not exist",
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_what_is_no_file_is_not_written_to_and_stays(tmp_path, obstacle):
    path = tmp_path / "out"
    obstacle(path)
    before = path.lstat()
    with pytest.raises(ValueError, match=f"^out: {path} ({OBSTACLES[obstacle]})"):
        output_file(path)
    if not path.is_symlink():
        with pytest.raises(ValueError, match=f"^path: {path} {OBSTACLES[obstacle]}"):
            write(path)
    assert os.path.samestat(path.lstat(), before)
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_link_that_a_person_names_stands_for_its_file_and_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    link, file = tmp_path / "link", tmp_path / "folder" / "file"
    file.write_text("before")
    link.symlink_to(file)
    write(output_file(link))
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert output_file(file) == file
    assert output_file(tmp_path / "not yet") == tmp_path / "not yet"
    with pytest.raises(ValueError, match=r"plot: the directory .*none does not exist"):
        output_file(tmp_path / "none" / "file", "plot")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_is_not_followed(tmp_path):
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.lchown(tmp_path / "link", 65534, 65534)
    with pytest.raises(ValueError, match="is a link of another user; give the file itself"):
        output_file(tmp_path / "link")


def test_a_link_inside_a_folder_of_results_is_replaced_and_its_target_is_not(tmp_path):
    (tmp_path / "secret").write_text("before")
    (tmp_path / "summary.json").symlink_to(tmp_path / "secret")
    write(tmp_path / "summary.json")
    assert (tmp_path / "secret").read_text() == "before"
    assert not (tmp_path / "summary.json").is_symlink()


def test_a_link_planted_at_a_temporary_name_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("before")
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * size)
    (tmp_path / f"file{'0' * 6}.part").symlink_to(tmp_path / "secret")
    (tmp_path / ".probe").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match="cannot be written: File exists"):
        write(tmp_path / "file")
    make_folder(tmp_path)
    assert (tmp_path / "secret").read_text() == "before"
    assert (tmp_path / f"file{'0' * 6}.part").is_symlink()
    assert not (tmp_path / "other").exists()


def test_a_folder_that_is_none_is_said_to_be_none(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"^out: .*file is not a folder, which is required$"):
        make_folder(tmp_path / "file")
    with pytest.raises(ValueError, match=r"^out: .*file/inside cannot be written: Not a directory"):
        make_folder(tmp_path / "file" / "inside")


def test_pictures_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    drawing = Figure()
    drawing.subplots().set_title(style.literal("a$b$ and $\\frac"))
    for name in ("picture.png", "picture.svg", "picture.pdf"):
        (tmp_path / name).write_text("before")
        with monkeypatch.context() as patch:
            patch.setattr(type(drawing.canvas), "print_figure", lambda *_, **__: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                style.save(drawing, tmp_path / name)
        assert (tmp_path / name).read_text() == "before"
        style.save(drawing, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 3
