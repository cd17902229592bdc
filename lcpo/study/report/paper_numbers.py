"""The numbers that the paper prints, as printed."""

from __future__ import annotations

import csv
import functools
import importlib.resources
from importlib.resources.abc import Traversable

from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.study.report.cells import Printed

TABLES = {
    "gym-all": "lifelong returns of all agents on the windy tasks",
    "gym-sigma": "lifelong returns of LCPO by its OOD threshold",
    "gym-buffer": "lifelong returns of LCPO by the size of its reservoir",
    "runtime": "milliseconds per interaction (its caption says microseconds)",
    "lcpo-variants": "LCPO and LCPO-P on the Pendulum",
    "ewc-return": "online EWC on the Pendulum, by its hyper-parameters",
    "ideal-mbpo": "MBPO with a learned model and with the true one on the Pendulum",
    "discretisation": "Pendulum-v1 without wind, with 15 torques",
}


@functools.cache
def read_table(table: str | Traversable) -> dict[tuple[str, str, str, str], Printed]:
    """The cells of a table by (agent, env, trace, variant); trace and variant may be "".

    `table`: a name, or the file of a task that keeps its own.
    """
    if isinstance(table, str):
        if table not in TABLES:
            raise InputError(unknown("table of the paper", table, TABLES))
        table = importlib.resources.files("lcpo.study") / "data" / f"{table}.csv"
    with table.open("r") as lines:
        return {
            (row["agent"], row["env"], row["trace"], row["variant"]): Printed.of(
                row["mean"], row["ci95"]
            )
            for row in csv.DictReader(lines)
        }


def printed(
    table: str | Traversable, agent: str, env: str, trace: str = "", variant: str = ""
) -> Printed | None:
    """What the paper prints; None if it prints nothing."""
    return read_table(table).get((agent, env, trace, variant))
