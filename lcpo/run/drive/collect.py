"""Rollouts of host worlds: N worlds step together, in a loop that must be fast.

Contexts are those of the compiled driver (`lcpo.run.drive.rollout`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo.envs.base import HostEnv, HostWorlds, WorldError, obs_layout
from lcpo.errors import message, place, trace_of
from lcpo.run.drive.base import StoppedRuns
from lcpo.types import Spec, Step, Transition, Tree

Act = Callable[[np.ndarray, int], tuple[np.ndarray, Tree]]
"""act(obs [N, D], t) -> (actions [N, A], extra)"""


class Buffers(NamedTuple):
    """The fields of a `Transition` while they are written, leaves [T, N, ...]."""

    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_obs: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    elapsed: np.ndarray
    weight: np.ndarray
    readings: np.ndarray


def make_buffers(spec: Spec, num_steps: int, num_worlds: int) -> Buffers:
    """New ones for each rollout: the last may still be read."""
    each = num_steps, num_worlds
    obs, next_obs = (np.empty((*each, spec.obs_size), np.float32) for _ in range(2))
    action = np.empty((*each, spec.action_size), spec.actions.dtype)
    reward, elapsed, weight = (np.empty(each, np.float32) for _ in range(3))
    terminated, truncated = (np.empty(each, bool) for _ in range(2))
    readings = np.empty((*each, len(spec.readings)), np.float32)
    return Buffers(obs, action, reward, next_obs, terminated, truncated, elapsed, weight, readings)


class Collector:
    """Steps the worlds of all runs along a trace, and records what happens."""

    def __init__(
        self, env: HostEnv, spec: Spec, trace: np.ndarray, num_runs: int, random_starts: bool
    ) -> None:
        self.spec, self.trace, self.num_worlds = spec, trace, num_runs * spec.num_worlds
        self.advance = env.advance
        self.along = self.advance == "step" and not random_starts  # all worlds at the same row
        self.layout = obs_layout(spec, self.advance)
        self.no_context = np.zeros((self.num_worlds, 0), np.float32)

    def begin(self, worlds: HostWorlds, cursor: np.ndarray) -> np.ndarray:
        """New episodes in all worlds: obs [N, D]."""
        features = self._call(1, worlds.reset, np.ones(self.num_worlds, bool))
        return self.layout.join(features, self._history(cursor)).astype(np.float32)

    def collect(
        self,
        worlds: HostWorlds,
        obs: np.ndarray,
        cursor: np.ndarray,
        act: Act,
        num_steps: int,
        first: int,
        starts: np.ndarray | None = None,
    ) -> tuple[Transition, np.ndarray, np.ndarray]:
        """Steps number first .. first + num_steps - 1 of the phase, from obs [N, D].

        `cursor` [N]: rows of the trace; if all worlds are at the same row, it is the number of the
        step. `starts` [T, N]: where an episode that begins after step t begins, if starts are
        random. Returns the batch in NumPy, leaves [T, N, ...] but for `extra`, [T, ...] as `act`
        gave it; then obs and cursor after it. Raises StoppedRuns if worlds cannot continue.
        """
        batch, extras = make_buffers(self.spec, num_steps, self.num_worlds), []
        history, context, ahead = None, self.no_context, ()
        entries = self.layout.history
        if self.along:
            rows = first + np.arange(num_steps)
            contexts = self.trace[rows % len(self.trace)][:, None]
            shape = (num_steps, self.num_worlds, self.trace.shape[1])
            ahead = self._history(rows), np.broadcast_to(contexts, shape)
        for t in range(num_steps):
            action, extra = act(obs, t)
            action = np.asarray(action)
            if not isinstance(extra, tuple) or extra:
                extras.append(jax.tree.map(np.asarray, extra))
            if ahead:
                history, context = ahead[0][t], ahead[1][t]
            elif self.advance != "own":
                cursor = (cursor + 1) % len(self.trace) if self.advance == "step" else cursor
                history, context = self._history(cursor), self.trace[cursor]
            step = self._call(first + t, worlds.step, action, context)
            batch.obs[t], batch.action[t] = obs, action
            obs = batch.next_obs[t]
            if history is not None:
                obs[:, entries] = history
            if self._write(batch, t, step):
                ended = batch.terminated[t] | batch.truncated[t]
                if starts is not None:
                    cursor = np.where(ended, starts[t], cursor)
                elif self.advance == "episode":
                    cursor = (cursor + ended) % len(self.trace)
                features = self._call(first + t, worlds.reset, ended)
                obs = obs.copy()
                obs[ended, self.layout.features] = features[ended]
                if not self.along:
                    obs[ended, entries] = self._history(cursor[ended])
        if self.along:
            cursor = np.full_like(cursor, first + num_steps - 1)
        self._check_finite(batch, obs, first)
        extra = jax.tree.map(lambda *x: np.stack(x), *extras) if extras else ()
        *rest, readings = batch
        readings = readings if self.spec.readings else ()
        return Transition(*rest, extra, readings), obs, cursor  # pyright: ignore

    def _history(self, cursor: np.ndarray) -> np.ndarray:
        return self.layout.history_at(self.trace, cursor)

    def _write(self, batch: Buffers, t: int, step: Step) -> bool:
        """Whether any episode ended."""
        batch.next_obs[t, :, self.layout.features] = step.obs
        batch.reward[t], batch.elapsed[t], batch.weight[t] = step.reward, step.elapsed, step.weight
        batch.terminated[t], batch.truncated[t] = step.terminated, step.truncated
        if step.action is not None:
            batch.action[t] = step.action
        if self.spec.readings:
            batch.readings[t] = step.readings
        # For small arrays, `any` takes eight times as long.
        return bool(np.count_nonzero(step.terminated) or np.count_nonzero(step.truncated))

    def _call(self, number: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the worlds in a step. An exception, or features of another shape, stop them."""
        try:
            answer = function(*arguments)
        except WorldError as error:
            raise self._stopped(error.worlds, number, error) from error
        except Exception as error:  # in which world is unknown
            causes = dict.fromkeys(
                range(self.num_worlds), f"{function.__name__} raised {message(error)}"
            )
            raise self._stopped(causes, number, error) from error
        found = np.shape(answer.obs if isinstance(answer, Step) else answer)
        needed = self.num_worlds, self.layout.num_features
        if found != needed:
            cause = f"features {list(found)}: needs {list(needed)}"
            raise self._stopped(dict.fromkeys(range(self.num_worlds), cause), number)
        return answer

    def _check_finite(self, batch: Buffers, last: np.ndarray, first: int) -> None:
        """All at once: a check at every step would cost as much as the step."""
        following = np.concatenate([batch.obs[1:], last[None]])  # after resets, too
        values = {"obs": batch.next_obs, "obs after reset": following, "reward": batch.reward}
        bad = {name: ~np.isfinite(x) for name, x in values.items()}
        if not any(x.any() for x in bad.values()):
            return
        t = min(int(np.argwhere(x)[0][0]) for x in bad.values() if x.any())
        causes: dict[int, str] = {}
        for name, x in values.items():
            for world, *entry in np.argwhere(bad[name][t]):
                where = f"{name}{[int(i) for i in entry] or ''}"
                causes.setdefault(int(world), f"{where} is {x[(t, world, *entry)]}")
        raise self._stopped(causes, first + t)

    def _stopped(
        self, causes: Mapping[int, str], number: int, raised: Exception | None = None
    ) -> StoppedRuns:
        """For each run: its world, the cause, the step, and the line of the user's code."""
        size, found = self.spec.num_worlds, dict[int, str]()
        line = place(raised) if raised else None
        for world, cause in causes.items():
            text = f"world {world % size}: {' '.join(cause.split())}, at step {number * size:,}"
            found.setdefault(world // size, text + (f" ({line})" if line else ""))
        return StoppedRuns(found, trace_of(raised) if raised else "")
