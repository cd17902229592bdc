"""Agents that learn in a loop of a user's own.

learner   `Learner`: act, observe; it learns when a rollout is full. In process, without files
settings  what it is made with, checked
backup    the state that it returns to if an update fails
rollout   the rollout that is being filled, stream by stream
saving    a learner as one file
"""

from __future__ import annotations

from lcpo.live.learner import Decision, Learner

__all__ = ["Decision", "Learner"]
