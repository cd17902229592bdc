"""Figures without matplotlib's global state, and without matplotlib until one is drawn."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lcpo.errors import InputError, MissingPackage
from lcpo.run.store import outputs
from lcpo.study.report.output import write_bytes
from lcpo.study.study import Picture

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

MOST_POINTS = 2000
"""Of a line that an SVG draws point by point; one with more is pixels in it."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackage("figures need matplotlib: pip install matplotlib") from error
    return Figure(figsize=(width, height), layout="constrained")


def to_picture(figure: Figure, dpi: int = 150) -> Picture:
    """The figure as the content of a PNG and of an SVG file; the same figure, the same bytes."""
    png = _render(figure, "png", dpi)
    for artist in figure.findobj(_is_dense):
        artist.set_rasterized(True)
    return Picture(png, _render(figure, "svg", dpi))


def _is_dense(artist: Artist) -> bool:
    """Whether a line, or the areas of a band, have so many points that pixels are shorter."""
    found = [artist.get_path()] if hasattr(artist, "get_path") else []  # pyright: ignore
    found = artist.get_paths() if hasattr(artist, "get_paths") else found  # pyright: ignore
    return sum(len(path.vertices) for path in found) > MOST_POINTS


MARKS = {"png": "Software", "pdf": "Creator", "svg": "Creator"}
"""Formats of pictures, and where each says which program made it."""


def check_path(path: str | Path, by: str) -> str:
    """The format that the suffix of a path chooses.

    InputError where no picture can be written, or something is there that `by` did not write, as
    `lcpo trace` or `Comparison.plot`.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in MARKS:
        raise InputError(f"{path}: cannot draw {path.suffix!r}: use .png, .pdf or .svg")
    new_figure(1, 1)  # is there a package to draw with?
    outputs.check_file(path, by, outputs.is_marked(by))
    return kind


def save(figure: Figure, path: str | Path, by: str, dpi: int = 150) -> None:
    """Write the figure; the suffix of the path chooses the format; `by`: as in `check_path`."""
    kind = check_path(path, by)
    write_bytes(Path(path), _render(figure, kind, dpi, {MARKS[kind]: outputs.mark(by)}))


def _render(figure: Figure, kind: str, dpi: int, more: Mapping[str, str] | None = None) -> bytes:
    """An SVG has neither a date nor random ids: what has not changed is the same file."""
    import matplotlib

    file = io.BytesIO()
    metadata = {**({"Date": None} if kind == "svg" else {}), **(more or {})}
    with matplotlib.rc_context({"svg.hashsalt": "lcpo"}):
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)
    return file.getvalue()
