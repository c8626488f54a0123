"""The source that a learner of one's own consists of: what identifies it, and what workers need."""

import ast
import functools
import importlib
import importlib.util
import inspect
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, UnionType
from typing import Any

import jax
import numpy as np

from .._files import checksum
from .._validation import unknown


@dataclass(frozen=True)
class Source:
    """What a learner is, as text that changes when it does, and the modules that it consists of."""

    definition: str
    modules: Mapping[str, str] = field(default_factory=dict[str, str])  # their texts by name


def import_function(reference: str) -> Callable[..., Any]:
    """Imports the function `module:name`; modules may be in the current folder.

    Only a person names a module here: on the command line, with `--import`, or in Python.
    """
    name, _, function = reference.partition(":")
    module = import_module(name)
    functions = [key for key, value in vars(module).items() if inspect.isfunction(value)]
    if function not in functions:
        raise unknown(f"{name}", function, functions)
    return getattr(module, function)


def import_module(name: str) -> ModuleType:
    """Imports a module, which may be in the current folder; a `ValueError` if that fails."""
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except Exception as error:
        kind = type(error).__name__
        raise ValueError(f"import: {name!r} cannot be imported: {kind}: {error}") from error


def trace(value: object) -> Source:
    """Returns the source of a learner, or of a function that makes learners.

    It is that of its module and of the modules beside it that this imports, with the values that
    the function has bound. What is defined in a script or a notebook is its own source and that of
    whatever it uses there. Installed packages count by name.
    """
    if isinstance(source := getattr(value, "source", None), Source):
        return source
    description = _Description()
    if isinstance(value, FunctionType):
        module = _module_name(inspect.unwrap(value))
        if not _is_script(module) and module.partition(".")[0] != "emphatic":
            description.modules.update(module_texts(module))
    text = description.describe(value)
    name = getattr(value, "__qualname__", type(value).__name__)
    return Source(f"{name} {checksum([text, description.modules], {})[:16]}", description.modules)


def module_texts(name: str) -> dict[str, str]:
    """Returns the texts of a module and of all that it imports from its package or its folder."""
    origin = _find_file(name)
    if origin is None:
        raise ValueError(f"import: {name!r} has no Python source, which must identify its results")
    depth = name.count(".") + (origin.name == "__init__.py")
    root, package = origin.parents[depth], name.partition(".")[0]
    texts: dict[str, str] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        path = _module_path(root, current)
        top = current.partition(".")[0]
        is_known = top == "emphatic" or (_is_installed(root) and top != package)
        if path is None or current in texts or is_known:
            continue
        texts[current] = path.read_text(encoding="utf-8")
        _require_current(current, path, texts[current])
        pending += _parents(current)
        pending += _imported_names(texts[current], current, path.name == "__init__.py")
    return texts


def install(modules: Mapping[str, str]) -> None:
    """Makes modules importable from their texts, unless the same ones already are."""
    if all(_read(name) == text for name, text in modules.items()):
        return
    for name in modules:
        sys.modules.pop(name, None)
    folder = Path(_temporary_folder(checksum(dict(modules), {})))
    for name, text in modules.items():
        is_package = any(other.startswith(f"{name}.") for other in modules)
        path = folder.joinpath(*name.split("."), *["__init__"] * is_package).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()


@functools.cache
def _temporary_folder(digest: str) -> str:
    """Makes a folder for the modules of this digest, which ends with the process."""
    folder = tempfile.TemporaryDirectory(prefix="emphatic-")
    _folders.append(folder)
    return folder.name


_folders: list[tempfile.TemporaryDirectory[str]] = []


# Modules


def _find_file(name: str) -> Path | None:
    """Returns the file of Python source of a module, if it has one."""
    spec = _find_spec(name)
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _read(name: str) -> str | None:
    path = _find_file(name)
    return None if path is None else path.read_text(encoding="utf-8")


def _module_path(root: Path, name: str) -> Path | None:
    """Returns the file of a module below a folder, if there is one."""
    path = root.joinpath(*name.split("."))
    files = path / "__init__.py", path.with_suffix(".py")
    return next((file for file in files if file.is_file()), None)


