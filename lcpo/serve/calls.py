"""The calls to the agent: their bodies, checked by type, and their answers.

A body is data for the agent and nothing else. No field names a file, a class or code.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from lcpo.errors import Conflict, InputError, Unknown
from lcpo.live import LiveAgent, NotWritten
from lcpo.live.desk import SWITCHBACK
from lcpo.serve.state import State
from lcpo.serve.tables import SwitchbackTable

Numbers = list[float]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
"""Of a stream."""
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
TOGETHER = 8
"""Items of a batch after which others may have their turn."""
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """A body; an unknown name in it is an error."""


class Act(Body):
    """Of `/v1/act`: an observation, and which stream it is of."""

    obs: Numbers
    context: float | Numbers | None = None
    stream: Name = "0"
    taken: float | Numbers | None = None
    deterministic: bool = False
    key: str | None = None


class Decided(msgspec.Struct):
    """A decision."""

    id: int
    action: list[int | float]
    probability: float | None
    policy_version: int
    source: str


class Observe(Body):
    """Of `/v1/observe`: what a decision led to."""

    id: int | None = None
    stream: Name | None = None
    reward: float | None = None
    next_obs: Numbers | None = None
    next_context: float | Numbers | None = None
    terminated: bool = False
    truncated: bool = False
    action: float | Numbers | None = None
    elapsed: float = 1.0
    readings: Numbers | None = None


class Observed(msgspec.Struct):
    """What became of an observation."""

    result: str


class Item(Body):
    """One item of `/v1/step`: it observes, then it acts."""

    observe: Observe | None = None
    act: Act | None = None


class Step(Body):
    """Of `/v1/step`."""

    items: list[Item]


class Failed(msgspec.Struct):
    """An error, in place of an answer."""

    error: str


class Stepped(msgspec.Struct, omit_defaults=True):
    """The answer to an item."""

    observe: Any = None
    """`Observed`, or `Failed`."""
    act: Any = None
    """`Decided`, or `Failed`."""


class Steps(msgspec.Struct):
    """The answers to `/v1/step`, in order."""

    items: list[Stepped]


class Which(Body):
    """Of `/v1/discard`: a decision, by id or by the key it was made with, or a stream."""

    id: int | None = None
    stream: Name | None = None
    key: str | None = None


class Stream(Body):
    """Of `/v1/end`."""

    stream: Name


class Discarded(msgspec.Struct):
    """How many decisions were discarded."""

    discarded: int


class Mode(Body):
    """Of `/v1/mode`."""

    mode: Literal["frozen", "shadow", "switchback", "live"]
    why: Reason
    switchback: SwitchbackTable | None = None


class InMode(msgspec.Struct):
    """The mode after the call."""

    mode: str


class Rollback(Body):
    """Of `/v1/rollback`."""

    why: Reason
    version: int | None = None


class RolledBack(msgspec.Struct):
    """The policy's new version number."""

    policy_version: int


class Nothing(Body):
    """Of `/v1/checkpoint`."""


class Saved(msgspec.Struct):
    """Recovery needs no log before this event."""

    sequence: int


def traced(header: bytes | None) -> str | None:
    """A valid W3C `traceparent`; anything else is ignored, as the standard asks."""
    if header is None:
        return None
    text = header.decode("latin-1")
    return text if _TRACE.fullmatch(text) and not text.startswith("ff") else None


