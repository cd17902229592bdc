"""The paper's Theorem B.2: tabular Q-learning finds the best policy in every context.

On a random MDP per context (`SwitchingMDP`), whose Q* is known, runs that satisfy the assumptions
are compared with runs that violate one each. The third panel shows Lemma B.1, on sums of learning
rates along a subsequence. docs/theory.md explains the assumptions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.agents import tabular_q
from lcpo.envs.base import Advance
from lcpo.envs.probes import SwitchingMDP
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import plan
from lcpo.run.store import checkpoint as checkpoints
from lcpo.run.store.results import Result
from lcpo.study.report import figures
from lcpo.study.report.cells import Cell, Column, Count, Median
from lcpo.study.report.document import seeds_table
from lcpo.study.report.figures import COLOURS, STYLES
from lcpo.study.report.tables import Table
from lcpo.study.study import Options, Report, Study
from lcpo.types import Array, Metrics, Spec, Transition

ENV = SwitchingMDP()
"""The MDPs of all runs, which differ only in what moves the context."""
GAMMA = 0.8
ROLLOUT = 100
POINTS = 40
"""Points of a curve, evenly spaced in the logarithm of time."""


class Setting(NamedTuple):
    """The assumption that is violated, and how."""

    label: str
    config: dict[str, float]
    advance: Advance = "episode"
    trace: str = "turns-100"


SETTINGS: dict[str, Setting] = {
    "holds": Setting("all assumptions hold", {}),
    "greedy": Setting("no exploration", {"epsilon": 0.0}),
    "short": Setting("rates 1 / n^2: finite sum", {"omega": 2.0}),
    "constant": Setting("rate 1 / 5: squares do not sum", {"omega": 0.0, "learning_rate": 0.2}),
    "within": Setting("context changes every 3 steps", {}, "step", "turns-3"),
}


@dataclasses.dataclass(frozen=True)
class TheoremOptions(Options):
    """Options of the study."""

    without: ClassVar[tuple[str, ...]] = ("agents", "envs", "traces", "scale")

    steps: int = 1_000_000
    """Interactions of each run."""


def plan_runs(options: TheoremOptions) -> list[Job]:
    """Every setting with every seed."""
    env = f"{SwitchingMDP.__module__}:{SwitchingMDP.__name__}"
    return [
        job
        for name, setting in SETTINGS.items()
        for job in plan(
            f"{__name__}:agent",
            env,
            trace=setting.trace,
            steps=options.steps,
            seeds=options.num_seeds(8),
            overrides={"rollout_length": ROLLOUT, "gamma": GAMMA, **setting.config},
            env_overrides={"advance": setting.advance},
            published=options.published,
            variant=name,
            check=options.check,
        )
    ]


def report(options: TheoremOptions, results: Sequence[Result]) -> Report:
    """The distance of the runs to the optimum over time, and at the end."""
    del options
    found = measure(results)
    return Report(
        seeds=seeds_table(results, seed_numbers),
        tables={"table": summary(found)},
        figures={"figure": draw(found)},
    )


def update(
    config: tabular_q.Config, spec: Spec, state: tabular_q.State, batch: Transition, key: Array
) -> tuple[tabular_q.State, Metrics]:
    """Tabular Q-learning's, with the table's distance to the optimum as metrics."""
    state, metrics = tabular_q.update(config, spec, state, batch, key)
    q = jnp.swapaxes(q_table(state), 0, 1)[:, :-1]  # [C, S - 1, A], without the terminal state
    best = jnp.asarray(optimum(ENV, GAMMA)[:, :-1], jnp.float32)
    error = jnp.max(jnp.abs(q - best), axis=(1, 2))
    # With only 81 policies in each context, the regret of each is looked up.
    place = np.asarray(_places(ENV), np.int32)
    policy = jnp.sum(jnp.argmax(q, axis=-1).astype(jnp.int32) * place[None], axis=-1)
    regrets = jnp.asarray(policy_regrets(ENV, GAMMA), jnp.float32)
    for context in range(ENV.num_contexts):
        metrics[f"q_error_{context}"] = error[context]
        metrics[f"regret_{context}"] = regrets[context, policy[context]]
    return state, metrics


agent = dataclasses.replace(tabular_q.agent, name="tabular-q-measured", update=update)


def q_table(state: tabular_q.State) -> Array:
    """Q, [states, contexts, actions]."""
    (entries,) = jax.tree.leaves(state.q)
    return entries


class Curves(NamedTuple):
    """The distance of a setting's runs to the optimum over time.

    The last point is exact; the others are means over a row of the record.
    """

    step: np.ndarray  # [P]
    error: np.ndarray  # [P, seeds, contexts], max over s, a of |Q - Q*|
    regret: np.ndarray  # [P, seeds, contexts], max over s of V* - V of the greedy policy


def measure(results: Sequence[Result]) -> dict[str, Curves]:
    """The curves of each setting that has a finished run."""
    found = {}
    for name in SETTINGS:
        runs = [r for r in results if r.job.variant == name and r.status == "finished"]
        if not runs:
            continue
        rows = np.unique(np.geomspace(1, len(runs[0].record["step"]), POINTS).astype(int)) - 1
        error, regret = (
            np.array(
                [[run.record[f"{metric}_{c}"][rows] for c in range(ENV.num_contexts)]
                 for run in runs], np.float64
            ).transpose(2, 0, 1)
            for metric in ("q_error", "regret")
        )  # fmt: skip
        error[-1], regret[-1] = distances(ENV, np.stack([final_q(run) for run in runs]))
        found[name] = Curves(runs[0].record["step"][rows], error, regret)
    return found


def final_q(result: Result) -> np.ndarray:
    """Q at the end of a finished run, [contexts, states, actions]."""
    shapes = jax.eval_shape(
        lambda key: agent.init(agent.config(), ENV.spec, key), jax.random.key(0)
    )
    state = checkpoints.unflatten(shapes, result.policy()[1])
    return np.swapaxes(np.asarray(q_table(state)), 0, 1)


def seed_numbers(result: Result) -> dict[str, float]:
    """A run's numbers in seeds.csv: its end, in the worst context."""
    error, regret = distances(ENV, final_q(result))
    return {"max_q_error": float(error.max()), "max_regret": float(regret.max())}


