"""`emphatic completion`: scripts for shells."""

import re
import shutil
import subprocess

import pytest

from emphatic import cli
from emphatic.cli.commands import COMMANDS
from emphatic.cli.shell_completion import list_options

from .command import run


def test_bash_completes_commands_problems_options_values_and_files(capsys, tmp_path):
    for name in ("b.npz", "c.toml", "results/file"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("bash is required")
    _, script, _ = run(capsys, "completion", "bash")

    def complete(*arguments: str) -> list[str]:
        line = " ".join(f"'{argument}'" for argument in ("emphatic", *arguments))
        request = f"COMP_WORDS=({line}); COMP_CWORD={len(arguments)}; _emphatic; "
        request += "echo ${COMPREPLY[@]}"
        process = subprocess.run(
            [bash, "-c", script + request], capture_output=True, text=True, cwd=tmp_path
        )
        assert process.returncode == 0, process.stderr
        return process.stdout.split()

    assert complete("sw") == ["sweep"]
    assert set(complete("re")) == {"reproduce", "report"}
    assert complete("solve", "bai") == ["baird"]
    assert complete("reproduce", "em") == ["emphasis"]
    assert complete("sweep", "x.toml", "--dry") == ["--dry-run"]
    assert complete("compare", "baird", "--fea") == ["--features"]
    assert complete("compare", "--json", "grid", "--fea") == []  # it belongs to other problems
    assert complete("solve", "baird", "--features", "o") == ["original", "one-hot"]
    assert complete("solve", "grid", "--features", "o") == []
    assert complete("train", "--policy", "") == ["gaussian", "truncated", "softmax"]
    assert complete("train", "--algorithm", "of") == ["off-pac"]
    assert complete("predict", "baird", "--learner", "etd") == ["etd", "etd-exact"]
    assert complete("solve", "baird", "--ridge", "") == []
    assert complete("solve", "grid", "--no") == ["--no-goal"]
    assert complete("reproduce", "control", "--al") == ["--algorithms"]
    assert complete("reproduce", "emphasis", "--al") == []
    assert complete("sweep", "") == ["results", "c.toml"]
    assert complete("report", "") == complete("status", "") == ["results"]
    assert complete("report", "results", "") == ["results"]
    assert complete("solve", "b") == ["baird", "boyan", "b.npz"]
    assert complete("solve", "baird", "--plot", "c") == ["c.toml"]
    assert complete("help", "sol") == ["solve"]
    assert complete("help", "solve", "two") == ["two_circle", "two_state"]
    assert complete("completion", "z") == ["zsh"]
    assert run(capsys, "completion", "zsh")[1].endswith(script)
    fish = run(capsys, "completion", "fish")[1]
    for name in COMMANDS:
        assert f"__fish_use_subcommand -f -a '{' '.join(COMMANDS)} help" in fish
        assert re.search(rf'^ +"{name} "\) words=', script, flags=re.M)
    assert (
        "-n '__fish_seen_subcommand_from solve; and __fish_seen_subcommand_from baird' -l features "
        "-x -a 'original one-hot zero-hot aliased'"
    ) in fish


def test_whatever_is_completed_is_accepted(capsys):
    """The flags of every command and problem are those of its help."""
    for (name, argument), options in list_options().items():
        kind = COMMANDS[name].argument
        if name in ("completion", "problems") or (kind.startswith("PROBLEM") and not argument):
            continue
        if argument not in ("", "baird", "grid", "control", "all"):
            continue
        words = [argument] if argument else {"": [], "FIGURE": ["emphasis"]}.get(kind, ["x"])
        with pytest.raises(SystemExit):
            cli.main([name, *words, "--help"])
        text = capsys.readouterr().out
        assert all(flag in text for option in options for flag in option.flags), (name, argument)


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
