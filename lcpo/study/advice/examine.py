"""`lcpo check-env`: runs a few episodes of an environment, and reports what to change.

`lcpo.run.plan.check` looks at shapes before a run; this plays a few episodes. All kinds of
environments are examined as host worlds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from lcpo.contexts.refs import TraceRef
from lcpo.core import scales
from lcpo.envs.base import AnyEnv, is_host, notes_of, obs_layout
from lcpo.envs.entries import entry_rows, obs_entries
from lcpo.errors import InputError
from lcpo.gym.from_gym import GymnasiumEnv
from lcpo.run.plan.check import check_env
from lcpo.study.advice.trial import Broken, Play, play
from lcpo.study.report.tables import Table

NUM_STEPS = 1000
SEEDS = (0, 1, 2)


class Finding(NamedTuple):
    """One line of the report."""

    level: Literal["ok", "note", "problem"]
    text: str


_ok, _note, _problem = (partial(Finding, level) for level in ("ok", "note", "problem"))


def examine(
    env: AnyEnv,
    name: str = "the environment",
    trace: TraceRef | None = None,
    num_steps: int = NUM_STEPS,
) -> Iterator[Finding]:
    """Findings, the most basic first; a problem that prevents further checks is the last.

    `trace`: contexts to play with, and the names of its channels; None: noise.
    """
    try:
        if isinstance(env, GymnasiumEnv):
            yield from _gymnasium_check(env)
        _check_shapes(env, name)
        rows = _rows(env, name, trace, num_steps)
        yield from _describe(env, trace)
        found = play(env, SEEDS, num_steps, rows)
        yield _ok(f"{num_steps:,} steps of 3 worlds: finite numbers of the right shapes")
        yield from _check_episodes(found)
        scale = _out_of_scale(found)
        yield _note(scale) if scale else _ok("observations have a suitable scale for networks")
        yield from _check_determinism(env, found, rows)
        yield from _check_context(env, found)
        if is_host(env):
            yield from _check_saving(env)
    except Broken as broken:
        yield _problem(str(broken))


def _check_shapes(env: AnyEnv, name: str) -> None:
    try:
        check_env(env, name)
    except ValueError as error:
        raise Broken(str(error)) from error
    except Exception as error:
        raise Broken(f"{name} raised {type(error).__name__}: {error}") from error


def _describe(env: AnyEnv, trace: TraceRef | None) -> Iterator[Finding]:
    kind, spec = "host" if is_host(env) else "compiled", env.spec
    context, actions = spec.context, spec.actions
    table = layout_table(env, trace.describe().names if trace else ()).to_text()
    yield _ok(
        f"{kind} environment: {spec.obs_size} observation entries, of which {context.size} context "
        f"({context.channels} channels, {context.lags} values of each); {actions}\n\n{table}",
    )
    for note in notes_of(env):
        yield _note(note)


def layout_table(env: AnyEnv, channels: Sequence[str] = ()) -> Table:
    """What the entries of an observation are; `channels`: names that a trace gives the context."""
    return Table(["entry", "name", "lag"], entry_rows(obs_entries(env, channels)))


def _rows(env: AnyEnv, name: str, trace: TraceRef | None, num_steps: int) -> np.ndarray | None:
    """Contexts [num_steps, channels] from the trace, which begins again at its end."""
    if trace is None:
        return None
    if env.advance == "own":
        raise InputError(f"environment {name!r} takes no trace, got {trace!r}: leave it out")
    rows, channels = trace.load(num_steps if trace.any_length else None), env.spec.context.channels
    if rows.shape[1] != channels:
        raise InputError(f"trace {trace!r} has {rows.shape[1]} columns, {name!r} needs {channels}")
    return rows[np.arange(num_steps) % len(rows)]


def _check_episodes(found: Play) -> Iterator[Finding]:
    steps = found.steps
    ended = steps.terminated | steps.truncated
    if not ended.any():
        yield _note(
            f"no episode ended in {len(ended):,} steps: returns are of episodes that end; where "
            "none does, the mean reward per step counts; truncate long ones (truncated, not "
            "terminated)"
        )
    else:
        counts = int(steps.terminated.sum()), int(steps.truncated.sum())
        yield _ok(f"{counts[0]} episodes were terminated, {counts[1]} truncated")
    both = int((steps.terminated & steps.truncated).sum())
    if both:
        yield _note(f"{both} were both: they count as terminated")
    if found.resets_touch_others:
        yield _problem(
            "reset(mask) changed worlds outside the mask: reset only the worlds in the mask"
        )


def _out_of_scale(found: Play) -> str | None:
    columns = scales.out_of_scale(found.steps.obs)
    if not columns:
        return None
    return (
        f"observation entry {scales.ranges(found.steps.obs, columns)} is out of scale with random "
        "actions, so networks learn poorly from it: --normalise running scales all entries, or "
        "scale them in the environment"
    )


def scale_finding(env: AnyEnv) -> str | None:
    """Entries of the environment's observations that are out of scale, found by a short play."""
    try:
        return _out_of_scale(play(env, (0,), num_steps=200))
    except Exception:  # it has run before: a failure now is not what was asked
        return None


