"""The command that runs a study: its jobs, then its report."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lcpo import api
from lcpo.cli import flags, show
from lcpo.cli.flags import Option
from lcpo.errors import InputError
from lcpo.run.engines.engine import check_resumed, make_engine, plan_only
from lcpo.run.options import RunOptions
from lcpo.run.plan.job import Job
from lcpo.run.store.layout import plan_file, run_files
from lcpo.run.store.outputs import check_own_folder, check_runs_folder
from lcpo.run.store.results import Result, load_results
from lcpo.run.worker import cores
from lcpo.study import folder
from lcpo.study.costs import cost, count, in_full, in_words
from lcpo.study.paper import STUDIES, find_study
from lcpo.study.report.cells import columns
from lcpo.study.report.html import PAGE, check_page, write_page
from lcpo.study.report.output import check_report, is_report, write_files
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Study

SCALES = ("paper", "short", "smoke")


def reproduce(arguments: list[str]) -> int:
    """Run an experiment, plan it for another machine, or report on its runs."""
    if arguments[:1] in (["-h"], ["--help"]):
        _usage()
        return 0
    if arguments[:1] == ["--list"]:
        _list_experiments(arguments[1:])
        return 0
    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"give the name of an experiment first: {', '.join(STUDIES)}")
    name, *rest = arguments
    study = find_study(name)
    options, is_listed = _parse(study, name, rest)
    if is_listed:
        _list_runs(name, study, options)
        return 0
    same = {k: getattr(options, k) for k in ("resume", "workers", "engine", "address")}
    how = RunOptions(out=options.folder(name), **same).checked()
    make_engine(how)  # an unknown engine is reported before training starts
    _check_out(name, options)
    jobs = study.complete(options, study.plan(options))
    chosen = _Chosen(name, study, options, jobs, shlex.join(["lcpo", "reproduce", *arguments]))
    if options.plan is not None:
        return chosen.write_plan(options.plan)
    if options.collect is not None:
        return chosen.collect(options.collect)
    return chosen.run(how)


def _usage() -> None:
    """What there is to reproduce, and the options that most of it has."""
    print("usage: lcpo reproduce NAME [options]      (lcpo reproduce NAME --help: all its options)")
    print("       lcpo reproduce --list              (what each costs on this machine)\n")
    for name in STUDIES:
        print(f"  {name:<16} {find_study(name).help}")
    print("\noptions of most:")
    for option in (*flags.class_fields(Options), LIST):
        print(f"  {option.flag:<16} {option.help}")


LIST = Option("list", bool, "Run nothing: print what would run, and what it costs here.", False)


def _parse(study: Study[Any], name: str, words: list[str]) -> tuple[Options, bool]:
    """The options of a study without those that make no sense in it; whether to list its runs."""
    cls = study.Options
    fields = [option for option in flags.class_fields(cls) if option.name not in cls.without]
    found = vars(flags.parse(f"reproduce {name}", words, [*fields, LIST], study.help))
    is_listed = found.pop("list")
    options = cls(**found)
    given = [flag for flag in ("plan", "collect") if getattr(options, flag) is not None]
    if len(given) == 2:
        raise InputError("--plan and --collect: give only one of them")
    if given and options.engine != "local":
        raise InputError(f"--{given[0]} runs nothing: leave --engine out")
    return options, is_listed


def _check_out(name: str, options: Options) -> None:
    """Raise InputError unless the study may write to its folder; called before it is planned."""
    by, out = f"lcpo reproduce {name}", options.folder(name)
    if options.collect is not None:
        folder.check_holds_runs(options.collect)
    else:
        check_runs_folder(options.plan or out)
        check_resumed(options.plan or out, options.resume)
    folder.check_study(options.plan or options.collect or out, name, options, [])
    if options.plan is not None:
        return
    if options.collect is not None and options.out is None:
        out = options.collect
    elif options.collect is not None:
        check_own_folder(out, by, lambda out: is_report(out, by) or folder.is_of_study(out, name))
    check_report(out, by)
    check_page(out, out / PAGE, by)


class _Chosen(NamedTuple):
    """A study with its options and jobs; the methods return exit codes."""

    name: str
    study: Study[Any]
    options: Options
    jobs: list[Job]
    command: str

    def run(self, how: RunOptions) -> int:
        """Run what has not ended yet; write and print the report."""
        out, problems = how.folder, []
        folder.check_study(out, self.name, self.options, self.jobs)
        if self.jobs:
            rest = _rest(self.jobs, out, self.options.workers)
            show.line(f"{self.name}: {_size(self.jobs, self.options.workers)}{rest}")
            if left_out := self.study.left_out(self.options):
                show.note(left_out)
            # Before the first run, so that a kill cannot leave open whose folder it is.
            problems = api.run(self.jobs, how, lambda: self._save(out))
            self._save(out)  # where nothing was left to run
        else:
            show.line(f"{self.name}: no runs needed, writing the report")
            self._take_folder(out)
        self._report(load_results(out, self.jobs), out)
        for problem in problems:
            show.line(problem, colour="red")
        show.line(f"results: {out}")
        return flags.RUN_FAILED if problems else 0

    def write_plan(self, out: Path) -> int:
        """Write the jobs for another machine."""
        if not self.jobs:
            raise InputError(f"{self.name} makes no runs: there is nothing to plan")
        folder.check_study(out, self.name, self.options, self.jobs)
        self._take_folder(out)
        show.line(f"{self.name}: {_size(self.jobs, None)}")
        command = shlex.join(["python", "-m", "lcpo.run.worker", str(plan_file(out))])
        show.line(f"run them anywhere:  {command}")
        show.line("then repeat this command with --collect instead of --plan")
        return 0

    def collect(self, source: Path) -> int:
        """Report on runs that were made elsewhere."""
        folder.check_study(source, self.name, self.options, self.jobs)
        results = folder.collect(source, self.jobs)
        show.line(f"{self.name}: {len(results)} of {len(self.jobs)} runs have ended in {source}")
        if not results:
            raise InputError(f"{source}: none of the runs has ended, so there is nothing to report")
        self._report(results, self.options.out or source)
        return 0

    def _save(self, out: Path) -> None:
        folder.save_study(out, self.name, self.options)

    def _take_folder(self, out: Path) -> None:
        """Write the plan, and whose it is."""
        plan_only(self.jobs, out, show.note, self.options.resume)
        self._save(out)

    def _report(self, results: Sequence[Result], out: Path) -> None:
        """Write and print what the runs show."""
        if self.jobs and not any(result.status == "finished" for result in results):
            return
        by = f"lcpo reproduce {self.name}"
        report = self.study.report(self.options, results)
        warnings = self.options.warnings if self.jobs else []
        written = write_files(report, results, out, self.command, by=by, warnings=warnings)
        for table in report.tables.values():
            show.table(table)
        for text in warnings:
            show.warning(text)
        for text in report.text:
            show.line(text)
        for path in written:
            if path.suffix == ".png":
                show.line(f"figure: {path}")
        show.line(f"page: {write_page(out, by=by)}")


def _size(jobs: Sequence[Job], workers: int | None) -> str:
    return in_full(jobs, workers or len(cores()))


def _rest(jobs: Sequence[Job], out: Path, workers: int | None) -> str:
    """What is left to do, where some runs have ended."""
    waiting = [job for job in jobs if not run_files(out, job.name).manifest.exists()]
    if len(waiting) == len(jobs):
        return ""
    if not waiting:
        return "; all have ended: a report only"
    return f"; still to run: {_size(waiting, workers)}"


def _list_runs(name: str, study: Study[Any], options: Options) -> None:
    """What a command would run, a row per environment and agent, and what it costs here."""
    jobs = study.plan(dataclasses.replace(options, check=False))
    if not jobs:
        show.line(f"{name}: no runs to make, a report only")
        return
    rest = _rest(jobs, options.folder(name), options.workers)
    show.line(f"{name}: {_size(jobs, options.workers)}{rest}")
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        point = ",".join(f"{field}={value}" for field, value in job.point.items())
        agent = " ".join(filter(None, (job.agent, job.variant, job.setting, point)))
        groups.setdefault((job.env, agent), []).append(job)
    rows = []
    for (env, agent), members in groups.items():
        traces = dict.fromkeys(str(job.trace.whole) if job.trace else "-" for job in members)
        shown = ", ".join(traces) if len(traces) <= 4 else f"{len(traces)} traces"
        found = cost(members)
        time = in_words(found.core_seconds)
        rows.append([env, agent, shown, f"{found.runs:,}", count(found.interactions), time])
    header = ["environment", "agent", "trace", "runs", "interactions", "core time"]
    show.table(Table(columns(header, "lllrrr"), rows))
    if left_out := study.left_out(options):
        show.note(left_out)


def _list_experiments(arguments: list[str]) -> None:
    """What there is to reproduce, and what it costs here: a row per experiment and scale."""
    scale = "A scale, or a fraction such as 1/20; default: by name."
    only = "Experiments, separated by commas; default: all."
    known = [Option("scale", str | None, scale, None), Option("only", str | None, only, None)]
    found = flags.parse("reproduce --list", arguments, known, "What each experiment costs here.")
    chosen = list(STUDIES) if found.only is None else found.only.split(",")
    studies = {name: find_study(name) for name in chosen}
    scales = [found.scale] if found.scale else SCALES
    rows = [row for name, study in studies.items() for row in _costs(name, study, scales)]
    for name, study in studies.items():
        show.line(f"{name:<16} {study.help}")
    show.line()
    time = f"time on {len(cores())} cores"
    header = ["experiment", "scale", "runs", "interactions", time, "disk"]
    show.table(Table(columns(header, "llrrrr"), rows))
    show.line(
        "times are estimates, from speeds measured on one machine (docs/speed.md) and the cores of "
        "this one; a GPU runs the seeds of a compiled environment at once"
    )


def _costs(name: str, study: Study[Any], scales: Sequence[str]) -> Iterator[list[str]]:
    """A row per scale that the study has; the first one is named."""
    has_scales = "scale" not in study.Options.without
    for number, scale in enumerate(scales if has_scales else scales[:1]):
        given = {"scale": scale} if has_scales else {}
        jobs = study.plan(study.Options(**given, check=False))
        label = name if number == 0 else ""
        if not jobs:
            yield [label, "-", "none", "-", "a minute", "-"]
            return
        found = cost(jobs, len(cores()))
        time, disk = in_words(found.seconds), f"{count(found.disk_bytes)}B"
        shown = scale if has_scales else "-"
        yield [label, shown, f"{found.runs:,}", count(found.interactions), time, disk]
