"""Files that are almost right: arrays, archives, tensors, tables of text, experiments in TOML."""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import load

from emphatic._files import checksum

from .values import (
    Chance,
    mutate_bytes,
    mutate_object,
    mutate_words,
    NUMBERS,
    TEXTS,
    to_json,
    WORDS,
)

HEADERS = [*WORDS["headers of .npy"], "1" * 9000, "'" + "[" * 999, "9" * 5000]
TYPES = WORDS["types of .npy"]
EXTREMES = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-320, 1e155, 1e308, -1e308, 2.0, 1e9, 0.999999)
VALUES = [*WORDS["values of TOML"], "1" * 400, "[" * 200 + "]" * 200, f"'{'-' * 3000}1'"]
DTYPES = {"b1": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "i4": "I32", "i8": "I64", "u8": "U64"}
DTYPES |= {"f2": "F16", "f4": "F32", "f8": "F64"}
TABLES, KEYS = WORDS["tables of TOML"], WORDS["keys of TOML"]


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
    size = struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))
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
                other = chance.choice(("x.npy", "../../escaped.npy", "format.npy", ""))
                members[other] = members[name]
            case 2:
                other = members[chance.choice(list(members))]
                members[name] = chance.choice((b"", b"x", bytes(10**6), other))
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


def pack(tensors: dict[str, np.ndarray], texts: dict[str, str]) -> bytes:
    """A safetensors file; the library's own writer puts its texts in another order each time."""
    header: dict[str, Any] = {"__metadata__": dict(sorted(texts.items()))} if texts else {}
    data = b""
    for name, array in sorted(tensors.items()):
        content = np.ascontiguousarray(array).tobytes()
        kind = DTYPES.get(array.dtype.str[1:], "F64")
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": offsets}
        data += content
    head = to_json(header)
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def unpack(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors and texts of a sound safetensors file, in an order that is always the same."""
    size = int.from_bytes(data[:8], "little")
    return dict(sorted(load(data).items())), json.loads(data[8 : 8 + size]).get("__metadata__", {})


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
    tensors, texts = unpack(data)
    for _ in range(chance.choice((1, 1, 2))):
        if tensors and chance.random() < 0.4:
            name = chance.choice(list(tensors))
            array = tensors.pop(name)
            if chance.random() < 0.8:
                tensors[chance.choice((name, name, name, "x"))] = mutate_array(chance, array)
        elif texts:
            key = chance.choice(list(texts))
            texts[key] = _mutate_text(chance, texts[key])
    texts = {key: _sign(text, tensors) for key, text in texts.items()}
    if "checksum" in texts:
        del texts["checksum"]
        texts["checksum"] = checksum(texts, tensors)
    return pack(tensors, texts)


def _mutate_text(chance: Chance, text: str) -> str:
    """Changes a text of a file, which may be JSON."""
    try:
        return to_json(mutate_object(chance, json.loads(text))).decode()
    except (ValueError, RecursionError):  # it may be nested by now
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
