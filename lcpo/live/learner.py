"""An agent that learns in a loop of the user's own: no environment, no trace, no files.

    learner = lcpo.Learner("lcpo", spec)
    while True:
        action = learner.act(features, context).action
        reward = play(action)                      # whatever the system is
        learner.observe(reward)                    # the next `act` brings the successor

Keys, `act` and `update` are those of the host driver (`run.drive`), the same compiled functions:
fed by a simulator in lock step, a learner is what `lcpo train` makes of it, bit for bit.
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
from lcpo.agents import find_agent
from lcpo.agents import normalise as scaling
from lcpo.core import health
from lcpo.envs.base import Advance
from lcpo.errors import InputError, tell
from lcpo.live import saving
from lcpo.live.backup import Backup
from lcpo.live.rollout import FilledRollout, Stream
from lcpo.live.settings import check_values, make_config, plain_spec
from lcpo.policy import find_policy, restore
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.host_functions import Functions, Kind, functions_of
from lcpo.run.plan.check import check_program
from lcpo.types import Agent, AnyAgent, Spec, Tree

_NO_READINGS = np.zeros(0, np.float32)


class Decision(NamedTuple):
    """What a learner answers."""

    action: np.ndarray
    """Numbers of actions, [A]."""
    policy_version: int
    """Updates before it."""


class Learner:
    """Learns from what `act` and `observe` are told; one call at a time.

    A *stream* is a world of the user's: a machine, a user, a simulator. An agent learns from
    `spec.num_worlds` of them, each with a context history of its own, and once each has made
    `config.rollout_length` steps. One that is ahead of the others is answered, but what it does
    meanwhile is not learnt from; several that go in step should give `next_obs`, or the first of
    them is ahead by a step whenever a rollout is full.

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
          spec: sizes of observations and actions, and where the context stands: `lcpo.types.Spec`.
          config: values that differ from the agent's defaults, or a whole config.
          seed: of all that is random.
          steps: how many are to come, about: some agents keep a share of them. Nothing ends then.
          advance: what moves the history of the context on, a step or an episode. "own": a step,
            and the context is normalised with the rest, as where an environment writes it.
          normalise: "running", or a scale for each column of the features (docs: scales).
        """
        self.agent_name = agent.name if isinstance(agent, Agent) else agent
        self.spec = plain_spec(spec)
        if advance not in ("step", "episode", "own"):
            values.refuse("advance", advance, "'step', 'episode' or 'own'")
        self.rule = scaling.read_rule(normalise)
        scaling.check_rule(self.rule, self.spec, advance == "own")
        plain = agent if isinstance(agent, Agent) else find_agent(agent)
        self.agent: AnyAgent = scaling.normalise(plain, self.rule, advance == "own")
        self.config: Any = make_config(self.agent, config, steps)
        self.seed = np.int32(values.whole("seed", seed, 0))
        check_program(self.agent, self.config, self.spec)
        self._functions = _functions(self.agent, self.config, self.spec)
        self._traced: Tree = jax.tree.map(jnp.float32, self.config)
        self.updates = 0
        """So far; it is the version of the policy."""
        self.dropped = 0
        """Updates that were dropped; `updates` does not count them."""
        self.problem: str | None = None
        """Why the newest of them was dropped; None if none was."""
        self.metrics: dict[str, float] = {}
        """Of the newest update that was not dropped."""
        self._state: Tree = self._functions.init(self._traced, self.seed)
        self._obs = np.zeros((1, self.spec.num_worlds, self.spec.obs_size), np.float32)
        zeros = np.zeros(self.spec.num_worlds, np.float32)
        self._sums = [zeros, zeros]  # of the unfinished episodes: return and length
        self._backup: Backup | None = None
        self._prepare()
        like = self._gathered, self._obs, self._bits[0]
        extra = jax.eval_shape(self._functions.acting.act, *like)[1]
        self._rollout = FilledRollout(self.spec, self.config.rollout_length, extra, advance)

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
        """A learner that begins with what a finished run has learnt.

        `source`, `run`, `agent` and `trust` are those of `lcpo.load`; `config`: values in which the
        learner differs from the run. A policy file has no large buffers: reservoir and replay begin
        empty.
        """
        about, arrays = find_policy(source, run, agent, trust)
        given = {**about.config, **check_values(config)}
        advance: Any = about.advance
        rest = {"advance": advance, "normalise": about.normalise}
        learner = cls(about.agent, about.spec, given, seed, **rest)
        state = restore(about, lambda _, key: learner._init(key), arrays)
        memory = {"memory": learner._state.memory} if hasattr(state, "memory") else {}
        learner.adopt(state._replace(**memory) if memory else state, str(source))
        return learner

    def __repr__(self) -> str:
        streams = ", ".join(self._rollout.streams) or "none yet"
        dropped = f" ({self.dropped} dropped)" if self.dropped else ""
        return f"Learner({self.agent_name!r}: {self.updates} updates{dropped}, streams: {streams})"

    def act(self, obs: Any, context: Any = None, stream: str = "0") -> Decision:
        """What to do now.

        Args:
          obs: the features [F], where a context is given; else the whole observation [D].
          context: its newest values [channels]; their history is kept here.
          stream: whose observation it is.
        """
        mine = self._stream(stream)
        if mine.acted:
            raise InputError(
                f"stream {stream!r} has acted and waits for its reward: call observe(reward) "
                "before the next act"
            )
        now = mine.history.join(mine.history.read(obs, context))
        self._rollout.streams.setdefault(stream, mine)
        if mine.open:
            self._close(mine, now)
        t, i = (mine.step + mine.skipped) % self.config.rollout_length, mine.column
        self._obs[0, i] = now
        answer = self._functions.acting.act(self._gathered, self._obs, self._bits[t])
        action, extra = np.asarray(answer[0])[0, i], answer[1]
        self._rollout.act(mine, now, action, extra)
        mine.history.pass_step()
        return Decision(action.copy(), self.updates)

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
        """What the last action of the stream led to; learns where that fills the rollout.

        Args:
          reward: of the action.
          next_obs: the observation after it, before any reset, in the form that `act` takes. It may
            be left out where the episode goes on: the stream's next `act` brings it.
          terminated: the episode has ended, and no reward can follow.
          truncated: the episode was cut off. Its value goes on, which is why it needs `next_obs`.
          next_context: the context after it, where `act` is given one.
          stream: whose action it was.
          action: what was played [A], if that is not what `act` said; policies do not learn
            from such a step.
          elapsed: time that the step took; the discount is gamma ** elapsed.
          readings: one number for each of `spec.readings`.
        """
        mine = self._rollout.streams.get(stream) if isinstance(stream, str) else None
        if mine is None or not mine.acted:
            raise InputError(f"stream {values.shown(stream)} has no action to judge: act first")
        terminated = values.flag("terminated", terminated)
        truncated = values.flag("truncated", truncated)
        outcome = {
            "reward": values.number("reward", reward),
            "terminated": terminated,
            "truncated": truncated,
            "elapsed": values.number("elapsed", elapsed, 0.0),
            "readings": self._check_readings(readings),
        }
        played = None if action is None else self._check_action(action)
        if next_obs is None:
            if terminated or truncated:
                raise InputError(
                    "an episode ends without next_obs: give the observation that the last action "
                    "led to, for the next one is of another episode"
                )
            if next_context is not None:
                raise InputError("next_context is given without next_obs: give both, or neither")
            self._rollout.observe(mine, played, outcome)
            return
        seen = mine.history.read(next_obs, next_context, "next_obs")
        self._rollout.observe(mine, played, outcome)
        successor = mine.history.join(seen)
        if terminated or truncated:
            mine.history.end_episode()
        self._close(mine, successor)

    def save(self, path: str | Path) -> None:
        """Write all of the learner into one file, atomically; `load` goes on from there."""
        saving.save(values.path("path", path), self)

    @classmethod
    def load(
        cls, path: str | Path, agent: str | AnyAgent | None = None, *, trust: bool = False
    ) -> Learner:
        """The learner that `save` wrote: it goes on as if nothing had happened, bit for bit (CPU).

        Args:
          path: of the file.
          agent: where it is none of this library's; it must be the one that was saved.
          trust: import the agent that the file names, where `agent` is not given.
        """
        return saving.load(values.path("path", path), agent, values.flag("trust", trust), cls)

    def _init(self, key: Any) -> Tree:
        return self.agent.init(self.config, self.spec, key)

    def adopt(self, state: Tree, source: str) -> None:
        """Go on with the agent's state that a file held; InputError if it is of no use."""
        if int(health.num_unusable(state)) > int(health.num_unusable(self._state)):
            raise InputError(
                f"the agent in {source} holds NaN or infinity: use a file that was saved earlier"
            )
        self._state, self._backup = state, None
        self._prepare()

    def _stream(self, name: str) -> Stream:
        """The stream, or a new one, which has no place in the rollout before it has acted."""
        streams, most = self._rollout.streams, self.spec.num_worlds
        if isinstance(name, str) and name in streams:
            return streams[name]
        values.name("stream", name)
        if len(streams) == most:
            raise InputError(
                f"stream {name!r} is one too many: spec.num_worlds = {most}, and there is "
                f"{', '.join(map(repr, streams))}; give a spec with as many worlds as streams"
            )
        return self._rollout.make_stream()

    def _prepare(self) -> None:
        """What acting needs until the next update: the policy, and the random bits of its steps."""
        index = np.int32(self.updates + self.dropped)
        self._gathered = self._functions.acting.gather((self._traced,), (self._state,), index)
        self._bits = np.asarray(self._functions.draws(np.array([self.seed]), index)[0])

    def _close(self, mine: Stream, successor: np.ndarray) -> None:
        self._rollout.close(mine, successor)
        if self._rollout.is_full:
            self._learn()

    def _learn(self) -> None:
        """Update the agent, or drop the update and keep the state before it."""
        run = Run(self._traced, None, self.seed)  # pyright: ignore[reportArgumentType]
        index, batch = np.int32(self.updates + self.dropped), self._rollout.batch()
        self._backup = self._backup or Backup(self._state)
        self._backup.follow(self._state)
        try:
            self._state, sums, packed = self._functions.learn(
                run, self._state, batch, self._sums, index
            )
            names = self._functions.metrics
            metrics = dict(zip(names, np.asarray(packed).tolist(), strict=True))
            problem = _problem(metrics)
        except BaseException as error:  # of the agent or the device, or Ctrl-C
            self._state = self._backup.restore()
            if not isinstance(error, Exception):
                raise
            problem = tell(error)
        else:
            if problem is None:
                self._sums = [np.asarray(x) for x in sums]
                self.metrics = health.without_signs(metrics)
            else:
                self._state = self._backup.restore()
        self.updates += problem is None
        self.dropped += problem is not None
        self._rollout.begin()
        self._prepare()
        if problem is not None:
            self.problem = (
                f"update {self.updates + 1} was dropped, and the learner keeps its previous state: "
                f"{problem}"
            )
            warnings.warn(self.problem, RuntimeWarning, stacklevel=4)

    def _check_action(self, action: Any) -> np.ndarray:
        actions, found = self.spec.actions, np.atleast_1d(values.reals("action", action))
        if not actions.contains(found):
            values.refuse("action", action, f"{actions.size} number(s), one of {actions}")
        return found.astype(actions.dtype)

    def _check_readings(self, readings: Any) -> np.ndarray:
        names = self.spec.readings
        if readings is None and not names:
            return _NO_READINGS
        found = values.reals("readings", () if readings is None else readings)
        if found.shape != (len(names),):
            values.refuse("readings", readings, f"one number for each of {names}")
        return found


def _problem(metrics: Mapping[str, float]) -> str | None:
    """Why the agent could not go on after an update with these metrics; None: it can."""
    found = health.find({name: np.array([value]) for name, value in metrics.items()})
    return found and f"{found[0]} is {metrics[found[0]]:g}{health.explain(found[0])}"


def _functions(agent: AnyAgent, config: Any, spec: Spec) -> Functions:
    """Those of a host run of one seed: of the same kind they are the same."""
    structure = jax.tree.structure(config)
    return functions_of(
        Kind(Program(agent, spec), None, config.rollout_length, 1, False, structure)
    )