class Calls:
    """The calls. Those that are quick happen on the event loop, the others in threads."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.now = time.perf_counter

    async def act(self, agent: LiveAgent, body: Act, trace: str | None) -> Decided:
        """A decision."""
        began, state = self.now(), self.state
        if body.stream not in agent.streams:
            self._check_room(agent)
        act = functools.partial(
            agent.act, body.obs, body.context, body.stream, body.taken, body.deterministic,
            key=body.key, trace=trace,
        )  # fmt: skip
        made = await self._call(act)
        newest: Any = body.context
        if newest is None:
            place = agent.settings.spec.context
            newest = body.obs[place.start : place.end : max(place.lags, 1)]
        elif isinstance(newest, float):
            newest = [newest]
        state.series.decided(state.clock(), made.id, made.source, newest)
        state.look()
        state.metrics.act.observe(self.now() - began)
        action = made.action.tolist()
        return Decided(made.id, action, made.probability, made.policy_version, made.source)

    async def observe(self, agent: LiveAgent, body: Observe, trace: str | None) -> Observed:
        """What a decision led to."""
        if body.id is None and body.stream is None:
            raise InputError("give id, the decision's, or stream, whose last decision is meant")
        number = body.id
        if number is None:
            number = agent.last_decision(body.stream or "")
        observe = functools.partial(
            agent.observe, body.reward, body.next_obs, body.terminated, body.truncated,
            body.next_context, body.stream or "0", id=body.id, action=body.action,
            elapsed=body.elapsed, readings=body.readings, trace=trace,
        )  # fmt: skip
        result = await self._call(observe, agent.may_wait)
        self.state.metrics.observed[result].inc()
        if result in ("ok", "late") and body.reward is not None and number is not None:
            self.state.series.observed(self.state.clock(), number, body.reward)
        return Observed(result)

    async def step(self, agent: LiveAgent, body: Step, trace: str | None) -> Steps:
        """Observations and decisions of several streams, in order."""
        found = []
        for number, item in enumerate(body.items):
            answer = Stepped()
            if item.observe is not None:
                answer.observe = await self._answer(self.observe, agent, item.observe, trace)
            if item.act is not None:
                answer.act = await self._answer(self.act, agent, item.act, trace)
            found.append(answer)
            if number % TOGETHER == TOGETHER - 1:
                await asyncio.sleep(0)
        return Steps(found)

    async def _answer(self, call: Any, agent: LiveAgent, body: Any, trace: str | None) -> Any:
        try:
            return await call(agent, body, trace)
        except InputError as error:
            return Failed(self.state.answered(one_line(error)))

    async def discard(self, agent: LiveAgent, body: Which, trace: str | None) -> Discarded:
        """Do not learn from a decision, or from any open decision of a stream."""
        number, stream = body.id, body.stream or "0"
        if body.key is not None:
            number = agent.made_with(body.key, stream)
        elif body.id is None and body.stream is None:
            raise InputError("give id, stream, or stream and key")
        elif body.id is not None and body.id >= 0 and not agent.is_open(body.id):
            raise Unknown(
                f"decision {body.id} is not open: it was learned from, discarded, or never made"
            )
        if body.key is not None and (number is None or not agent.is_open(number)):
            return Discarded(0)
        return Discarded(await self._call(functools.partial(agent.discard, stream, id=number)))

    async def end(self, agent: LiveAgent, body: Stream, trace: str | None) -> Discarded:
        """A stream leaves; its open decisions no longer wait."""
        return Discarded(await self._call(functools.partial(agent.end, body.stream)))

    async def mode(self, agent: LiveAgent, body: Mode, trace: str | None) -> InMode:
        """Change the mode."""
        design = body.switchback.design() if body.switchback else None
        if design is None and agent.design is None:
            design = self.state.config.switchback
        if body.mode == SWITCHBACK and design is None and agent.design is None:
            raise InputError(
                'switchback mode needs a design: give "switchback": {"length": seconds}, or '
                "[switchback] in the configuration"
            )
        await self._task(functools.partial(agent.set_mode, body.mode, design, body.why))
        self.state.events.write("mode", mode=body.mode, why=body.why)
        return InMode(agent.mode)

    async def rollback(self, agent: LiveAgent, body: Rollback, trace: str | None) -> RolledBack:
        """Return to an earlier version of the policy."""
        number = await self._task(functools.partial(agent.rollback, body.version, body.why))
        self.state.events.write("rollback", to=body.version, version=number, why=body.why)
        self.state.look()
        return RolledBack(number)

    async def checkpoint(self, agent: LiveAgent, body: Nothing, trace: str | None) -> Saved:
        """Save everything."""
        return Saved(await self._task(agent.checkpoint))

    def _check_room(self, agent: LiveAgent) -> None:
        most = self.state.config.file.serve.max_streams
        if len(agent.streams) >= most:
            raise Conflict(
                f"there are {most} streams already: end those that have left, with /v1/end, or "
                "raise serve.max_streams"
            )

    async def _call(self, call: Callable[[], Any], may_wait: bool = False) -> Any:
        """The result of a call to the agent; a failed write makes the server unready."""
        state = self.state
        try:
            if state.is_inline and not may_wait:
                found = call()
            else:
                pool = state.waits if may_wait else state.calls
                found = await asyncio.get_running_loop().run_in_executor(pool, call)
        except NotWritten as error:
            state.failed_write(one_line(error))
            raise
        if state.unwritten is not None:
            state.unwritten = None
            state.events.write("written", text="the log can be written again")
        return found

    async def _task(self, task: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.state.tasks, task)


def one_line(error: BaseException) -> str:
    """The message of an error."""
    return " ".join(str(error).split())
