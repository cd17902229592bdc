"""An agent that learns in a user's own loop: no environment, no trace, no files.

    learner = lcpo.Learner("lcpo", spec)
    while True:
        action = learner.act(features, context).action
        reward = play(action)                      # whatever the system is
        learner.observe(reward)                    # the next `act` brings the successor

`Learner` is a thin object around a `LearnerState`: `lcpo.live.loop` does the work.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.envs.base import Advance
from lcpo.live import saving
from lcpo.live.loop import Loop, Outcome
from lcpo.live.settings import Settings
from lcpo.live.state import Backup, LearnerState
from lcpo.policy import find_policy, restore
from lcpo.run.plan.plan import check_dict
from lcpo.types import AnyAgent, Spec


class Decision(NamedTuple):
    """What `Learner.act` returns."""

    action: np.ndarray
    """Numbers of actions, [A]."""
    policy_version: int
    """Number of updates before it."""


class Learner:
    """Learns from calls of `act` and `observe`; not thread-safe.

    A *stream* is one of the user's worlds: a machine, a user, a simulator. An agent learns from
    `spec.num_worlds` of them, each with its own context history, when each has made
    `config.rollout_length` steps. A stream that is ahead of the others is served, but its steps
    meanwhile are not learned from; several streams in lock step should pass `next_obs`, or the
    first of them is ahead by a step whenever a rollout is full.

    An update that raises, or after which the agent could no longer learn (`core.health`), is
    dropped: the learner keeps its previous state, warns (`RuntimeWarning`), and continues with the
    next rollout.
    """

    def __init__(
        self,
        agent: str | AnyAgent,
        spec: Spec,
        config: Mapping[str, Any] | Any = None,
        seed: int = 0,
        *,
        steps: int | None = None,
        advance: Advance = "step",
        normalise: Any = None,
    ) -> None:
        """A fresh learner.

        Args:
          agent: a name (`lcpo list`, or "package.module:name"), or an `lcpo.types.Agent`.
          spec: sizes of observations and actions, and the place of the context: `lcpo.types.Spec`.
          config: values that differ from the agent's defaults, or a whole config.
          seed: of all random numbers.
          steps: the approximate number of steps to come: some agents store a share of them.
          advance: what moves the history of the context on, a step or an episode. "own": a step,
            and the context is normalized with the rest, as if the environment wrote it.
          normalise: "running", or a scale for each column of the features (docs: scales).
        """
        loop = Loop(Settings.make(agent, spec, config, seed, steps, advance, normalise))
        self._begin(loop, loop.begin())

    def _begin(self, loop: Loop, state: LearnerState) -> None:
        self._loop = loop
        self.settings = loop.settings
        self.agent, self.agent_name = loop.settings.agent, loop.settings.agent_name
        self.spec, self.config, self.seed = loop.spec, loop.settings.config, loop.settings.seed
        self.problem: str | None = None
        """Why the last dropped update was dropped; None if none was."""
        self._take(state)

    def _take(self, state: LearnerState) -> None:
        self._state, self._snapshot = state, self._loop.snapshot(state)
        self._backup: Backup | None = None  # made by the first update

    @property
    def state(self) -> LearnerState:
        """All that changes in the learner, as a value; set it to continue from there."""
        return self._state._replace(agent=jax.tree.map(jnp.array, self._state.agent))

    @state.setter
    def state(self, state: LearnerState) -> None:
        self._take(state._replace(agent=jax.tree.map(jnp.array, state.agent)))

    @property
    def updates(self) -> int:
        """Number of updates so far, which is the version of the policy."""
        return self._state.updates

    @property
    def dropped(self) -> int:
        """Number of dropped updates, which `updates` does not count."""
        return self._state.dropped

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last update that was not dropped."""
        return dict(self._state.metrics)

    @classmethod
    def from_run(
        cls,
        source: str | Path,
        run: str | None = None,
        *,
        agent: str | None = None,
        config: Mapping[str, Any] | None = None,
        seed: int = 0,
        trust: bool = False,
    ) -> Learner:
        """A learner that starts with the policy of a finished run.

        `source`, `run`, `agent` and `trust` are those of `lcpo.load`; `config`: values in which the
        learner differs from the run. Large buffers, such as reservoir and replay, start empty.
        """
        about, arrays = find_policy(source, run, agent, trust)
        given = {**about.config, **check_dict("config", config)}
        rest: dict[str, Any] = {"advance": about.advance, "normalise": about.normalise}
        learner = cls(about.agent, about.spec, given, seed, **rest)
        fresh, made = learner._state, learner.settings
        state = restore(about, lambda _, key: made.agent.init(made.config, made.spec, key), arrays)
        learner._loop.check_usable(state, fresh.agent, str(source))
        if hasattr(state, "memory"):
            state = state._replace(memory=fresh.agent.memory)
        learner._take(fresh._replace(agent=state))
        return learner

    def __repr__(self) -> str:
        streams = ", ".join(name for name, _ in self._state.in_order) or "none yet"
        dropped = f" ({self.dropped} dropped)" if self.dropped else ""
        return f"Learner({self.agent_name!r}: {self.updates} updates{dropped}, streams: {streams})"

    def act(self, obs: Any, context: Any = None, stream: str = "0") -> Decision:
        """The action of a stream for an observation.

        Args:
          obs: the features [F] if a context is given; else the whole observation [D].
          context: its current values [channels]; the learner keeps their history.
          stream: the stream of the observation.
        """
        self._learn_if_full(self._loop.see(self._state, obs, context, stream))
        self._state, action = self._loop.act(self._state, self._snapshot, stream)
        return Decision(action.copy(), self._snapshot.version)

    def observe(
        self,
        reward: float,
        next_obs: Any = None,
        terminated: bool = False,
        truncated: bool = False,
        next_context: Any = None,
        stream: str = "0",
        *,
        action: Any = None,
        elapsed: float = 1.0,
        readings: Any = None,
    ) -> None:
        """The outcome of the stream's last action; learns if that completes the rollout.

        Args:
          reward: of the action.
          next_obs: the observation after it, before any reset, in the form that `act` takes. It may
            be omitted within an episode: the stream's next `act` supplies it.
          terminated: the episode has ended, and no reward can follow.
          truncated: the episode was cut off. `next_obs` is needed to bootstrap its value.
          next_context: the context after it, if `act` is given one.
          stream: the stream of the action.
          action: what was played [A], if not the action of `act`; policies do not learn from such
            a step.
          elapsed: duration of the step; the discount is gamma ** elapsed.
          readings: one number for each of `spec.readings`.
        """
        outcome = Outcome(
            reward, next_obs, terminated, truncated, next_context, action, elapsed, readings
        )
        self._learn_if_full(self._loop.observe(self._state, stream, outcome))

    def save(self, path: str | Path) -> None:
        """Write all of the learner into one file, atomically; `load` resumes from it."""
        saving.save(values.path("path", path), self._loop, self._state)

    @classmethod
    def load(
        cls, path: str | Path, agent: str | AnyAgent | None = None, *, trust: bool = False
    ) -> Learner:
        """The learner that `save` wrote. It resumes bit for bit (CPU).

        Args:
          path: of the file.
          agent: the agent that was saved, if it is not part of this library.
          trust: import the agent that the file names, if `agent` is not given.
        """
        found = saving.load(values.path("path", path), agent, values.flag("trust", trust))
        learner = cls.__new__(cls)
        learner._begin(*found)
        return learner

    def _learn_if_full(self, state: LearnerState) -> None:
        """Take a state; if its rollout is full, learn from it or drop the update."""
        if not self._loop.is_full(state):
            self._state = state
            return
        self._backup = backup = self._backup or Backup(state.agent)
        backup.follow(state.agent)
        try:
            self._state, problem = self._loop.learn(state, backup)
        except BaseException:  # such as Ctrl-C: restore the state before the call
            self._state = self._state._replace(agent=backup.restore())
            raise
        self._snapshot = self._loop.snapshot(self._state)
        if problem is not None:
            number = self.updates + 1
            kept = "was dropped, and the learner keeps its previous state"
            self.problem = f"update {number} {kept}: {problem}"
            warnings.warn(self.problem, RuntimeWarning, stacklevel=3)
