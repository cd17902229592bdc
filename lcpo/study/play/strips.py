"""Lines over time, drawn with Pillow: the lower part of a GIF of `lcpo watch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

WIDTH, HEIGHT, MARGIN = 600, 84, 10
COLOURS = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (148, 103, 189), (214, 39, 40),
           (140, 86, 75), (23, 140, 150), (90, 90, 90))  # fmt: skip
"""Of lines; further ones are counted, not drawn."""
GREY, PALE = (110, 110, 110), (225, 225, 225)


class Strip(NamedTuple):
    """Lines over the same steps, with one axis."""

    name: str
    names: Sequence[str]
    """Of the lines; empty: there is one, which the strip's name is for."""
    lines: np.ndarray  # [steps, lines]


def draw_strip(brush: Any, font: Any, top: int, strip: Strip, now: int) -> None:
    """Lines in pale colours, in full ones up to step `now`; above them names and values there."""
    _draw_legend(brush, font, top, strip, now)
    lines = strip.lines[:, : len(COLOURS)]
    low, high = float(lines.min()), float(lines.max())
    left, right, bottom = 70, WIDTH - MARGIN, top + HEIGHT - MARGIN
    height, size = HEIGHT - 4 * MARGIN, max(high - low, 1e-9)

    def place(t: int, value: float) -> tuple[float, float]:
        x = left + (right - left) * t / max(len(lines) - 1, 1)
        return x, bottom - height * (value - low) / size

    brush.line([(left, top + 3 * MARGIN), (left, bottom), (right, bottom)], fill=PALE)
    for value in (low, high) if high > low else (low,):
        brush.text((MARGIN, place(0, value)[1] - 8), f"{value:.3g}", fill=GREY, font=font)
    for c, colour in enumerate(COLOURS[: lines.shape[1]]):
        points = [place(t, float(value)) for t, value in enumerate(lines[:, c])]
        if len(points) > 1:
            brush.line(points, fill=PALE, width=1)
        if now:
            brush.line(points[: now + 1], fill=colour, width=2)
        x, y = points[now]
        brush.ellipse([x - 3, y - 3, x + 3, y + 3], fill=colour)


def _draw_legend(brush: Any, font: Any, top: int, strip: Strip, now: int) -> None:
    """As many lines as there is room for."""
    x = MARGIN
    if strip.names:
        brush.text((x, top + 4), strip.name, fill=GREY, font=font)
        x += font.getlength(strip.name) + 2 * MARGIN
    values = strip.lines[now]
    for i, name in enumerate(strip.names or [strip.name]):
        text = f"{name} {values[i]:.3g}"
        if i >= len(COLOURS) or x + font.getlength(text) > WIDTH - 80:
            brush.text((x, top + 4), f"and {len(values) - i} more", fill=GREY, font=font)
            return
        brush.text((x, top + 4), text, fill=COLOURS[i], font=font)
        x += font.getlength(text) + 2 * MARGIN
