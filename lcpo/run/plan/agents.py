"""The jobs of several agents on one environment: named ones, or all that can serve it.

An agent may have its own settings, which become part of the names of its runs:

    lcpo[sigma=110],a2c[learning_rate=1e-3,hidden=[32,32]],lcpo

Values are JSON, or else text, as in a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lcpo import values as plain_values
from lcpo.agents import AGENTS, constant, find_agent
from lcpo.errors import CannotServe, InputError
from lcpo.run.plan.job import Job
from lcpo.run.plan.plan import Trace, check_count, check_dict, plan

ALL = "all"
"""Stands for all agents that are evaluated while they learn."""
Agents = str | Iterable[str | tuple[str, Mapping[str, Any]]]
"""Names in one text, or a list of names and of (name, config) pairs."""
_NEED = "names separated by commas, each once, or again with other settings: lcpo,lcpo[sigma=2]"


class Choice(NamedTuple):
    """An agent of a comparison, and what differs from its defaults."""

    name: str
    config: Mapping[str, Any] = {}


def plan_agents(
    agents: Agents,
    env: str,
    *,
    sweep: Mapping[str, Iterable[Any]] | None = None,
    training_steps: int | None = None,
    normalise: Any = None,
    note: Callable[[str], None] = lambda text: None,
    **shared: Any,
) -> list[Job]:
    """The jobs of several agents, "a,b[field=value],c"; `shared` goes to `plan` with each.

    "all" stands for every agent of the library that can serve the environment; `note` receives the
    others. Training steps apply to agents that train before they are evaluated, `normalise` to
    those that do not need the environment's own units; `plan` refuses either if there are none.
    """
    named = read_agents(agents)
    chosen = [other for one in named for other in (_others(named) if one.name == ALL else [one])]
    before = [one for one in chosen if find_agent(one.name).training] or chosen
    scaled = [one for one in chosen if not find_agent(one.name).raw] or chosen
    swept = check_dict("sweep", sweep)
    jobs: list[Job] = []
    left_out: dict[str, list[str]] = {}
    for one in chosen:
        for field in one.config.keys() & swept.keys():
            raise InputError(f"{field} is both set and swept: leave one of them out")
        # An agent's own settings are a sweep of one point.
        points = {**{field: [value] for field, value in one.config.items()}, **swept}
        steps = training_steps if one in before else None
        rule = normalise if one in scaled else None
        try:
            jobs += plan(
                one.name, env, training_steps=steps, normalise=rule, sweep=points, **shared
            )
        except CannotServe as error:
            if one in named:
                raise
            left_out.setdefault(str(error).removeprefix(f"{one.name}: "), []).append(one.name)
    reasons = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in left_out.items())
    if not jobs:
        raise InputError(f"no agent can serve environment {env!r}: {reasons}")
    check_count(len(jobs))
    if left_out:
        note(f"left out of {ALL!r}: {reasons}")
    return jobs


def plan_traces(agents: Agents, env: str, *, traces: Sequence[Trace], **shared: Any) -> list[Job]:
    """The jobs of several agents on each of several traces; `shared` goes to `plan_agents`."""
    jobs = [job for trace in traces for job in plan_agents(agents, env, trace=trace, **shared)]
    check_count(len(jobs))
    return jobs


def read_agents(agents: Agents) -> list[Choice]:
    """The agents and their settings; InputError for anything else."""
    if isinstance(agents, (bytes, Mapping)) or not isinstance(agents, Iterable):
        plain_values.refuse("agents", agents, _NEED)
    items = _words(agents) if isinstance(agents, str) else agents
    found = [_read(item) for item in items]
    if not found or any(one in found[:i] for i, one in enumerate(found)):
        plain_values.refuse("agents", agents, _NEED)
    if any(one.name == ALL and one.config for one in found):
        raise InputError(f"{ALL!r} takes no settings: name the agents that should have them")
    return found


def _words(text: str) -> list[str]:
    """The agents in a text; numbers belong to the one before them, as in constant:1,0."""
    words: list[str] = []
    for part in plain_values.split("agents", text.strip().removesuffix(",")):
        if words and constant.is_action(words[-1]) and part.isdigit():
            words[-1] += f",{part}"
        else:
            words.append(part)
    return words


def _read(word: Any) -> Choice:
    """An agent with its settings: (name, config), or name[field=value,...] as text."""
    if isinstance(word, (tuple, list)) and len(word) == 2 and isinstance(word[0], str):
        return Choice(plain_values.name("agent", word[0]), check_dict("config", word[1]))
    if not isinstance(word, str):
        plain_values.refuse("agent", word, "a name, or a pair such as ('lcpo', {'sigma': 2})")
    name, bracket, rest = word.strip().partition("[")
    if not name:
        plain_values.refuse("agents", word, _NEED)
    if not bracket:
        return Choice(name)
    inner, end, after = rest.rpartition("]")
    if not end or after:
        plain_values.refuse("agents", word, "settings that end with ], as in lcpo[sigma=2],a2c")
    config: dict[str, Any] = {}
    for part in plain_values.split("agents", inner):
        field, _, value = part.partition("=")
        field = field.strip().replace("-", "_")
        if not field or not value.strip():
            plain_values.refuse(f"settings of {name}", part, f"field=value: {name}[gamma=0.9]")
        if field in config:
            raise InputError(f"{field} is given twice in {plain_values.shown(word)}: give it once")
        config[field] = plain_values.from_text(value.strip())
    return Choice(name.strip(), config)


def _others(named: list[Choice]) -> list[Choice]:
    """What "all" stands for besides agents that are named: LCPO first, as the reference.

    Prescient agents are left out: they see the whole trace before they are evaluated.
    """
    online = [Choice(name) for name, agent in AGENTS.items() if agent.training is None]
    return [one for one in sorted(online, key=lambda one: one.name != "lcpo") if one not in named]
