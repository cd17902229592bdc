"""From what a user asks for to jobs, all checked before any work."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from lcpo import config as configs
from lcpo import defaults
from lcpo import values as plain_values
from lcpo.agents import find_agent, presets
from lcpo.agents import normalise as scaled
from lcpo.agents.presets import WHOLE, shorten
from lcpo.contexts import TraceRef, paper
from lcpo.envs.base import AnyEnv, is_host, open_anywhere_of
from lcpo.errors import InputError
from lcpo.names import unknown
from lcpo.run.plan import phases
from lcpo.run.plan.check import check_env, check_program, check_rollout_length
from lcpo.run.plan.job import PUBLISHED, Job, find_env, is_file_name
from lcpo.run.plan.phases import Phase
from lcpo.types import AnyAgent, Spec, Training

MAX_RUNS = 100_000
"""Of one plan: far more than anybody waits for, and few enough for a list of them."""
MAX_NAME_BYTES = 240
"""Of a run's name, which is a folder's: file systems allow 255 bytes."""
MAX_SCALE = 1e30
"""Of a trace: its entries are small numbers, and stay finite in float32."""


def plan(
    agent: str,
    env: str,
    *,
    trace: str | os.PathLike[str] | TraceRef | None,
    steps: int | None = None,
    seeds: int | Iterable[int],
    scale: float | None = None,
    fraction: Fraction = WHOLE,
    overrides: Mapping[str, Any] | None = None,
    env_overrides: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Iterable[Any]] | None = None,
    training_steps: int | None = None,
    normalise: Any = None,
    published: bool = False,
    variant: str = "",
    name_setting: bool = False,
    check: bool = True,
) -> list[Job]:
    """The jobs of one call of `train`: every value of the sweep with every seed, checked.

    `seeds`: how many (0, 1, ...), or which.
    `fraction`: of the time that everything else is given for. The trace is played so much faster;
    steps, training steps and config values that are counted in steps are as much fewer.
    `normalise`: how the agent sees observations (`lcpo.agents.normalise.read_rule`).
    `published`: with the values and all faults of the published code, below what is overridden.
    `variant`: tells the runs from others of the same agent; it goes into their names, and so does
    the published setting, where `name_setting` says so.
    `check`: whether environment and agents are tried out, a second or so for each program; without
    it the jobs are good for counting only.
    """
    chosen, env_class = find_agent(agent), find_env(env)
    faults = configs.published_faults(env_class) if published else {}
    overrides, env_overrides = (
        check_dict("config", overrides),
        check_dict("env_config", env_overrides),
    )
    sweep, seeds = _check_sweep(sweep, overrides), check_seeds(seeds)
    check_count(len(seeds) * math.prod(len(values) for values in sweep.values()))
    the_env: AnyEnv = configs.make(env_class, {**faults, **env_overrides})
    if check:
        check_env(the_env, f"environment {env!r}")
    steps = None if steps is None else plain_values.whole("steps", steps)
    rule = _check_rule(chosen, the_env, normalise)
    chosen = scaled.normalise(chosen, rule, the_env.advance == "own")
    training = _training(chosen, the_env, env, training_steps)
    if training is not None:
        training = training._replace(steps=int(training.steps * fraction))
    context = find_context(the_env, env, trace, scale, steps, fraction)
    given = presets.settings(chosen, env, env_class)
    given |= {**(presets.published(chosen, env, env_class) if published else {}), **overrides}
    jobs: list[Job] = []
    for values in itertools.product(*sweep.values()):
        point = dict(zip(sweep, values, strict=True))
        config = configs.make(chosen.Config, {**chosen.presets, **given, **point})
        config = shorten(config, fraction)
        resolved = _resolve(chosen, the_env.spec, context.steps, training, config, fraction, check)
        rows = resolved["steps"] if the_env.advance == "step" else None
        digest = context.trace and context.trace.file_digest(rows, context.scale)
        jobs += [
            Job(
                agent=agent,
                env=env,
                trace=context.trace,
                scale=context.scale,
                seed=seed,
                env_config=configs.to_json(the_env),
                variant=plain_values.file_name(variant),
                setting=PUBLISHED if published and name_setting else "",
                point={name: plain_values.file_name(f"{x}") for name, x in point.items()},
                trace_digest=digest,
                normalise=scaled.to_json(rule),
                **resolved,
            )
            for seed in seeds
        ]
        _check_name(jobs[-1].name)
    return jobs


def _check_rule(agent: AnyAgent, env: AnyEnv, normalise: Any) -> scaled.Rule:
    """The rule that is meant; InputError where agent or environment cannot be run by it."""
    rule = scaled.read_rule(normalise)
    if rule is not None and agent.raw:
        raise InputError(
            f"agent {agent.name!r} reads observations in the environment's own units: leave "
            f"normalise = {plain_values.shown(normalise)} out"
        )
    scaled.check_rule(rule, env.spec, env.advance == "own")
    return rule


def check_seeds(seeds: int | Iterable[int]) -> list[int]:
    """The seeds that are meant by a number of them, or by a list; InputError where none are."""
    given, need = plain_values.plain(seeds), "at least one seed"
    if plain_values.is_number(given):
        if plain_values.is_whole(given) and given > MAX_RUNS:
            check_count(int(given))
        if not plain_values.is_whole(given) or given < 1:
            plain_values.refuse("seeds", seeds, f"{need}, as a whole number or a list")
        return list(range(int(given)))
    if isinstance(given, (bool, str, bytes, Mapping)) or not isinstance(given, Iterable):
        plain_values.refuse("seeds", seeds, "a whole number, or a list such as [3, 7]")
    found = list(itertools.islice(given, MAX_RUNS + 1))
    check_count(len(found))
    found = [plain_values.whole("seed", seed, 0) for seed in found]
    if not found or len(set(found)) < len(found):
        plain_values.refuse("seeds", found, f"{need}, and each once")
    return found


def check_count(runs: int) -> None:
    """Raise InputError where a plan has more runs than anybody waits for."""
    if runs > MAX_RUNS:
        many = f"{runs:,}" if runs <= 10**15 else "very many"
        raise InputError(f"{many} runs: a plan has at most {MAX_RUNS:,}; make several of it")


def _check_sweep(
    sweep: Mapping[str, Iterable[Any]] | None, overrides: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Values by field: some for each, and none twice."""
    checked = {}
    for field, values in check_dict("sweep", sweep).items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            plain_values.refuse(f"sweep of {field}", values, "a list of values")
        found = [_without_numpy(x) for x in itertools.islice(values, MAX_RUNS + 1)]
        if not found or len(set(map(_text_of_value, found))) < len(found):
            plain_values.refuse(f"sweep of {field}", found, "at least one value, and each once")
        if field in overrides:
            raise InputError(f"{field} is both set and swept: leave one of them out")
        checked[field] = found
    return checked


