"""The runs behind a page: what they have in common once, each run in a row, commands for both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from lcpo.run.plan.job import Job
from lcpo.study.commands import train_command
from lcpo.study.measure import seeds
from lcpo.study.report.cells import NONE, columns, number
from lcpo.study.report.html_folder import Run
from lcpo.study.report.html_table import Shown
from lcpo.study.report.imports import source_of
from lcpo.study.report.tables import Table

MOST_COMMANDS = 4
"""Behind a row of a table; a row that stands for more says how many."""


class Setting(NamedTuple):
    """Runs that differ in the seed only."""

    job: Job
    """The first of them."""
    runs: list[Run]

    @property
    def label(self) -> str:
        return self.job.label

    @property
    def command(self) -> str:
        return command_of(self.runs)


def command_of(runs: Sequence[Run]) -> str:
    """That makes runs of one setting again; of imported ones, what their file says."""
    source = source_of(runs[0].provenance)
    if source is not None:
        return str(source.get("command", ""))
    return train_command(runs[0].job, [run.job.seed for run in runs])


def find_settings(runs: Sequence[Run]) -> list[Setting]:
    """In the order of the runs."""
    found: dict[str, Setting] = {}
    for run in runs:
        same = {**run.job.to_json(), "name": None, "seed": None}
        key = json.dumps(same, sort_keys=True)
        found.setdefault(key, Setting(run.job, [])).runs.append(run)
    return list(found.values())


SETTINGS = columns(
    ["no.", "agent", "env", "trace", "steps", "seeds", "config", "command"], "rlllrrll"
)


def settings_rows(settings: Sequence[Setting]) -> list[list[Shown]]:
    """A row per setting, with all of its values."""
    rows = []
    for i, setting in enumerate(settings, start=1):
        job = setting.job
        values = [f"{k} = {_plain(v)}" for k, v in job.config.items()]
        values += [f"env.{k} = {_plain(v)}" for k, v in job.env_config.items()]
        values += [f"training.{k} = {_plain(v)}" for k, v in (job.training or {}).items()]
        config = Shown(f"{len(values)} values" if values else NONE, values)
        steps = Shown(f"{job.steps:,}", sort=job.steps)
        rows.append(
            [_count(i), Shown(setting.label), Shown(job.env), Shown(job.trace_name or NONE),
             steps,
             _count(len(setting.runs)), config, command_cell([setting.command])]
        )  # fmt: skip
    return rows


RUNS = columns(
    ["run", "no.", "agent", "trace", "seed", "status", "seconds", "device", "commit", "command"],
    "lrllrlrlll",
)


def runs_rows(settings: Sequence[Setting]) -> list[list[Shown]]:
    """A row per run; `no.` is that of its setting."""
    rows = []
    for i, setting in enumerate(settings, start=1):
        for run in setting.runs:
            job, known = run.job, run.provenance
            imported = ", imported" if source_of(known) is not None else ""
            rows.append(
                [Shown(job.name), _count(i), Shown(job.agent), Shown(job.trace_name or NONE),
                 _count(job.seed), Shown(f"{run.status}{imported}"),
                 Shown(number(run.seconds), sort=run.seconds),
                 *(Shown(str(known.get(name) or NONE)) for name in ("device", "commit")),
                 command_cell([command_of([run])])]
            )  # fmt: skip
    return rows


def command_cell(commands: Sequence[str]) -> Shown:
    """Opens to the commands; empty where there are none."""
    known = [command for command in commands if command]
    if not known:
        return Shown(NONE)
    shown, left = known[:MOST_COMMANDS], len(known) - MOST_COMMANDS
    return Shown("show", [*shown, *([f"and {left} more"] if left > 0 else [])])


def _variant(setting: Setting) -> str:
    """What tells its runs from others of their agent, as "sigma2=0.5" of lcpo-sigma2=0.5."""
    return setting.job.kind or setting.job.agent


WAYS = (lambda s: s.label, _variant, lambda s: s.job.agent)
"""In which the column agent may call a setting, the best one first."""


def row_commands(table: Table, settings: Sequence[Setting]) -> list[list[str]]:
    """Of each row of a table: the commands of the settings that it names.

    By its columns agent (its label, what tells it from others of its agent, or its name, whatever
    follows in brackets), env, trace, setting.
    """
    if "agent" not in table.header:
        return [[] for _ in table.rows]
    found = []
    for row in table.texts():
        cells = dict(zip(table.header, row, strict=True))
        mine = list(settings)
        if "env" in cells:
            mine = [s for s in mine if s.job.env == cells["env"]]
        if "trace" in cells:  # of 3@1/20, trace 3 played faster, tables may say 3
            mine = [s for s in mine if cells["trace"] in _trace_names(s.job)]
        if "setting" in cells:
            mine = [s for s in mine if cells["setting"] in _setting_names(s.job)]
        agent = cells["agent"].split(" (")[0]
        same = ([s for s in mine if way(s) == agent] for way in WAYS)
        found.append([s.command for s in next(filter(None, same), [])])
    return found


def _trace_names(job: Job) -> set[str]:
    """What tables may call its trace: a drawn one is of a family, and of all."""
    trace = job.trace
    if trace is None:
        return {NONE}
    return {str(trace), str(trace.whole), *((trace.family, "all") if trace.family else ())}


def _setting_names(job: Job) -> set[str]:
    """What tables may call its setting: as seeds.csv does, or its point of a sweep in words."""
    point = (f"{field.replace('_', ' ')} {value}" for field, value in job.point.items())
    return {seeds.setting(job), ", ".join(point)}


def _count(number: int) -> Shown:
    return Shown(str(number), sort=number)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
