"""An agent that learns in a user's own loop: no environment, no trace, no files.

    learner = lcpo.Learner("lcpo", spec)
    while True:
        action = learner.act(features, context).action
        reward = play(action)                      # whatever the system is
        learner.observe(reward)                    # the next `act` brings the successor

`Learner` checks arguments and turns calls into events. `lcpo.live.loop` has what events do to a
state, `lcpo.live.learning` the agent's part, and `lcpo.live.core` holds them together.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import values
from lcpo.envs.base import Advance
from lcpo.errors import InputError
from lcpo.live import outcomes, saving
from lcpo.live.core import Core
from lcpo.live.events import Discard, End, Event, Observe, See
from lcpo.live.learning import Learning
from lcpo.live.loop import Loop
from lcpo.live.settings import Settings
from lcpo.live.state import LearnerState
from lcpo.policy import find_policy, restore
from lcpo.run.plan.plan import check_dict
from lcpo.types import AnyAgent, Spec

NOW, BACKGROUND = "now", "background"
POLICY, INCUMBENT = "policy", "incumbent"


class Decision(NamedTuple):
    """What `Learner.act` returns."""

    id: int
    """Report what it led to with `observe(reward, id=...)`."""
    action: np.ndarray
    """Numbers of actions, [A]."""
    probability: float | None
    """Of the action, when it was chosen. None if you chose it, or the agent does not say."""
    policy_version: int
    """Number of updates before it."""
    source: str
    """Who chose the action: "policy", or "incumbent" for `taken`."""


class Stats(NamedTuple):
    """Where a learner stands, as `Learner.stats` returns it. Counts are since it began."""

    streams: int
    """Streams that have not ended."""
    open: int
    """Decisions that wait for a reward or a successor."""
    decisions: int
    observed: int
    """Rewards that were taken."""
    late: int
    """Of these, after the stream's next decision."""
    expired: int
    """Decisions whose reward did not come in time."""
    discarded: int
    closed: int
    """Steps with reward and successor."""
    waiting: int
    """Of these, those that have not been learned from yet."""
    updates: int
    dropped_updates: int
    problem: str | None
    """Why the last dropped update was dropped."""


