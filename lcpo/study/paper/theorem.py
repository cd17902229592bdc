"""The paper's Theorem B.2 made visible: tabular Q-learning finds the best policy in every context.

On a random MDP per context (`SwitchingMDP`), whose Q* is known, runs that keep the assumptions
stand beside runs that break one each. The third panel shows Lemma B.1, on sums of learning rates
along a subsequence. What the assumptions must be, and why: docs/theory.md.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from rich.console import Console

from lcpo import config as configs
from lcpo.agents import AGENTS
from lcpo.envs.base import Advance
from lcpo.envs.probes import SwitchingMDP
from lcpo.run.drive.compiled import load_contexts, make_chunk, make_init
from lcpo.study import report, tables
from lcpo.study.curves import COLOURS, STYLES
from lcpo.types import Spec

GAMMA = 0.8
ROLLOUT = 100
POINTS = 40
"""Looks at a run, evenly spaced in the logarithm of time."""
DWELL = 100
"""Rows of the trace for which a context holds before the next one's turn."""
HOLD_STEPS = 3
"""The same where the context moves by step: several times in an episode."""


class Setting(NamedTuple):
    """What is broken, and how."""

    label: str
    config: dict[str, float]
    advance: Advance = "episode"


SETTINGS: dict[str, Setting] = {
    "holds": Setting("all assumptions hold", {}),
    "greedy": Setting("no exploration", {"epsilon": 0.0}),
    "short": Setting("rates 1 / n^2: finite sum", {"omega": 2.0}),
    "constant": Setting("rate 1 / 5: squares do not sum", {"omega": 0.0, "learning_rate": 0.2}),
    "within": Setting(f"context changes every {HOLD_STEPS} steps", {}, "step"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the experiment."""

    seeds: int = 8
    """Seeds of each setting."""
    steps: int = 1_000_000
    """Interactions of each run."""
    out: Path = Path("out/theorem")
    """Folder for the figure and the table."""


class Curves(NamedTuple):
    """Of one setting: how far from the optimum, in each context, as time goes by."""

    step: np.ndarray  # [P]
    error: np.ndarray  # [P, seeds, contexts], max over s, a of |Q - Q*|
    regret: np.ndarray  # [P, seeds, contexts], max over s of V* - V of the greedy policy


def run(options: Options) -> int:
    """Run all settings, draw the figure, say what it shows."""
    console = Console(soft_wrap=True, highlight=False)
    found = {}
    for name, setting in SETTINGS.items():
        console.print(f"{setting.label} ...")
        found[name] = measure(setting, options.seeds, options.steps)
    table = summary(found)
    report.write_table(options.out, table)
    picture = options.out / "figure.png"
    figure(found, picture)
    console.print(table.to_text())
    console.print(f"figure: {picture}")
    return 0


def measure(setting: Setting, seeds: int, steps: int) -> Curves:
    """Run a setting with every seed, and stop now and then to look at its tables."""
    env, agent = SwitchingMDP(advance=setting.advance), AGENTS["tabular-q"]
    config = agent.config(rollout_length=ROLLOUT, gamma=GAMMA, **setting.config)
    updates = steps // ROLLOUT
    by_step = env.advance == "step"
    cycle = np.repeat(np.arange(env.num_contexts), HOLD_STEPS if by_step else DWELL)[:, None]
    contexts = load_contexts(cycle, 0, updates * ROLLOUT + 1 if by_step else len(cycle), lags=1)
    args = (configs.stack([config] * seeds), configs.stack([env] * seeds), jnp.arange(seeds))
    cuts = np.unique(np.geomspace(1, updates, POINTS).astype(int))
    init, chunk = _compiled(env.spec, int(np.diff(cuts, prepend=0).max()))
    state, q = init(*args, contexts), []
    for first, last in itertools.pairwise([0, *cuts]):
        state, _ = chunk(*args, state, contexts, jnp.int32(first), jnp.int32(last - first))
        q.append(np.swapaxes(state.agent.q.entries, 1, 2))  # [seeds, contexts, states, actions]
    return Curves(cuts * ROLLOUT, *distances(env, np.array(q)))


@functools.cache
def _compiled(spec: Spec, max_updates: int) -> tuple[Callable, Callable]:
    """The settings that differ in numbers only share a program."""
    agent = AGENTS["tabular-q"]
    return make_init(agent, spec, many=True), make_chunk(agent, spec, max_updates, many=True)


def optimum(env: SwitchingMDP, gamma: float) -> np.ndarray:
    """Q* of each context by value iteration, [contexts, states, actions]."""
    probabilities, rewards = env.tables()
    q = np.zeros_like(rewards)
    while True:
        value = q.max(-1)[:, :-1]  # nothing follows the terminal state
        after = rewards + gamma * np.einsum("csan,cn->csa", probabilities[..., :-1], value)
        if np.abs(after - q).max() < 1e-12:
            return after
        q = after


def policy_value(env: SwitchingMDP, policy: np.ndarray, gamma: float) -> np.ndarray:
    """V of policies [..., contexts, states] in each context, without the terminal state."""
    probabilities, rewards = env.tables()
    chosen = policy[..., :-1]
    context, state = np.indices((env.num_contexts, env.num_states - 1))
    stay = probabilities[context, state, chosen][..., :-1]  # [..., contexts, states, states]
    reward = rewards[context, state, chosen]
    return np.linalg.solve(np.eye(env.num_states - 1) - gamma * stay, reward[..., None])[..., 0]


def distances(env: SwitchingMDP, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(max |Q - Q*|, max V* - V of the greedy policy) per context, for q [..., C, S, A]."""
    best = optimum(env, GAMMA)
    error = np.abs(q - best)[..., :-1, :].max((-2, -1))
    regret = best.max(-1)[:, :-1] - policy_value(env, q.argmax(-1), GAMMA)
    return error, np.maximum(regret.max(-1), 0.0)  # no "-0.000" of rounding


def summary(found: dict[str, Curves]) -> tables.Table:
    """The end of the runs: the worst context, median and worst over seeds."""
    rows = []
    for name, curves in found.items():
        error, regret = curves.error[-1].max(-1), curves.regret[-1].max(-1)
        optimal = int(np.sum(regret < 1e-9))
        rows.append(
            [
                SETTINGS[name].label,
                f"{np.median(error):.3f} ({error.max():.3f})",
                f"{np.median(regret):.3f} ({regret.max():.3f})",
                f"{optimal} of {len(regret)}",
            ]
        )
    steps = int(next(iter(found.values())).step[-1])
    header = ["setting", "max |Q - Q*| (worst)", "max V* - V (worst)", "best policy everywhere"]
    title = f"after {steps:,} steps, in the worst context; median over seeds (worst seed)"
    return tables.Table(header, rows, "lrrr", title)


WINDOW = 5
LEMMA: dict[str, str] = {
    "all": "all i",
    "bounded": f"one of every {WINDOW}, at random",
    "sparse": "i = 1, 2, 4, 8, ... (gaps grow)",
    "uneven": "even i, if their rates are 2^-i (not monotone)",
}


def subsequence(name: str, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the indices 1 .. length are picked, and the rates there; else the rates are 1 / i.

    Lemma B.1: rates that decrease, with an infinite sum and a finite sum of squares, keep both
    along any subsequence with bounded gaps.
    """
    index = np.arange(1, length + 1)
    rate = 1.0 / index
    if name == "bounded":
        window = np.arange(length // WINDOW)
        index = WINDOW * window + np.random.default_rng(0).integers(1, WINDOW + 1, len(window))
    elif name == "sparse":
        index = 2 ** np.arange(int(np.log2(length)) + 1)
    elif name == "uneven":
        index = index[1::2]
        rate[1::2] = 0.5**index
    return index, rate[index - 1]


def figure(found: dict[str, Curves], path: Path) -> None:
    """Distance of Q and of the policy in the worst context; sums of learning rates."""
    from matplotlib.figure import Figure

    shape = Figure(figsize=(12.5, 4.2), layout="constrained")
    errors, regrets, sums = shape.subplots(1, 3)
    for i, (name, curves) in enumerate(found.items()):
        style = {"color": COLOURS[i], "label": SETTINGS[name].label}
        for axis, values in ((errors, curves.error), (regrets, curves.regret)):
            worst = values.max(-1)  # [P, seeds]
            axis.plot(curves.step, np.median(worst, axis=1), lw=1.4, **style)
            band = worst.min(axis=1), worst.max(axis=1)
            axis.fill_between(curves.step, *band, color=COLOURS[i], alpha=0.18, lw=0)
    errors.set(xscale="log", yscale="log", xlabel="steps", title="max |Q - Q*|, worst context")
    regrets.set(xscale="log", xlabel="steps", title="max V* - V, greedy policy, worst context")
    for i, (name, label) in enumerate(LEMMA.items()):
        index, rate = subsequence(name, 1_000_000)
        sums.plot(index, np.cumsum(rate), color=COLOURS[i], ls=STYLES[i % 3], lw=1.4, label=label)
    sums.set(xscale="log", ylim=(0, 19), xlabel="i", title="Sums of learning rates 1 / i")
    for axis in (errors, regrets, sums):
        axis.spines[["top", "right"]].set_visible(False)
    errors.legend(frameon=False, fontsize=8, loc="lower left")
    sums.legend(frameon=False, fontsize=8, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    shape.savefig(path, dpi=130)
