"""The plan of the house: imports go one way, names are plain, types are named, exports are listed.

Importing is cheap, and no file depends on one machine.
"""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

import emphatic

PACKAGE = Path(emphatic.__file__).parent
MODULES = {
    ".".join(("emphatic", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in PACKAGE.rglob("*.py")
}

# What a part may import of ours, besides itself.
SCIENCE = {"mdp", "problems", "oracle", "agents", "learners", "engine", "experiments"}
MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "_validation": {"_schema"},
    "_files": set(),
    "_schema": {"_files"},
    "_markov": set(),
    "_work": set(),
    "statistics": {"_validation"},
    "schedules": {"types", "_validation", "_schema"},
    "mdp": {"types", "_validation", "_work", "_markov"},
    "learners": {"types", "_validation", "schedules"},
    "problems": {"_validation", "_files", "_schema", "_work", "mdp"},
    "oracle": {"types", "_validation", "_markov", "mdp"},
    "agents": {"types", "_validation", "schedules", "mdp"},
    "engine": {
        *("types", "_validation", "_files", "_schema", "_work", "schedules"),
        *("mdp", "learners", "oracle", "agents"),
    },
    "certify": {"types", "_validation", "_markov", "schedules", "mdp", "oracle", "agents"},
    "predict": {"types", "_validation", "_work", "mdp", "oracle", "engine"},
    "conformance": {"types", "_validation", "mdp", "learners", "oracle", "engine"},
    "experiments": {
        *("types", "_validation", "_files", "_schema", "_work", "statistics", "schedules"),
        *("mdp", "problems", "oracle", "engine"),
    },
    "deep": {"types", "_validation", "_files", "_schema", "_work", "statistics"},
    "figures": {
        *("types", "_validation", "_files", "_schema", "statistics", "schedules"),
        *SCIENCE,
        *("certify", "predict", "deep"),
    },
    "report": {
        *("_validation", "_files", "_schema", "statistics"),
        *("mdp", "oracle", "certify", "experiments", "figures"),
    },
    "cli": {
        *("types", "_validation", "_files", "_schema", "_work", "schedules"),
        *SCIENCE,
        *("certify", "predict", "conformance", "deep", "figures", "report", "__version__"),
    },
    "__main__": set(),
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
    if part != "__init__":  # the package itself imports everything
        found = set(imported(module, ast.parse(MODULES[module].read_text())))
        assert found <= MAY_IMPORT[part] | {part}


def test_no_import_is_allowed_that_nothing_needs():
    needed: dict[str, set[str]] = {part: {part} for part in MAY_IMPORT}
    for module, path in MODULES.items():
        if (part := module.split(".")[1]) in needed:
            needed[part] |= set(imported(module, ast.parse(path.read_text())))
    assert {part: allowed | {part} for part, allowed in MAY_IMPORT.items()} == needed


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
    assert {module.split(".")[1] for module in MODULES} == {"__init__", *MAY_IMPORT}


def test_only_the_figure_and_the_command_line_import_networks_and_inside_functions():
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        anywhere, part = "deep" in imported(module, tree), module.split(".")[1]
        assert (
            not anywhere
            or part in ("deep", "cli")
            or module.startswith("emphatic.figures.control.")
        )
        if part != "deep":
            assert "deep" not in imported(module, _outside_functions(tree))


IMPORTS_DASK = {f"emphatic.experiments.{name}" for name in ("cluster", "workers")}


def test_only_the_cluster_imports_dask_and_only_inside_functions():
    """Else the package would not run without the extra."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                origins = [alias.name for alias in node.names]
                origins = origins if isinstance(node, ast.Import) else [node.module or ""]
                found = {name.split(".")[0] for name in origins} & DASK
                assert not found or (module in IMPORTS_DASK and node.col_offset > 0)


DRAWS = ("emphatic.figures", "emphatic.cli")
COMPUTES = ("summary", "levels", "agents")  # of a figure


def test_computation_never_imports_drawing():
    """Only figures and the command line draw, and Matplotlib is loaded where something is drawn."""
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        assert "matplotlib" not in _imported_names(_outside_functions(tree)), module
        if not module.startswith(DRAWS) or module.endswith(COMPUTES):
            assert not {"matplotlib", "style", "film", "plots"} & _imported_names(tree), module


def _imported_names(tree: ast.AST) -> set[str]:
    """Every word in the imports of a module."""
    words = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            words |= {word for name in names for word in name.split(".")}
    return words


def _outside_functions(tree: ast.Module) -> ast.Module:
    """A module without its functions, and without what only a type checker reads."""
    return ast.Module([node for node in tree.body if not _is_function(node)], [])


def _is_function(node: ast.AST) -> bool:
    typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return typing_only or isinstance(node, ast.FunctionDef)


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


def test_the_top_of_the_package_has_at_most_eleven_files():
    assert len([path for path in PACKAGE.iterdir() if path.is_file()]) <= 11


# Names that stand twice because they are one concept in two roles.
ROLES = {
    "actor_critic": "linear and deep",
    "agents": "linear, deep, and those of a figure",
    "compatible": "features of an agent, and their exact limits",
    "drawing": "of each figure that is a folder",
    "experience": "the protocol of engines, and recordings of environments",
    "experiments": "the folder, and its commands",
    "export": "of results, and its command",
    "figure": "the record, and each figure that is a folder",
    "figures": "the folder, and their command",
    "followon": "learned and known",
    "gymnasium": "as a table and as a simulation",
    "plan": "of a store, and of a training: what a folder is",
    "policies": "linear and deep",
    "summary": "of a figure, and of a prediction",
    "training": "the loop, its command, its drawing, and its section of a report",
}
VAGUE = {"base", "common", "helpers", "misc", "util", "utils"}


def test_a_module_name_stands_twice_only_for_one_concept_in_two_roles():
    names = Counter(
        path.parent.name if path.stem == "__init__" else path.stem for path in MODULES.values()
    )
    assert {name for name, count in names.items() if count > 1} <= set(ROLES)
    assert not {name.strip("_") for name in names} & VAGUE


def test_no_name_is_that_of_a_config_or_a_manager():
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                assert not re.search("config|manager", node.name.lower()), (path, node.name)


PACKAGES = sorted(
    ".".join(("emphatic", *path.parent.relative_to(PACKAGE).parts))
    for path in PACKAGE.rglob("__init__.py")
)


@pytest.mark.parametrize("name", PACKAGES)
def test_no_folder_is_shadowed_by_a_function(name):
    package = importlib.import_module(name)
    for inner in PACKAGES:
        above, _, last = inner.rpartition(".")
        if above == name:
            importlib.import_module(inner)
            assert isinstance(getattr(package, last), ModuleType)


# The entry point of the command line is a function, and its help a text.
@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "emphatic.cli"])
def test_a_package_lists_what_it_offers_and_every_name_is_documented(name):
    """A docstring, `from .x import Name as Name`, and constants with a docstring below them."""
    path = PACKAGE.joinpath(*name.split(".")[1:], "__init__.py")
    docstring, *body = ast.parse(path.read_text()).body
    assert isinstance(docstring, ast.Expr)
    constants = {}
    for node, below in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            assert isinstance(target, ast.Name)
            constants[target.id] = isinstance(below, ast.Expr)
        else:
            assert isinstance(node, ast.Import | ast.ImportFrom | ast.Expr), ast.unparse(node)
    assert all(documented or name == "__version__" for name, documented in constants.items())
    for origin, exported in _exports(name):
        value = getattr(importlib.import_module(origin), exported)
        documented = isinstance(value, ModuleType) or hasattr(value, "__module__")
        documented = documented and bool(value.__doc__)
        assert documented or exported in _documented_constants(origin), (origin, exported)


def _exports(package: str):
    """The names that a package offers, each with the module that it comes from."""
    path = PACKAGE.joinpath(*package.split(".")[1:], "__init__.py")
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                if alias.asname == alias.name:
                    yield ".".join(filter(None, (package, node.module))), alias.name


def _documented_constants(module: str) -> set[str]:
    """The constants of a module that have a docstring below them."""
    origin = importlib.import_module(module).__file__
    assert origin is not None
    body = ast.parse(Path(origin).read_text()).body
    names = set()
    for node, below in pairwise(body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr):
            names.add(target.id)
    return names


def test_types_have_names():
    """The word `Any` at most 12 times in a thousand lines that are not blank."""
    text = "\n".join(path.read_text() for path in MODULES.values())
    num_lines = sum(bool(line.strip()) for line in text.splitlines())
    assert len(re.findall(r"\bAny\b", text)) <= 12 * num_lines / 1000


# Written in two halves, so that this file does not find itself.
UNWANTED = ["/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/", "/wo" + "rk/", "no" + "qa"]


@pytest.mark.parametrize("text", UNWANTED)
def test_no_file_names_a_machines_path_or_silences_the_linter(text):
    tests = Path(__file__).parent
    folders = [PACKAGE, tests, tests.parent / "examples", tests.parent / "benchmarks"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 20
    assert [file.name for file in files if text in file.read_text()] == []
