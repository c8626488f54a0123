"""Mathematics as MathML: browsers need no script for it."""

import re
import unicodedata

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

log = logging.getLogger("emphatic")


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
