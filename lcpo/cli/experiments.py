"""`lcpo reproduce --list`: what there is to reproduce, and what it costs here."""

from __future__ import annotations

from typing import Any

from lcpo.cli import flags, show
from lcpo.study.study import Study

SCALES = ("paper", "short", "smoke")


def list_experiments(arguments: list[str]) -> int:
    """A row per experiment and scale; `--scale` for another one, a name for one experiment."""
    from lcpo.run.worker import cores
    from lcpo.study.paper import STUDIES, find_study
    from lcpo.study.report.cells import columns
    from lcpo.study.report.tables import Table

    found = flags.parse(
        "reproduce --list",
        "What each experiment costs here.",
        arguments,
        [
            ("scale", str | None, "A scale, or a fraction such as 1/20; default: by name.", None),
            ("only", str | None, "Experiments, separated by commas; default: all.", None),
        ],
    )
    chosen = list(STUDIES) if found.only is None else found.only.split(",")
    studies = {name: find_study(name) for name in chosen}
    rows = [
        [name if first else "", *cells]
        for name, study in studies.items()
        for first, cells in _rows(study, [found.scale] if found.scale else SCALES)
    ]
    for name, study in studies.items():
        show.line(f"{name:<16} {study.help}")
    show.line()
    header = [
        "experiment",
        "scale",
        "runs",
        "interactions",
        f"time on {len(cores())} cores",
        "disk",
    ]
    show.table(Table(columns(header, "llrrrr"), rows))
    show.line(
        "times are estimates, from speeds measured on one machine (docs/speed.md) and the cores of "
        "this one; a GPU runs the seeds of a compiled environment at once"
    )
    return 0


def _rows(study: Study[Any], scales: tuple[str, ...] | list[str]) -> list[tuple[bool, list[str]]]:
    """A row per scale that the study has; whether it is the first."""
    from lcpo.run.worker import cores
    from lcpo.study.costs import cost, count, in_words

    rows: list[tuple[bool, list[str]]] = []
    has_scales = "scale" not in study.Options.without
    for scale in scales if has_scales else scales[:1]:
        given = {"scale": scale} if has_scales else {}
        jobs = study.plan(study.Options(**given, check=False))
        if not jobs:
            rows.append((not rows, ["-", "none", "-", "a minute", "-"]))
            break
        found = cost(jobs)
        time = in_words(found.seconds(len(cores())))
        disk = f"{count(found.disk_bytes)}B"
        cells = [scale if has_scales else "-", f"{found.runs:,}", count(found.interactions)]
        rows.append((not rows, [*cells, time, disk]))
    return rows