class Learner:
    """Learns from calls of `act` and `observe`. Several threads may call it.

    A *stream* is one of the user's worlds: a machine, a user, a simulator. Any number of streams
    may come and go; each has its own context history. The learner updates whenever
    `config.rollout_length` steps are complete, of whichever streams.

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
        learn: Literal["now", "background"] = "now",
        late: int | None = None,
        late_seconds: float | None = None,
        missing: float | Literal["cut"] = "cut",
        clock: Callable[[], float] = time.time,
        record: Callable[[Event], Any] | None = None,
    ) -> None:
        """A fresh learner.

        Args:
          agent: a name (`lcpo list`, or "package.module:name"), or an `lcpo.types.Agent`.
          spec: sizes of observations and actions, and the place of the context: `lcpo.types.Spec`.
            Streams are not part of it; `num_worlds=n` makes the rollout n times as long.
          config: values that differ from the agent's defaults, or a whole config.
          seed: of all random numbers.
          steps: the approximate number of steps to come: some agents store a share of them.
          advance: what moves the history of the context on, a step or an episode. "own": a step,
            and the context is normalized with the rest, as if the environment wrote it.
          normalise: "running", or a scale for each column of the features (docs: scales).
          learn: "now", within the call that completes a rollout, or "background", in a thread.
          late: how many further decisions of its stream a reward may take. Without it, a stream
            must observe each reward, or discard the decision, before its next `act`.
          late_seconds: how long a reward may take, if not only the number of decisions counts.
          missing: the reward of a decision whose own did not come in time, or "cut": the step is
            left out.
          clock: the time in seconds, for `late_seconds`.
          record: called with every event before it takes effect. If it raises, the event does not.
            Events hold the arrays that you gave: copy them if your program changes these later.
        """
        settings = Settings.make(
            agent, spec, config, seed, steps, advance, normalise, late, late_seconds, missing
        )
        self._begin(settings, None, learn, clock, record)

    def _begin(
        self, settings: Settings, state: LearnerState | None, learn: Any, clock: Any, record: Any
    ) -> None:
        if learn not in (NOW, BACKGROUND):
            values.refuse("learn", learn, f"{NOW!r} or {BACKGROUND!r}")
        for name, function in (("clock", clock), ("record", record)):
            if not callable(function) and not (name == "record" and function is None):
                values.refuse(name, function, "a function")
        learning = Learning(settings, exact=learn == NOW)
        state = learning.begin() if state is None else state
        self._clock = clock
        self._core = Core(Loop(settings), learning, state, learn == BACKGROUND, record)
        # The thread holds the core, not the learner: a learner that is dropped ends its thread.
        weakref.finalize(self, self._core.close)
        self.settings, self.spec = settings, settings.spec
        self.agent, self.agent_name = settings.agent, settings.agent_name
        self.config, self.seed = settings.config, settings.seed

    def _now(self) -> float:
        return values.number("the time of clock()", self._clock())

    @property
    def state(self) -> LearnerState:
        """All that changes in the learner, as a value; set it to continue from there.

        With `learn="background"` it waits for the end of the current update.
        """
        return self._core.copy()

    @state.setter
    def state(self, state: LearnerState) -> None:
        self._core.take(state._replace(agent=jax.tree.map(jnp.array, state.agent)))

    @property
    def updates(self) -> int:
        """Number of updates so far, which is the version of the policy."""
        return self._core.state.updates

    @property
    def dropped(self) -> int:
        """Number of dropped updates, which `updates` does not count."""
        return self._core.state.dropped

    @property
    def problem(self) -> str | None:
        """Why the last dropped update was dropped; None if none was."""
        return self._core.problem

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last update that was not dropped."""
        return dict(self._core.state.metrics)

    def stats(self) -> Stats:
        """Where the learner stands: counts of streams, decisions, rewards and updates."""
        state = self._core.state
        counts = state.counts
        return Stats(
            len(state.streams), len(state.where), state.decisions, counts.observed, counts.late,
            counts.expired, counts.discarded, counts.closed, len(state.closed), state.updates,
            state.dropped, self.problem,
        )  # fmt: skip

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
        **rest: Any,
    ) -> Learner:
        """A learner that starts with the policy of a finished run.

        `source`, `run`, `agent` and `trust` are those of `lcpo.load`; `config`: values in which the
        learner differs from the run; `rest`: learn, late, late_seconds, missing, clock and record,
        as of `Learner`. Large buffers, such as reservoir and replay, start empty.
        """
        about, arrays = find_policy(source, run, agent, trust)
        given = {**about.config, **check_dict("config", config)}
        rest = {"advance": about.advance, "normalise": about.normalise, **rest}
        learner = cls(about.agent, about.spec, given, seed, **rest)
        core, made = learner._core, learner.settings
        state = restore(about, lambda spec, key: made.agent.init(made.config, spec, key), arrays)
        fresh = core.state.agent
        core.learning.check_usable(state, fresh, str(source))
        if hasattr(state, "memory"):
            state = state._replace(memory=fresh.memory)
        # Runs of several worlds carry a return for each; streams begin theirs anew.
        state = jax.tree.map(lambda x, new: x if x.shape == new.shape else new, state, fresh)
        core.take(core.state._replace(agent=state))
        return learner

    def __repr__(self) -> str:
        state = self._core.state
        names = list(state.streams)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        streams = (", ".join(names[:5]) or "none yet") + more
        dropped = f" ({state.dropped} dropped)" if state.dropped else ""
        return f"Learner({self.agent_name!r}: {state.updates} updates{dropped}, streams: {streams})"

    def act(
        self,
        obs: Any,
        context: Any = None,
        stream: str = "0",
        taken: Any = None,
        deterministic: bool = False,
    ) -> Decision:
        """The action of a stream for an observation.

        Args:
          obs: the features [F] if a context is given; else the whole observation [D].
          context: its current values [channels]; the learner keeps their history.
          stream: the stream of the observation.
          taken: the action [A] that your own rule has chosen: it is recorded instead of the
            policy's. Critics and statistics learn from the step, the policy does not.
          deterministic: the most probable action, from which the policy does not learn either.
        """
        see, flag = See(stream, obs, context, self._now()), values.flag
        chosen = outcomes.check_action(self.spec, taken, "taken")
        source = POLICY if taken is None else INCUMBENT
        made = self._core.act(see, chosen, flag("deterministic", deterministic), source)
        return Decision(
            made.id, made.action.copy(), made.probability, made.policy_version, made.source
        )

    def observe(
        self,
        reward: float | None = None,
        next_obs: Any = None,
        terminated: bool = False,
        truncated: bool = False,
        next_context: Any = None,
        stream: str = "0",
        *,
        id: int | None = None,
        action: Any = None,
        elapsed: float = 1.0,
        readings: Any = None,
    ) -> str:
        """The outcome of a decision; learns if that completes the rollout.

        Args:
          reward: of the action. None: it is not known yet, and follows in another call.
          next_obs: the observation after it, before any reset, in the form that `act` takes. It may
            be omitted within an episode: the stream's next `act` supplies it.
          terminated: the episode has ended, and no reward can follow.
          truncated: the episode was cut off. `next_obs` is needed to bootstrap its value.
          next_context: the context after it, if `act` is given one.
          stream: the stream whose last decision is meant, if no id is given.
          id: the decision's, for rewards that come late or may come twice.
          action: what was played [A], if not the action of `act`; policies do not learn from such
            a step.
          elapsed: duration of the step; the discount is gamma ** elapsed.
          readings: one number for each of `spec.readings`.

        Returns:
          "ok"; "late": taken, though the stream has acted since. With an id also "duplicate": the
          same was observed before; "expired" or "discarded": the decision no longer waits for its
          reward, which is ignored. InputError if something else was observed before.
        """
        number = None if id is None else values.whole("id", id, 0, 2**62)
        event = Observe(
            number, reward, next_obs, terminated, truncated, next_context, action,  # pyright: ignore
            elapsed, readings, self._now(),
        )  # fmt: skip
        return self._core.observe(event, stream)

    def discard(self, stream: str = "0", *, id: int | None = None) -> int:
        """Do not learn from a decision, or from any open decision of a stream.

        For rewards that will never come. Returns the number of decisions that were discarded.
        """
        number = None if id is None else values.whole("id", id, 0, 2**62)
        return self._core.change(Discard(stream, number, self._now()))

    def end(self, stream: str = "0") -> None:
        """A stream leaves: its history is forgotten, and its open decisions stop waiting.

        Report its last outcome first, with `next_obs`: a step without a successor is discarded. The
        same name may begin another stream later.
        """
        self._core.change(End(stream, self._now()))

    def replay(self, events: Iterable[Event]) -> None:
        """Apply recorded events (`record`): a fresh learner becomes the one that recorded them."""
        for event in events:
            self._core.replay(event)

    def warm_up(self) -> None:
        """Compile all that acting and learning need, which takes seconds.

        Otherwise the first calls do. `learn="background"` has called it.
        """
        self._core.learning.warm_up()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until learning in the background has caught up; False after `timeout` seconds."""
        return self._core.wait(timeout)

    def close(self) -> None:
        """Stop learning in the background, after the current update. Later calls are refused."""
        self._core.close()

    def save(self, path: str | Path) -> None:
        """Write all of the learner into one file, atomically; `load` resumes from it."""
        saving.save(values.path("path", path), self._core.learning, self._core.copy())

    @classmethod
    def load(
        cls,
        path: str | Path,
        agent: str | AnyAgent | None = None,
        *,
        spec: Spec | None = None,
        trust: bool = False,
        learn: Literal["now", "background"] = "now",
        clock: Callable[[], float] = time.time,
        record: Callable[[Event], Any] | None = None,
    ) -> Learner:
        """The learner that `save` wrote. It resumes bit for bit (CPU).

        Args:
          path: of the file.
          agent: the agent that was saved, if it is not part of this library.
          spec: what your program uses; a file of another spec is refused.
          trust: import the agent that the file names, if `agent` is not given.
          learn, clock, record: as of `Learner`.
        """
        if spec is not None and not isinstance(spec, Spec):
            raise InputError(f"spec = {values.shown(spec)}: needs an lcpo.Spec")
        file = values.path("path", path)
        found = saving.load(file, agent, values.flag("trust", trust), spec)
        learner = cls.__new__(cls)
        learner._begin(*found, learn, clock, record)
        return learner
