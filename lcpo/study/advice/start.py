"""`lcpo suggest`: what to start with on an environment, and the commands that do.

The facts come from a short play (`facts`), the rules from `suggest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lcpo import values
from lcpo.agents import find_agent, presets
from lcpo.errors import InputError
from lcpo.run.plan.agents import Choice, plan_agents
from lcpo.run.plan.job import find_env
from lcpo.run.plan.plan import Trace, plan
from lcpo.run.worker import cores
from lcpo.study.advice.facts import PLAYED, Facts, look
from lcpo.study.advice.findings import context_findings
from lcpo.study.advice.suggest import Suggestion, suggest
from lcpo.study.commands import compare_command, start_command
from lcpo.study.costs import HOST_US, in_full, in_words

LEAST = 1000
"""Steps that a suggestion needs: none of the agents learns from fewer."""
SLOW = HOST_US
"""Microseconds of a step beyond which the environment's share of the time is reported."""
EXPLORATION = {"random_steps", "epsilon_steps"}
"""Settings that are counted in steps of a run."""
SEEDS = 4
"""Of the printed commands: the default of `lcpo train`."""


class Start(NamedTuple):
    """What to start with."""

    env: str
    trace: str | None
    facts: Facts
    suggestion: Suggestion
    train: str
    """The command that trains it."""
    compare: str
    """The command that compares it with other agents, and with some that do not learn."""
    notes: tuple[str, ...]

    @property
    def about(self) -> str:
        """The facts in one line."""
        facts, on = self.facts, f", trace {self.trace}" if self.trace else ""
        actions = " x ".join(map(str, facts.num_actions))
        ends = f"episodes of about {facts.episode_length or 0:.0f} steps"
        if facts.episode_length is None:
            ends = f"no episode ended in {PLAYED:,} steps"
        slow = "" if facts.microseconds is None else f"; {facts.microseconds:.0f} us per step"
        return (
            f"{self.env}{on}, {facts.steps:,} steps: {facts.obs_size} observation entries, "
            f"{facts.channels} channels of context, {actions} actions; {ends}{slow}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        first = self.suggestion.first
        return {
            "env": self.env,
            "trace": self.trace,
            "facts": self.facts._asdict(),
            "agent": first.name,
            "settings": dict(first.config),
            "normalise": self.suggestion.normalise,
            "reasons": list(self.suggestion.reasons),
            "others": [{"agent": x.name, "settings": x.config} for x in self.suggestion.others],
            "train": self.train,
            "compare": self.compare,
            "notes": list(self.notes),
        }


def start(
    env: str,
    steps: int,
    *,
    trace: Trace = None,
    scale: float | None = None,
    env_overrides: Mapping[str, Any] | None = None,
) -> Start:
    """What to start with on an environment for so many steps. Plays it, and trains nothing."""
    steps = values.whole("steps", steps)
    if steps < LEAST:
        raise InputError(
            f"steps = {steps:,}: a suggestion needs at least {LEAST:,}, because no agent here "
            "learns from fewer; write a rule instead (docs/add_an_agent.md)"
        )
    world: dict[str, Any] = {"trace": trace, "scale": scale, "steps": steps, "seeds": SEEDS}
    world["env_overrides"] = env_overrides
    job = plan("random", env, **world)[0]
    facts = look(job)
    found = _suggestion_for(env, suggest(facts))
    jobs = plan_agents([found.first], env, normalise=found.normalise, **world)
    others = [*found.others, *baselines(facts)]
    train = start_command(jobs[0], found.first.config)
    compare = compare_command(jobs[0], [found.first, *others])
    notes = (f"lcpo train: {in_full(jobs, len(cores()))}", *_slow(facts), *context_findings(job))
    return Start(env, job.trace_name, facts, found, train, compare, notes)


def _slow(facts: Facts) -> list[str]:
    """A slow environment: that estimate is for a fast one."""
    if facts.microseconds is None or facts.microseconds < SLOW:
        return []
    took = in_words(facts.microseconds * facts.steps * SEEDS / 1e6)
    return [
        f"the environment alone takes {facts.microseconds:.0f} us per step, which is {took} of "
        f"processor time for {SEEDS} runs: more gradient steps add little to that"
    ]


def _suggestion_for(env: str, found: Suggestion) -> Suggestion:
    """With the values that the environment brings, and the reasons that still hold."""
    first, *others = [_for_env(one, env) for one in (found.first, *found.others)]
    others = [one for i, one in enumerate(others) if one not in (first, *others[:i])]
    ours = found.first.config
    brought = {name: value for name, value in first.config.items() if ours.get(name) != value}
    reasons = [
        reason
        for reason in found.reasons
        if not any(f"{name} = " in reason.partition(":")[0] for name in brought)
    ]
    if brought:
        shown = ", ".join(f"{name} = {value}" for name, value in brought.items())
        reasons.append(f"{shown}: values that the environment brings take precedence")
    return found._replace(first=first, others=tuple(others), reasons=tuple(reasons))


def _for_env(choice: Choice, env: str) -> Choice:
    """With the values that the environment brings for the agent, which take precedence.

    Exploration stays a share of this run, because the environment's values are for longer ones.
    """
    agent = find_agent(choice.name)
    given = presets.settings(agent, env, find_env(env))
    mine = presets.settings(agent, "")  # what makes it a variant
    kept = EXPLORATION & choice.config.keys()
    given = {n: x for n, x in given.items() if mine.get(n) != x and n not in kept}
    return choice._replace(config={**choice.config, **given})


def baselines(facts: Facts) -> list[Choice]:
    """Agents that do not learn. The middle action is often the one that does nothing."""
    middle = ",".join(str(count // 2) for count in facts.num_actions)
    return [Choice(f"constant:{middle}"), Choice("random")]
