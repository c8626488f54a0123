"""How the documentation is built: offline, and only if every public name is in it."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]  # what is documented is this checkout

project = "emphatic"
author = "The emphatic developers"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "reference", "docstrings", "mathml"]
highlight_language = "none"
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
nitpicky = True  # a reference that leads nowhere is an error, unless it is a type
nitpick_ignore_regex = [("py:(?!obj).*", ".*")]
