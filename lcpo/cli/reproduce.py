"""The command that runs a study: its jobs, then its report."""

from __future__ import annotations

import shlex

from lcpo.cli import options as flags
from lcpo.cli import show
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.study.study import Options


def reproduce(arguments: list[str]) -> int:
    """Run an experiment of the paper: its figure, and what the figure shows."""
    from lcpo.study.paper import STUDIES

    if arguments[:1] in (["-h"], ["--help"]):
        print(f"usage: lcpo reproduce NAME [options]      (NAME: {', '.join(STUDIES)})")
        return 0
    if not arguments or arguments[0].startswith("-"):
        raise InputError(f"name an experiment first: {', '.join(STUDIES)}")
    name, *rest = arguments
    if name not in STUDIES:
        raise InputError(unknown("experiment", name, STUDIES))
    study = STUDIES[name]
    options = flags.parse_class(study.Options, f"reproduce {name}", study.help, rest)
    return _run(name, options, shlex.join(["lcpo", "reproduce", *arguments]))


def _run(name: str, options: Options, command: str) -> int:
    """Run what has not ended yet; write and print the report; the exit code."""
    from lcpo import api
    from lcpo.run.engines.base import plan_only
    from lcpo.run.plan.check import check_folder, check_running
    from lcpo.run.store.results import load_results
    from lcpo.study.output import write_files
    from lcpo.study.paper import STUDIES

    study, out = STUDIES[name], options.folder(name)
    check_running(options.workers)
    jobs = study.plan(options)
    if jobs:
        show.line(f"{name}: {len(jobs)} runs, {sum(job.total_steps for job in jobs):,} steps")
        problems = api.run(jobs, out, options.resume, options.workers)
    else:
        show.line(f"{name}: no runs to make, a report only")
        check_folder(out)
        plan_only(jobs, out, _note, options.resume)  # an empty one: the folder is ours
        problems = []
    results = load_results(out, jobs)
    if not jobs or any(result.status == "finished" for result in results):
        report = study.report(options, results)
        written = write_files(report, results, out, command)
        for table in report.tables.values():
            show.line(table.to_text())
        for text in report.text:
            show.line(text)
        for path in written:
            if path.suffix == ".png":
                show.line(f"figure: {path}")
    for problem in problems:
        show.line(problem, colour="red")
    show.line(f"results: {out}")
    return flags.RUN_FAILED if problems else 0


def _note(text: str) -> None:
    show.line(text, "note:", "yellow", stderr=True)
