"""Problems come back from files as they went in, and broken files are refused."""

import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from emphatic import oracle, problems
from emphatic.problems import load, save

from ..strategies import as_sparse, problems as random_problems

FIELDS = ("behavior", "interest", "x", "xa", "start", "target", "labels")


def assert_identical(first, second):
    """Bit for bit, csr structure included."""
    assert type(first) is type(second)
    if sparse.issparse(first):
        assert first.shape == second.shape
        for part in ("data", "indices", "indptr"):
            assert_identical(getattr(first, part), getattr(second, part))
    elif isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert first.tobytes() == second.tobytes()
    else:
        assert first == second


def assert_same_problem(first, second):
    for name in ("transition", "reward", "discount", "num_states", "num_actions"):
        assert_identical(getattr(first.mdp, name), getattr(second.mdp, name))
    for name in FIELDS:
        assert_identical(getattr(first, name), getattr(second, name))
    assert_identical(first.stationary, second.stationary)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "problem.npz"


@pytest.fixture
def arrays(path):
    """The arrays of a small sparse problem, to be broken."""
    save(problems.grid(3, 2), path)
    with np.load(path) as file:
        return dict(file)


def rewrite(path, arrays):
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]


@given(problem=random_problems())
def test_random_problems_come_back_bit_for_bit(tmp_path_factory, problem):
    path = tmp_path_factory.mktemp("round") / "trip.npz"
    for version in (problem, as_sparse(problem)):
        save(version, path)
        assert_same_problem(load(path), version)


@pytest.mark.parametrize("name", problems.NAMED)
def test_named_problems_come_back_bit_for_bit(path, name):
    problem = problems.make(name)
    save(problem, path)
    assert_same_problem(load(path), problem)
    np.testing.assert_array_equal(oracle.values(load(path)), oracle.values(problem))


def test_a_problem_without_a_target_comes_back_without_one(path):
    problem = problems.two_state()
    object.__setattr__(problem, "target", None)
    save(problem, path)
    assert load(path).target is None


def test_a_file_written_by_hand_needs_only_the_required_keys(path):
    np.savez(
        path,
        transition=np.full((2, 1, 2), 0.5),
        reward=1.0,
        discount=0.5,
        behavior=np.ones((2, 1)),
        interest=1.0,
        x=np.eye(2),
    )
    problem = load(path)
    np.testing.assert_allclose(problem.start, [0.5, 0.5])
    np.testing.assert_array_equal(problem.labels, [0, 1])
    np.testing.assert_allclose(oracle.values(problem, np.ones((2, 1))), [2.0, 2.0])


