"""From one `LearnerState` to the next: see, act, observe and learn, as pure functions.

    state = loop.see(state, obs, context, stream)          it completes the previous step
    if loop.is_full(state):
        state, problem = loop.learn(state)
    state, action = loop.act(state, loop.snapshot(state), stream)
    state = loop.observe(state, stream, outcome)

Keys, `act` and `update` are those of the host driver (`run.drive`), the same compiled functions: a
learner that a simulator drives in lock step equals a run of `lcpo train`, bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.core import health
from lcpo.errors import InputError, tell
from lcpo.history import ContextHistory
from lcpo.live.settings import Settings
from lcpo.live.state import Backup, Experience, LearnerState, Stream
from lcpo.run.drive.base import Program, Run
from lcpo.run.drive.collect import Buffers, make_buffers
from lcpo.run.drive.host_functions import Kind, functions_of
from lcpo.types import Transition, Tree

_NO_READINGS = np.zeros(0, np.float32)


class Outcome(NamedTuple):
    """The user's report on an action; `Learner.observe` explains the fields."""

    reward: Any
    next_obs: Any = None
    terminated: Any = False
    truncated: Any = False
    next_context: Any = None
    action: Any = None
    elapsed: Any = 1.0
    readings: Any = None


class Snapshot(NamedTuple):
    """What acting needs until the next update: the policy, and the random bits of its steps."""

    policy: Any
    bits: np.ndarray
    version: int


