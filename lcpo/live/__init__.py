"""Agents that learn in your own loop.

learner   `Learner`: act, observe; it learns when a rollout is full. In process, without files
core      one state, changed by one event at a time; learning within calls or in a thread
events    what happens to a learner, as values that a log can hold
loop      what events do to a state, as pure functions
outcomes  rewards and successors that users report, checked
learning  the agent's part: acting, and an update from a full rollout
rollout   closed steps as a batch: grouped by stream, and cut
fast      acting in NumPy
state     `LearnerState`: all that changes in a learner, as one value; a `Backup` of its agent
settings  `Settings`: what a learner is made with, checked
saving    a learner as one file; `earlier`: files of the version before

A live agent is a learner in a folder, with a log and somebody who decides besides it.

opening      `open`: continue the agent of a folder, or begin one
service      `LiveAgent`: a learner whose events are in a log before they are acknowledged
serving      who decides: incumbent, policy, guard or fallback; `desk`: modes, counts, what is kept
shadow       learning from the actions of others
guard        what an action may be, as limits or a function
switchback   incumbent and policy alternately, and the difference between them
versions     policies to return to, and when
log          the durable log, of `segments` of `records`; `journal`: what is in it
folder       the files of a live agent, and its options; `checkpoints`
rebuild      recovery and `replay`: from a checkpoint and the log to the same agent
ledger       the log as columns, for reports
"""

from __future__ import annotations

from lcpo.live.events import Decide, Discard, End, Event, Observe, See
from lcpo.live.folder import Options
from lcpo.live.guard import Budget, Limits
from lcpo.live.learner import Decision, Learner, Stats
from lcpo.live.log import NotWritten
from lcpo.live.opening import open
from lcpo.live.rebuild import replay
from lcpo.live.service import LiveAgent, LiveStats
from lcpo.live.state import LearnerState
from lcpo.live.switchback import Switchback
from lcpo.live.versions import Rule, Version

__all__ = [
    "Budget", "Decide", "Decision", "Discard", "End", "Event", "Learner", "LearnerState", "Limits",
    "LiveAgent", "LiveStats", "NotWritten", "Observe", "Options", "Rule", "See", "Stats",
    "Switchback", "Version", "open", "replay",
]  # fmt: skip
