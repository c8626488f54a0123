"""Files that are almost right: arrays, archives, tensors, tables of text, experiments in TOML."""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from emphatic._files import checksum

from .values import Chance, mutate_bytes, mutate_object, mutate_words, NUMBERS, TEXTS, to_json

HEADERS = (
    *("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", "{}", "", "x", "("),
    *("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }", "{'descr': '<f8'}", "1" * 9000),
    *("{'descr': '<f8', 'fortran_order': 1, 'shape': (-1,), }", "'" + "[" * 999, "\xff\x00"),
    *("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2, 2), }", "__import__('canary')"),
    *("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }", "{'shape': 5}"),
    *("{'descr': '<c16', 'fortran_order': True, 'shape': (1, 2), }", "{1: 2}", "9" * 5000),
)
TYPES = ("?", "i1", "u8", "i8", ">f8", "f4", "f2", "c16", "U3", "S2", "M8[s]", "m8[s]", "O", "i4,f8")
EXTREMES = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-320, 1e155, 1e308, -1e308, 2.0, 1e9, 0.999999)
VALUES = (
    *("5", "-1", "0", "1e400", "nan", "inf", "-inf", '""', "true", "[]", "[[1]]", "{a = 1}", "{}"),
    *("1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "1" * 400, "0xff", "1_000", "[1, 'x']"),
    *("'x'", '"""a\nb"""', "[0.1, 0.1]", "['one', 'one']", "1e15", "0.5", "'<script>'", "2.5"),
    *("[1979-05-27]", "[nan]", "'../../escaped'", "'[/x]'", '"\\u0000"', "9223372036854775808"),
    *("'canary:f(0.1)'", "[" * 200 + "]" * 200, "[{}]", "'10^400'", "'2^[0:1e9]'", "'9^9^9^9'", "[''"),
    *("'gymnasium'", "'missing.npz'", "'/dev/zero'", "'dense.npz'", "[['own']]", "['own', 'uniform']"),
    *("'\"1/t\"'", "'gem'", "'gem(1/0)'", f"'{'-' * 3000}1'", "{ name = 'x' }", "'two_state'", ""),
)
TABLES = ("problem", "problems", "problems.a", "learners", "grid", "selection", "grid.step_size", "x", "")
KEYS = (
    *("name", "steps", "runs", "seed", "record_every", "records", "dtype", "engine", "measures"),
    *("target", "problem", "problems", "learners", "grid", "selection", "step_size", "env", "by"),
    *("features", "discount", "num_states", "measure", "import", "x", "''", "a.b", "'a b'", "é"),
)


class Bomb:
    """A pickle that imports a module which nothing may import."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return __import__, ("canary",)


def npy(array: np.ndarray, header: str | None = None, version: int = 1) -> bytes:
    """A `.npy` file of an array, with another header if one is given."""
    if header is None and array.dtype.kind != "O":
        file = io.BytesIO()
        np.save(file, array)
        return file.getvalue()
    text = (header or HEADERS[5]).encode("latin-1")
    size = struct.pack("<H" if version == 1 else "<I", len(text) % 2 ** (16 if version == 1 else 32))
    data = pickle.dumps([Bomb()]) if array.dtype.kind == "O" else array.tobytes()
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def mutate_array(chance: Chance, array: np.ndarray) -> np.ndarray:
    """Changes an array's type, shape, order or a few of its entries."""
    with np.errstate(all="ignore"):
        match chance.randrange(10):
            case 0:
                try:
                    return array.astype(chance.choice(TYPES))
                except (TypeError, ValueError):
                    return np.zeros(array.shape, chance.choice(TYPES[:-2]))
            case 1:
                return array[..., None] if chance.random() < 0.5 else array[None]
            case 2 if array.ndim:
                return array[chance.randrange(2) : chance.choice((0, 1, None))]
            case 3:
                return np.asfortranarray(array) if chance.random() < 0.5 else array.T
            case 4:
                return np.array(chance.choice(EXTREMES))
            case 5 if array.ndim:
                return np.repeat(array, 2, axis=chance.randrange(array.ndim))
            case 6 if array.dtype.kind in "fiu":
                return (array * chance.choice((-1, 2, 0))).astype(array.dtype)
            case _ if array.size and array.dtype.kind in "fiu":
                array = array.copy()
                for _ in range(chance.choice((1, 1, 2, 5))):
                    value = np.asarray(chance.choice(EXTREMES)).astype(array.dtype)
                    array.flat[chance.randrange(array.size)] = value
                return array
            case _:
                return np.array(chance.choice(TEXTS[:8]))


def mutate_npy(chance: Chance, data: bytes) -> bytes:
    """Changes a `.npy` file: its array, its header or its bytes."""
    try:
        array = np.load(io.BytesIO(data))
    except (ValueError, EOFError):  # it was changed before
        return mutate_bytes(chance, data, data)
    match chance.randrange(4):
        case 0:
            return mutate_bytes(chance, data, data)
        case 1:
            return npy(array, chance.choice(HEADERS), chance.choice((1, 1, 2, 3, 9)))
        case _:
            return npy(mutate_array(chance, array))


def mutate_npz(chance: Chance, data: bytes) -> bytes:
    """Changes a `.npz` file: an array, the members and how they are packed, or its bytes."""
    if chance.random() < 0.2:
        return mutate_bytes(chance, data, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(list(members))
        match chance.randrange(10):
            case 0:
                del members[name]
            case 1:
                members[chance.choice(("x.npy", "../../escaped.npy", "format.npy", ""))] = members[name]
            case 2:
                members[name] = chance.choice((b"", b"x", bytes(10**6), members[chance.choice(list(members))]))
            case _:
                members[name] = mutate_npy(chance, members[name])
        if not members:
            break
    file, methods = io.BytesIO(), (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(file, "w", chance.choice((*methods, zipfile.ZIP_BZIP2))) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name.strip("\0") or "x"), content)
    packed = file.getvalue()
    if chance.random() < 0.1:  # a member says that it is larger, or encrypted
        place = packed.rfind(b"PK\x01\x02")
        start, new = chance.choice(((8, b"\x01"), (24, b"\xff\xff\xff\x7f"), (10, b"\x63")))
        packed = packed[: place + start] + new + packed[place + start + len(new) :]
    return packed


def mutate_tensors(chance: Chance, data: bytes) -> bytes:
    """Changes a safetensors file: its texts or tensors, signed again, its header or its bytes."""
    size = int.from_bytes(data[:8], "little")
    match chance.randrange(8):
        case 0:
            return mutate_bytes(chance, data, data)
        case 1:  # where a flipped bit matters
            return mutate_bytes(chance, data[: 8 + size], data) + data[8 + size :]
        case 2:
            header = to_json(mutate_object(chance, json.loads(data[8 : 8 + size])))
            return len(header).to_bytes(8, "little") + header + data[8 + size :]
        case 3:
            return chance.choice((0, 2**63, 2**32, size + 1)).to_bytes(8, "little") + data[8:]
    tensors, texts = load(data), json.loads(data[8 : 8 + size]).get("__metadata__", {})
    for _ in range(chance.choice((1, 1, 2))):
        if tensors and chance.random() < 0.4:
            name = chance.choice(list(tensors))
            array = tensors.pop(name)
            if chance.random() < 0.8:
                tensors[chance.choice((name, name, name, "x"))] = mutate_array(chance, array)
        elif texts:
            key = chance.choice(list(texts))
            texts[key] = _mutate_text(chance, texts[key])
    for key, text in texts.items():
        texts[key] = _sign(text, tensors)
    try:
        return save(tensors, texts)
    except Exception:  # a type that the format does not have
        return save({}, texts)


def _mutate_text(chance: Chance, text: str) -> str:
    """Changes a text of a file, which may be JSON."""
    try:
        return to_json(mutate_object(chance, json.loads(text))).decode()
    except ValueError:
        return mutate_words(chance, text, TEXTS[:-1])


def _sign(text: str, tensors: dict[str, np.ndarray]) -> str:
    """Writes the checksum of changed tensors and JSON, where there was one."""
    try:
        description = json.loads(text)
        if not (isinstance(description, dict) and isinstance(description.get("checksum"), str)):
            return text
        del description["checksum"]
        description["checksum"] = checksum(description, tensors)
    except (ValueError, RecursionError, TypeError):
        return text
    return json.dumps(description)


def mutate_numbers(chance: Chance, text: str) -> bytes:
    """Changes a table of numbers in a text."""
    words = (*NUMBERS, *TEXTS[:10], ",", ",,", "\n", "\n\n", "#", "\t", "\ufeff", "1 2 3", ";")
    data = mutate_words(chance, text, words).encode(errors="surrogateescape")
    return mutate_bytes(chance, data, data) if chance.random() < 0.1 else data


def mutate_toml(chance: Chance, text: str) -> bytes:
    """Changes a few lines of an experiment: values of every type, keys, tables."""
    lines = text.splitlines()
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        place = chance.randrange(len(lines))
        key, _, value = lines[place].partition(" = ")
        match chance.randrange(10):
            case 0:
                lines.insert(place, f"{chance.choice(KEYS)} = {chance.choice(VALUES)}")
            case 1:
                lines[place] = f"{chance.choice(KEYS)} = {value}"
            case 2:
                lines.insert(place, f"[{chance.choice(TABLES)}]")
            case 3:
                lines.insert(chance.randrange(len(lines)), lines[place])
            case 4 if len(lines) > 1:
                del lines[place]
            case 5:
                lines[place] = mutate_words(chance, lines[place], (*NUMBERS, *TEXTS[:20]))
            case _ if value:
                lines[place] = f"{key} = {chance.choice(VALUES)}"
    data = "\n".join(lines).encode(errors="surrogateescape")
    return mutate_bytes(chance, data, data) if chance.random() < 0.05 else data
