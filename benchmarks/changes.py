"""Where MBCD found changes: `python benchmarks/changes.py OUT FOLDER...`, folders of finished runs.

Writes OUT/changes.csv, a row per run: models, changes, and the steps of the first ones. A step is
the end of the record's row in which a change was found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lcpo.run.store.results import Result, load_results
from lcpo.study.report.cells import Cell
from lcpo.study.report.document import data_table, setting

SHOWN = 8


def row(result: Result) -> list[Cell]:
    """One run."""
    record, job = result.record, result.job
    where = np.flatnonzero(record["changes"] > 0.0)
    changes = float(np.sum(record["changes"] * record["updates"]))
    first = " ".join(str(int(step)) for step in record["step"][where[:SHOWN]])
    models = int(record["num_models"][-1])
    names = [job.agent, setting(job), job.env, str(job.trace), job.seed]
    return [*names, models, round(changes), first]


def main() -> None:
    out, *folders = map(Path, sys.argv[1:])
    results = [r for folder in folders for r in load_results(folder) if r.job.agent == "mbcd"]
    header = ["agent", "setting", "env", "trace", "seed", "models", "changes", "first at"]
    table = data_table(header, [row(result) for result in results])
    out.mkdir(parents=True, exist_ok=True)
    (out / "changes.csv").write_text(table.to_csv())
    print(table.to_markdown())


if __name__ == "__main__":
    main()
