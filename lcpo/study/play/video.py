"""A GIF of a frozen policy at work, with its context drawn in: `lcpo watch`.

Pillow writes it, so that no other program is needed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lcpo import values
from lcpo.errors import InputError, MissingPackage
from lcpo.policy import find_runs
from lcpo.run.drive import frozen
from lcpo.run.plan.job import check_trust
from lcpo.run.store import outputs
from lcpo.study.play.clip import Shot, play
from lcpo.study.report.output import write_bytes

COMMAND = "lcpo watch"
MOST_STEPS = 2000
WIDTH, TOP, STRIP, MARGIN = 600, 300, 120, 10
COLOURS = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (148, 103, 189))
GREY, PALE = (110, 110, 110), (225, 225, 225)


def watch(
    source: str | Path,
    out: str | Path,
    run: str | None = None,
    *,
    trace: str | os.PathLike[str] | None = None,
    scale: float | None = None,
    seed: int = 0,
    start: int = 0,
    steps: int = 200,
    fps: int = 20,
    trust: bool = False,
) -> Path:
    """Write a GIF of the frozen policy of a run.

    Args:
      source, run, trust: as in `lcpo.study.play.evaluate.evaluate`; of several runs, the first.
      out: the file.
      trace, scale: default: what the run had.
      seed: of the worlds and of the actions.
      start: the row of the trace to begin at, to see it where it changes.
      steps: how many; fps: how many of them a second has.
    """
    path = values.path("out", out)
    if path.suffix.lower() != ".gif":
        raise InputError(f"{path}: cannot write {path.suffix!r}: use .gif")
    outputs.check_file(path, COMMAND, outputs.is_marked(COMMAND))
    steps, fps = values.whole("steps", steps, 1, MOST_STEPS), values.whole("fps", fps, 1, 50)
    start, seed = values.whole("start", start, 0), values.whole("seed", seed, 0)
    result = find_runs(values.path("source", source), run)[0]
    check_trust([result.job], values.flag("trust", trust), str(source))
    setup, agent = frozen.load_agent(result)
    there = frozen.elsewhere(setup, trace, scale, start + steps)
    if there.env.advance == "own" and start:
        raise InputError(f"start = {start}: {result.job.env!r} makes its own context: leave it out")
    if there.env.advance != "own" and start >= len(there.trace()):
        raise InputError(f"start = {start:,}: the trace has {len(there.trace()):,} rows")
    shots = list(play(there, agent, seed, start, steps))
    write_bytes(path, to_gif(result.job.agent, shots, fps))
    return path


def to_gif(title: str, shots: Sequence[Shot], fps: int) -> bytes:
    """All shots as the content of a GIF file."""
    frames = [
        frame.convert("P", palette=_pillow().Image.Palette.ADAPTIVE, colors=64)
        for frame in make_frames(title, shots)
    ]
    file = io.BytesIO()
    frames[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=1000 // fps,
        loop=0,
        comment=outputs.mark(COMMAND),
    )
    return file.getvalue()


def make_frames(title: str, shots: Sequence[Shot]) -> Iterator[Any]:
    """A `PIL.Image.Image` per shot: picture, numbers, and below both what has been so far."""
    contexts = np.stack([shot.context for shot in shots])
    rewards = np.array([[shot.reward] for shot in shots])
    strips = [("context", contexts), ("reward", rewards)]
    strips = [(name, lines) for name, lines in strips if lines.size]
    pillow = _pillow()
    font = pillow.ImageFont.load_default(15)
    for i, shot in enumerate(shots):
        frame = pillow.Image.new("RGB", (WIDTH, TOP + STRIP * len(strips)), (255, 255, 255))
        brush = pillow.ImageDraw.Draw(frame)
        left = MARGIN
        if shot.picture is not None:
            picture = pillow.Image.fromarray(shot.picture)
            picture.thumbnail((TOP + MARGIN, TOP))
            frame.paste(picture, (0, (TOP - picture.height) // 2))
            left = picture.width + 2 * MARGIN
        for line, text in enumerate(_texts(title, shot)):
            brush.text((left, 20 + 24 * line), text, fill=(0, 0, 0), font=font)
        for place, (name, lines) in enumerate(strips):
            _draw_strip(brush, font, TOP + STRIP * place, name, lines, i)
        yield frame


def _texts(title: str, shot: Shot) -> list[str]:
    context = "  ".join(f"{value:+.2f}" for value in shot.context[:6])
    return [
        f"{title}, frozen",
        f"step {shot.step:,}",
        *([f"context  {context}"] if context else []),
        f"action  {shot.action}",
        f"reward  {shot.reward:+.2f}",
        f"return so far  {shot.total:+.1f}",
        *(["the episode ends"] if shot.ended else []),
    ]


def _draw_strip(brush: Any, font: Any, top: int, name: str, lines: np.ndarray, now: int) -> None:
    """Lines [steps, L] in pale colours, in full ones up to `now`."""
    low, high = float(lines.min()), float(lines.max())
    size = max(high - low, 1e-9)
    left, right, bottom = 70, WIDTH - MARGIN, top + STRIP - MARGIN
    height = STRIP - 4 * MARGIN

    def place(t: int, value: float) -> tuple[float, float]:
        x = left + (right - left) * t / max(len(lines) - 1, 1)
        return x, bottom - height * (value - low) / size

    brush.line([(left, top + 3 * MARGIN), (left, bottom), (right, bottom)], fill=PALE)
    brush.text((MARGIN, top), name, fill=GREY, font=font)
    for value in (low, high):
        brush.text((MARGIN, place(0, value)[1] - 8), f"{value:.3g}", fill=GREY, font=font)
    for c in range(lines.shape[1]):
        colour = COLOURS[c % len(COLOURS)]
        points = [place(t, float(value)) for t, value in enumerate(lines[:, c])]
        if len(points) > 1:
            brush.line(points, fill=PALE, width=1)
        if now:
            brush.line(points[: now + 1], fill=colour, width=2)
        x, y = points[now]
        brush.ellipse([x - 3, y - 3, x + 3, y + 3], fill=colour)


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingPackage("videos need Pillow: pip install pillow") from error
    return PIL