def _is_installed(folder: Path) -> bool:
    """Whether the modules of a folder are known by the names and versions of packages."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    return folder.name in ("site-packages", "dist-packages") or folder == stdlib


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _imported_names(text: str, name: str, is_package: bool) -> Iterator[str]:
    """Yields the names that a module imports anywhere, which may be modules or what is in them."""
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            names = [origin, *(f"{origin}.{alias.name}" for alias in node.names)]
        else:
            continue
        for imported in names:
            yield imported
            yield from _parents(imported)


def _require_current(name: str, path: Path, text: str) -> None:
    """Raises a `ValueError` if a module was changed after it was imported."""
    module = sys.modules.get(name)
    if module is None or type(module.__loader__) is not SourceFileLoader:
        return
    compiled = set(_codes(compile(text, str(path), "exec")))
    functions = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    codes = {value.__code__ for value in functions if value.__code__.co_filename == str(path)}
    if codes - compiled:
        raise ValueError(f"import: {name!r} was changed after it was imported; start again")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


# Values


class _Description:
    """What JSON can hold and what changes with values, and the modules that they consist of."""

    def __init__(self):
        self.modules: dict[str, str] = {}
        self.visited: dict[int, tuple[int, object]] = {}  # a number, and what keeps an id its own

    def describe_all(self, *values: object) -> list[object]:
        """Describes values in turn."""
        return [self.describe(value) for value in values]

    def describe(self, value: Any) -> object:
        """Describes a value."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return checksum("array", {"array": np.asarray(value)})
        if isinstance(value, UnionType | np.dtype) or type(value).__module__ == "typing":
            return repr(value)
        if id(value) in self.visited:
            return self.visited[id(value)][0]
        self.visited[id(value)] = len(self.visited), value
        match value:
            case Mapping():
                parts = [entry for item in value.items() for entry in item]
            case list() | tuple():
                parts = list(value)
            case functools.partial():
                parts = [value.func, value.args, value.keywords]
            case MethodType():
                parts = [value.__self__, value.__func__]
            case ModuleType():
                return self.place(value.__name__)
            case FunctionType() | type():
                return self.describe_definition(value)
            case BuiltinFunctionType():
                return self.place(f"{value.__module__}", value.__qualname__)
            case _ if isinstance(source := getattr(value, "__wrapped__", None), FunctionType):
                parts = [source]
            case _ if is_dataclass(value):
                parts = [type(value), *(getattr(value, entry.name) for entry in fields(value))]
            case _:
                kind = type(value).__qualname__
                raise ValueError(f"{kind!r}, which it uses, has no source; give a definition")
        return [type(value).__qualname__, *self.describe_all(*parts)]

    def describe_definition(self, value: FunctionType | type) -> object:
        """Describes a function, with what it has bound, or a class; scripts by what they use."""
        if isinstance(source := getattr(value, "source", None), Source):
            self.modules.update(source.modules)
            return source.definition
        name = _module_name(value)
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None and _is_known(name):
            return self.describe_all(name, wrapped)
        text = self.place(name, value.__qualname__)
        used = _bound(value)
        if _is_script(name):
            try:
                text = inspect.getsource(value)
            except (OSError, TypeError):
                required = f"the source of {value.__qualname__!r} is not known; give a definition"
                raise ValueError(required) from None
            used += _used(value)
        return [text, *self.describe_all(*used)]

    def place(self, module: str, name: str = "") -> str:
        """Returns where something is defined; adds its module unless that is installed."""
        if not _is_known(module) and not _is_script(module):
            self.modules.update(module_texts(module))
        return f"{module}:{name}"


def _module_name(value: FunctionType | type) -> str:
    """Returns the module of a function or a class; what wraps a function may hide its own."""
    is_function = isinstance(value, FunctionType)
    return value.__globals__["__name__"] if is_function else value.__module__


def _is_script(module: str) -> bool:
    """Whether this is a script or a notebook, and no module that could be imported."""
    return module == "__main__" or _find_spec(module) is None


def _is_known(module: str) -> bool:
    """Whether a module is ours, installed, or no Python: its name says what it is."""
    package = module.partition(".")[0]
    spec = _find_spec(package)
    if package in ("__main__", "emphatic") or spec is None:
        return package == "emphatic"
    path = Path(spec.origin or "")
    return path.suffix != ".py" or _is_installed(path.parents[path.name == "__init__.py"])


def _bound(value: FunctionType | type) -> list[object]:
    """Returns what a function has bound."""
    if isinstance(value, type):
        return []
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return [*cells, value.__defaults__, value.__kwdefaults__]


def _used(value: FunctionType | type) -> list[object]:
    """Returns what a function or a class of a script uses of it."""
    if isinstance(value, type):
        methods = [entry for entry in vars(value).values() if isinstance(entry, FunctionType)]
        return [*value.__bases__, *(part for m in methods for part in (*_bound(m), *_used(m)))]
    codes = [value.__code__, *_codes(value.__code__)]
    names = sorted({name for code in codes for name in code.co_names})
    return [value.__globals__[name] for name in names if name in value.__globals__]
