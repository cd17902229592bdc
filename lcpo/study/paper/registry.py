"""The experiments of the paper, by name: `lcpo reproduce NAME`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lcpo.study.paper import discretisation, grid_world, prescient, theorem


class Experiment(NamedTuple):
    """What to run, and the options it takes."""

    help: str
    Options: type
    run: Callable[[Any], int]
    """Runs it, writes its figure, prints what it shows; returns the exit code."""


EXPERIMENTS: dict[str, Experiment] = {
    "grid-world": Experiment(
        "Figure 1: what A2C forgets, and LCPO and tables do not", grid_world.Options, grid_world.run
    ),
    "discretisation": Experiment(
        "Table 'pend_original': baselines on Pendulum-v1 with 15 torques, beside the paper's",
        discretisation.Options,
        discretisation.run,
    ),
    "prescient": Experiment(
        "Table 'gym_all', prescient columns: agents that were trained on the whole trace before",
        prescient.Options,
        prescient.run,
    ),
    "theorem": Experiment(
        "Theorem B.2: tabular Q-learning in every context, and what breaks it",
        theorem.Options,
        theorem.run,
    ),
}
