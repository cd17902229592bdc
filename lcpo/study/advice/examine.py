"""What is wrong with an environment? `lcpo check-env` plays with it, and reports what to change.

`lcpo.run.plan.check` looks at shapes before a run; this plays a few episodes. All kinds of
environments are examined as host worlds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from lcpo.core import scales
from lcpo.envs.base import AnyEnv, WorldError, is_host, notes_of, obs_layout
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.gym.from_gym import GymnasiumEnv
from lcpo.run.plan.check import check_env
from lcpo.types import Step

NUM_STEPS = 1000


class Finding(NamedTuple):
    """One line of the report."""

    level: Literal["ok", "note", "problem"]
    text: str


_ok, _note, _problem = (partial(Finding, level) for level in ("ok", "note", "problem"))


class Play(NamedTuple):
    """What happened in N worlds."""

    starts: np.ndarray  # [N, F], features after the first reset
    steps: Any  # a Step, leaves [T, N, ...]
    resets_touch_others: bool


class Broken(Exception):
    """The environment cannot be examined further; the text says why."""


def examine(env: AnyEnv, name: str = "the environment") -> Iterator[Finding]:
    """Findings, the most basic first; a problem that prevents further checks is the last."""
    try:
        if isinstance(env, GymnasiumEnv):
            yield from _gymnasium_check(env)
        yield from _check_shapes(env, name)
        play = _play(env, seeds=(0, 1, 2))
        yield _ok(f"{NUM_STEPS:,} steps of 3 worlds: finite numbers of the right shapes")
        yield from _check_episodes(play)
        scale = _out_of_scale(play)
        yield _note(scale) if scale else _ok("observations are of a size that networks learn from")
        yield from _check_determinism(env, play)
        yield from _check_context(env, play)
        if is_host(env):
            yield from _check_saving(env)
    except Broken as broken:
        yield _problem(str(broken))


def _check_shapes(env: AnyEnv, name: str) -> Iterator[Finding]:
    try:
        check_env(env, name)
        spec = env.spec
    except ValueError as error:
        raise Broken(str(error)) from error
    except Exception as error:
        raise Broken(f"{name} raised {type(error).__name__}: {error}") from error
    kind = "host" if is_host(env) else "compiled"
    context = spec.context
    yield _ok(
        f"{kind} environment: {spec.obs_size} observation entries, of which {context.size} context "
        f"({context.channels} channels, {context.lags} values of each); actions {spec.num_actions}",
    )
    for note in notes_of(env):
        yield _note(note)


def _play(
    env: AnyEnv, seeds: Sequence[int], context: float | None = None, num_steps: int | None = None
) -> Play:
    """Play with random actions, the same each time; `context`: a constant, instead of noise."""
    num_steps = num_steps or NUM_STEPS
    spec, layout = env.spec, obs_layout(env.spec, env.advance)
    count, size = len(seeds) * spec.num_worlds, layout.num_features
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(num_steps, 1, layout.channels)).astype(np.float32)
    if context is not None:
        contexts[:] = context
    shape = (num_steps, 1, spec.action_size)
    actions = rng.integers(np.array(spec.num_actions), size=shape).astype(np.int32)
    each = [seed * spec.num_worlds + w for seed in seeds for w in range(spec.num_worlds)]
    worlds = open_worlds(env, each, threads=1)
    try:
        starts = _call("reset", size, worlds.reset, np.ones(count, bool))
        steps, touched = [], False
        for t, inputs in enumerate(zip(actions, contexts, strict=True), 1):
            of_all_worlds = (np.broadcast_to(x, (count, x.shape[1])).copy() for x in inputs)
            step = _call(f"step {t}", size, worlds.step, *of_all_worlds)
            steps.append(step)
            ended = step.terminated | step.truncated
            if ended.any():
                fresh = _call(f"reset after step {t}", size, worlds.reset, ended)
                touched |= bool((fresh[~ended] != step.obs[~ended]).any())
    finally:
        worlds.close()
    fields: Any = zip(*(step[:6] for step in steps), strict=True)
    stacked: Any = [np.stack(x) for x in fields]
    return Play(starts, Step(*stacked), touched)


def _call(when: str, size: int, function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    """Call a function of the worlds, and return its answer if that is sound."""
    try:
        answer = function(*arguments)
    except WorldError as error:
        raise Broken(f"{when}: {error}") from error
    except Exception as error:
        raise Broken(f"{when} raised {type(error).__name__}: {error}") from error
    count = len(arguments[0])
    if when.startswith("reset"):
        _check_array(f"{when}: the features", answer, (count, size))
        return np.asarray(answer)
    if not isinstance(answer, Step):
        raise Broken(f"{when} returns a {type(answer).__name__}: needs lcpo.types.Step")
    _check_array(f"{when}: obs", answer.obs, (count, size))
    _check_array(f"{when}: reward", answer.reward, (count,))
    for field in ("terminated", "truncated"):
        _check_array(f"{when}: {field}", getattr(answer, field), (count,), bool)
    scalars = (np.broadcast_to(x, count) for x in (answer.elapsed, answer.weight))
    values: Any = [*map(np.asarray, answer[:4]), *scalars]
    return Step(*values)


def _check_array(what: str, value: Any, shape: tuple[int, ...], dtype: type | None = None) -> None:
    value = np.asarray(value)
    if value.shape != shape:
        raise Broken(f"{what} has shape {list(value.shape)}: needs {list(shape)}, a row per world")
    if dtype is not None and value.dtype != dtype:
        raise Broken(f"{what} is {value.dtype}: needs {dtype.__name__}")
    bad = np.argwhere(~np.isfinite(value))
    if len(bad):
        place = bad[0].tolist()
        entry = f"entry {place[1:]}" if place[1:] else "that"
        where = f"{entry} of world {place[0]}"
        raise Broken(f"{what}: {where} is {value[tuple(place)]}: needs finite numbers")


def _check_episodes(play: Play) -> Iterator[Finding]:
    steps = play.steps
    ended = steps.terminated | steps.truncated
    if not ended.any():
        yield _note(
            f"no episode ended in {NUM_STEPS:,} steps: returns are of episodes that end; where "
            "none does, the mean reward per step counts; truncate long ones (truncated, not "
            "terminated)"
        )
    else:
        counts = int(steps.terminated.sum()), int(steps.truncated.sum())
        yield _ok(f"{counts[0]} episodes were terminated, {counts[1]} truncated")
    both = int((steps.terminated & steps.truncated).sum())
    if both:
        yield _note(f"{both} were both: they count as terminated")
    if play.resets_touch_others:
        yield _problem("reset(mask) changed worlds outside the mask: reset those alone")


def _out_of_scale(play: Play) -> str | None:
    columns = scales.out_of_scale(play.steps.obs)
    if not columns:
        return None
    return (
        f"observation entry {scales.ranges(play.steps.obs, columns)} is out of scale with random "
        "actions, and networks learn badly from it: --normalise running scales all entries, or "
        "scale them in the environment"
    )


def scale_finding(env: AnyEnv, num_steps: int = 200) -> str | None:
    """Entries of the environment's observations that are out of scale, found by a short play."""
    try:
        return _out_of_scale(_play(env, seeds=(0,), num_steps=num_steps))
    except Exception:  # it has run before: a failure now is not what was asked
        return None


