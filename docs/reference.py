"""The reference, written from the names that the packages export: nothing is listed by hand.

A public name is one that a package's `__init__` imports as itself (`from .x import Name as Name`)
or defines, or one that an exported module defines. It is documented once, under the package that
is nearest to its definition, and linked from every other package that exports it.
"""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache, cached_property
from importlib.util import find_spec, resolve_name
from itertools import takewhile
from pathlib import Path
from types import FunctionType, ModuleType

from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

import emphatic

UNDOCUMENTED = ("emphatic.cli",)  # `emphatic --help` is its reference
GUIDES = {
    "emphatic.agents": "agents",
    "emphatic.certify": "paper",
    "emphatic.conformance": "conformance",
    "emphatic.deep": "deep",
    "emphatic.engine": "engine",
    "emphatic.experiments": "sweeps",
    "emphatic.experiments.cluster": "cluster",
    "emphatic.figures": "figures",
    "emphatic.learners": "add_a_learner",
    "emphatic.oracle": "oracle",
    "emphatic.predict": "predict",
    "emphatic.problems": "problems",
    "emphatic.report": "report",
}
log = logging.getLogger("emphatic")
METHODS = (FunctionType, property, cached_property, classmethod, staticmethod)


@dataclasses.dataclass(frozen=True)
class Public:
    """A public name: where it is documented and defined, its value and its docstring."""

    full: str
    source: str
    value: object
    docstring: str

    @property
    def name(self) -> str:
        return self.full.rpartition(".")[2]

    @property
    def kind(self) -> str:
        if inspect.isclass(self.value) and self.value.__name__ == self.name:
            return "class"
        return "function" if inspect.isroutine(inspect.unwrap(self.value)) else "data"


@dataclasses.dataclass(frozen=True)
class Reference:
    """Every public name by its full name, and every other path that leads to one."""

    modules: tuple[str, ...]
    names: dict[str, Public]
    aliases: dict[str, str]

    def canonical(self, path: str) -> str | None:
        """Returns the full name under which a path is documented; it may end in a member."""
        head, _, member = path.rpartition(".")
        if path in self.names:
            return path
        if path in self.aliases:
            return self.aliases[path]
        return f"{self.aliases[head]}.{member}" if head in self.aliases else None

    def nearest(self, name: str, module: str) -> str | None:
        """Returns the public name that a module means: of several, the one closest to it."""
        paths = [path for path in (*self.names, *self.aliases) if path.endswith(f".{name}")]
        best = max(paths, key=lambda path: _num_shared(path, module), default=None)
        return best and self.canonical(best)


@cache
def find_public_names() -> Reference:
    """Returns the public names of the package, found from its export lists."""
    modules = tuple(_modules())
    exporters: dict[tuple[str, str], list[str]] = {}
    for module in modules:
        for name, source in _exports(module):
            exporters.setdefault((source, name), []).append(module)
    names, aliases = {}, {}
    for (source, name), offered in exporters.items():
        home = max(offered, key=lambda module: (_is_package(module), _num_shared(module, source)))
        for public in _public(home, source, name):
            names[public.full] = public
        for module in (*offered, source):
            if module != home:
                aliases[f"{module}.{name}"] = f"{home}.{name}"
    return Reference(modules, names, aliases)


def write_pages(folder: Path) -> None:
    """Writes a page of reStructuredText for each module that has public names."""
    folder.mkdir(exist_ok=True)
    for page in folder.glob("*.rst"):
        page.unlink()
    reference = find_public_names()
    for module in reference.modules:
        text = "\n".join(_page(module, reference))
        if text:
            (folder / f"{module}.rst").write_text(text + "\n")


def write_reference(app):
    write_pages(Path(app.srcdir) / "reference")


def require_documented(app, exception):
    """Fails the build, and says why, if a public name lacks a docstring or a place."""
    if exception is not None:
        return
    pages = app.env.domains["py"].objects
    for public in find_public_names().names.values():
        missing = [] if public.docstring.strip() else ["has no docstring"]
        missing += [] if public.full in pages else ["is on no page of the documentation"]
        if missing:
            log.error("undocumented: %s %s", public.full, " and ".join(missing))
            app.statuscode = 1


def resolve_alias(app, env, node, contnode):
    """A reference by another path, such as the module that defines a name, leads to its page."""
    full = find_public_names().canonical(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or full is None:
        return None
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, contnode)


def setup(app):
    app.connect("builder-inited", write_reference)
    app.connect("missing-reference", resolve_alias)
    app.connect("build-finished", require_documented)


