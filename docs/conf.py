"""The documentation site: Sphinx with MyST, executed notebooks and generated reference pages."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

import reference_pages  # noqa: E402
import result_pages  # noqa: E402

import lcpo  # noqa: E402

project = "lcpo"
author = "The lcpo authors"
copyright = author
version = release = lcpo.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
templates_path: list[str] = []

# MyST: anchors for headings, so that links such as page.md#section work.
myst_enable_extensions = ["colon_fence", "deflist", "smartquotes"]
myst_heading_anchors = 4

# A failing cell fails the build. Notebooks that take longer store their outputs, and
# tests/study/test_notebook.py runs them.
nb_execution_mode = "cache"
nb_execution_excludepatterns = ["tutorials/battery.ipynb", "tutorials/own_agent.ipynb"]
nb_execution_cache_path = str(DOCS / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300

# The reference is made from signatures and docstrings.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "lcpo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#0b5fa5", "color-brand-content": "#0b5fa5"},
    "dark_css_variables": {"color-brand-primary": "#6cb6ff", "color-brand-content": "#6cb6ff"},
}
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True


def _relink(app, name, content):
    """Links into the repository become links to pages of the site."""
    here = (DOCS / name).parent
    content[0] = result_pages.relink(content[0], here, DOCS, here)


def _as_rst(app, what, name, obj, options, lines):
    reference_pages.as_rst(lines)


def setup(app):
    """Write the generated pages before Sphinx looks for sources."""
    reference_pages.write(DOCS)
    result_pages.write(DOCS)
    app.connect("source-read", _relink)
    app.connect("autodoc-process-docstring", _as_rst)
