"""The command lines that repeat a run, start one like it, and calibrate sigma for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from lcpo import config as configs
from lcpo.agents import AGENTS, constant, find_agent, presets
from lcpo.contexts import paper
from lcpo.envs import ENVS
from lcpo.run.plan.job import Job, env_values, find_env


def train_command(job: Job, seeds: Sequence[int] = ()) -> str:
    """`lcpo train ...` with the values in which the run differs from today's defaults.

    `seeds`: of several runs that differ in nothing else. Nothing is imported: for an agent or
    environment outside this library, every value is spelled out.
    """
    words = ["lcpo", "train", "--agent", job.agent, "--env", job.env]
    default_scale = 1.0
    if job.trace is not None:
        words += ["--trace", str(job.trace)]
        default_scale = paper.default_scale(job.env, job.trace)
    if job.scale != default_scale:
        words += ["--scale", repr(job.scale)]
    words += ["--steps", str(job.steps)]
    if job.training:
        words += ["--training-steps", str(job.training.get("steps"))]
    words += _normalise(job)
    chosen = ",".join(map(str, seeds or [job.seed]))
    words += ["--seeds", chosen if "," in chosen else f"{chosen},"]  # one alone would be a number
    words += changes("", job.config, _agent_defaults(job))
    known = configs.to_json(configs.make(ENVS[job.env], {})) if job.env in ENVS else {}
    words += changes("env.", env_values(job), known)
    return shlex.join(words)


def calibrate_command(job: Job) -> str:
    """`lcpo calibrate ...` for the environment of a run. It is imported, as the run did."""
    words = ["lcpo", "calibrate", "--env", job.env, *_normalise(job)]
    default = configs.to_json(configs.make(find_env(job.env), {}))
    return shlex.join([*words, *changes("env.", env_values(job), default)])


def start_command(job: Job, settings: Mapping[str, Any]) -> str:
    """`lcpo train ...` for runs like this one, with these settings in full."""
    words = ["lcpo", "train", "--agent", job.agent, *_world(job)]
    return shlex.join([*words, *changes("", settings, {})])


def compare_command(job: Job, agents: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """`lcpo compare ...` in the world of a run: agents, each with its settings in full."""
    texts = []
    for name, settings in agents:
        values = ",".join(f"{field}={_value(value)}" for field, value in settings.items())
        texts.append(f"{name}[{values}]" if values else name)
    return shlex.join(["lcpo", "compare", "--agents", ",".join(texts), *_world(job)])


def _world(job: Job) -> list[str]:
    """Environment, trace, steps and scaling. The environment is imported, as a run does."""
    words = ["--env", job.env]
    if job.trace is not None:
        words += ["--trace", str(job.trace)]
        if job.scale != paper.default_scale(job.env, job.trace):
            words += ["--scale", repr(job.scale)]
    default = configs.to_json(configs.make(find_env(job.env), {}))
    words += ["--steps", str(job.sized_for or job.steps), *_normalise(job)]
    return [*words, *changes("env.", env_values(job), default)]


def _value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else str(value)


def _normalise(job: Job) -> list[str]:
    rule = job.normalise
    text = rule if isinstance(rule, str) else ",".join(map(str, rule or ()))
    return ["--normalise", text] if rule else []


def _agent_defaults(job: Job) -> Mapping[str, Any]:
    if job.agent not in AGENTS and not constant.is_action(job.agent):
        return {}
    agent = find_agent(job.agent)
    given = presets.settings(agent, job.env, ENVS.get(job.env))
    config = configs.make(agent.Config, {**agent.presets, **given})
    steps = (job.training or {}).get("steps", job.steps)
    return configs.to_json(configs.resolve(config, steps))


def changes(prefix: str, values: Mapping[str, Any], default: Mapping[str, Any]) -> list[str]:
    """The options of values that differ from the default; `prefix`: of their names."""
    words = []
    for name, value in values.items():
        if name in default and default[name] == value:
            continue
        no = "no-" if value is False else ""
        several = isinstance(value, (list, tuple))
        given = [] if isinstance(value, bool) else value if several else [value]
        words += [f"--{prefix}{no}{name.replace('_', '-')}", *map(_value, given)]
    return words
