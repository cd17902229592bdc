"""`lcpo.compare(...)`: several agents on one environment, on one trace or several; the results."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lcpo import api, values
from lcpo.contexts import Traces, in_short, several
from lcpo.errors import InputError, RunError
from lcpo.run.events import Event
from lcpo.run.options import RunOptions
from lcpo.run.plan.agents import Agents, plan_traces, read_agents
from lcpo.run.plan.job import Job
from lcpo.run.store.outputs import check_runs_folder
from lcpo.run.store.results import Result, load_results
from lcpo.study.advice.findings import run_findings
from lcpo.study.advice.learned import learning_warnings
from lcpo.study.measure import compare as rows
from lcpo.study.measure.traces import summarise_traces
from lcpo.study.report import html, report
from lcpo.study.report.document import setting
from lcpo.study.report.figures import save
from lcpo.study.report.output import FILES, check_report
from lcpo.study.report.tables import FORMATS, Table

AGENTS = "lcpo,a2c-entropy,a2c"


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """Runs side by side: `print` shows the table."""

    results: list[Result]
    """The runs that have ended."""
    summary: rows.Summary
    """The numbers of the table, with their intervals."""
    warnings: tuple[str, ...]
    """Warnings about the runs: a learner below a baseline, or with few updates; a constraint
    that never acts, or acts on noise; mostly random actions; inputs out of scale."""
    out: Path
    files: tuple[Path, ...] = ()
    """Files written to the output folder: tables, curves, a page."""

    @property
    def table(self) -> Table:
        """A row per agent; it has `to_text`, `to_markdown`, `to_latex` and `to_csv`."""
        return report.to_table(self.summary)

    @property
    def by_trace(self) -> Table:
        """A row per trace and agent, where there are several traces; else as `table`."""
        return report.by_trace(self.summary) if self.summary.parts else self.table

    def plot(self, path: str | os.PathLike[str] | None = None) -> list[Any]:
        """Learning curves: matplotlib's axes, of the figure `axes[0].figure`; `path`: to write."""
        axes = report.plot_curves(self.summary, self.results)
        if path is not None:
            save(axes[0].figure, values.path("path", path), "Comparison.plot")
        return axes

    def to_json(self) -> dict[str, Any]:
        """Plain values: each run, each row of the table with all its numbers, notes, warnings."""
        c = self.summary
        found = {
            "out": str(self.out),
            "env": c.env,
            "trace": c.trace,
            "steps": c.steps,
            "warmup": c.warmup,
            "reference": c.reference,
            "runs": [self._run(result) for result in self.results],
            "table": self.table.records(),
            "by_trace": self.by_trace.records(),
            "notes": list(c.notes),
            "warnings": list(self.warnings),
        }
        return values.without_nan(found)

    def _run(self, result: Result) -> dict[str, Any]:
        job, finished = result.job, result.status == "finished"
        numbers = report.seed_numbers(self.summary, result) if finished else {}
        first = {"name": job.name, "agent": job.agent, "setting": setting(job),
                 "trace": job.trace_name, "seed": job.seed}  # fmt: skip
        last = {"status": result.status, "failure": result.failure, "seconds": result.seconds}
        return {**first, **last, "folder": str(result.folder), **numbers}

    def __str__(self) -> str:
        lines = [f"warning: {text}" for text in self.warnings]
        return "\n".join([self.table.to_text().rstrip("\n"), *lines])

    def __repr__(self) -> str:
        agents = ", ".join(row.label for row in self.summary.rows)
        return f"<Comparison of {agents}: {len(self.results)} runs in {self.out}>"


