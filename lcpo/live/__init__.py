"""Agents that learn in your own loop.

learner   `Learner`: act, observe; it learns when a rollout is full. In process, without files
loop      the pure functions behind it: see, act, observe and learn, from one state to the next
state     `LearnerState`: all that changes in a learner, as one value; a `Backup` of its agent
settings  `Settings`: what a learner is made with, checked
saving    a learner as one file
"""

from __future__ import annotations

from lcpo.live.learner import Decision, Learner
from lcpo.live.state import LearnerState

__all__ = ["Decision", "Learner", "LearnerState"]
