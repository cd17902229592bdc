"""Differences between agents that the documentation quotes: `python benchmarks/quotes.py`.

Reads the seeds.csv of the folders in results/ and writes results/quotes.csv: a line is the mean
over common seeds of A's number minus B's, with Student's 95 % interval, and on how many of them A
is better (of latencies, the lower one is).
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from lcpo.study.measure import stats
from lcpo.study.report.cells import Column

RESULTS = Path(__file__).parents[1] / "results"
HEADER = ["number", "trace", "a", "minus b", "difference", "P(a better)", "a better on", "seeds"]
LATE, WHOLE, LATENCY = "return_after_warmup", "whole_run", "p95"


class Runs(NamedTuple):
    """The runs of an agent in a folder of results, in one setting."""

    folder: str
    agent: str
    setting: str = ""

    def __str__(self) -> str:
        return f"{self.folder}: {self.agent}{f' ({self.setting})' if self.setting else ''}"

    def numbers(self, trace: str, column: str) -> dict[int, float]:
        """By seed."""
        with (RESULTS / self.folder / "seeds.csv").open() as file:
            found = {
                int(row["seed"]): float(row[column])
                for row in csv.DictReader(file)
                if row["status"] == "finished"
                and (row["agent"], row["setting"], row["trace"])
                == (self.agent, self.setting, trace)
            }
        if not found:
            raise SystemExit(f"no finished run: {self}, trace {trace}")
        return found


def pairs() -> list[tuple[str, str, Runs, Runs]]:
    """(column, trace, a, b) of every line."""
    wanted = []
    for agent in ("lcpo-noent", "a2c", "a2c-entropy"):
        folder = "pendulum-trace4"
        wanted.append((WHOLE, "4", Runs(folder, agent), Runs(folder, "lcpo")))
    for agent in ("a2c", "a2c-entropy"):
        folder = "pendulum-revisit"
        wanted.append(("revisits", "revisit", Runs(folder, agent), Runs(folder, "lcpo")))
        wanted.append((WHOLE, "revisit", Runs(folder, agent), Runs(folder, "lcpo")))
    folder = "pendulum-baselines"
    others = ("lcpo-noent", "a2c", "a2c-entropy", "lcpo-p", "ppo", "ppo-entropy", "trpo", "ddqn")
    for trace in ("3", "4"):
        for column in (LATE, WHOLE):
            for agent in (*others, "sac"):
                wanted.append((column, trace, Runs(folder, agent), Runs(folder, "lcpo")))
            wanted.append((column, trace, Runs(folder, "lcpo-p"), Runs(folder, "ppo-entropy")))
            wanted.append((column, trace, Runs(folder, "ppo-entropy"), Runs(folder, "ppo")))
            published = Runs("pendulum-baselines-published", "sac", "published, as published")
            wanted.append((column, trace, Runs(folder, "sac"), published))
    wanted += at_scale() + continual() + on_sac() + deviations() + straggler() + plus()
    wanted += robots()
    ddqn, sac = "pendulum-replay-rate", "pendulum-replay-rate-sac"
    rates = [Runs(ddqn, "ddqn", f"updates_per_rollout={rate}") for rate in (1, 10, 50)]
    rates += [Runs(sac, "sac", f"updates_per_rollout={rate}") for rate in (1, 50)]
    for column in ("last_quarter", WHOLE):
        wanted += [(column, "3", runs, Runs(ddqn, "lcpo")) for runs in [*rates, Runs(ddqn, "a2c")]]
    return wanted


def at_scale() -> list[tuple[str, str, Runs, Runs]]:
    """LCPO on all traces of the Pendulum, beside others with 25 seeds, and with three."""
    lcpo, others, few = Runs("windy-pendulum", "lcpo"), "windy-pendulum-3", "windy-pendulum-4"
    wanted = [
        (column, trace, Runs(others, agent), lcpo)
        for trace in ("1", "2", "3", "4")
        for column in (LATE, WHOLE)
        for agent in ("lcpo-uniform", "a2c")
    ]
    again = Runs("windy-pendulum-5", "lcpo")
    wanted += [
        (column, trace, Runs(others, "a2c"), again)
        for trace in ("1", "2", "3", "4")
        for column in (LATE, WHOLE)
    ]
    agents = ("trpo", "clear", "pt-dqn", "bfdqn", "sac", "online-ewc")
    for trace in ("1", "2"):
        for column in (LATE, WHOLE):
            wanted += [(column, trace, Runs(few, agent), lcpo) for agent in agents]
            best = Runs("windy-prescient", "prescient-sac")
            wanted.append((column, trace, best, lcpo))
    wanted.append((LATE, "3", Runs("windy-prescient", "prescient-a2c"), lcpo))
    return wanted


def continual() -> list[tuple[str, str, Runs, Runs]]:
    """CLEAR, BFDQN and PT-DQN beside LCPO and DDQN; CLEAR's faults; PT-DQN's optimisers."""
    wanted, folder = [], "pendulum-continual"
    clear = Runs(f"{folder}-published", "clear", "published, as published")
    for trace in ("3", "4"):
        for column in (LATE, WHOLE):
            for agent in ("clear", "bfdqn", "pt-dqn"):
                ours = Runs("pendulum-baselines", "lcpo")
                wanted.append((column, trace, Runs(folder, agent), ours))
            for agent in ("bfdqn", "pt-dqn"):
                ddqn = Runs("pendulum-baselines", "ddqn")
                wanted.append((column, trace, Runs(folder, agent), ddqn))
            wanted.append((column, trace, Runs(folder, "clear"), clear))
            wanted.append((column, trace, Runs(folder, "pt-dqn"), Runs(folder, "pt-dqn-sgd")))
        rates = f"pendulum-replay-rate-8m-{trace}"
        for agent in ("ddqn", "sac", "clear", "bfdqn", "pt-dqn"):
            fed = Runs(rates, agent, "updates_per_rollout=10")
            lcpo = Runs("pendulum-baselines", "lcpo")
            wanted.append((f"last_quarter, {LATE}", trace, fed, lcpo))
            wanted.append((WHOLE, trace, fed, lcpo))
    return wanted


def on_sac() -> list[tuple[str, str, Runs, Runs]]:
    """Online EWC, sliding OGD, MBPO and MBCD beside LCPO and SAC, and their faults."""
    wanted, folder, published = [], "pendulum-continual-2", "published, as published"
    grid = "penalty_coef={}-averaging_rate={}".format
    ours = {
        "online-ewc": (Runs("ewc", "online-ewc", grid(0.1, 7e-05)), f"{folder}-published"),
        "sliding-ogd": (Runs(folder, "sliding-ogd"), f"{folder}-published"),
        "mbpo": (Runs(folder, "mbpo"), f"{folder}-published"),
        "ideal-mbpo": (Runs(folder, "ideal-mbpo"), f"{folder}-published"),
        "mbcd": (Runs("pendulum-mbcd", "mbcd"), "pendulum-mbcd-published"),
    }
    for trace in ("3", "4"):
        for column in (LATE, WHOLE):
            for agent, (runs, other) in ours.items():
                as_published = Runs(other, agent, published)
                for base in ("lcpo", "sac"):
                    wanted.append((column, trace, runs, Runs("pendulum-baselines", base)))
                wanted.append((column, trace, as_published, Runs("pendulum-baselines", "lcpo")))
                wanted.append((column, trace, runs, as_published))
                if agent == "online-ewc":
                    sac = Runs("pendulum-baselines-published", "sac", published)
                    wanted.append((column, trace, as_published, sac))
            wanted.append((column, trace, ours["mbpo"][0], ours["ideal-mbpo"][0]))
            best = Runs("ewc", "online-ewc", grid(0.1, 0.0002))
            wanted.append((column, trace, best, Runs("pendulum-baselines", "sac")))
    return wanted


def deviations() -> list[tuple[str, str, Runs, Runs]]:
    """What docs/deviations.md quotes: corrected minus published, with entropy minus without."""
    wanted = []
    for folder, trace in (
        ("pendulum-baselines", "3"),
        ("pendulum-trace4", "4"),
        ("pendulum-revisit", "revisit"),
        ("hopper-trace2", "2"),
        ("inverted-pendulum-trace2", "trace2-from-6M.npy"),
    ):
        wanted.append((LATE, trace, Runs(folder, "a2c-entropy"), Runs(folder, "a2c")))
    for agent in ("lcpo-noent", "a2c", "a2c-entropy"):
        folder = "hopper-trace2"
        wanted.append((LATE, "2", Runs(folder, agent), Runs(folder, "lcpo")))
    for trace in ("3", "4"):
        for column in (LATE, WHOLE):
            published = Runs("trpo-published", "trpo", "as published")
            wanted.append((column, trace, Runs("pendulum-baselines", "trpo"), published))
    plain = Runs("discretisation-corrected", "trpo")
    wanted.append(("return", "", plain, Runs("discretisation", "trpo", "as published")))
    return wanted


def plus() -> list[tuple[str, str, Runs, Runs]]:
    """LCPO+ beside LCPO and A2C with 25 seeds, and beside the best at hedging."""
    mine, paper = Runs("windy-pendulum-6", "lcpo-plus"), Runs("windy-pendulum-5", "lcpo")
    wanted = [(column, trace, mine, paper) for trace in ("3", "4") for column in (LATE, WHOLE)]
    wanted += [(LATE, trace, mine, Runs("windy-pendulum-3", "a2c")) for trace in ("3", "4")]
    servegen = "servegen_deepseek_r1_arrivals"
    for folder, workload, agent, setting in (
        ("workload-2", "workload-2", "lcpo", "workload-2-agg"),
        ("servegen", servegen, "a2c", servegen),
    ):
        best = Runs(f"straggler-{folder}", agent, setting)
        wanted.append((LATENCY, "", Runs(f"plus-straggler-{folder}", "lcpo-plus", workload), best))
    return wanted


def robots() -> list[tuple[str, str, Runs, Runs]]:
    """LCPO+, anchors from the whole past, A2C and another sigma beside LCPO on compiled physics."""
    fits = Runs("inverted-pendulum-sigma", "lcpo", "sigma=0.12")
    calibrated = [
        (column, "4", fits, Runs("windy-inverted-pendulum-2", "lcpo")) for column in (LATE, WHOLE)
    ]
    reacher = [
        (column, trace, Runs("windy-reacher", agent), Runs("windy-reacher", other))
        for trace in ("3", "4")
        for column in (LATE, WHOLE)
        for agent, other in (("lcpo-plus", "lcpo"), ("a2c", "lcpo"), ("lcpo-plus", "a2c"))
    ]
    folder = "windy-inverted-pendulum-3"
    early = [
        (LATE, trace, Runs(folder, agent), Runs(folder, "lcpo"))
        for trace in ("1", "2")
        for agent in ("lcpo-plus", "a2c")
    ]
    early += [
        (
            LATE,
            trace,
            Runs("windy-inverted-pendulum-4", agent),
            Runs("windy-inverted-pendulum-2", "lcpo"),
        )
        for trace in ("3", "4")
        for agent in ("clear", "ddqn")
    ]
    hopper = [
        (column, "2", Runs("hopper-trace2-plus", "lcpo-plus"), Runs("hopper-trace2", "lcpo"))
        for column in (LATE, WHOLE)
    ]
    return calibrated + reacher + early + hopper + [
        (column, trace, Runs(folder, agent), Runs(folder, other))
        for folder in ("windy-inverted-pendulum-2", "windy-double-pendulum")
        for trace in ("3", "4")
        for column in (LATE, WHOLE)
        for agent, other in (
            ("lcpo-plus", "lcpo"), ("lcpo-uniform", "lcpo"), ("a2c", "lcpo"),
            ("lcpo-plus", "a2c"), ("lcpo-plus", "lcpo-uniform"),
        )
    ]  # fmt: skip


def straggler() -> list[tuple[str, str, Runs, Runs]]:
    """Anchors from the whole past beside each setting of LCPO, on every workload."""
    return [
        (
            LATENCY,
            "",
            Runs(f"straggler-{folder}", "lcpo-uniform", workload),
            Runs(f"straggler-{folder}", "lcpo", f"{workload}-{setting}"),
        )
        for folder, workload in (
            ("workload-1", "workload-1"),
            ("workload-2", "workload-2"),
            ("servegen", "servegen_deepseek_r1_arrivals"),
        )
        for setting in ("agg", "med", "cons")
    ]


def lines() -> list[list[str]]:
    """The lines of quotes.csv."""
    found = []
    for column, trace, a, b in pairs():
        one, _, other = column.partition(", ")  # two names for the last 2M of 8M steps
        x, y = a.numbers(trace, one), b.numbers(trace, other or one)
        difference = stats.paired_difference(x, y)
        sides = (y, x) if column == LATENCY else (x, y)
        better = sum(sides[0][seed] > sides[1][seed] for seed in x.keys() & y.keys())
        cells = [
            Column("", "+").text(difference),
            Column("", "bounds").text(stats.probability_of_improvement(*sides)),
            f"{better} of {difference.n}",
        ]
        found.append([column, trace, str(a), str(b), *cells, str(difference.n)])
    return found


def main() -> None:
    with (RESULTS / "quotes.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *lines()])


if __name__ == "__main__":
    main()
