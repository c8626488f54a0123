"""How the documentation is built: offline, and only if every public name is in it."""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
import unicodedata
from functools import cache, cached_property
from importlib.util import find_spec, resolve_name
from itertools import takewhile
from pathlib import Path
from types import FunctionType, ModuleType

from docutils import nodes
from latex2mathml.converter import convert
from numpy.typing import ArrayLike
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.typing import stringify_annotation

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))  # what is documented is this checkout

project = "emphatic"
author = "The emphatic developers"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"emphatic {release}"
html_math_renderer = "mathml"
html_copy_source = html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["docs.css"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88

log = logging.getLogger("emphatic")

# Public names. The interface is what these modules define, or import `as` the same name.

DETAILED = (
    "emphatic.deep.",
    "emphatic.ex",
    "emphatic.store",
    "emphatic.cluster",
    "emphatic.gathering",
    "emphatic.agents.",
)
MODULES = [
    "emphatic",
    "emphatic.oracle",
    "emphatic.problems",
    "emphatic.learners",
    "emphatic.schedules",
    "emphatic.agents",
    "emphatic.agents.actor_critic",
    "emphatic.agents.compatible",
    "emphatic.agents.exact",
    "emphatic.certify",
    "emphatic.engine",
    "emphatic.predict",
    "emphatic.experiment",
    "emphatic.gathering",
    "emphatic.experiment_file",
    "emphatic.expressions",
    "emphatic.comparison",
    "emphatic.store",
    "emphatic.agents.paths",
    "emphatic.cluster",
    "emphatic.statistics",
    "emphatic.figures",
    "emphatic.report",
    "emphatic.deep.environment",
    "emphatic.deep.reacher",
    "emphatic.deep.experience",
    "emphatic.deep.gym",
    "emphatic.deep.transition",
    "emphatic.deep.networks",
    "emphatic.deep.losses",
    "emphatic.deep.replay",
    "emphatic.deep.agent",
    "emphatic.deep.actor_critic",
    "emphatic.deep.geoff_pac",
    "emphatic.deep.td3",
    "emphatic.deep.agents",
    "emphatic.deep.evaluation",
    "emphatic.deep.training",
    "emphatic.deep.checkpoint",
    "emphatic.deep.task",
    "emphatic.deep.policy",
]
METHODS = (FunctionType, property, cached_property, classmethod, staticmethod)


@dataclasses.dataclass(frozen=True)
class Public:
    """A public name: where it is documented, what it is and what its source says of it."""

    full: str
    value: object
    docstring: str


def exported(module: ModuleType) -> list[str]:
    names = []
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                parts = [part for target in targets for part in ast.walk(target)]
                names += [part.id for part in parts if isinstance(part, ast.Name)]
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names += [alias.name for alias in aliases if alias.asname == alias.name]
    return [name for name in names if not name.startswith("_")]


def class_docstring(value: type) -> str:
    text = value.__doc__ or ""
    generated = dataclasses.is_dataclass(value) and text.startswith(f"{value.__name__}(")
    return "" if generated else text


def constant_docstring(module: ModuleType, name: str) -> str:
    """What stands below a constant, in the module that defines it."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and name in (alias.asname for alias in node.names):
            origin = resolve_name("." * node.level + (node.module or ""), module.__package__)
            return constant_docstring(importlib.import_module(origin), name)
    found = ModuleAnalyzer.for_module(module.__name__).find_attr_docs()
    return "\n".join(found.get(("", name), []))


@cache
def public_names() -> dict[str, Public]:
    """By short name (`Class.method` too); an object belongs to the first module that has it."""
    found: dict[str, Public] = {}
    for module_name in filter(find_spec, MODULES):
        module = importlib.import_module(module_name)
        package, _, leaf = module_name.rpartition(".")
        # `emphatic.certify` is a function: the constants of its module are behind it.
        hidden = package and getattr(sys.modules[package], leaf) is not module
        for name in exported(module):
            value = getattr(module, name)
            known = found.get(name)
            if isinstance(value, ModuleType) or (known is not None and known.value is value):
                continue
            full = f"{module_name}.{name}"
            short = full if known is not None else name
            if inspect.isclass(value):
                found[short] = Public(full, value, class_docstring(value))
                fields = getattr(value, "__dataclass_fields__", {})  # a default is no method
                for member, method in vars(value).items():
                    if member.startswith("_") or member in fields:
                        continue
                    if isinstance(method, METHODS):
                        found[f"{short}.{member}"] = Public(
                            f"{full}.{member}", method, method.__doc__ or ""
                        )
            elif inspect.isroutine(inspect.unwrap(value)):
                found[short] = Public(full, value, value.__doc__ or "")
            elif not hidden:
                words = constant_docstring(module, name)
                if words or not module_name.startswith(DETAILED):  # there, a detail
                    found[short] = Public(full, value, words)
    return found


def nearest(name: str, where: str) -> Public | None:
    """The public name that is meant in a place: of several, the one with most of its path."""

    def shared(public: Public) -> int:
        pairs = zip(public.full.split("."), where.split("."), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    found = [each for each in public_names().values() if each.full.endswith(f".{name}")]
    return max(found, key=shared, default=None)


def require_documented(app, exception):
    """Fails the build, and says why, if a public name lacks a docstring or a place."""
    if exception is not None:
        return
    pages = app.env.domains["py"].objects
    for public in public_names().values():
        missing = [] if public.docstring.strip() else ["has no docstring"]
        missing += [] if public.full in pages else ["is on no page of the documentation"]
        if missing:
            log.error("undocumented: %s %s", public.full, " and ".join(missing))
            app.statuscode = 1


# Docstrings. Ours are light markdown; autodoc wants reStructuredText.

DISPLAY = re.compile(r"^( *)\$\$\n(.*?)\n *\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(
    r"\$(?P<math>[^$]+)\$"
    r"|`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>[^*\n]+)\*\*"
    r"|\[(?P<name>[A-Za-z][\w.]*)\]"
    r"|(?P<special>[*|_\\])"
)


def to_rst(text: str, where: str) -> str:
    def inline(match: re.Match) -> str:
        kind = match.lastgroup
        found = " ".join(match[kind].split())
        if kind == "math":
            return f":math:`{found}`"
        if kind == "code":
            return f"``{found}``"
        if kind == "strong":
            return f"**{found}**"
        if kind == "special":
            return f"\\{found}"
        public = nearest(found, where)
        if public is None:
            log.warning("%s: [%s] is not a public name", where, found)
            return found
        after = match.string[match.end() : match.end() + 1]
        return f":py:obj:`{found} <{public.full}>`" + ("\\ " if after.isalnum() else "")

    text, *blocks = DISPLAY.split(text)
    parts = [INLINE.sub(inline, text)]
    for indent, equation, text in zip(*[iter(blocks)] * 3, strict=True):
        lines = [".. math::", "", *(f"   {line.strip()}" for line in equation.splitlines())]
        parts += ["\n", *(f"{indent}{line}\n" for line in lines), INLINE.sub(inline, text)]
    return "".join(parts)


def convert_docstring(app, what, name, obj, options, lines):
    if what == "data":  # autodoc does not follow a constant to the module that defines it
        described = {public.full: public.docstring for public in public_names().values()}
        lines[:] = described.get(name, "").splitlines()
    lines[:] = to_rst("\n".join(lines), name).splitlines()


def shorten_signature(app, what, name, obj, options, signature, returns):
    """Types by their names, and `...` for a default that has no text of its own."""
    for mode in ("fully-qualified-except-typing", "smart"):
        union = stringify_annotation(ArrayLike, mode)
        signature = signature and signature.replace(union, "ArrayLike")
    if signature:
        signature = re.sub(r"= <(?:factory|function \S+)>", "= ...", signature)
        signature = re.sub(r"~(?!emphatic\.)(?:\w+\.)+", "", signature)
    return signature, returns


# Mathematics, as MathML: browsers need no script for it.


def letter(match: re.Match) -> str:
    """A letter of another alphabet: browsers know the character but not the attribute."""
    name = f"{match['alphabet'].upper()} CAPITAL {match['letter']}"
    try:
        return f"<mi>{unicodedata.lookup(f'MATHEMATICAL {name}')}</mi>"
    except KeyError:  # some letters are older than their alphabet
        return f"<mi>{unicodedata.lookup(name)}</mi>"


LETTER = re.compile(r'<mi mathvariant="(?P<alphabet>double-struck|script)">(?P<letter>[A-Z])</mi>')


def mathml(node, display: str) -> str:
    latex = node.astext()
    text = convert(latex.replace("{aligned}", "{split}"), display=display)
    if "\\" in text or "<mi>&</mi>" in text:
        log.warning("this has no MathML: %s", latex, location=node)
    return LETTER.sub(letter, text)


def visit_inline(translator, node):
    translator.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_display(translator, node):
    translator.body.append(f'<div class="equation">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("build-finished", require_documented)
