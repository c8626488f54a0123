"""Imports go one way, importing is cheap, and no file depends on one machine."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import emphatic

PACKAGE = Path(emphatic.__file__).parent
MODULES = {
    ".".join(("emphatic", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in PACKAGE.rglob("*.py")
}

# What a part may import of ours, besides itself. Parts that are not named are above these.
MAY_IMPORT = {
    "_types": set(),
    "_checks": set(),
    "_files": set(),
    "_markov": set(),
    "_names": set(),
    "schedules": {"_types", "_checks"},
    "mdp": {"_types", "_checks", "_markov"},
    "learners": {"_types", "schedules"},
    "problems": {"_types", "_checks", "_files", "_markov", "_names", "mdp"},
    "oracle": {"_types", "_checks", "_markov", "mdp"},
    "agents": {"_types", "_markov", "_names", "mdp", "schedules", "learners"},
    "engine": {"_types", "_checks", "_names", "schedules", "mdp", "learners", "oracle"},
    "gathering": set(),
    "experiment": {"_types", "_checks", "_files", "mdp", "problems", "engine", "gathering"},
    "predict": {"_types", "_checks", "_names", "mdp", "oracle", "engine"},
    "statistics": set(),
    "report": {
        "_files",
        "_json",
        "_names",
        "mdp",
        "problems",
        "solve",
        "certify",
        "statistics",
        "store",
        "figures",
    },
    "expressions": {
        "_names",
        "_types",
        "schedules",
        "mdp",
        "learners",
        "oracle",
        "agents",
    },
    "provenance": {"gathering"},
    "shards": {"_files"},
    "store": {
        "_files",
        "engine",
        "experiment",
        "gathering",
        "problems",
        "provenance",
        "shards",
    },
}


def imported(module: str, tree: ast.AST):
    """The parts of ours that a module imports, anywhere in it."""
    package = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join((*above, *filter(None, [node.module])))
            names = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, *rest = name.split(".")
            if root == "emphatic":
                yield rest[0] if rest else "emphatic"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module):
    part = module.split(".")[1]
    found = set(imported(module, ast.parse(MODULES[module].read_text())))
    if part in MAY_IMPORT:
        assert found <= MAY_IMPORT[part] | {part}
    if part != "__init__":
        assert "emphatic" not in found  # the package itself imports everything
    if part != "cli":
        assert "cli" not in found


def test_the_import_scan_sees_every_form_of_import():
    forms = {
        "import emphatic.oracle": {"oracle"},
        "from emphatic import problems": {"problems"},
        "from emphatic.mdp import MDP": {"mdp"},
        "from .. import _markov": {"_markov"},
        "from ..mdp import Problem": {"mdp"},
        "from .chain import values": {"oracle"},
        "def f():\n    from ..agents import Softmax": {"agents"},
        "import numpy as np\nfrom scipy import sparse": set(),
    }
    for text, expected in forms.items():
        assert set(imported("emphatic.oracle.systems", ast.parse(text))) == expected


def test_the_scan_covers_the_parts_it_speaks_of():
    parts = {module.split(".")[1] for module in MODULES}
    assert {"_types", "_markov", "schedules", "mdp", "problems", "oracle", "agents"} <= parts


def test_only_the_figure_and_the_command_line_import_networks_and_inside_functions():
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        anywhere, part = "deep" in imported(module, tree), module.split(".")[1]
        assert not anywhere or part in ("deep", "cli") or module == "emphatic.figures.control"
        if part != "deep":
            outside = ast.Module([node for node in tree.body if not _is_function(node)], [])
            assert "deep" not in imported(module, outside)


def test_only_the_cluster_imports_dask_and_only_inside_functions():
    """Else the package would not run without the extra."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                origins = [alias.name for alias in node.names]
                origins = origins if isinstance(node, ast.Import) else [node.module or ""]
                found = {name.split(".")[0] for name in origins} & DASK
                assert not found or (module == "emphatic.cluster" and node.col_offset > 0)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef)


DASK = {"cloudpickle", "dask", "dask_jobqueue", "distributed"}
HEAVY = (
    "distributed",
    "emphatic.deep",
    "gymnasium",
    "matplotlib",
    "pandas",
    "rich",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "tyro",
    "llvmlite",
    "xarray",
)


def test_importing_the_package_loads_nothing_that_only_some_need():
    script = f"import sys, emphatic; print(*(name for name in {HEAVY} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_importing_the_package_changes_no_setting_of_jax():
    script = (
        "import jax; before = dict(jax.config.values); import emphatic; "
        "print(before == dict(jax.config.values))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.strip() == "True", run.stderr


# Written in two halves, so that this file does not find itself.
UNWANTED = ["/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/", "/wo" + "rk/", "no" + "qa"]


@pytest.mark.parametrize("text", UNWANTED)
def test_no_file_names_a_machines_path_or_silences_the_linter(text):
    tests = Path(__file__).parent
    folders = [PACKAGE, tests, tests.parent / "examples", tests.parent / "benchmarks"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 20
    assert [file.name for file in files if text in file.read_text()] == []
