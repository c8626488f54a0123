"""`emphatic completion`: scripts for shells."""

import os
import re
import shutil
import subprocess

import pytest

from emphatic.cli.commands import COMMANDS

from .command import run


def test_bash_completes_commands_problems_and_options(capsys):
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("bash is required")
    _, script, _ = run(capsys, "completion", "bash")

    def complete(*arguments: str) -> list[str]:
        line = " ".join(f"'{argument}'" for argument in ("emphatic", *arguments))
        request = f"COMP_WORDS=({line}); COMP_CWORD={len(arguments)}; _emphatic; "
        request += "echo ${COMPREPLY[@]}"
        process = subprocess.run(
            [bash, "-c", script + request], capture_output=True, text=True, env={**os.environ}
        )
        assert process.returncode == 0, process.stderr
        return process.stdout.split()

    assert complete("sw") == ["sweep"]
    assert set(complete("re")) == {"reproduce", "report"}
    assert complete("solve", "bai") == ["baird"]
    assert complete("reproduce", "em") == ["emphasis"]
    assert complete("sweep", "x.toml", "--dry") == ["--dry-run"]
    assert "--features" in complete("compare", "baird", "--fea")
    assert run(capsys, "completion", "zsh")[1].endswith(script)
    fish = run(capsys, "completion", "fish")[1]
    for name in COMMANDS:
        assert f"__fish_seen_subcommand_from {name}'" in fish
        assert re.search(rf"^ +{name}\) words=", script, flags=re.M)


def test_completion_says_how_to_use_it(capsys):
    assert 'eval "$(emphatic completion bash)"' in run(capsys, "completion", "--help")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["completion", "csh"], "shell: unknown name 'csh'"), (["completion"], "shell: unknown name")],
)
def test_bad_words_are_one_line(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