def _without_numpy(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _text_of_value(value: Any) -> str:
    """The same for values that are equal as config values: 1 and 1.0."""
    if plain_values.is_whole(value):
        value = int(value)
    return plain_values.shown(list(value) if isinstance(value, tuple) else value, 1000)


def check_dict(what: str, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Names and values, none where there is None; InputError for anything else."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        plain_values.refuse(what, values, "a dict of names and values")
    return values


def _check_name(name: str) -> None:
    """A run's name is the name of its folder."""
    size = len(name.encode(errors="replace"))
    if size > MAX_NAME_BYTES:
        raise InputError(
            f"the run {name[:40]!r}... would have a name of {size} bytes: needs at most "
            f"{MAX_NAME_BYTES}, as the name of a folder; give the trace file a shorter path, or "
            "sweep fewer fields at a time"
        )
    if not is_file_name(name):
        raise InputError(
            f"the run {name!r} would be the name of a folder: needs names of agent, environment, "
            "trace and values without control characters and backslashes"
        )


class Context(NamedTuple):
    """What drives a run, and for how long."""

    trace: TraceRef | None
    scale: float
    steps: int


def _resolve(
    agent: AnyAgent,
    spec: Spec,
    steps: int,
    training: Training | None,
    config: Any,
    fraction: Fraction,
    check: bool,
) -> dict[str, Any]:
    """The fields of a job that depend on its config, checked: steps, sizes, config, training."""
    spec = spec if training is None else phases.training_spec(spec)
    config = configs.resolve(config, training.steps if training else steps, fraction)
    check_rollout_length(agent, config)
    parts = phases.make_phases(steps, training, config.rollout_length, spec.num_worlds)
    _check_length(agent, parts, training, steps)
    if check:
        check_program(agent, config, spec)
    return {
        "steps": parts[-1].steps,
        "sized_for": None if training or steps == parts[-1].steps else steps,
        "config": configs.to_json(config),
        "training": phases.to_json(training and training._replace(steps=parts[0].steps)),
    }


def _training(
    agent: AnyAgent, env: AnyEnv, env_name: str, training_steps: int | None
) -> Training | None:
    """The agent's plan with the steps asked for; InputError where it cannot be followed."""
    plan = agent.training
    if plan is None:
        if training_steps is not None:
            raise InputError(
                f"agent {agent.name!r} learns while it is judged: training steps belong to agents "
                "that train before, such as prescient-a2c"
            )
        return None
    if env.advance == "own" and not (is_host(env) and open_anywhere_of(env)):
        raise InputError(
            f"environment {env_name!r} makes its own context: {agent.name!r} needs a trace, "
            "to start anywhere on it"
        )
    known = configs.traced_fields(agent.Config)
    for field in plan.halve:
        if field not in known:
            raise InputError(unknown("field to halve", field, known))
    if training_steps is None:
        return plan
    return plan._replace(steps=plain_values.whole("training steps", training_steps))


def _check_length(
    agent: AnyAgent, parts: Sequence[Phase], training: Training | None, steps: int
) -> None:
    given = {"steps": steps, "training steps": training.steps if training else 0}
    for phase in parts:
        if phase.num_updates < 1:
            what = "training steps" if phase.name == "training" else "steps"
            one = "epoch" if phase.name == "evaluation" else "update"
            raise InputError(
                f"{what} = {given[what]:,}: needs at least one {one}, "
                f"{phase.steps_per_update:,} steps of agent {agent.name!r}: run it for longer, or "
                "leave it out"
            )
    total = sum(phase.steps for phase in parts)
    if total > plain_values.INT_MAX:
        raise InputError(f"{total:,} steps in all: needs at most {plain_values.INT_MAX:,}")


def find_context(
    env: AnyEnv,
    env_name: str,
    trace: str | os.PathLike[str] | TraceRef | None,
    scale: float | None,
    steps: int | None,
    fraction: Fraction,
) -> Context:
    """Check that the trace fits the environment and lasts for the run."""
    trace = None if trace is None else TraceRef.parse(trace)
    usual = defaults.of(env_name, env)
    steps = None if steps is None else max(1, int(steps * fraction))
    if scale is not None:
        scale = plain_values.number("scale", scale, -MAX_SCALE, MAX_SCALE)
    if env.advance == "own":
        if trace is not None:
            raise InputError(
                f"environment {env_name!r} takes no trace, got {trace!r}: leave it out"
            )
        if steps is None:
            raise InputError("say how many steps to run")
        return Context(None, 1.0, steps)
    if trace is None:
        trace = None if usual.trace is None else TraceRef.parse(usual.trace)
        first = int(usual.first_steps * fraction)
        steps = first or None if steps is None else steps
    if trace is None:
        raise InputError(f"environment {env_name!r} is driven by a trace: name one, e.g. --trace 3")
    trace = trace.faster(fraction)
    scale = paper.default_scale(env_name, trace) if scale is None else scale
    by_step = env.advance == "step"
    rows, columns = trace.shape(steps if by_step else None, scale)
    channels = env.spec.context.channels
    if columns != channels:
        raise InputError(f"trace {trace!r} has {columns} columns, {env_name!r} needs {channels}")
    steps = steps or int(usual.steps * trace.fraction) or (rows if by_step else None)
    if steps is None:
        raise InputError("say how many steps to run")
    return Context(trace, scale, steps)
