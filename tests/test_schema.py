"""Data from outside has the schema that is asked for, or one line says where it has not."""

import dataclasses
import json
import os
from typing import Annotated, Literal, NotRequired, TypedDict

import pytest

from emphatic._schema import conform, Count, mismatch, parse_json, read_json, Rule, show


class Point(TypedDict):
    x: float
    label: NotRequired[str | None]


class Drawing(TypedDict):
    """All that a schema can say."""

    kind: Literal["lines", "dots"]
    points: list[Point]
    size: tuple[int, int]
    shades: dict[str, bool]
    count: Count
    rest: object


@dataclasses.dataclass(frozen=True)
class Record:
    seeds: tuple[int, ...]
    name: str | None


DRAWING = {
    "kind": "dots",
    "points": [{"x": 1}, {"x": 0.5, "label": None}],
    "size": [3, 4],
    "shades": {"a": True},
    "count": 7,
    "rest": [None, {}],
    "of a later version": 1,
}


def test_what_has_the_schema_is_returned_as_it_is():
    assert conform(DRAWING, Drawing, "it") is DRAWING
    assert parse_json(json.dumps(DRAWING), Drawing, "it") == DRAWING
    record = {"seeds": [0, 1], "name": None}
    assert conform(record, Record, "it") is record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "boxes"}, "it, kind: got 'boxes'; 'lines' or 'dots' is required"),
        ({"points": {}}, "it, points: got {}; a list is required"),
        ({"points": [{}]}, r"it, points\[0\]: it lacks the key 'x'"),
        ({"points": [{"x": "1"}]}, r"it, points\[0\].x: got '1'; a finite number is required"),
        ({"points": [{"x": True}]}, r"points\[0\].x: got True; a finite number"),
        ({"points": [{"x": 10**400}]}, r"points\[0\].x: got 1000.*0000; a finite number"),
        ({"points": [{"x": float("nan")}]}, r"points\[0\].x: got nan; a finite number"),
        ({"points": [{"x": 1, "label": 1}]}, r"label: got 1; a text or null is required"),
        ({"size": [1, 2, 3]}, r"it, size: got \[1, 2, 3\]; a list of 2 is required"),
        ({"size": [1, 2.0]}, r"it, size\[1\]: got 2.0; a whole number is required"),
        ({"size": [1, 10**30]}, r"it, size\[1\]: got 10+; a whole number is required"),
        ({"shades": {"a b": 1}}, "it, shades.'a b': got 1; true or false is required"),
        ({"shades": {5: True}}, "it, shades: got the key 5; a text is required"),
        ({"count": 0}, r"it, count: got 0; a whole number from 1 to 10\^9 is required"),
        ({"rest": None, "shades": None}, "it, shades: got None; an object is required"),
    ],
)
def test_the_first_place_that_has_it_not_is_named(change, message):
    with pytest.raises(ValueError, match=f"^.*{message}"):
        conform({**DRAWING, **change}, Drawing, "it")


@pytest.mark.parametrize("key", ["kind", "points", "size", "shades", "count", "rest"])
def test_a_key_that_is_missing_is_named(key):
    without = {name: value for name, value in DRAWING.items() if name != key}
    with pytest.raises(ValueError, match=f"^it: it lacks the key '{key}'$"):
        conform(without, Drawing, "it")


def test_a_record_must_have_all_fields():
    with pytest.raises(ValueError, match=r"^it: it lacks the key 'name'$"):
        conform({"seeds": []}, Record, "it")


def test_keys_have_schemas_too():
    digits = dict[Annotated[str, Rule("a digit", str.isdigit)], int]
    assert mismatch({"1": 1}, digits) is None
    assert mismatch({"1": 1, "x": 1}, digits) == ": got the key 'x'; a digit is required"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested"),
        ("[" * 50 + "]" * 50, "nested more than 40 deep"),
        ('{"a": ' * 200 + "1" + "}" * 200, "nested"),
        ("9" * 5000, "a whole number has 5000 digits"),
        ('{"x": 1, "x": 2}', "the key 'x' is there twice"),
        (r'{"x": "\ud800"}', "surrogates not allowed"),
        (b"\xff\xfe\xfd", "codec can't decode"),
    ],
)
def test_what_is_no_sound_json_is_refused(text, message):
    with pytest.raises(ValueError, match=f"^it is not JSON: .*{message}") as raised:
        parse_json(text, Point, "it")
    assert len(str(raised.value)) < 300


def test_a_pair_of_surrogates_is_a_character():
    assert (
        parse_json(r'{"x": 1, "label": "\ud83d\ude00"}', Point, "it").get("label") == "\U0001f600"
    )


@pytest.mark.parametrize(
    "value", ["a\nb" * 1000, ["\u2028\x1b[2J"] * 1000, {"\n" * 100: 1}, 10**1000, [[[[[[[1]]]]]]]]
)
def test_whatever_was_seen_is_shown_in_one_short_line(value):
    for text in (show(value), mismatch(value, bool), mismatch({str(value): 1}, dict[str, str])):
        assert text is not None
        assert len(text) < 400
        assert text.isprintable()


def test_a_file_is_named_and_must_be_a_regular_one(tmp_path):
    path = tmp_path / "point.json"
    path.write_text('{"x": "?"}')
    with pytest.raises(ValueError, match=r"^store: .*point.json, x: got '\?'; a finite number"):
        read_json(path, Point, "store")
    os.mkfifo(tmp_path / "fifo")
    os.truncate(path, 10**9)
    for name, message in (
        ("none", "none does not exist"),
        ("", "cannot be read: it is a directory, not a file"),
        ("fifo", "fifo cannot be read: it is a device or a pipe, not a file"),
        ("point.json", "cannot be read: it has 1000000000 bytes; at most 100000000 are read"),
        ("a\0b", "cannot be read: embedded null byte"),
    ):
        with pytest.raises(ValueError, match=f"^store: .*{message}"):
            read_json(f"{tmp_path}/{name}", Point, "store")
