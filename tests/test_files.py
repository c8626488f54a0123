"""Files hold what was written, whole or not at all, and say what is wrong with them."""

import dataclasses
import hashlib
import os

import numpy as np
import pytest
import xarray

from emphatic import deep, MDP, Problem, problems
from emphatic._files import (
    as_json,
    atomic_write,
    checksum,
    make_folder,
    read_arrays,
    read_metadata,
    to_jsonable,
    write_arrays,
)
from emphatic.deep.checkpoint import load_checkpoint, save_checkpoint
from emphatic.experiments import shards

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
    assert os.stat(tmp_path / "file").st_mode & 0o777 == 0o644
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
