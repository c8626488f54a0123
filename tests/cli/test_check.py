"""`emphatic check`: the page's example, exit statuses, JSON, and requests that are refused."""

import dataclasses
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from emphatic.conformance import PlainTransition

from .command import assert_refused, run

PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
CODE, TEST = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMAND, SHOWN = re.findall(r"^\$ emphatic (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The example of the page, and the same with its last lines exchanged, in a folder."""
    *lines, first, second = CODE.partition("\n\n\nclass Checked")[0].split("\n")
    right = "\n".join([*lines, second, first, ""])
    (tmp_path / "mytdc.py").write_text(CODE)
    rest = CODE.partition("\n\n\nclass Checked")[2]
    (tmp_path / "myright.py").write_text(f"{right}\n\nclass Checked{rest}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("mytdc", "myright"):
        sys.modules.pop(name, None)


def test_the_page_says_what_every_field_of_a_transition_is():
    fields = [field.name for field in dataclasses.fields(PlainTransition)]
    assert [name for name in fields if f"| `{name}` |" not in PAGE] == []


def without_places(text):
    """A verdict without the lines of our source, which may move."""
    return re.sub(r"line \d+: .*", "", text)


def test_the_page_shows_what_the_command_prints_and_what_the_test_says(capsys, folder):
    status, out, err = run(capsys, *shlex.split(COMMAND))
    assert (status, without_places(out), err) == (1, without_places(SHOWN), "")
    names = {}
    exec(compile(TEST, "test_tdc.py", "exec"), names)
    with pytest.raises(AssertionError) as error:
        names["test_tdc"]()
    said, shown = (text.partition("\n")[2].strip() for text in (str(error.value), SHOWN))
    assert without_places(said) == without_places(shown)


def test_with_its_lines_exchanged_it_conforms(capsys, folder):
    status, out, _ = run(capsys, "check", "--as", "tdc(0.1)", "myright:Checked")
    assert status == 0
    assert out.startswith("myright:Checked as tdc(0.1): conforms\n")


def test_the_verdict_as_json(capsys, folder):
    status, out, _ = run(capsys, *shlex.split(COMMAND), "--json")
    verdict = json.loads(out)
    assert status == 1
    assert verdict["conforms"] is False
    (slip,) = verdict["slips"]
    assert slip["words"] == "the new kappa instead of the old, in the update of nu"
    assert slip["sites"][0]["file"] == "tdc.py"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("check", "module: not given"),
        ("check mytdc:Checked", "as: not given"),
        ("check mytdc:Chequed --as tdc(0.1)", "did you mean 'Checked'"),
        ("check mytdc --as tdc(0.1)", "has no functions init, step and predict"),
        ("check no_such_module --as tdc(0.1)", "'no_such_module' cannot be imported"),
        ("check mytdc:Checked --as tdc", "as: tdc lacks step_size"),
    ],
)
def test_what_cannot_be_checked_is_refused(capsys, folder, arguments, message):
    assert_refused(capsys, arguments, message)
