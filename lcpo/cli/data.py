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
from lcpo.contexts import copies
from lcpo.errors import InputError
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
    how = "How a copy of a file fills empty cells; default: they are an error."
    every = "Interval of the rows in a copy, as in 15min; each row is the mean over its interval."
    factors = "Factors on the channels of a copy, as in 0.001,1,5; or one for all."
    copy = "CSV file for a copy with --columns, --every, --fill and --scale; the table shows it."
    options = flags.parse(
        "trace",
        arguments,
        [
            Option("names", tuple[str, ...], "Names or files.", paper, is_positional=True),
            COLUMNS,
            Option("every", str | None, every, None),
            Option("fill", copies.Fill | None, how, None),
            Option("scale", str | None, factors, None),
            Option("write", Path | None, copy, None),
            Option("out", Path, "Picture to write.", Path("trace.png")),
            ROWS,
        ],
    )
    check_path(options.out, "lcpo trace")
    names = [contexts.compose(name, options.columns) for name in options.names]
    if options.write is not None or options.every or options.fill or options.scale:
        names = [_copy(names, options)]
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


def _copy(names: list[contexts.TraceRef], options: Any) -> contexts.TraceRef:
    """Write a copy of a trace file, and say what has changed; returns the copy."""
    from lcpo.run.store.outputs import check_file
    from lcpo.study.report.output import write_bytes

    if options.write is None:
        raise InputError(
            "--every, --fill and --scale change a copy: name it, as in --write new.csv"
        )
    if len(names) != 1 or options.write.suffix != ".csv":
        raise InputError(f"--write {options.write}: needs one file, and a name that ends in .csv")
    if options.write.exists():
        raise InputError(f"--write {options.write}: the file exists: give the name of a new file")
    check_file(options.write, "lcpo trace", lambda path: False)
    scale = () if options.scale is None else copies.read_scale(options.scale)
    made = copies.make(names[0], options.fill, options.every, scale)
    write_bytes(options.write, made.content)
    for note in made.notes:
        show.note(f"{names[0]}: {note}")
    print(f"wrote {options.write}")
    return contexts.TraceRef.parse(options.write)


def calibrate(arguments: list[str]) -> None:
    """Distances between contexts, activity of the constraint by sigma, a suggested sigma."""
    from lcpo import config as configs
    from lcpo.cli.runs import trace_of
    from lcpo.run.plan.job import Setup, find_env
    from lcpo.study.advice import calibrate as study
    from lcpo.study.advice import seen
    from lcpo.study.report.figures import check_path

    env = flags.peek(arguments, "env", "")
    default_env = configs.make(find_env(env), {}) if env else None
    of_env = "Environment of the runs: its context or trace, scale, lags and rollout length."
    lags = "Values of each channel in an observation; default: the environment's, or 3."
    options = flags.parse(
        "calibrate",
        arguments,
        [
            Option("trace", str | None, "Name or file; default: the environment's.", None),
            Option("env", str | None, of_env, None),
            COLUMNS,
            Option("repeat", bool, "Repeat a trace that has fewer rows than --rows.", False),
            Option("hold", bool, "Hold the last row of a trace with fewer than --rows.", False),
            Option("out", Path, "Picture to write.", Path("calibrate.png")),
            Option("scale", str | None, "Factor on the trace, or one for each channel.", None),
            Option("normalise", str | None, "As in `lcpo train`, for an environment.", None),
            Option("rollout_length", int | None, "Interactions per update; default: 200.", None),
            Option("lags", int | None, lags, None),
            ROWS,
            *(flags.config_fields(default_env, "env.") if env else []),
        ],
    )
    check_path(options.out, "lcpo calibrate")
    source: Any = trace_of(options, options.trace)
    scale = None if options.scale is None else copies.read_scale(options.scale)
    given = {"rollout_length": options.rollout_length, "lags": options.lags}
    given = {name: value for name, value in given.items() if value is not None}
    if env:
        changes = flags.config_changes(options, default_env, "env.")
        job = seen.plan_for(
            env, source, options.rows, None if scale is None else 1.0, changes, options.normalise,
            given,
        )  # fmt: skip
        source, lookback, rows = seen.rows_of(job), seen.lookback_of(job), None
    elif source is None:
        raise InputError("no contexts to calibrate with: give --trace, or --env")
    elif options.normalise is not None:
        raise InputError("--normalise is for the context of an environment: give --env, too")
    else:
        job, lookback, rows = None, study.Lookback(**given), options.rows
    factors = (1.0,) if scale is None else scale
    found = study.calibrate(source, None, lookback, factors, rows)
    shorter = None
    if found.suggested is None:
        shorter = study.shorter_rollout(source, lookback, factors, rows)
    if job is not None:
        found = seen.describe(found, job)
    for note in Setup(job).notes if job else source.notes():
        show.note(note)
    print(study.summary(found, shorter), flush=True)  # drawing takes longer than all of it
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
