"""Turns a user's request into jobs, all checked before training starts."""

from __future__ import annotations

import dataclasses
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
from lcpo.run.plan.job import MAX_NAME_BYTES, PUBLISHED, Job, find_env, is_file_name
from lcpo.run.plan.phases import Phase
from lcpo.types import AnyAgent, Training

MAX_RUNS = 100_000
"""Most runs of one plan."""
MAX_SCALE = 1e30
"""Largest scale of a trace: its entries are small numbers, and must stay finite in float32."""
Trace = str | os.PathLike[str] | TraceRef | None


def plan(
    agent: str,
    env: str,
    *,
    trace: Trace,
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
    `fraction`: of the time that everything else is given for. The trace is played that much faster;
    steps, training steps and config values that are counted in steps shrink with it.
    `normalise`: how the agent sees observations (`lcpo.agents.normalise.read_rule`).
    `published`: with the values and all faults of the published code, below what is overridden.
    `variant`: part of the names of runs, to distinguish them from others of the same agent; so is
    the published setting, with `name_setting`.
    `check`: whether environments and agents are checked, about a second per program; without it the
    jobs can only be counted.
    """
    chosen, env_class = find_agent(agent), find_env(env)
    faults = configs.published_faults(env_class) if published else {}
    overrides = check_dict("config", overrides)
    env_overrides = check_dict("env_config", env_overrides)
    sweep, seeds = _check_sweep(sweep, overrides), check_seeds(seeds)
    check_count(len(seeds) * math.prod(len(values) for values in sweep.values()))
    the_env: AnyEnv = configs.make(env_class, {**faults, **env_overrides})
    if check:
        check_env(the_env, f"environment {env!r}")
    steps = None if steps is None else plain_values.whole("steps", steps)
    rule, own = scaled.read_rule(normalise), the_env.advance == "own"
    if rule is not None and chosen.raw:
        raise InputError(
            f"agent {chosen.name!r} reads observations in the environment's own units: leave out "
            f"normalise = {plain_values.shown(normalise)}"
        )
    scaled.check_rule(rule, the_env.spec, own)
    chosen = scaled.normalise(chosen, rule, own)
    training = _training(chosen, the_env, env, training_steps)
    if training is not None:
        training = training._replace(steps=int(training.steps * fraction))
    context = find_context(the_env, env, trace, scale, steps, fraction)
    given = presets.settings(chosen, env, env_class)
    given |= {**(presets.published(chosen, env, env_class) if published else {}), **overrides}
    spec = phases.training_spec(the_env.spec) if training else the_env.spec
    learned = training.steps if training else context.steps
    jobs: list[Job] = []
    for values in itertools.product(*sweep.values()):
        point = dict(zip(sweep, values, strict=True))
        config = configs.make(chosen.Config, {**chosen.presets, **given, **point})
        config = shorten(config, fraction)
        config = configs.resolve(config, learned, fraction)
        check_rollout_length(chosen, config)
        length = config.rollout_length
        parts = phases.make_phases(context.steps, training, length, spec.num_worlds)
        _check_phases(chosen, parts, context.steps, learned)
        if check:
            check_program(chosen, config, spec)
        steps, is_whole = parts[-1].steps, parts[-1].steps == context.steps
        rows = steps if the_env.advance == "step" else None
        job = Job(
            agent=agent,
            env=env,
            trace=context.trace,
            scale=context.scale,
            steps=steps,
            seed=seeds[0],
            config=configs.to_json(config),
            env_config=configs.to_json(the_env),
            variant=plain_values.file_name(variant),
            setting=PUBLISHED if published and name_setting else "",
            point={name: plain_values.file_name(f"{x}") for name, x in point.items()},
            training=phases.to_json(training and training._replace(steps=parts[0].steps)),
            trace_digest=context.trace and context.trace.file_digest(rows, context.scale),
            normalise=scaled.to_json(rule),
            sized_for=None if training or is_whole else context.steps,
        )
        jobs += [dataclasses.replace(job, seed=seed) for seed in seeds]
        _check_name(jobs[-1].name)
    return jobs


def check_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Seeds from their number or from a list; InputError if there are none."""
    given = plain_values.plain(seeds)
    if plain_values.is_number(given):
        if not plain_values.is_whole(given) or given < 1:
            plain_values.refuse("seeds", seeds, "at least one seed, as a whole number or a list")
        check_count(int(given))
        return list(range(int(given)))
    if isinstance(given, (bool, str, bytes, Mapping)) or not isinstance(given, Iterable):
        plain_values.refuse("seeds", seeds, "a whole number, or a list such as [3, 7]")
    found = list(itertools.islice(given, MAX_RUNS + 1))
    check_count(len(found))
    found = [plain_values.whole("seed", seed, 0) for seed in found]
    if not found or len(set(found)) < len(found):
        plain_values.refuse("seeds", found, "at least one seed, without duplicates")
    return found


def check_count(runs: int) -> None:
    """Raise InputError if a plan has too many runs."""
    if runs > MAX_RUNS:
        many = f"{runs:,}" if runs <= 10**15 else "very many"
        raise InputError(f"{many} runs: a plan has at most {MAX_RUNS:,}; split it into several")


def _check_sweep(
    sweep: Mapping[str, Iterable[Any]] | None, overrides: Mapping[str, Any]
) -> dict[str, list[Any]]:
    """Values by field: at least one each, without duplicates."""

    def text(value: Any) -> str:  # equal for 1 and 1.0, which are equal as config values
        value = int(value) if plain_values.is_whole(value) else value
        return plain_values.shown(list(value) if isinstance(value, tuple) else value, 1000)

    checked = {}
    for field, values in check_dict("sweep", sweep).items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            plain_values.refuse(f"sweep of {field}", values, "a list of values")
        found = list(itertools.islice(values, MAX_RUNS + 1))
        found = [x.tolist() if hasattr(x, "tolist") else x for x in found]  # NumPy's
        if not found or len(set(map(text, found))) < len(found):
            plain_values.refuse(
                f"sweep of {field}", found, "at least one value, without duplicates"
            )
        if field in overrides:
            raise InputError(f"{field} is both set and swept: leave one of them out")
        checked[field] = found
    return checked


def check_dict(what: str, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Names and values, empty for None; InputError for anything else."""
    values = {} if values is None else values
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        plain_values.refuse(what, values, "a dict of names and values")
    return values


def _check_name(name: str) -> None:
    size = len(name.encode(errors="replace"))
    if size > MAX_NAME_BYTES:
        raise InputError(
            f"the name of run {name[:40]!r}... has {size} bytes: needs at most {MAX_NAME_BYTES}, "
            "as the name of a folder; give the trace file a shorter path"
        )
    if not is_file_name(name):
        raise InputError(
            f"the name of run {name!r} is not a valid folder name: remove control characters and "
            "backslashes from the names of agent, environment, trace and values"
        )


class Context(NamedTuple):
    """What drives a run, and its length."""

    trace: TraceRef | None
    scale: float
    steps: int


def _check_phases(agent: AnyAgent, parts: Sequence[Phase], steps: int, training: int) -> None:
    """Raise InputError for a phase without updates, or for too many steps."""
    for phase in parts:
        if phase.num_updates < 1:
            is_training = phase.name == "training"
            given = f"training steps = {training:,}" if is_training else f"steps = {steps:,}"
            one = "epoch" if phase.name == "evaluation" else "update"
            raise InputError(
                f"{given}: needs at least one {one}, {phase.steps_per_update:,} steps of agent "
                f"{agent.name!r}: run more steps, or leave this agent out"
            )
    total = sum(phase.steps for phase in parts)
    if total > plain_values.INT_MAX:
        raise InputError(f"{total:,} steps in total: needs at most {plain_values.INT_MAX:,}")


def _training(
    agent: AnyAgent, env: AnyEnv, env_name: str, training_steps: int | None
) -> Training | None:
    """The agent's training plan with the given steps; InputError if it cannot be followed."""
    plan = agent.training
    if plan is None and training_steps is not None:
        raise InputError(
            f"agent {agent.name!r} learns while it is evaluated: --training-steps is for agents "
            "that train first, such as prescient-a2c"
        )
    if plan is None:
        return None
    if env.advance == "own" and not (is_host(env) and open_anywhere_of(env)):
        raise InputError(
            f"environment {env_name!r} makes its own context: {agent.name!r} trains "
            "from random rows of a trace; choose another agent or environment"
        )
    known = configs.traced_fields(agent.Config)
    for field in plan.halve:
        if field not in known:
            raise InputError(unknown("field to halve", field, known))
    steps = plan.steps if training_steps is None else training_steps
    return plan._replace(steps=plain_values.whole("training steps", steps))


def find_context(
    env: AnyEnv,
    env_name: str,
    trace: Trace,
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
    by_step = env.advance == "step"
    no_steps = InputError("give the number of steps to run (--steps)")
    if env.advance == "own":
        if trace is not None:
            raise InputError(
                f"environment {env_name!r} takes no trace: leave out --trace {trace!r}"
            )
        if steps is None:
            raise no_steps
        return Context(None, 1.0, steps)
    if trace is None:
        if usual.trace is None:
            raise InputError(
                f"environment {env_name!r} is driven by a trace: choose one, such as --trace 3"
            )
        trace = TraceRef.parse(usual.trace)
        steps = int(usual.first_steps * fraction) or None if steps is None else steps
    trace = trace.faster(fraction)
    scale = paper.default_scale(env_name, trace) if scale is None else scale
    rows, columns = trace.shape(steps if by_step else None, scale)
    channels = env.spec.context.channels
    if columns != channels:
        raise InputError(f"trace {trace!r} has {columns} columns, {env_name!r} needs {channels}")
    steps = steps or int(usual.steps * trace.fraction) or (rows if by_step else None)
    if steps is None:
        raise no_steps
    return Context(trace, scale, steps)