@functools.cache
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


@functools.cache
def policy_regrets(env: SwitchingMDP, gamma: float) -> np.ndarray:
    """max V* - V of every deterministic policy, numbered by its actions times `_places`: [C, P]."""
    states, actions = env.num_states - 1, range(env.num_actions)
    policies = np.array([(*p, 0) for p in itertools.product(actions, repeat=states)])
    each = np.broadcast_to(policies[:, None], (len(policies), env.num_contexts, states + 1))
    best = optimum(env, gamma).max(-1)[:, :-1]
    return np.maximum((best - policy_value(env, each, gamma)).max(-1), 0.0).T


def _places(env: SwitchingMDP) -> np.ndarray:
    return env.num_actions ** np.arange(env.num_states - 2, -1, -1)


def distances(env: SwitchingMDP, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(max |Q - Q*|, max V* - V of the greedy policy) per context, for q [..., C, S, A]."""
    best = optimum(env, GAMMA)
    error = np.abs(q - best)[..., :-1, :].max((-2, -1))
    regret = best.max(-1)[:, :-1] - policy_value(env, q.argmax(-1), GAMMA)
    return error, np.maximum(regret.max(-1), 0.0)  # no "-0.000" of rounding


def summary(found: dict[str, Curves]) -> Table:
    """The end of the runs: the worst context, median and worst over seeds."""
    rows: list[list[Cell]] = []
    for name, curves in found.items():
        error, regret = curves.error[-1].max(-1), curves.regret[-1].max(-1)
        spreads = map(Median.of, (error, regret))
        optimal = Count(int(np.sum(regret < 1e-9)), len(regret))
        rows.append([SETTINGS[name].label, *spreads, optimal])
    steps = int(next(iter(found.values())).step[-1])
    about = {
        "max |Q - Q*|": "distance of the learned values to the optimum",
        "max V* - V": "what the greedy policy loses",
        "best policy everywhere": "seeds whose greedy policy is optimal in every context",
    }
    columns = [Column(name, decimals=3, about=words) for name, words in about.items()]
    title = f"after {steps:,} steps, in the worst context; median over seeds (lowest .. highest)"
    heading = "Distance of tabular Q-learning to the optimum"
    return Table(["setting", *columns], rows, title=title, heading=heading)


WINDOW = 5
LEMMA: dict[str, str] = {
    "all": "all i",
    "bounded": f"one of every {WINDOW}, at random",
    "sparse": "i = 1, 2, 4, 8, ... (gaps grow)",
    "uneven": "even i, if their rates are 2^-i (not monotone)",
}


def subsequence(name: str, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The picked indices of 1 .. length, and the rates there, 1 / i unless the name says otherwise.

    Lemma B.1: decreasing rates with an infinite sum and a finite sum of squares keep both along any
    subsequence with bounded gaps.
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


def draw(found: dict[str, Curves]) -> figures.Picture:
    """Distance of Q and of the policy in the worst context; sums of learning rates."""
    shape = figures.new_figure(12.5, 4.2)
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
    return figures.to_picture(
        shape,
        "Distance to the optimum over time, and sums of learning rates",
        "Left and middle: the worst context, median over seeds with the range as a band. Right: "
        "the sums of learning rates along subsequences, which Lemma B.1 is about.",
        dpi=130,
    )


HELP = "Theorem B.2: tabular Q-learning in every context, and what breaks it"
study = Study(HELP, TheoremOptions, plan_runs, report)