def _page(module: str, reference: Reference) -> Iterator[str]:
    prefix = f"{module}."
    own = [public for full, public in reference.names.items() if full == prefix + public.name]
    elsewhere = [item for item in reference.aliases.items() if item[0].rpartition(".")[0] == module]
    if not own and (not elsewhere or not _is_package(module)):
        return
    yield from (module, "=" * len(module), "", f".. automodule:: {module}", "")
    if module in GUIDES:
        yield from (f"Guide: :doc:`/{GUIDES[module]}`.", "")
    sources = dict.fromkeys(public.source for public in own)
    for source in sorted(sources, key=lambda source: source == module):
        if source != module:
            title = f"``{source.removeprefix(module + '.').removeprefix('emphatic.')}``"
            yield from (title, "-" * len(title), "", f".. docstring:: module {source}", "")
        elif len(sources) > 1:
            yield from ("Defined in the package", "----------------------", "")
        for public in own:
            if public.source == source:
                yield from _entry(public)
    if elsewhere:
        title = "Also exported here"
        yield from (title, "-" * len(title), "")
        yield from (f"- :py:obj:`{path} <{full}>`" for path, full in sorted(elsewhere))
        yield ""


def _entry(public: Public) -> Iterator[str]:
    if public.kind == "data":  # autodoc would not look for its docstring where it is defined
        module, _, name = public.full.rpartition(".")
        yield from (f".. py:data:: {name}", f"   :module: {module}", "")
        yield from (f"   .. docstring:: data {public.full}", "")
    else:
        members = ["   :members:"] if public.kind == "class" else []
        yield from (f".. auto{public.kind}:: {public.full}", *members, "")


def _modules() -> Iterator[str]:
    """Packages, and the modules that they export."""
    modules = dict.fromkeys(["emphatic", *_exported_modules("emphatic")])
    for _, name, is_package in pkgutil.walk_packages(emphatic.__path__, "emphatic."):
        if any(part.startswith("_") for part in name.split(".")) or name.startswith(UNDOCUMENTED):
            continue
        if is_package:
            modules |= dict.fromkeys([name, *_exported_modules(name)])
    return iter(sorted(modules))


def _exported_modules(package: str) -> list[str]:
    paths = [f"{package}.{name}" for name, _ in _imported_as_themselves(package)]
    return [path for path in paths if isinstance(_value(path), ModuleType)]


def _exports(module: str) -> Iterator[tuple[str, str]]:
    """The public names of a module, each with the module that defines it; no submodules."""
    imported = [
        (name, _definition(source, name))
        for name, source in _imported_as_themselves(module)
        if not isinstance(_value(f"{module}.{name}"), ModuleType)
    ]
    for name, source in (*imported, *((name, module) for name in _defined(module))):
        is_detail = _defined(source).get(name, False) and not _constant_docstring(source, name)
        if _is_package(module) or not is_detail:
            yield name, source


def _imported_as_themselves(module: str) -> Iterator[tuple[str, str]]:
    for imported, source in _imports(module):
        if imported.asname == imported.name and not imported.name.startswith("_"):
            yield imported.name, source


def _imports(module: str) -> Iterator[tuple[ast.alias, str]]:
    """What a module imports from others, with their names."""
    package = module if _is_package(module) else module.rpartition(".")[0]
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            yield from ((alias, source) for alias in node.names)


@cache
def _defined(module: str) -> dict[str, bool]:
    """The public names that a module defines, and whether each is a constant."""
    names = {}
    for node in _tree(module).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] = False
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = [part for target in targets for part in ast.walk(target)]
                names |= {part.id: True for part in parts if isinstance(part, ast.Name)}
    return {name: is_constant for name, is_constant in names.items() if not name.startswith("_")}


def _definition(module: str, name: str) -> str:
    """The module that defines a name which `module` has, perhaps from another one."""
    for imported, source in _imports(module):
        if (imported.asname or imported.name) == name and source.startswith("emphatic"):
            return _definition(source, name)
    return module


def _public(home: str, source: str, name: str) -> Iterator[Public]:
    """A name and, of a class, its methods."""
    full = f"{home}.{name}"
    value = _value(full)
    public = Public(full, source, value, "")
    if public.kind == "data":
        yield dataclasses.replace(public, docstring=_constant_docstring(source, name))
        return
    yield dataclasses.replace(public, docstring=_docstring(value))
    if isinstance(value, type):
        fields = getattr(value, "__dataclass_fields__", {})  # a default is no method
        for member, method in vars(value).items():
            if not member.startswith("_") and member not in fields and isinstance(method, METHODS):
                yield Public(f"{full}.{member}", source, method, method.__doc__ or "")


def _docstring(value: object) -> str:
    text = value.__doc__ or ""
    generated = dataclasses.is_dataclass(value) and text.startswith(f"{value.__name__}(")
    return "" if generated else text


def _constant_docstring(module: str, name: str) -> str:
    documented = ModuleAnalyzer.for_module(module).find_attr_docs()
    return "\n".join(documented.get(("", name), []))


def _value(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(importlib.import_module(module)))


@cache
def _is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def _num_shared(path: str, other: str) -> int:
    pairs = zip(path.split("."), other.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
