"""Does a short run rank agents as a long one does? `python benchmarks/scales.py SHORT LONG...`

Reads the seeds.csv of a folder of results at a fraction of the paper's time, and of one or more at
all of it. For each environment and trace: Spearman's rank correlation of the agents' mean returns.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from lcpo.contexts import fractions
from lcpo.study.tables import Table

Means = dict[tuple[str, str], dict[str, float]]
"""By environment and trace: of each agent."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("short", type=Path)
    parser.add_argument("long", type=Path, nargs="+")
    options = parser.parse_args()
    print(compare(read([options.short]), read(options.long)).to_markdown(), end="")


def read(folders: list[Path]) -> Means:
    """Mean returns after warm-up over the seeds of corrected runs; a later folder wins."""
    found: Means = {}
    for folder in folders:
        returns: dict[tuple[str, str, str], list[float]] = {}
        with (folder / "seeds.csv").open() as lines:
            for row in csv.DictReader(lines):
                if row["status"] == "finished" and not row["setting"]:
                    key = (row["env"], fractions.split(row["trace"])[0], row["agent"])
                    returns.setdefault(key, []).append(float(row["return_after_warmup"]))
        for (env, trace, agent), values in returns.items():
            found.setdefault((env, trace), {})[agent] = float(np.mean(values))
    return found


def compare(short: Means, long: Means) -> Table:
    """A row per environment and trace that both have, of the agents that both have."""
    rows = []
    for (env, trace), means in long.items():
        agents = [agent for agent in means if agent in short.get((env, trace), {})]
        if len(agents) > 2:
            pair = [[table[env, trace][agent] for agent in agents] for table in (short, long)]
            rows.append([env, trace, str(len(agents)), f"{rank_correlation(*pair):.2f}"])
    return Table(["env", "trace", "agents", "rank correlation"], rows, "llrr")


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's; equal values share the mean of their ranks."""

    def ranks(values: list[float]) -> np.ndarray:
        found = np.asarray(values)
        below = (found[:, None] > found[None]).sum(axis=1)
        return below + 0.5 * ((found[:, None] == found[None]).sum(axis=1) - 1)

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


if __name__ == "__main__":
    main()
