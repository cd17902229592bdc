"""Does a short run rank agents as a long one does? `python benchmarks/scales.py SHORT LONG...`

Reads the seeds.csv of a folder of results at a fraction of the paper's time, and of one or more at
all of it. For each environment and trace: Spearman's rank correlation of the agents' mean returns,
with a 95 % interval over seeds (those of each agent are drawn anew, the agents stay).
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from lcpo.contexts import TraceRef
from lcpo.study.report.cells import columns
from lcpo.study.report.tables import Table

Returns = dict[tuple[str, str], dict[str, np.ndarray]]
"""By environment and trace: of each agent, by seed."""
FIELDS = {"return_after_warmup": "after warm-up", "whole_run": "whole run"}
DRAWS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("short", type=Path)
    parser.add_argument("long", type=Path, nargs="+")
    options = parser.parse_args()
    rows = [
        [env, trace, words, *cells]
        for field, words in FIELDS.items()
        for (env, trace), cells in compare(
            read([options.short], field), read(options.long, field)
        ).items()
    ]
    header = ["env", "trace", "return", "agents", "rank correlation", "95 % interval"]
    print(Table(columns(header, "lllrrr"), rows).to_markdown(), end="")


def read(folders: list[Path], field: str) -> Returns:
    """Returns of corrected runs; a later folder wins."""
    found: Returns = {}
    for folder in folders:
        returns: dict[tuple[str, str, str], list[float]] = {}
        with (folder / "seeds.csv").open() as lines:
            for row in csv.DictReader(lines):
                if row["status"] == "finished" and not row["setting"]:
                    key = (row["env"], str(TraceRef.parse(row["trace"]).whole), row["agent"])
                    returns.setdefault(key, []).append(float(row[field]))
        for (env, trace, agent), values in returns.items():
            found.setdefault((env, trace), {})[agent] = np.asarray(values)
    return found


def compare(short: Returns, long: Returns) -> dict[tuple[str, str], list[str]]:
    """By environment and trace that both have: agents that both have, and the correlation."""
    rows: dict[tuple[str, str], list[str]] = {}
    random = np.random.default_rng(0)
    for place, runs in long.items():
        agents = [agent for agent in runs if agent in short.get(place, {})]
        if len(agents) > 2:
            both = [[table[place][agent] for agent in agents] for table in (short, long)]
            own = rank_correlation(*(np.asarray([mine.mean() for mine in side]) for side in both))
            drawn = [
                rank_correlation(
                    *(
                        np.asarray([random.choice(mine, len(mine)).mean() for mine in side])
                        for side in both
                    )
                )
                for _ in range(DRAWS)
            ]
            low, high = np.percentile(drawn, [2.5, 97.5])
            rows[place] = [str(len(agents)), f"{own:.2f}", f"{low:.2f} to {high:.2f}"]
    return rows


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's; equal values share the mean of their ranks."""

    def ranks(values: np.ndarray) -> np.ndarray:
        below = (values[:, None] > values[None]).sum(axis=1)
        return below + 0.5 * ((values[:, None] == values[None]).sum(axis=1) - 1)

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


if __name__ == "__main__":
    main()
