"""Files hold what was written, whole or not at all, and say what is wrong with them."""

import hashlib
import os

import numpy as np
import pytest

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
    assert checksum({"a": 1}, {"x": np.asfortranarray(NUMBERS)}) == expected.hexdigest()
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
