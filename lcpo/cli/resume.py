"""`lcpo train --resume --out X` and no more: the plan of the folder says what is to be run."""

from __future__ import annotations

from typing import Any

from lcpo.run.plan.job import Job

HOW = {
    "--resume", "--out", "--steps", "--workers", "--engine", "--address", "--checkpoint-seconds",
    "--keep-state", "--trust", "--track", "--quiet", "--json", "--warmup", "--imported",
}  # fmt: skip
"""Options that say how runs are run or shown, and not which. (Steps may be more than before.)"""


def is_alone(arguments: list[str]) -> bool:
    """Whether a command line says nothing of the runs but the folder that they are in."""
    given = {word.partition("=")[0].replace("_", "-") for word in arguments if word[:2] == "--"}
    return {"--resume", "--out"} <= given <= HOW


def planned(options: Any) -> list[Job]:
    """The jobs of the folder, for as many steps as are asked for."""
    from lcpo.cli import show
    from lcpo.run.further import from_plan
    from lcpo.run.store.outputs import check_folder

    check_folder(options.out)
    return from_plan(
        options.out, options.steps, options.trust,
        lambda text: show.line(text, "note:", "yellow", stderr=True),
    )  # fmt: skip
