"""Figures without matplotlib's global state, and without matplotlib until one is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from lcpo.errors import InputError, MissingPackage
from lcpo.study.output import check_file, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackage("figures need matplotlib: pip install matplotlib") from error
    return Figure(figsize=(width, height), layout="constrained")


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as the content of a PNG file."""
    return _render(figure, "png", dpi)


def check_path(path: str | Path) -> str:
    """The format that the suffix of a path chooses; InputError where no picture can be written."""
    path = Path(path)
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    kind = path.suffix.removeprefix(".").lower()
    if kind not in known:
        raise InputError(f"{path}: cannot draw {path.suffix!r}: use .png, .pdf or .svg")
    check_file(path, "picture")
    return kind


def save(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Write the figure; the suffix of the path chooses the format."""
    write_bytes(Path(path), _render(figure, check_path(path), dpi))


def _render(figure: Figure, kind: str, dpi: int) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, dpi=dpi)
    return file.getvalue()
