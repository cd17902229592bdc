"""The command that runs a study: its jobs, then its report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpo.cli import flags, show
from lcpo.cli.experiments import list_experiments
from lcpo.errors import InputError
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import Job
from lcpo.study.study import Options, Study


def reproduce(arguments: list[str]) -> int:
    """Run an experiment of the paper: its tables and figures, beside the paper's numbers."""
    from lcpo.run.engines.engine import make_engine
    from lcpo.study.paper import STUDIES, find_study

    if arguments[:1] in (["-h"], ["--help"]):
        _usage()
        return 0
    if arguments[:1] == ["--list"]:
        return list_experiments(arguments[1:])
    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"name an experiment first: {', '.join(STUDIES)}")
    name, *rest = arguments
    study = find_study(name)
    options = _parse(study, name, rest)
    how = _how(name, options)
    make_engine(how)  # one that there is not is told before any work
    command = shlex.join(["lcpo", "reproduce", *arguments])
    _check_out(name, options)
    jobs = study.complete(options, study.plan(options))
    if options.plan is not None:
        return _write_plan(name, options, jobs, options.plan)
    if options.collect is not None:
        return _collect(name, options, jobs, options.collect, command)
    return _run(name, options, jobs, how, command)


def _usage() -> None:
    """What there is to reproduce, and the options that most of it has."""
    from lcpo.study.paper import STUDIES, find_study

    print("usage: lcpo reproduce NAME [options]      (lcpo reproduce NAME --help: all its options)")
    print("       lcpo reproduce --list              (what each costs on this machine)\n")
    for name in STUDIES:
        print(f"  {name:<16} {find_study(name).help}")
    print("\noptions of most:")
    for name, _, help, _ in flags.class_fields(Options):
        print(f"  {flags.as_flag(name):<16} {help}")


def _parse(study: Study[Any], name: str, words: list[str]) -> Options:
    """The options of a study, from the command line; it has none that make no sense in it."""
    cls = study.Options
    fields = [option for option in flags.class_fields(cls) if option[0] not in cls.without]
    found = flags.parse(f"reproduce {name}", study.help, words, fields)
    options = cls(**{option[0]: getattr(found, option[0]) for option in fields})
    given = [flag for flag in ("plan", "collect") if getattr(options, flag) is not None]
    if len(given) == 2:
        raise InputError("--plan and --collect: give one of them, neither runs anything")
    if given and options.engine != "local":
        raise InputError(f"--{given[0]} runs nothing: leave --engine out")
    return options


def _how(name: str, options: Options) -> RunOptions:
    """How the runs of a study are run; InputError where they cannot be so."""
    same = {k: getattr(options, k) for k in ("resume", "workers", "engine", "address")}
    return RunOptions(out=options.folder(name), **same).checked()


def _check_out(name: str, options: Options) -> None:
    """Raise InputError unless the study may write to its folder; called before it is planned."""
    from lcpo.run.engines.engine import check_resumed
    from lcpo.run.store.outputs import check_own_folder, check_runs_folder
    from lcpo.study.folder import check_holds_runs, check_study, is_of_study
    from lcpo.study.report.html import PAGE, check_page
    from lcpo.study.report.output import check_report, is_report

    by, out = f"lcpo reproduce {name}", options.folder(name)
    if options.collect is not None:
        check_holds_runs(options.collect)
    else:
        check_runs_folder(options.plan or out)
        check_resumed(options.plan or out, options.resume)
    check_study(options.plan or options.collect or out, name, options, [])
    if options.plan is not None:
        return
    if options.collect is not None and options.out is None:
        out = options.collect
    elif options.collect is not None:
        check_own_folder(out, by, lambda out: is_report(out, by) or is_of_study(out, name))
    check_report(out, by)
    check_page(out, out / PAGE, by)


