"""The commands that read and draw data: traces, distances of contexts, records."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lcpo.cli import options as flags


def trace(arguments: list[str]) -> None:
    """Draw context traces, and tell what they hold."""
    from lcpo.study.figures import check_path
    from lcpo.study.trace_figure import plot_traces, trace_summary

    options = flags.parse(
        "trace",
        "Draw traces (default: the four of the paper).",
        arguments,
        [
            ("names", Annotated[tuple[str, ...], tyro.conf.Positional],
             "Names or files.", ("1", "2", "3", "4")),
            ("out", Path, "Picture to write.", Path("trace.png")),
            ("rows", int | None, "Rows, for traces that can have any length.", None),
        ],
    )  # fmt: skip
    check_path(options.out)
    table = Table("trace", "rows", "channel", "mean", "std", "min", "max", box=None)
    for name in options.names:
        found = trace_summary(name, options.rows)
        for c in range(found["channels"]):
            numbers = [f"{found[k][c]:.3f}" for k in ("mean", "std", "min", "max")]
            table.add_row(Text(name if c == 0 else ""), f"{found['rows']:,}" if c == 0 else "",
                          str(c), *numbers)  # fmt: skip
    plot_traces(options.names, options.out, options.rows)
    Console().print(table)
    print(f"wrote {options.out}")


def calibrate(arguments: list[str]) -> None:
    """How often would LCPO's constraint be active on a trace? Suggests sigma."""
    from lcpo.study import calibrate as study
    from lcpo.study.figures import check_path

    options = flags.parse(
        "calibrate",
        "Distances between contexts, activity of the constraint by sigma, a suggested sigma.",
        arguments,
        [
            ("trace", str, "Name or file.", tyro.MISSING),
            ("out", Path, "Picture to write.", Path("calibrate.png")),
            ("scale", float, "The trace is multiplied by this.", 1.0),
            ("rollout_length", int, "Interactions per update.", 200),
            ("lags", int, "Values of each channel in an observation.", 3),
            ("rows", int | None, "Rows, for traces that can have any length.", None),
        ],
    )
    check_path(options.out)
    found = study.calibrate(
        options.trace,
        lookback=study.Lookback(options.rollout_length, options.lags),
        scale=options.scale,
        rows=options.rows,
    )
    study.plot(found, options.out)
    print(study.summary(found))
    print(f"wrote {options.out}")


def report(arguments: list[str]) -> None:
    """Write the page of a folder: tables, figures, runs and commands in one HTML file."""
    from lcpo.study import html, html_folder
    from lcpo.study.output import check_file
    from lcpo.study.report import write_tables

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
    check_file(page, "page")
    if html_folder.needs_tables(options.folder):
        for path in write_tables(options.folder, shlex.join(["lcpo", "report", *arguments])):
            print(f"wrote {path}")
    print(f"wrote {html.write_page(options.folder, page)}")


def import_runs(arguments: list[str]) -> None:
    """Take results of other code, so that they stand in the same tables."""
    from lcpo.study.imports import import_file

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
    from lcpo.study.export import export as write

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
