"""What the README and the guides name exists, and what they show is what happens."""

import ast
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import oracle, problems
from emphatic.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*TOP, *sorted((ROOT / "docs").glob("*.md"))]
IDENTIFIERS = [page.name for page in PAGES]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def exists(path: str) -> bool:
    """Whether a dotted path leads from a module, through attributes, to something."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def imports(code: str) -> Iterator[str]:
    """The names that a block of Python imports, unless relatively; a fragment imports nothing."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("page", PAGES, ids=IDENTIFIERS)
def test_what_a_page_imports_and_refers_to_exists(page):
    names = re.findall(r"\{py:obj\}`~?([\w.]+)`", page.read_text())
    names += [name for code in blocks(page, "python") for name in imports(code)]
    assert [name for name in names if name.startswith("emphatic") and not exists(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=IDENTIFIERS)
def test_the_files_that_a_page_links_to_or_names_as_tests_exist(page):
    text = page.read_text()
    folder = ROOT if page.name == "CONTRIBUTING.md" else page.parent
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    missing = [link for link in links if "://" not in link and not (folder / link).exists()]
    named = re.findall(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`", text)
    missing += [name for name in named if not (ROOT / "tests" / name).exists()]
    assert missing == []


def test_the_example_of_the_readme_prints_what_it_shows(tmp_path):
    readme = ROOT / "README.md"
    (code,) = blocks(readme, "python")
    shown = readme.read_text().partition(code)[2].split("```\n")[2]
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    assert [line.rstrip() for line in process.stdout.splitlines()] == shown.splitlines()


def test_the_architecture_page_has_every_folder_and_command_and_no_module_that_is_not_there():
    page, package = ROOT / "docs" / "architecture.md", ROOT / "src" / "emphatic"
    text, picture = page.read_text(), (ROOT / "docs" / "figures" / "architecture.svg").read_text()
    modules = re.findall(r"\b((?:\w+/)+[\w.-]+\.(?:py|toml))\b", text + picture)
    missing = [
        path for path in modules if not any((root / path).exists() for root in (ROOT, package))
    ]
    assert missing == []
    assert len(set(modules)) > 20
    folders = {path.parent.name for path in package.rglob("__init__.py")} - {"emphatic"}
    assert [folder for folder in sorted(folders) if f"{folder}/" not in text] == []
    assert [command for command in COMMANDS if f"`{command}`" not in text] == []


def test_the_learner_of_the_guide_follows_the_mean_field_of_the_guide():
    codes = blocks(ROOT / "docs" / "add_a_learner.md", "python")
    (learner,) = (code for code in codes if "def gtd(" in code)
    (system,) = (code for code in codes if "def gtd_system(" in code)
    names: dict[str, Any] = {
        "__name__": "emphatic.learners.gtd",
        "__package__": "emphatic.learners",
    }
    exec(compile(learner, "gtd.py", "exec"), names)
    systems = dict(vars(importlib.import_module("emphatic.oracle.value_systems")))
    exec(compile(system, "value_systems.py", "exec"), systems)

    problem = problems.baird("aliased")
    field = systems["gtd_system"](problem)
    kappa, nu = np.random.default_rng(0).normal(size=(2, problem.x.shape[1]))
    state, step = names["GTDState"](kappa, nu), names["gtd"](0.1).step

    def after(sample):
        pi = jnp.asarray(problem.target)
        return step(state, problem.view(pi[sample.state], pi[sample.state_next], sample))

    mean = oracle.expectation(problem, after)
    point = np.concatenate([kappa, nu])
    moved = np.concatenate([mean.kappa, mean.nu]) - point
    np.testing.assert_allclose(moved, 0.1 * field.drift(point), atol=1e-12)


def test_the_learner_of_ones_own_in_the_guide_is_compared_swept_and_reported(
    monkeypatch, tmp_path, capsys
):
    guide = ROOT / "docs" / "add_a_learner.md"
    codes = blocks(guide, "python")
    (module,) = (code for code in codes if "def tdrc(" in code)
    (program,) = (code for code in codes if "from mylearners import tdrc" in code)
    (tmp_path / "mylearners.py").write_text(module)
    (tmp_path / "tdrc.toml").write_text(blocks(guide, "toml")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    lines = re.findall(r"^emphatic (.*)", guide.read_text(), re.MULTILINE)
    commands = [shlex.split(line) for line in lines]
    assert [command[0] for command in commands] == ["compare", "sweep", "report"]
    size = ["--steps", "200", "--runs", "2"]
    for command in commands:
        assert main([*command, *(size if command[0] != "report" else [])]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "rmsve, 2 runs of 200 steps" in out
    assert "mylearners:tdrc(0.1) " in out
    assert "mylearners:tdrc(step_size)" in Path("report.html").read_text()
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program, "program.py", "exec"), names)
    assert bool(names["store"].load("results/tdrc-in-python")["rmsve"].notnull().all())
    del sys.modules["mylearners"]


def test_the_readme_is_short_enough_to_be_read():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