def compare(
    agents: Agents = AGENTS,
    env: str | Any = "pendulum",
    *,
    trace: str | os.PathLike[str] | None = None,
    traces: Traces | None = None,
    steps: int | None = None,
    seeds: int | Iterable[int] = 4,
    out: str | os.PathLike[str] | None = None,
    scale: float | None = None,
    env_config: Mapping[str, Any] | None = None,
    training_steps: int | None = None,
    normalise: str | Sequence[float] | None = None,
    warmup: int | None = None,
    published: bool = False,
    resume: bool = False,
    workers: int | None = None,
    checkpoint_seconds: float = 60.0,
    progress: bool = True,
    keep_state: bool = False,
    callbacks: Sequence[Callable[[Event], Any]] = (),
    track: str | Sequence[str] = (),
) -> Comparison:
    """Train every agent with every seed on the same environment and traces, and compare them.

    Args:
      agents: "lcpo,lcpo[sigma=2],a2c[learning_rate=1e-3]", or a list of such names and of pairs
        such as ("lcpo", {"sigma": 2}). The first is the reference. "all": every agent of the
        library that can serve the environment.
      traces: several contexts instead of `trace`: "1,3", "family:revisit:0..9", or a list. Means
        and intervals are then over traces and their seeds (docs/compare.md).
      warmup: steps left out of the return after warm-up; default: a tenth of a short run.
      published: with the values and all faults of the published code.
      The others are those of `lcpo.train`; `out` is `out/compare-ENV-TRACE` by default.

    Raises RunError at the end if an environment broke: `resume` continues from the checkpoint.
    """
    how = RunOptions.of(
        out=out, resume=resume, workers=workers, checkpoint_seconds=checkpoint_seconds,
        progress=progress, keep_state=keep_state, callbacks=callbacks, track=track,
    )  # fmt: skip
    published = values.flag("published", published)
    env, env_config = api.named_env(env, env_config)
    chosen = read_agents(agents)
    if trace is not None and traces is not None:
        raise InputError("trace and traces: give only one of them")
    how = api.here_if_in_main(how, [env, *(one.name for one in chosen)])
    make = functools.partial(
        plan_traces,
        chosen,
        env,
        traces=[trace] if traces is None else several(traces),
        seeds=seeds,
        scale=scale,
        env_overrides=env_config,
        training_steps=training_steps,
        normalise=normalise,
        published=published,
    )
    place = functools.partial(default_out, published=published)
    jobs, how = api.prepare(make, steps, how, place, api.note)
    check_out(how.folder)
    rows.check_warmup(warmup, jobs)
    problems = api.run_to_the_end(jobs, how)
    found = gather(how.folder, jobs, warmup, write=True)
    if found is None:
        raise RunError("; ".join(problems))
    return found


def check_out(out: Path) -> None:
    """Raise InputError unless tables, curves and page of a comparison may be written there."""
    check_runs_folder(out)
    by_trace = (f"by_trace.{suffix}" for suffix in FORMATS)
    check_report(out, "lcpo compare", (*FILES, *by_trace, "curves.png", "curves.svg"))
    html.check_page(out, out / html.PAGE, "lcpo compare")


def default_out(jobs: Sequence[Job], published: bool = False) -> Path:
    """The folder for a comparison where none is given."""
    traces = in_short(dict.fromkeys(job.trace_name or "none" for job in jobs)).replace(" ", "-")
    name = f"compare-{jobs[0].env}-{traces}{'-published' if published else ''}"
    return Path("out") / values.file_name(name)


def gather(
    out: Path,
    jobs: Sequence[Job],
    warmup: int | None = None,
    others: Sequence[Result] = (),
    *,
    write: bool = False,
    command: str | None = None,
) -> Comparison | None:
    """What the runs of `jobs` in a folder show; None where none has finished.

    `others`: imported runs. `write`: the tables, curves and the page, too; `command`: the command
    line that they are of.
    """
    results = [*load_results(out, jobs), *others]
    finished = rows.finished_runs(results)
    if not finished:
        return None
    summary = summarise_traces(results, warmup)
    warnings, files = (*learning_warnings(summary, finished), *run_findings(finished)), []
    if write:
        files = [*report.write_report(summary, results, out, command, warnings)]
        files.append(html.write_page(out, by="lcpo compare"))
    return Comparison(results, summary, warnings, out, tuple(files))