def test_a_file_has_exactly_the_name_it_was_given(tmp_path):
    save(problems.two_state(), tmp_path / "plain")
    save(problems.two_state(), str(tmp_path / "text.npz"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["plain", "text.npz"]
    assert_same_problem(load(tmp_path / "plain"), load(str(tmp_path / "text.npz")))


# Files that are not problems.


def test_a_missing_file_is_named(path):
    with pytest.raises(ValueError, match=r"^path: .*problem\.npz does not exist$"):
        load(path)


def test_a_directory_is_not_a_problem(tmp_path):
    with pytest.raises(ValueError, match=r"^path: .* cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["baird", "grid"])
def test_a_truncated_file_is_refused_wherever_it_is_cut(path, name):
    save(problems.make(name), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 10):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^path: .*problem\.npz"):
            load(path)


def test_a_damaged_file_is_refused_or_unharmed(path):
    """One byte in five is inverted in turn: some bytes of an archive carry nothing."""
    problem = problems.grid(3, 2)
    save(problem, path)
    whole, messages = path.read_bytes(), []
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            loaded = load(path)
        except ValueError as error:
            messages.append(str(error))
        else:
            np.testing.assert_array_equal(loaded.mdp.transition.data, problem.mdp.transition.data)
    assert len(messages) > 100
    assert all(message.startswith("path: ") for message in messages)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY", b"PK\x03\x04"])
def test_a_file_of_another_kind_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^path: .* cannot be read"):
        load(path)


def test_a_single_array_is_not_a_problem(path):
    with path.open("wb") as file:
        np.save(file, np.eye(3))
    with pytest.raises(ValueError, match=r"^path: .* cannot be read as a \.npz file"):
        load(path)


class Intruder:
    """Says on unpickling that it was let in."""

    entered = False

    def __reduce__(self):
        return (Intruder.enter, ())

    @staticmethod
    def enter():
        Intruder.entered = True
        return 0


def test_a_pickle_inside_is_refused_and_not_run(path, arrays):
    rewrite(path, arrays | {"reward": np.array(Intruder(), dtype=object)})
    with pytest.raises(ValueError, match=r"^path: .* cannot be read"):
        load(path)
    assert not Intruder.entered


def test_an_array_that_no_problem_has_is_not_even_unpacked(path, arrays):
    rewrite(path, arrays)
    problem = load(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("extra.npy", pickle.dumps(Intruder()))
    assert_same_problem(load(path), problem)
    assert not Intruder.entered


def header(dtype: str, shape: str) -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n"
    return len(text).to_bytes(2, "little") + text.encode()


NUMPY = b"\x93NUMPY\x01\x00"
HEADERS = {
    "that is no header": b"\x06\x00((((((",
    "that ends within": b"\xff\x7f{'descr'",
    "without a shape": b"\x2a\x00{'descr': '<f8', 'fortran_order': False}\n",
    "of a size beyond all": header("<f8", "(10,) * 10"),
    "with a shape of 400 digits": header("<f8", f"({'9' * 400},)"),
    "with a negative shape": header("<f8", "(-1,)"),
    "with more entries than the file": header("<f8", "(10000000000,)"),
    "with 100 axes": header("<f8", f"({'1,' * 100})"),
    "with a type of 10^9 bytes": header("V1000000000", "(1,)"),
    "with a type that does not exist": header("<q9", "(1,)"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_an_array_with_a_header_is_refused_in_one_line(path, arrays, name):
    rewrite(path, arrays)
    with zipfile.ZipFile(path) as archive:
        members = {key: archive.read(key) for key in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for key, data in members.items():
            archive.writestr(key, NUMPY + HEADERS[name] if key == "reward.npy" else data)
    with pytest.raises(ValueError, match=r"^path: .*problem\.npz.* 'reward'") as raised:
        load(path)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "reward",
    [
        np.ones((6, 2), complex),
        np.ones((6, 2), "M8[s]"),
        np.ones((6, 2), "<U8"),
        np.ones((6, 2), [("a", float)]),
        np.ones((6, 2), np.longdouble),
    ],
)
def test_an_array_of_anything_but_real_numbers_is_refused_and_not_cast(path, arrays, reward):
    rewrite(path, arrays | {"reward": reward})
    with pytest.raises(ValueError, match=r"array 'reward' holds .*; real numbers required"):
        load(path)


def test_an_archive_that_is_encrypted_or_packed_by_no_known_method_is_refused(path, arrays):
    rewrite(path, arrays)
    whole = path.read_bytes()
    central = whole.index(b"PK\x01\x02")
    for offset, value in ((8, 1), (10, 99)):  # the flags, the method
        damaged = bytearray(whole)
        damaged[central + offset] = value
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^path: .* cannot be read as a \.npz file"):
            load(path)


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.npz")
    for path in (tmp_path / "fifo.npz", "/dev/zero"):
        with pytest.raises(ValueError, match=r"^path: .* it is a device or a pipe"):
            load(path)


def test_a_pickle_is_refused_and_not_run(path):
    path.write_bytes(pickle.dumps(Intruder()))
    with pytest.raises(ValueError, match=r"^path: .* cannot be read"):
        load(path)
    assert not Intruder.entered


@pytest.mark.parametrize("key", ["reward", "discount", "behavior", "interest"])
def test_a_missing_key_is_named(path, arrays, key):
    del arrays[key]
    rewrite(path, arrays)
    with pytest.raises(ValueError, match=f"^path: .* lacks the key '{key}'"):
        load(path)


@pytest.mark.parametrize("matrix", ["transition", "x"])
@pytest.mark.parametrize("part", ["data", "indices", "indptr", "shape"])
def test_a_missing_part_of_a_matrix_is_named(path, arrays, matrix, part):
    del arrays[f"{matrix}.{part}"]
    rewrite(path, arrays)
    with pytest.raises(ValueError, match=f"^path: .* lacks the key '{matrix}"):
        load(path)


BROKEN = {
    "transition.data": np.ones(3),
    "transition.indices": np.zeros(3, int),
    "transition.indptr": np.zeros(4, int),
    "transition.shape": np.array([24, 6, 1]),
    "x.shape": np.array([6.5, 6.5]),
    "xa.shape": np.array(24),
    "behavior": np.full((6, 3), 1 / 3),
    "interest": np.ones(5),
    "reward": np.zeros((2, 2)),
    "discount": np.full((6, 4), 1.5),
    "start": np.ones(6),
    "target": np.eye(6),
    "labels": np.zeros(6),
}


@pytest.mark.parametrize("key", BROKEN)
def test_a_wrong_array_is_refused_with_its_file_and_name(path, arrays, key):
    assert key in arrays
    rewrite(path, arrays | {key: BROKEN[key]})
    with pytest.raises(ValueError, match=rf"^path: .*problem\.npz.*{key.partition('.')[0]}"):
        load(path)


def test_a_file_of_a_later_format_is_refused(path, arrays):
    rewrite(path, arrays | {"format": np.array("emphatic problem 2")})
    with pytest.raises(ValueError, match=r"^path: .* has the format 'emphatic problem 2'; 'emph"):
        load(path)


# Writing.


def test_a_failed_write_leaves_the_old_file_and_no_other(path, monkeypatch):
    save(problems.two_state(0.5), path)
    before = path.read_bytes()
    failures = {ValueError: OSError("the disk is full"), KeyboardInterrupt: KeyboardInterrupt()}
    for kind, failure in failures.items():

        def write_half(file, failure=failure, **_):
            file.write(b"half")
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(np, "savez_compressed", write_half)
            with pytest.raises(kind):
                save(problems.two_state(0.9), path)
        assert [file.name for file in path.parent.iterdir()] == [path.name]
        assert path.read_bytes() == before
    save(problems.two_state(0.9), path)
    assert load(path).mdp.discount == 0.9


def test_a_failed_first_write_leaves_nothing(path, monkeypatch):
    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(ValueError, match="cannot be written: the disk is full"):
        save(problems.two_state(), path)
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"^path: .*none.*cannot be written"):
        save(problems.two_state(), tmp_path / "none" / "problem.npz")
