"""The commands that look at trained policies: evaluate, watch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import Progress

from lcpo.cli import flags, show
from lcpo.values import file_name

_WHERE: list[flags.Option] = [
    ("folder", Annotated[Path, tyro.conf.Positional], "Of a run, or of several (--out).",
     tyro.MISSING),
    ("run", str | None, "The run that is meant, of a folder of several.", None),
    ("trace", str | None, "Context: a name or a file; default: the run's.", None),
    ("scale", float | None, "The trace is multiplied by this; default: as for the run.", None),
    ("trust", bool, "Import agents and environments that are not of this library.", False),
]  # fmt: skip


def evaluate(arguments: list[str]) -> None:
    """Let trained policies act without learning, on other seeds or traces; a table."""
    from lcpo.run.plan.plan import check_seeds
    from lcpo.study.play import evaluate as study

    options = flags.parse(
        "evaluate",
        "Judge frozen policies: all of a folder, or one run's.",
        arguments,
        [
            *_WHERE,
            ("seeds", str, "How many seeds of the evaluation, or which ones, as in 3,7.", "4"),
            ("steps", int | None, "Steps with each seed; default: the run's.", None),
            ("out", Path | None, "Folder for the table; default: in the folder given.", None),
        ],
    )
    seeds = check_seeds(flags.read_seeds(options.seeds))
    on = file_name(options.trace or "same-trace")
    out = options.out or options.folder / f"evaluation-{on}"
    runs = study.find_runs(options.folder, options.run)
    study.check_out(out)
    total = sum(options.steps or run.job.steps for run in runs) * len(seeds)
    screen = Console(stderr=True)  # a log gets no bar
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(f"{len(runs)} policies x {len(seeds)} seeds", total=total)

        def report(steps: int) -> None:
            bar.advance(task, steps)

        found = study.evaluate(
            options.folder, options.run, seeds=seeds, trace=options.trace, scale=options.scale,
            steps=options.steps, trust=options.trust, report=report,
        )  # fmt: skip
    show.line(str(found))
    for path in found.write(out, shlex.join(["lcpo", "evaluate", *arguments])):
        show.line(f"wrote {path}")


def watch(arguments: list[str]) -> None:
    """Draw a trained policy at work, with its context: a GIF."""
    from lcpo.study.play import video

    extra: list[Any] = [
        ("out", Path, "GIF to write.", Path("watch.gif")),
        ("seed", int, "Of the worlds and of the actions.", 0),
        ("start", int, "Row of the trace to begin at.", 0),
        ("steps", int, "How many are shown.", 200),
        ("fps", int, "Steps shown in a second.", 20),
    ]
    help = "Draw a frozen policy at work; of a folder of several runs, the first, or --run."
    options = flags.parse("watch", help, arguments, [*_WHERE, *extra])
    path = video.watch(
        options.folder, options.out, options.run, trace=options.trace, scale=options.scale,
        seed=options.seed, start=options.start, steps=options.steps, fps=options.fps,
        trust=options.trust,
    )  # fmt: skip
    show.line(f"wrote {path}")