def _check_determinism(env: AnyEnv, play: Play) -> Iterator[Finding]:
    again, alone = _play(env, seeds=(0, 1, 2)), _play(env, seeds=(1,))
    if not _same((play.starts, *play.steps[:6]), (again.starts, *again.steps[:6])):
        yield _problem(
            "the same seeds and actions gave another course: draw all random numbers from the "
            "seed (Gymnasium: self.np_random)"
        )
        return
    mine = slice(env.spec.num_worlds, 2 * env.spec.num_worlds)
    second = (play.starts[mine], *(x[:, mine] for x in play.steps[:6]))
    if not _same(second, (alone.starts, *alone.steps[:6])):
        yield _problem(
            "a world went another way alone than beside others: worlds must share nothing that "
            "changes"
        )
    else:
        yield _ok("the same seed gives the same course, alone and beside other worlds")
    if (play.starts == play.starts[0]).all():
        yield _note("all seeds begin with the same observation")


def _same(these: Any, those: Any) -> bool:
    """Whether two sequences of arrays are equal."""
    return all(np.array_equal(a, b) for a, b in zip(these, those, strict=True))


def _check_context(env: AnyEnv, play: Play) -> Iterator[Finding]:
    spec = env.spec
    if spec.context.size == 0:
        yield _note(
            "no context is declared: LCPO looks for states whose context is out of distribution; "
            "declare one, or use --detector mahalanobis-full"
        )
        return
    if env.advance == "own":
        entries = play.steps.obs[..., spec.context.start :]
        if (entries == entries[0]).all():
            still = f"the context did not change in {NUM_STEPS:,} steps"
            yield _problem(f"{still}: is it at the place that was declared?")
        else:
            yield _ok(f"the context moves, from {entries.min():.3g} to {entries.max():.3g}")
        return
    calm, windy = _play(env, (0,), context=0.0), _play(env, (0,), context=1.0)
    if _same(calm.steps[:4], windy.steps[:4]):
        yield _problem(
            "contexts of 0 and of 1 gave the same course: step must use the context that it is "
            "given"
        )
    else:
        yield _ok("the context changes the course")


def _check_saving(env: AnyEnv) -> Iterator[Finding]:
    """Host worlds: does a saved state continue exactly?"""
    assert is_host(env)
    spec, count = env.spec, env.spec.num_worlds
    first, other = (env.open(count, [s + w for w in range(count)], 1) for s in (0, 100))
    action = np.zeros((count, spec.action_size), np.int32)
    context = np.ones((count, obs_layout(spec, env.advance).channels), np.float32)
    try:
        for worlds in (first, other):
            worlds.reset(np.ones(count, bool))
        first.step(action, context)
        state = first.get_state()
        if state is None:
            yield _note(
                "its state cannot be saved: a resumed run begins a new episode; for an exact "
                "resume add get_state() -> dict of arrays and set_state"
            )
            return
        other.set_state({k: np.array(v) for k, v in state.items()})
        for _ in range(20):
            a, b = (worlds.step(action, context) for worlds in (first, other))
            if not _same(a, b):
                yield _problem(
                    "worlds went another way after get_state and set_state: save all that changes"
                )
                return
            ended = np.asarray(a.terminated) | np.asarray(a.truncated)
            if ended.any():
                for worlds in (first, other):
                    worlds.reset(ended)
        yield _ok("saved worlds continue exactly")
    except Exception as error:
        raise Broken(f"get_state or set_state raised {type(error).__name__}: {error}") from error
    finally:
        first.close()
        other.close()


def _gymnasium_check(env: GymnasiumEnv) -> Iterator[Finding]:
    """What Gymnasium's own checker says of an environment."""
    import gymnasium
    from gymnasium.utils.env_checker import check_env as check

    try:
        made = env.make()
    except Exception as error:
        raise Broken(f"{env.target} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, gymnasium.Env):
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check(made.unwrapped, skip_render_check=True)
            yield _ok("gymnasium's check_env has no objections")
        except Exception as error:
            yield _problem(f"gymnasium's check_env: {error}")
    for text in dict.fromkeys(str(w.message) for w in caught):
        plain = text.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ")
        yield _note(f"gymnasium's check_env: {plain}")