class Loop:
    """The functions of a learner with given settings. It holds nothing that changes."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.spec = settings, settings.spec
        self.num_steps: int = settings.config.rollout_length
        structure = jax.tree.structure(settings.config)
        program = Program(settings.agent, settings.spec)
        # Shared with host runs of one seed of the same kind.
        self.functions = functions_of(Kind(program, None, self.num_steps, 1, False, structure))
        self.traced: Tree = jax.tree.map(jnp.float32, settings.config)

    def begin(self) -> LearnerState:
        """A fresh learner."""
        zeros = np.zeros(self.spec.num_worlds, np.float32)
        obs = np.zeros((1, self.spec.num_worlds, self.spec.obs_size), np.float32)
        agent = self.functions.init(self.traced, self.settings.seed)
        return LearnerState(agent, (zeros, zeros), obs, {})

    def snapshot(self, state: LearnerState) -> Snapshot:
        """What `act` needs until the next update."""
        index, acting = _index(state), self.functions.acting
        policy = acting.gather((self.traced,), (state.agent,), index)
        bits = self.functions.draws(np.array([self.settings.seed]), index)[0]
        return Snapshot(policy, np.asarray(bits), state.updates)

    def see(self, state: LearnerState, obs: Any, context: Any, stream: str) -> LearnerState:
        """A stream's observation before it acts, which is the successor of its previous step."""
        known = isinstance(stream, str) and stream in state.streams
        mine = state.streams[stream] if known else self.new_stream(state, stream)
        if mine.acted:
            raise InputError(
                f"stream {stream!r} has acted and waits for its reward: call observe(reward) "
                "before the next act"
            )
        now, history = mine.history.join(mine.history.read(obs, context))
        mine = mine.complete_step(now, history) if mine.open else mine._replace(history=history)
        seen = state.obs.copy()
        seen[0, mine.column] = now
        streams = {**state.streams, stream: mine}
        return LearnerState(state.agent, state.sums, seen, streams, *state[4:])

    def act(
        self, state: LearnerState, snapshot: Snapshot, stream: str
    ) -> tuple[LearnerState, np.ndarray]:
        """The action [A] of a stream for what it has just seen."""
        mine = state.streams[stream]
        t, i = (len(mine.steps) + mine.skipped) % self.num_steps, mine.column
        answer = self.functions.acting.act(snapshot.policy, state.obs, snapshot.bits[t])
        action = np.asarray(answer[0])[0, i]
        # A single world's extra keeps its axis: it may belong to the agent, not to the world.
        place = 0 if self.spec.num_worlds == 1 else (0, i)
        extra = tuple([np.asarray(x)[place] for x in jax.tree.leaves(answer[1])])
        step = Experience(state.obs[0, i], action, extra)
        is_full = len(mine.steps) == self.num_steps
        return state.with_stream(stream, mine.begin_step(step, is_full)), action

    def observe(self, state: LearnerState, stream: str, outcome: Outcome) -> LearnerState:
        """The outcome of a stream's last action; with a successor, the step is complete."""
        mine = state.streams.get(stream) if isinstance(stream, str) else None
        if mine is None or not mine.acted:
            raise InputError(
                f"stream {values.shown(stream)} has no action to observe: call act first"
            )
        terminated = values.flag("terminated", outcome.terminated)
        truncated = values.flag("truncated", outcome.truncated)
        reward = values.number("reward", outcome.reward)
        elapsed = values.number("elapsed", outcome.elapsed, 0.0)
        readings = self._check_readings(outcome.readings)
        step, played = mine.under_way, self._check_action(outcome.action)
        seen = None
        if outcome.next_obs is not None:
            seen = mine.history.read(outcome.next_obs, outcome.next_context, "next_obs")
        elif terminated or truncated:
            raise InputError(
                "an episode ends without next_obs: give the observation that the last action "
                "led to, because the next one belongs to another episode"
            )
        elif outcome.next_context is not None:
            raise InputError("next_context is given without next_obs: give both, or neither")
        if step is not None:
            obs, action, extra = step[:3]
            chosen = played is None or np.array_equal(played, action)
            action, weight = action if played is None else played, 1.0 if chosen else 0.0
            rest = (reward, terminated, truncated, elapsed, weight, readings)
            step = Experience(obs, action, extra, *rest)
        mine = Stream(mine.column, mine.history, mine.steps, step, False, True, mine.skipped)
        if seen is not None:
            successor, history = mine.history.join(seen)
            history = history.end_episode() if terminated or truncated else history
            mine = mine.complete_step(successor, history)
        return state.with_stream(stream, mine)

    def is_full(self, state: LearnerState) -> bool:
        """Whether every stream has its steps: it is time to learn."""
        for stream in state.streams.values():
            if len(stream.steps) != self.num_steps:
                return False
        return len(state.streams) == self.spec.num_worlds

    def learn(
        self, state: LearnerState, backup: Backup | None = None
    ) -> tuple[LearnerState, str | None]:
        """Learn from the rollout, or drop it: then the agent stays, and the text says why.

        With a backup of its agent, `state` is no longer usable: the update takes its buffers.
        Without one they are copied first.
        """
        index, run = _index(state), Run(self.traced, None, self.settings.seed)  # pyright: ignore
        given = state.agent if backup else jax.tree.map(jnp.array, state.agent)
        try:
            (*rest, readings), extra = self.rollout(state)
            batch = Transition(*rest, extra, readings if self.spec.readings else ())  # pyright: ignore
            agent, sums, packed = self.functions.learn(run, given, batch, state.sums, index)
            names = self.functions.metrics
            metrics = dict(zip(names, np.asarray(packed).tolist(), strict=True))
            sums = (np.asarray(sums[0]), np.asarray(sums[1]))
            bad = health.find({name: np.array([value]) for name, value in metrics.items()})
        except Exception as error:  # of the agent or the device
            problem = tell(error)
        else:
            if bad is None:
                counts = {"updates": state.updates + 1, "metrics": health.without_signs(metrics)}
                return state._replace(agent=agent, sums=sums, **counts).begin_rollout(), None
            problem = f"{bad[0]} is {metrics[bad[0]]:g}{health.explain(bad[0])}"
        kept = backup.restore() if backup else state.agent
        dropped = state._replace(agent=kept, dropped=state.dropped + 1)
        return dropped.begin_rollout(), problem

    def rollout(self, state: LearnerState) -> tuple[Buffers, Tree]:
        """The steps of the rollout and their extra, [T, N, ...]; zeros where there are none yet."""
        buffers = make_buffers(self.spec, self.num_steps, self.spec.num_worlds)
        for array in buffers:
            array.fill(0)
        shapes, structure = jax.tree.flatten(self._extra_shapes)
        extra = [np.zeros((self.num_steps, *x.shape[1:]), x.dtype) for x in shapes]
        for stream in state.streams.values():
            steps, i = stream.steps, stream.column
            steps = steps if stream.under_way is None else (*steps, stream.under_way)
            for name, array in zip(Buffers._fields, buffers, strict=True):
                known = [getattr(step, name) for step in steps]
                _put(array[:, i], [value for value in known if value is not None])
            for number, array in enumerate(extra):
                column = array if self.spec.num_worlds == 1 else array[:, i]
                _put(column, [step.extra[number] for step in steps])
        return buffers, jax.tree.unflatten(structure, extra)

    def new_stream(self, state: LearnerState, name: str) -> Stream:
        """A stream of the next column; InputError if all columns are taken."""
        values.name("stream", name)
        most = self.spec.num_worlds
        if len(state.streams) == most:
            others = ", ".join(repr(name) for name, _ in state.in_order)
            raise InputError(
                f"too many streams: {name!r} cannot be added: spec.num_worlds = {most}, and there "
                "is "
                f"{others}; give a spec with as many worlds as streams"
            )
        return Stream(len(state.streams), ContextHistory(self.spec, self.settings.advance))

    def check_usable(self, agent: Tree, fresh: Tree, source: str) -> None:
        """Raise InputError if an agent's state from a file has more bad values than a fresh one."""
        if int(health.num_unusable(agent)) > int(health.num_unusable(fresh)):
            raise InputError(
                f"the agent in {source} holds NaN or infinity: use a file that was saved earlier"
            )

    @functools.cached_property
    def _extra_shapes(self) -> Tree:
        """Shapes of what `act` returns besides the actions, with an axis of runs."""
        state = jax.eval_shape(self.functions.init, self.traced, self.settings.seed)
        acting, index = self.functions.acting, np.int32(0)
        policy = jax.eval_shape(acting.gather, (self.traced,), (state,), index)
        obs = np.zeros((1, self.spec.num_worlds, self.spec.obs_size), np.float32)
        bits = jax.eval_shape(self.functions.draws, np.array([self.settings.seed]), index)[0]
        row = jax.ShapeDtypeStruct(bits.shape[1:], bits.dtype)
        return jax.eval_shape(acting.act, policy, obs, row)[1]

    def _check_action(self, action: Any) -> np.ndarray | None:
        if action is None:
            return None
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
        return found.copy()


def _index(state: LearnerState) -> np.int32:
    """The number of the next update, which determines its keys."""
    return np.int32(state.updates + state.dropped)


def _put(array: np.ndarray, first: Sequence[Any]) -> None:
    """Write the first entries of an array."""
    if first:
        rows = array[: len(first)]
        rows[:] = np.concatenate(first).reshape(rows.shape) if np.ndim(first[0]) else first
