"""The commands that read and draw data: traces, distances of contexts, records."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro

from lcpo import contexts
from lcpo.cli import flags, show
from lcpo.study.report.cells import Column
from lcpo.study.report.tables import Table


def trace(arguments: list[str]) -> None:
    """Draw context traces, and tell what they hold."""
    from lcpo.study.report.figures import check_path
    from lcpo.study.report.trace_figure import plot_traces, trace_summary

    options = flags.parse(
        "trace",
        "Draw traces (default: the four of the paper).",
        arguments,
        [
            ("names", Annotated[tuple[str, ...], tyro.conf.Positional],
             "Names or files.", ("1", "2", "3", "4")),
            ("columns", str | None, "Columns of a file, names or numbers from 1.", None),
            ("out", Path, "Picture to write.", Path("trace.png")),
            ("rows", int | None, "Rows, for traces that can have any length.", None),
        ],
    )  # fmt: skip
    check_path(options.out, "lcpo trace")
    names = [contexts.compose(name, options.columns) for name in options.names]
    rows, numbers = [], ("mean", "std", "min", "max")
    for name in names:
        found = trace_summary(name, options.rows)
        _tell_notes(name)
        for c, channel in enumerate(found["names"]):
            first = [str(name), found["rows"]] if c == 0 else ["", ""]
            rows.append([*first, channel, *(float(found[k][c]) for k in numbers)])
    columns = ["trace", Column("rows", ","), "channel", *(Column(n, decimals=3) for n in numbers)]
    show.table(Table(columns, rows))
    plot_traces(names, options.out, options.rows)
    print(f"wrote {options.out}")


def _tell_notes(trace: contexts.TraceRef) -> None:
    for note in trace.notes():
        show.note(note)


def calibrate(arguments: list[str]) -> None:
    """How often would LCPO's constraint be active on a trace? Suggests sigma."""
    from lcpo.study.advice import calibrate as study
    from lcpo.study.report.figures import check_path

    options = flags.parse(
        "calibrate",
        "Distances between contexts, activity of the constraint by sigma, a suggested sigma.",
        arguments,
        [
            ("trace", str, "Name or file.", tyro.MISSING),
            ("columns", str | None, "Columns of a file, names or numbers from 1.", None),
            ("repeat", bool, "A trace that has fewer rows than --rows begins again.", False),
            ("hold", bool, "A trace that has fewer rows than --rows stays at its last.", False),
            ("out", Path, "Picture to write.", Path("calibrate.png")),
            ("scale", float, "The trace is multiplied by this.", 1.0),
            ("rollout_length", int, "Interactions per update.", 200),
            ("lags", int, "Values of each channel in an observation.", 3),
            ("rows", int | None, "Rows, for traces that can have any length.", None),
        ],
    )
    check_path(options.out, "lcpo calibrate")
    name = contexts.compose(
        options.trace, options.columns, repeat=options.repeat, hold=options.hold
    )
    found = study.calibrate(
        name,
        lookback=study.Lookback(options.rollout_length, options.lags),
        scale=options.scale,
        rows=options.rows,
    )
    _tell_notes(name)
    print(study.summary(found), flush=True)  # drawing takes longer than all of it
    study.plot(found, options.out)
    print(f"wrote {options.out}")


def report(arguments: list[str]) -> None:
    """Write the page of a folder: tables, figures, runs and commands in one HTML file."""
    from lcpo.study.report import html, html_folder
    from lcpo.study.report.output import check_report
    from lcpo.study.report.report import write_tables

    options = flags.parse(
        "report",
        "One HTML page that needs nothing else.",
        arguments,
        [
            ("folder", Annotated[Path, tyro.conf.Positional],
             "Folder of a study, of a comparison, of runs, or in results/.", tyro.MISSING),
            ("out", Path | None, "Page to write; default: report.html in the folder.", None),
        ],
    )  # fmt: skip
    page = options.out or options.folder / html.PAGE
    html_folder.check(options.folder)
    html.check_page(options.folder, page, "lcpo report")
    if html_folder.needs_tables(options.folder):
        check_report(options.folder, "lcpo report")
        for path in write_tables(options.folder, shlex.join(["lcpo", "report", *arguments])):
            print(f"wrote {path}")
    print(f"wrote {html.write_page(options.folder, page)}")


def import_runs(arguments: list[str]) -> None:
    """Take results of other code, so that they stand in the same tables."""
    from lcpo.study.report.imports import import_file

    options = flags.parse(
        "import",
        "Results of other code as runs of a folder: docs/import.md has the format.",
        arguments,
        [
            ("file", Annotated[Path, tyro.conf.Positional], "CSV file of results.", tyro.MISSING),
            ("out", Path, "Folder for the runs.", tyro.MISSING),
        ],
    )
    names = import_file(options.file, options.out)
    print(f"{len(names)} runs imported into {options.out}")
    print(f"a page: lcpo report {options.out}; beside ours: lcpo compare --imported {options.out}")


def export(arguments: list[str]) -> None:
    """Gather the records of all runs in a folder into one Parquet or CSV table."""
    from lcpo.study.report.export import export as write

    options = flags.parse(
        "export",
        "One table of all records.",
        arguments,
        [
            ("folder", Annotated[Path, tyro.conf.Positional], "Output folder of runs.",
             tyro.MISSING),
            ("file", Annotated[Path, tyro.conf.Positional], "Table to write.", tyro.MISSING),
            ("overwrite", bool, "Replace the table if it exists.", False),
        ],
    )  # fmt: skip
    write(options.folder, options.file, overwrite=options.overwrite)
    print(f"wrote {options.file}")
