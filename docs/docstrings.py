"""Docstrings: ours are light markdown, autodoc wants reStructuredText."""

import importlib
import inspect
import re

import reference
from numpy.typing import ArrayLike
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import stringify_annotation

log = logging.getLogger("emphatic")

DISPLAY = re.compile(r"^( *)\$\$\n(.*?)\n *\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(
    r"\$(?P<math>[^$]+)\$"
    r"|`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>[^*\n]+)\*\*"
    r"|\[(?P<name>[A-Za-z][\w.]*)\]"
    r"|(?P<special>[*|_\\])"
)


def to_rst(text: str, name: str) -> str:
    """Returns the docstring of a name as reStructuredText."""

    def inline(match: re.Match) -> str:
        kind = match.lastgroup
        content = " ".join(match[kind].split())
        if kind == "math":
            return f":math:`{content}`"
        if kind == "code":
            return f"``{content}``"
        if kind == "strong":
            return f"**{content}**"
        if kind == "special":
            return f"\\{content}"
        full = reference.find_public_names().nearest(content, name)
        if full is None:
            log.warning("%s: [%s] is not a public name", name, content)
            return content
        after = match.string[match.end() : match.end() + 1]
        return f":py:obj:`{content} <{full}>`" + ("\\ " if after.isalnum() else "")

    text, *blocks = DISPLAY.split(text)
    parts = [INLINE.sub(inline, text)]
    for indent, equation, text in zip(*[iter(blocks)] * 3, strict=True):
        lines = [".. math::", "", *(f"   {line.strip()}" for line in equation.splitlines())]
        parts += ["\n", *(f"{indent}{line}\n" for line in lines), INLINE.sub(inline, text)]
    return "".join(parts)


def convert_docstring(app, what, name, obj, options, lines):
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


class Docstring(SphinxDirective):
    """The docstring of a constant, or of a module whose names are documented by its package."""

    required_arguments = 2

    def run(self):
        kind, name = self.arguments
        if kind == "module":
            text = inspect.getdoc(importlib.import_module(name)) or ""
        else:
            text = reference.find_public_names().names[name].docstring
        return self.parse_text_to_nodes(to_rst(text, name))


def setup(app):
    app.add_directive("docstring", Docstring)
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
