"""The document of `/v1/status`, and what `/metrics` reads from the agent."""

from __future__ import annotations

import dataclasses
from typing import Any

from lcpo import __version__, values
from lcpo.live import LiveAgent, LiveStats
from lcpo.live.desk import SWITCHBACK
from lcpo.live.versions import newest_up_to
from lcpo.serve.metrics import AboutAgent
from lcpo.serve.state import State


def document(state: State, series: dict[str, Any]) -> dict[str, Any]:
    """Everything that a status page shows; plain values without NaN.

    `series`: `state.series.to_json()`, which only the event loop may ask for.
    """
    agent, now = state.agent, state.clock()
    found: dict[str, Any] = {
        "version": __version__,
        "config_hash": state.config.digest,
        "started": state.started,
        "now": now,
        "mode": None,
        "ready": state.is_ready,
        "draining": state.draining,
        "stats": None,
        "versions": [],
        "problems": [{**one, "text": state.answered(one["text"])} for one in state.problems],
        "series": series,
        "log": None,
        "switchback_design": None,
    }
    if agent is not None:
        stats, design = agent.stats(), agent.design
        found |= {
            "mode": stats.mode,
            "stats": _stats(stats) | {"problem": stats.problem and state.answered(stats.problem)},
            "versions": _versions(state, agent, stats.good_version),
            "log": {"unapplied": agent.num_waiting, "bytes": stats.log_bytes},
        }
        if stats.mode == SWITCHBACK and design is not None:
            found["switchback_design"] = dataclasses.asdict(design)
    return values.without_nan(found)


def metrics(state: State) -> bytes:
    """What `/metrics` answers."""
    agent = state.agent
    if agent is None:
        return state.metrics.text(None, state.is_ready)
    stats = agent.stats()
    build = {
        "version": __version__,
        "config_hash": state.config.digest,
        "policy_version": stats.policy_version,
    }
    about = AboutAgent(
        agent, stats, now=state.clock(), version_time=state.version_time,
        learned_time=state.learned_time, rollbacks=agent.num_rollbacks, build=build,
    )  # fmt: skip
    return state.metrics.text(about, state.is_ready)


def _stats(stats: LiveStats) -> dict[str, Any]:
    found, result = stats._asdict(), stats.switchback
    if result is not None:
        found["switchback"] = {
            "policy": result.policy,
            "incumbent": result.incumbent,
            "difference": result.difference.mean,
            "low": result.difference.low,
            "high": result.difference.high,
            "groups": result.difference.n,
            "num_left_out": result.num_left_out,
        }
    return found


def _versions(state: State, agent: LiveAgent, good: int | None) -> list[dict[str, Any]]:
    numbers = agent.version_numbers()
    if state.versions[0] != numbers:
        state.versions = (numbers, agent.versions())
    chosen = newest_up_to(numbers, good)
    return [
        {"number": v.version, "sequence": v.sequence, "time": v.time, "good": v.version in chosen}
        for v in state.versions[1]
    ]