def _run(name: str, options: Options, jobs: list[Job], how: RunOptions, command: str) -> int:
    """Run what has not ended yet; write and print the report; the exit code."""
    from lcpo import api
    from lcpo.run.store.results import load_results
    from lcpo.study.folder import check_study, save_study
    from lcpo.study.paper import find_study

    out, left_out = how.folder, find_study(name).left_out(options)
    check_study(out, name, options, jobs)
    if jobs:
        show.line(f"{name}: {_size(jobs)}{_rest(jobs, out)}")
        if left_out:
            show.note(left_out)
        # Before the first run, since a kill must not leave it open whose folder it is.
        problems = api.run(jobs, how, lambda: save_study(out, name, options))
        save_study(out, name, options)  # where nothing was left to run
    else:
        show.line(f"{name}: no runs to make, a report only")
        _take_folder(name, options, jobs, out)
        problems = []
    _report(name, options, load_results(out, jobs), jobs, out, command)
    for problem in problems:
        show.line(problem, colour="red")
    show.line(f"results: {out}")
    return flags.RUN_FAILED if problems else 0


def _size(jobs: Sequence[Job]) -> str:
    from lcpo.run.worker import cores
    from lcpo.study.costs import cost, in_words

    found, count = cost(jobs), len(cores())
    time = in_words(found.seconds(count))
    return f"{found.runs} runs, {found.interactions:,} steps, about {time} on {count} CPU cores"


def _rest(jobs: Sequence[Job], out: Path) -> str:
    """What of it is left to do, where some runs have ended."""
    from lcpo.run.store.layout import run_files

    waiting = [job for job in jobs if not run_files(out, job.name).manifest.exists()]
    if len(waiting) == len(jobs):
        return ""
    return f"; still to run: {_size(waiting)}" if waiting else "; all have ended: a report only"


def _take_folder(name: str, options: Options, jobs: list[Job], out: Path) -> None:
    """Write the plan, and whose it is; InputError where the folder is of another study."""
    from lcpo.run.engines.engine import plan_only
    from lcpo.study.folder import check_study, save_study

    check_study(out, name, options, jobs)
    plan_only(jobs, out, show.note, options.resume)
    save_study(out, name, options)


def _write_plan(name: str, options: Options, jobs: list[Job], out: Path) -> int:
    """The jobs for another machine."""
    from lcpo.run.store.layout import plan_file

    if not jobs:
        raise InputError(f"{name} makes no runs: there is nothing to plan")
    _take_folder(name, options, jobs, out)
    show.line(f"{name}: {_size(jobs)}")
    command = shlex.join(["python", "-m", "lcpo.run.worker", str(plan_file(out))])
    show.line(f"run them anywhere:  {command}")
    show.line("then, with the same options:  --collect in place of --plan")
    return 0


def _collect(name: str, options: Options, jobs: list[Job], folder: Path, command: str) -> int:
    """The report of runs that were made elsewhere."""
    from lcpo.study.folder import check_study, collect

    check_study(folder, name, options, jobs)
    results = collect(folder, jobs)
    show.line(f"{name}: {len(results)} of {len(jobs)} runs have ended in {folder}")
    if not results:
        raise InputError(f"{folder}: none of the runs has ended, so there is nothing to report")
    _report(name, options, results, jobs, options.out or folder, command)
    return 0


def _report(
    name: str, options: Options, results: Sequence[Any], jobs: list[Job], out: Path, command: str
) -> None:
    """Write and print what the runs show."""
    from lcpo.study.paper import find_study
    from lcpo.study.report.html import write_page
    from lcpo.study.report.output import write_files

    if jobs and not any(result.status == "finished" for result in results):
        return
    report = find_study(name).report(options, results)
    written = write_files(report, results, out, command, by=f"lcpo reproduce {name}")
    for table in report.tables.values():
        show.line(table.to_text())  # whole: the paper's numbers stand at its end
    for text in report.text:
        show.line(text)
    for path in written:
        if path.suffix == ".png":
            show.line(f"figure: {path}")
    show.line(f"page: {write_page(out, by=f'lcpo reproduce {name}')}")
