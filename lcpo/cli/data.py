"""The commands that read, draw and write data: traces, reports, records, trained policies."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from lcpo import contexts
from lcpo.cli import flags, show
from lcpo.cli.flags import Option
from lcpo.values import file_name

COLUMNS = Option("columns", str | None, "Columns of a file, names or numbers from 1.", None)
ROWS = Option("rows", int | None, "Rows, for traces that can have any length.", None)
POLICIES = [
    Option("folder", Path, "Folder of a run, or an output folder (--out).", is_positional=True),
    Option("run", str | None, "Name of one run in a folder of several.", None),
    Option("trace", str | None, "Context: a name or a file; default: the run's.", None),
    Option("scale", float | None, "Factor on the trace; default: the run's.", None),
    Option(
        "trust",
        bool,
        "Also import agents and environments outside lcpo, which runs their code.",
        False,
    ),
]
"""Which policies are meant, and where they act."""


def trace(arguments: list[str]) -> None:
    """Draw traces and print their statistics."""
    from lcpo.study.report.cells import Column
    from lcpo.study.report.figures import check_path
    from lcpo.study.report.tables import Table
    from lcpo.study.report.trace_figure import load, plot_traces, trace_summary

    paper = ("1", "2", "3", "4")
    options = flags.parse(
        "trace",
        arguments,
        [
            Option("names", tuple[str, ...], "Names or files.", paper, is_positional=True),
            COLUMNS,
            Option("out", Path, "Picture to write.", Path("trace.png")),
            ROWS,
        ],
    )
    check_path(options.out, "lcpo trace")
    names = [contexts.compose(name, options.columns) for name in options.names]
    rows, numbers = [], ("mean", "std", "min", "max")
    held = []  # rows that somebody holds are loaded once
    for name in names:
        held.append(load(name, options.rows))
        found = trace_summary(name, options.rows)
        for note in name.notes():
            show.note(note)
        for c, channel in enumerate(found["names"]):
            first = [str(name), found["rows"]] if c == 0 else ["", ""]
            rows.append([*first, channel, *(float(found[k][c]) for k in numbers)])
    columns = ["trace", Column("rows", ","), "channel", *(Column(n, decimals=3) for n in numbers)]
    show.table(Table(columns, rows))
    plot_traces(names, options.out, options.rows)
    print(f"wrote {options.out}")


def calibrate(arguments: list[str]) -> None:
    """Distances between contexts, activity of the constraint by sigma, a suggested sigma."""
    from lcpo.study.advice import calibrate as study
    from lcpo.study.report.figures import check_path

    options = flags.parse(
        "calibrate",
        arguments,
        [
            Option("trace", str, "Name or file."),
            COLUMNS,
            Option("repeat", bool, "Repeat a trace that has fewer rows than --rows.", False),
            Option("hold", bool, "Hold the last row of a trace with fewer than --rows.", False),
            Option("out", Path, "Picture to write.", Path("calibrate.png")),
            Option("scale", float, "The trace is multiplied by this.", 1.0),
            Option("rollout_length", int, "Interactions per update.", 200),
            Option("lags", int, "Values of each channel in an observation.", 3),
            ROWS,
        ],
    )
    check_path(options.out, "lcpo calibrate")
    name = contexts.compose(
        options.trace, options.columns, repeat=options.repeat, hold=options.hold
    )
    lookback = study.Lookback(options.rollout_length, options.lags)
    found = study.calibrate(name, lookback=lookback, scale=options.scale, rows=options.rows)
    for note in name.notes():
        show.note(note)
    print(study.summary(found), flush=True)  # drawing takes longer than all of it
    study.plot(found, options.out)
    print(f"wrote {options.out}")


def report(arguments: list[str]) -> None:
    """Write the page of a folder: one HTML file that needs nothing else."""
    from lcpo.study.report import html, html_folder
    from lcpo.study.report.output import check_report
    from lcpo.study.report.report import write_tables

    which = "Folder of a study, of a comparison, of runs, or in results/."
    page = "Page to write; default: report.html in the folder."
    options = flags.parse(
        "report",
        arguments,
        [
            Option("folder", Path, which, is_positional=True),
            Option("out", Path | None, page, None),
        ],
    )
    page = options.out or options.folder / html.PAGE
    html_folder.check(options.folder)
    html.check_page(options.folder, page, "lcpo report")
    if html_folder.needs_tables(options.folder):
        check_report(options.folder, "lcpo report")
        for path in write_tables(options.folder, shlex.join(["lcpo", "report", *arguments])):
            print(f"wrote {path}")
    print(f"wrote {html.write_page(options.folder, page)}")


def import_runs(arguments: list[str]) -> None:
    """Import results of other code, to show them in the same tables."""
    from lcpo.study.report.imports import import_file

    options = flags.parse(
        "import",
        arguments,
        [
            Option("file", Path, "CSV file of results.", is_positional=True),
            Option("out", Path, "Folder for the runs."),
        ],
    )
    names = import_file(options.file, options.out)
    print(f"{len(names)} runs imported into {options.out}")
    print(f"next: lcpo report {options.out} (a page), or lcpo compare --imported {options.out}")


def export(arguments: list[str]) -> None:
    """Write one table of all records."""
    from lcpo.study.report.export import export as write

    options = flags.parse(
        "export",
        arguments,
        [
            Option("folder", Path, "Output folder of runs.", is_positional=True),
            Option("file", Path, "Table to write.", is_positional=True),
            Option("overwrite", bool, "Replace the table if it exists.", False),
        ],
    )
    write(options.folder, options.file, overwrite=options.overwrite)
    print(f"wrote {options.file}")


def evaluate(arguments: list[str]) -> None:
    """Evaluate frozen policies: all of a folder, or of one run."""
    from lcpo.policy import find_runs
    from lcpo.run.plan.plan import check_seeds
    from lcpo.study.play import evaluate as study

    seeds = "Number of evaluation seeds, or a list such as 3,7."
    options = flags.parse(
        "evaluate",
        arguments,
        [
            *POLICIES,
            Option("seeds", str, seeds, "4"),
            Option("steps", int | None, "Steps with each seed; default: the run's.", None),
            Option("out", Path | None, "Folder for the table; default: in the folder given.", None),
        ],
    )
    chosen = check_seeds(flags.read_seeds(options.seeds))
    on = file_name(options.trace or "same-trace")
    out = options.out or options.folder / f"evaluation-{on}"
    runs = find_runs(options.folder, options.run)
    study.check_out(out)
    total = sum(options.steps or run.job.steps for run in runs) * len(chosen)
    screen = Console(stderr=True)  # a log gets no bar
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(f"{len(runs)} policies x {len(chosen)} seeds", total=total)
        found = study.evaluate(
            options.folder, options.run, seeds=chosen, trace=options.trace, scale=options.scale,
            steps=options.steps, trust=options.trust, report=lambda steps: bar.advance(task, steps),
        )  # fmt: skip
    show.line(str(found))
    for path in found.write(out, shlex.join(["lcpo", "evaluate", *arguments])):
        show.line(f"wrote {path}")


def watch(arguments: list[str]) -> None:
    """Render a frozen policy; of a folder of several runs, the first, or --run."""
    from lcpo.study.play import video

    own = [
        Option("out", Path, "GIF to write.", Path("watch.gif")),
        Option("seed", int, "Seed of worlds and actions.", 0),
        Option("start", int, "First row of the trace.", 0),
        Option("steps", int, "Steps to show.", 200),
        Option("fps", int, "Steps per second.", 20),
    ]
    given: dict[str, Any] = vars(flags.parse("watch", arguments, [*POLICIES, *own]))
    path = video.watch(given.pop("folder"), given.pop("out"), given.pop("run"), **given)
    show.line(f"wrote {path}")
