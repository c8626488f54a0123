"""Values that nobody expects, of every type, and mutations of bytes, texts and JSON."""

import copy
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Chance: TypeAlias = random.Random
Keys: TypeAlias = tuple[Any, ...]

DEEP = "[" * 5000 + "]" * 5000
RAW = "\ue000"  # around what stands in JSON as it is
WORDS: dict[str, list[str]] = json.loads((Path(__file__).parent / "words.json").read_text("utf-8"))
NUMBERS = [*WORDS["numbers"], "1" + "0" * 400, "9" * 25]
TEXTS = [*WORDS["texts"], "x" * 5000, "\udcff"]
OBJECTS: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 1.5, 0.1, 1e308, -1e308, 10**30, 2**63, 10**15, [], {}, [[]]),
    *(float("nan"), float("inf"), [0], [None], ["x"], {"x": 1}, {"": {}}, [1, "x"], [0] * 1000),
    *("", "x", "1", "inf", "-inf", "<script>alert(1)</script>", "../../escaped", "canary:f(0.1)"),
    *("a\nb", "\0", "[/x]", "x" * 9999, [[0.1]] * 3, {"a": [1, {"b": None}]}, f"{RAW}{DEEP}{RAW}"),
    *(f"{RAW}1e999{RAW}", f"{RAW}{'9' * 5000}{RAW}", f'{RAW}"\\ud800"{RAW}'),
    f'{RAW}{{"a": 1, "a": 2}}{RAW}',
]


def mutate_bytes(chance: Chance, data: bytes, other: bytes = b"") -> bytes:
    """Flips, cuts, repeats, inserts, overwrites and splices a few places."""
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        place = chance.randrange(len(data) + 1)
        end = min(len(data), place + chance.choice((1, 2, 4, 8, 64, 512)))
        new = chance.choice((b"\0", b"\xff", b"\x80", b"9", chance.randbytes(4), b"\xff" * 8))
        match chance.randrange(8):
            case 0 | 1 if place < len(data):
                flipped = bytes([data[place] ^ (1 << chance.randrange(8))])
                data = data[:place] + flipped + data[place + 1 :]
            case 2:
                data = data[:place]
            case 3:
                data = data[:place] + data[end:]
            case 4:
                data = data[:end] + data[place:]
            case 5:
                data = data[:place] + new + data[place:]
            case 6:
                data = data[:place] + new + data[place + len(new) :]
            case _:
                start = chance.randrange(len(other) + 1)
                data = data[:place] + other[start : start + end - place] + data[end:]
    return data


def mutate_words(chance: Chance, text: str, words: Sequence[str]) -> str:
    """Replaces, repeats, removes and inserts a few pieces of a text."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(len(text) + 1)
        end = min(len(text), place + chance.choice((0, 1, 1, 2, 5)))
        word = chance.choice((*words, text[place:end] * 2))
        text = text[:place] + word + text[end:]
    return text


def places(value: Any, path: Keys = ()) -> Iterator[Keys]:
    """Yields the path of every value in JSON, from the outside."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def mutate_object(chance: Chance, value: Any) -> Any:
    """Changes a few places in a value of JSON: another value or key, none, twice, or wrapped."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        paths = list(places(value))
        path = chance.choice(paths)
        if not path:
            return copy.deepcopy(chance.choice(OBJECTS)) if chance.random() < 0.3 else value
        *above, key = path
        parent = value
        for step in above:
            parent = parent[step]
        other = value
        for step in chance.choice(paths):
            other = other[step]
        match chance.randrange(8):
            case 0:
                del parent[key]
            case 1:
                parent[key] = [parent[key]]
            case 2:
                parent[key] = copy.deepcopy(other)  # what belongs elsewhere
            case 3 if isinstance(parent, dict):
                parent[chance.choice(TEXTS[:-1])] = parent.pop(key)
            case 4 if isinstance(parent, list):
                parent.append(parent[key])
            case _:
                parent[key] = copy.deepcopy(chance.choice(OBJECTS))
    return value


def to_json(value: Any) -> bytes:
    """JSON in which what is between two RAW stands as it is."""
    text = json.dumps(value)
    mark = json.dumps(RAW)[1:-1]
    parts = text.split(mark)
    for n in range(1, len(parts) - 1, 2):
        parts[n - 1], parts[n + 1] = parts[n - 1][:-1], parts[n + 1][1:]
        parts[n] = json.loads(f'"{parts[n]}"')
    return "".join(parts).encode()


def mutate_json(chance: Chance, data: bytes) -> bytes:
    """Changes a few values of JSON, or its bytes."""
    if chance.random() < 0.15:
        return mutate_bytes(chance, data, data)
    return to_json(mutate_object(chance, json.loads(data)))