def _check_determinism(env: AnyEnv, found: Play, rows: np.ndarray | None) -> Iterator[Finding]:
    num_steps = len(found.steps.reward)
    again, alone = (play(env, seeds, num_steps, rows) for seeds in (SEEDS, SEEDS[1:2]))
    if not _same((found.starts, *found.steps[:6]), (again.starts, *again.steps[:6])):
        yield _problem(
            "the same seeds and actions gave different results: draw all random numbers from the "
            "seed (Gymnasium: self.np_random)"
        )
        return
    mine = slice(env.spec.num_worlds, 2 * env.spec.num_worlds)
    second = (found.starts[mine], *(x[:, mine] for x in found.steps[:6]))
    if not _same(second, (alone.starts, *alone.steps[:6])):
        yield _problem(
            "a world behaves differently alone and next to other worlds: worlds must not share "
            "mutable state"
        )
    else:
        yield _ok("the same seed gives the same results, alone and next to other worlds")
    if (found.starts == found.starts[0]).all():
        yield _note("all seeds begin with the same observation")


def _same(these: Any, those: Any) -> bool:
    """Whether two sequences of arrays are equal."""
    return all(np.array_equal(a, b) for a, b in zip(these, those, strict=True))


def _check_context(env: AnyEnv, found: Play) -> Iterator[Finding]:
    spec = env.spec
    if spec.context.size == 0:
        yield _note(
            "no context is declared: LCPO looks for states whose context is out of distribution; "
            "declare one, or use --detector mahalanobis-full"
        )
        return
    if env.advance == "own":
        entries = found.steps.obs[..., spec.context.start :]
        if (entries == entries[0]).all():
            still = f"the context did not change in {len(entries):,} steps"
            yield _problem(f"{still}: check that it is declared at the right place")
        else:
            yield _ok(f"the context moves, from {entries.min():.3g} to {entries.max():.3g}")
        return
    calm, windy = (play(env, (0,), len(found.steps.reward), context) for context in (0.0, 1.0))
    if _same(calm.steps[:4], windy.steps[:4]):
        yield _problem(
            "contexts of 0 and of 1 gave the same results: step must use the context that it is "
            "given"
        )
    else:
        yield _ok("the context changes the results")


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
                    "worlds behaved differently after get_state and set_state: save everything "
                    "that changes"
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
    """What Gymnasium's own checker reports about an environment."""
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
            yield _ok("gymnasium's check_env found no problems")
        except Exception as error:
            yield _problem(f"gymnasium's check_env: {error}")
    for text in dict.fromkeys(str(w.message) for w in caught):
        plain = text.replace("\x1b[33m", "").replace("\x1b[0m", "").removeprefix("WARN: ")
        yield _note(f"gymnasium's check_env: {plain}")
