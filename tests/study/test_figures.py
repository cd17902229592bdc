"""Figures as files: an SVG that is the same for the same figure, and not too large."""

from __future__ import annotations

import numpy as np

from lcpo.study.report import figures
from lcpo.study.study import Picture


def picture(points: int) -> Picture:
    figure = figures.new_figure(4, 3)
    axis = figure.subplots()
    y = np.random.default_rng(0).normal(size=points)
    axis.plot(y, label="line")
    axis.fill_between(np.arange(points), y, y + 1.0, alpha=0.2)
    axis.legend()
    return figures.to_picture(figure, dpi=60)


def test_the_same_figure_makes_the_same_files() -> None:
    first, again = picture(10), picture(10)
    assert first == again
    assert first.png.startswith(b"\x89PNG")
    assert b"<svg" in first.svg[:1000]
    assert b"dc:date" not in first.svg


def test_dense_lines_are_pixels_in_an_svg() -> None:
    assert b"<image" not in picture(10).svg
    dense = picture(20_000).svg
    assert b"<image" in dense
    assert len(dense) < 200_000, "40,000 points would be a megabyte"
