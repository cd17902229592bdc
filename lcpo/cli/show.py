"""Lines for a terminal, printed as they are: no wrapping, no markup."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from lcpo.errors import printable

if TYPE_CHECKING:
    from lcpo.study.report.tables import Table

WHOLE = 10_000
"""Columns where there is no terminal."""


def line(text: str = "", label: str = "", colour: str = "", *, stderr: bool = False) -> None:
    """Print `text` after a colored label, or in the color if there is no label."""
    text = printable(text)  # file names may not be UTF-8, and foreign text may hold escape codes
    parts = [(label, f"bold {colour}"), " ", text] if label else [(text, colour)]
    Console(stderr=stderr).print(Text.assemble(*parts), soft_wrap=True)


def note(text: str) -> None:
    """Print something that is not part of the results."""
    line(text, "note:", "yellow", stderr=True)


def warning(text: str, *, stderr: bool = False) -> None:
    """Print a warning about runs."""
    line(text, "warning:", "yellow", stderr=stderr)


def table(found: Table) -> None:
    """Print a table that fits the terminal, or $COLUMNS; whole into a file or a pipe."""
    line(found.to_text(shutil.get_terminal_size(fallback=(WHOLE, 24)).columns))
