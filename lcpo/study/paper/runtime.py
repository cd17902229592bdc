"""The paper's table of training times per interaction, next to this machine's.

The paper's caption says microseconds; only as milliseconds do its numbers fit the hours that it
gives for all experiments, so they are shown as milliseconds here. They are means over its five
windy environments; ours are of the Pendulum, one core, with LCPO's constraint active.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from lcpo import bench
from lcpo.agents import find_agent
from lcpo.run.plan.job import Job
from lcpo.run.store.results import Result
from lcpo.run.worker import cores
from lcpo.study.paper.windy import ONLINE
from lcpo.study.report.cells import Column, Printed
from lcpo.study.report.document import data_table
from lcpo.study.report.paper_numbers import read_table
from lcpo.study.report.tables import Table
from lcpo.study.study import NO_RUNS, Options, Report, Study, listed
from lcpo.values import number


@dataclasses.dataclass(frozen=True)
class RuntimeOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = (
        "seeds", *(name for name in NO_RUNS if name != "agents"),
    )  # fmt: skip

    agents: str = ONLINE
    """Agents, separated by commas."""
    seconds: float = 6.0
    """How long each is timed, after it was compiled."""


def plan_runs(options: RuntimeOptions) -> list[Job]:
    """None: agents are timed by the report."""
    number("seconds", options.seconds, 0.1, 3600.0)
    for name in listed("agents", options.agents):
        find_agent(name)
    return []


def report(options: RuntimeOptions, results: Sequence[Result]) -> Report:
    """Time one agent after the other, each alone on a core."""
    del results
    core = cores()[:1]
    names = listed("agents", options.agents)
    found = {name: bench.in_process(name, core, options.seconds) for name in names}
    rows = [[name, x["us"][0], x["compile_s"][0]] for name, x in found.items()]
    seeds = data_table(["agent", "us", "compile_s"], rows)
    made = {"agents": names, "envs": ["pendulum"], "seeds": 1}
    return Report(seeds, {"table": summary({name: us for name, us, _ in rows})}, made=made)


def summary(measured: dict[str, float]) -> Table:
    """A row per agent: our microseconds and the paper's, and each over A2C's."""
    theirs = {agent: cell for (agent, *_), cell in read_table("runtime").items()}
    rows = []
    for agent, us in measured.items():
        cell, paper, ratio = theirs.get(agent), None, None
        if cell is not None:
            paper = Printed.of(f"{1000 * cell.mean:.0f}", f"{1000 * (cell.half or 0.0):.0f}")
            ratio = cell.mean / theirs["a2c"].mean
        ours = us / measured["a2c"] if "a2c" in measured else None
        rows.append([agent, us, paper, ours, ratio])
    about = {
        "microseconds": "per interaction, learning included", "paper": "what the paper prints",
        "over A2C": "ours, as a multiple of A2C's", "paper: over A2C": "the same of the paper's",
    }  # fmt: skip
    return Table(
        ["agent", *(Column(name, decimals=1, about=words) for name, words in about.items())],
        rows,
        title="ours on the Pendulum, one core; the paper's over its environments",
        notes=["paper: its caption says microseconds, its numbers are milliseconds"],
        compared=("microseconds", "paper"),
        heading="Time per interaction of each agent",
    )


HELP = "Table 'windy_time': time per interaction on this machine, next to the paper's"
study = Study(HELP, RuntimeOptions, plan_runs, report)
