"""Rollouts of host worlds: the loop in which nothing may be slow.

N worlds step together; the context is that of the compiled driver (`drive.compiled.rollout`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo.envs.base import HostEnv, HostWorlds, WorldError, obs_layout
from lcpo.errors import message
from lcpo.types import Spec, Step, Transition, Tree

Act = Callable[[np.ndarray, int], tuple[np.ndarray, Tree]]
"""act(obs [N, D], t) -> (actions [N, A], extra)"""


class Rollout(NamedTuple):
    """What was collected, and where the worlds stand now."""

    batch: Transition  # NumPy, leaves [T, N, ...]; those of `extra` as `act` gave them, [T, ...]
    obs: np.ndarray  # [N, D]
    cursor: np.ndarray  # [N]


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
    """Fresh ones for each rollout: the last may still be read."""
    each = num_steps, num_worlds
    obs, next_obs = (np.empty((*each, spec.obs_size), np.float32) for _ in range(2))
    action = np.empty((*each, spec.action_size), spec.actions.dtype)
    reward, elapsed, weight = (np.empty(each, np.float32) for _ in range(3))
    terminated, truncated = (np.empty(each, bool) for _ in range(2))
    readings = np.empty((*each, len(spec.readings)), np.float32)
    return Buffers(obs, action, reward, next_obs, terminated, truncated, elapsed, weight, readings)


class StoppedWorlds(RuntimeError):
    """Worlds that cannot go on: `causes` by their index, `step` of the rollout (from 0)."""

    def __init__(self, causes: Mapping[int, str], step: int) -> None:
        self.causes, self.step = dict(causes), step
        super().__init__("; ".join(f"world {i}: {cause}" for i, cause in self.causes.items()))


class Collector:
    """Steps N worlds of an environment along a trace, and writes down what happens."""

    def __init__(
        self, env: HostEnv, spec: Spec, trace: np.ndarray, num_worlds: int, random_starts: bool
    ) -> None:
        self.spec, self.trace, self.num_worlds = spec, trace, num_worlds
        self.advance = env.advance
        self.along = self.advance == "step" and not random_starts  # all worlds at the same row
        self.layout = obs_layout(spec, self.advance)
        self.shape = num_worlds, self.layout.num_features
        self.no_context = np.zeros((num_worlds, 0), np.float32)

    def begin(self, worlds: HostWorlds, cursor: np.ndarray) -> np.ndarray:
        """Fresh episodes in all worlds: obs [N, D]."""
        features = self._call(0, worlds.reset, np.ones(self.num_worlds, bool))
        return self.layout.join(features, self._history(cursor)).astype(np.float32)

    def collect(
        self,
        worlds: HostWorlds,
        obs: np.ndarray,
        cursor: np.ndarray,
        act: Act,
        num_steps: int,
        first_row: int,
        starts: np.ndarray | None = None,
    ) -> Rollout:
        """Steps from obs [N, D] at rows `cursor` [N].

        Where all worlds are at the same row, that of the first step is `first_row`. `starts`
        [T, N]: where an episode that begins after step t begins, if starts are random.
        """
        batch, extras = make_buffers(self.spec, num_steps, self.num_worlds), []
        histories, contexts = self._rows_ahead(first_row, num_steps)
        history_entries = self.layout.history
        for t in range(num_steps):
            action, extra = act(obs, t)
            action = np.asarray(action)
            if not isinstance(extra, tuple) or extra:
                extras.append(jax.tree.map(np.asarray, extra))
            if self.along:
                history, context = histories[t], contexts[t]
            elif self.advance == "own":
                history, context = None, self.no_context
            else:
                cursor = (cursor + 1) % len(self.trace) if self.advance == "step" else cursor
                history, context = self._history(cursor), self.trace[cursor]
            step = self._call(t, worlds.step, action, context)
            batch.obs[t], batch.action[t] = obs, action
            obs = batch.next_obs[t]
            if history is not None:
                obs[:, history_entries] = history
            if self._write(batch, t, step):
                ended = batch.terminated[t] | batch.truncated[t]
                cursor = self._next_rows(cursor, ended, None if starts is None else starts[t])
                obs = self._reset(worlds, t, obs, ended, cursor)
        if self.along:
            cursor = np.full_like(cursor, first_row + num_steps - 1)
        self._check_finite(batch, obs)
        extra = jax.tree.map(lambda *x: np.stack(x), *extras) if extras else ()
        *rest, readings = batch
        readings = readings if self.spec.readings else ()
        return Rollout(Transition(*rest, extra, readings), obs, cursor)  # pyright: ignore

    def _rows_ahead(self, first_row: int, num_steps: int) -> tuple[Any, Any]:
        """Histories [T, H] and contexts [T, N, channels] of a rollout along the trace."""
        if not self.along:
            return None, None
        rows = first_row + np.arange(num_steps)
        contexts = self.trace[rows % len(self.trace)][:, None]
        shape = (num_steps, self.num_worlds, self.trace.shape[1])
        return self._history(rows), np.broadcast_to(contexts, shape)

    def _history(self, cursor: np.ndarray) -> np.ndarray:
        return self.layout.history_at(self.trace, cursor)

    def _next_rows(
        self, cursor: np.ndarray, ended: np.ndarray, starts: np.ndarray | None
    ) -> np.ndarray:
        """Where on the trace the next episodes begin."""
        if starts is not None:
            return np.where(ended, starts, cursor)
        return (cursor + ended) % len(self.trace) if self.advance == "episode" else cursor

    def _reset(
        self, worlds: HostWorlds, t: int, obs: np.ndarray, ended: np.ndarray, cursor: np.ndarray
    ) -> np.ndarray:
        """Observations with which the next step begins."""
        features = self._call(t, worlds.reset, ended)
        obs = obs.copy()
        obs[ended, self.layout.features] = features[ended]
        if not self.along:
            obs[ended, self.layout.history] = self._history(cursor[ended])
        return obs

    def _call(self, t: int, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the worlds. An answer of another shape, or an exception, stops them."""
        try:
            answer = function(*arguments)
        except WorldError as error:
            raise StoppedWorlds(error.worlds, t) from error
        except Exception as error:  # nobody knows which world
            cause = f"{function.__name__} raised {message(error)}"
            raise StoppedWorlds(dict.fromkeys(range(self.num_worlds), cause), t) from error
        features = answer.obs if isinstance(answer, Step) else answer
        if np.shape(features) != self.shape:
            cause = f"features {list(np.shape(features))}: needs {list(self.shape)}"
            raise StoppedWorlds(dict.fromkeys(range(self.num_worlds), cause), t)
        return answer

    def _write(self, batch: Buffers, t: int, step: Step) -> bool:
        """Whether any episode ended."""
        batch.next_obs[t, :, self.layout.features] = step.obs
        batch.reward[t], batch.elapsed[t], batch.weight[t] = step.reward, step.elapsed, step.weight
        batch.terminated[t], batch.truncated[t] = step.terminated, step.truncated
        if step.action is not None:
            batch.action[t] = step.action
        if self.spec.readings:
            batch.readings[t] = step.readings
        # Of small arrays, `any` takes eight times as long.
        return bool(np.count_nonzero(step.terminated) or np.count_nonzero(step.truncated))

    def _check_finite(self, batch: Buffers, last: np.ndarray) -> None:
        """All at once: a look at every step would cost as much as the step."""
        following = np.concatenate([batch.obs[1:], last[None]])  # of resets, too
        values = {"obs": batch.next_obs, "obs after reset": following, "reward": batch.reward}
        if all(np.isfinite(x).all() for x in values.values()):
            return
        causes, steps = {}, {}
        for name, x in values.items():
            for t, world, *entry in np.argwhere(~np.isfinite(x)):
                if t < steps.get(world, len(x)):
                    value = x[(t, world, *entry)]
                    causes[int(world)] = f"{name}{[int(i) for i in entry] or ''} is {value}"
                    steps[world] = t
        first = min(steps.values())
        raise StoppedWorlds({w: c for w, c in causes.items() if steps[w] == first}, int(first))
