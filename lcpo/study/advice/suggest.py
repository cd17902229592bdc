"""Which agent and settings to start with: rules, as functions of facts.

The rules for short runs were measured on small tasks with 10,000 to 100,000 steps, those for long
ones on drawn Pendulum traces with 2 million (docs/suggest.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from lcpo.agents.normalise import RUNNING
from lcpo.run.plan.agents import Choice
from lcpo.study.advice.facts import Facts

LONG = 500_000
"""Runs of at least so many steps are long. The limit lies between the numbers of steps that were
measured: 10,000, 30,000, 100,000 and 2 million."""


FAIR = 50_000
"""Runs of at least so many steps learn a horizon of 100 steps."""


class Suggestion(NamedTuple):
    """An agent to start with, and why."""

    first: Choice
    normalise: str | None
    reasons: tuple[str, ...]
    others: tuple[Choice, ...]
    """Agents to compare it with."""


def suggest(facts: Facts) -> Suggestion:
    """What to start with."""
    is_long = facts.steps >= LONG
    first, *others = long_run() if is_long else short_run(facts)
    why = _long_reasons() if is_long else _short_reasons(facts, first)
    reasons = [*why, *_scale_reasons(facts)]
    scaled = RUNNING if facts.out_of_scale else None
    return Suggestion(first, scaled, tuple(reasons), tuple(others))


def short_run(facts: Facts) -> tuple[Choice, ...]:
    """The suggestion for a short run, and agents of other kinds."""
    if facts.episode_length is not None:
        return replay(facts.steps), plus(0.95), ppo()
    horizons = (0.95, 0.99) if facts.steps < FAIR else (0.99, 0.95)
    return *map(plus, horizons), replay(facts.steps), ppo()


def plus(gamma: float) -> Choice:
    """LCPO+: many updates, large first steps, little entropy."""
    settings: dict[str, Any] = {
        "rollout_length": 50,
        "gamma": gamma,
        "entropy_coef": 0.003,
        "entropy_floor": False,
        "c_0": 0.03,
        "tau": 100.0,
        "c_anchor": 0.001,
        "w_v": 1.0,
        "w_pi": 0.0,
        "value_steps": 5,
        "cg_iterations": 8,
        "buffer_size": 10_000,
    }
    return Choice("lcpo-plus", settings)


def replay(steps: int) -> Choice:
    """DDQN: 20 gradient steps after 50 interactions; exploration that ends early."""
    settings: dict[str, Any] = {
        "rollout_length": 50,
        "updates_per_rollout": 20,
        "batch_size": 128,
        "gamma": 0.95,
        "random_steps": steps // 50,
        "epsilon_steps": steps // 10,
    }
    return Choice("ddqn", settings)


def ppo() -> Choice:
    """PPO: many updates, a larger learning rate, a short horizon."""
    settings = {"rollout_length": 50, "gamma": 0.95, "learning_rate": 0.001, "value_steps": 5}
    return Choice("ppo", settings)


def long_run() -> tuple[Choice, ...]:
    """The recommended settings of docs/which_agent.md."""
    learns_faster: dict[str, Any] = {
        "rollout_length": 200,
        "c_0": 0.003,
        "tau": 333.0,
        "c_anchor": 0.0001,
        "w_v": 4.0,
        "w_pi": 0.25,
        "entropy_floor": True,
        "value_steps": 5,
        "cg_iterations": 8,
    }
    return (
        Choice("lcpo-uniform", {"rollout_length": 200, "c_anchor": 0.001, "value_steps": 5}),
        Choice("lcpo-plus", learns_faster),
        Choice("ppo", {"rollout_length": 200, "value_steps": 5}),
        Choice("sac", {"rollout_length": 200, "updates_per_rollout": 10}),
    )


def _short_reasons(facts: Facts, first: Choice) -> Iterator[str]:
    steps = facts.steps
    yield (
        f"{steps:,} steps are a short run: the defaults of most agents are for millions of steps, "
        "and learn too slowly"
    )
    yield from _plus_reasons(steps) if first.name == "lcpo-plus" else _replay_reasons(steps)
    if first.config["gamma"] == 0.95:
        yield (
            "gamma = 0.95: a horizon of 20 steps is learned faster than the default's 100; compare "
            "0.99 if rewards follow an action much later"
        )
    else:
        yield (
            f"gamma = 0.99: from {FAIR:,} steps on, a horizon of 100 steps can be learned; compare "
            "0.95 if rewards follow an action soon"
        )


def _plus_reasons(steps: int) -> Iterator[str]:
    yield "lcpo-plus: the best kind of agent, on average, on small tasks whose episodes never end"
    yield (
        f"rollout_length = 50: {steps // 50:,} updates instead of {steps // 200:,} with the "
        "default of 200"
    )
    yield (
        "c_0 = 0.03, tau = 100: a large limit at first, when there is little to forget; it shrinks "
        "to c_anchor = 0.001"
    )
    yield "entropy_coef = 0.003: with the default of 0.03 a short run stays close to random actions"


def _replay_reasons(steps: int) -> Iterator[str]:
    yield "ddqn: the best kind of agent, on average, on small tasks with episodes that end"
    yield (
        f"updates_per_rollout = 20, rollout_length = 50: {steps // 50 * 20:,} gradient steps "
        f"instead of {steps // 200:,} with the defaults"
    )
    yield (
        f"random_steps = {steps // 50:,}, epsilon_steps = {steps // 10:,}: exploration takes an "
        "eighth of the run instead of nearly a third"
    )


def _long_reasons() -> Iterator[str]:
    yield (
        "lcpo-uniform: the recommended agent for long runs, ahead of the paper's LCPO on all drawn "
        "Pendulum traces"
    )
    yield "c_anchor = 0.001: larger steps than the paper's 0.0001 learn faster at no cost"
    yield "value_steps = 5: a better value function for a few microseconds per step"
    yield (
        "compare lcpo-plus: it learns faster on nearly all drawn Pendulum traces, but not on every "
        "task"
    )


def _scale_reasons(facts: Facts) -> Iterator[str]:
    if facts.out_of_scale:
        places = ", ".join(map(str, facts.out_of_scale))
        yield f"normalise = running: networks learn poorly from the scale of entry {places}"
