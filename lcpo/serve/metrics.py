"""Metrics for Prometheus, in a registry of their own.

What the agent counts is read from it when Prometheus asks, so that it goes on across restarts. What
requests do is counted here. Streams are never labels: there may be any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lcpo.live import LiveAgent, LiveStats
from lcpo.live.desk import MODES, SOURCES

BUCKETS = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1.0)
RESULTS = ("ok", "late", "duplicate", "expired", "discarded")
CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST


prometheus.disable_created_metrics()


class Metrics:
    """What requests do."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        self.act = prometheus.Histogram(
            "lcpo_act_duration_seconds", "Duration of decisions within the server.",
            buckets=BUCKETS, registry=self.registry,
        )  # fmt: skip
        self._observed = prometheus.Counter(
            "lcpo_observations", "Observations by what became of them.", ["result"],
            registry=self.registry,
        )  # fmt: skip
        self.observed = {result: self._observed.labels(result) for result in RESULTS}
        self._ready = prometheus.Gauge(
            "lcpo_ready", "1 if /readyz answers 200.", registry=self.registry
        )
        self.errors = prometheus.Counter(
            "lcpo_http_errors", "Answers with an error status.", ["status"], registry=self.registry
        )

    def text(self, about: Any, is_ready: bool) -> bytes:
        """Everything, in the format of Prometheus. `about`: an `AboutAgent`, or None."""
        self._ready.set(is_ready)
        found = prometheus.generate_latest(self.registry)
        if about is None:
            return found
        registry = prometheus.CollectorRegistry()
        registry.register(about)
        return found + prometheus.generate_latest(registry)


class AboutAgent(Collector):
    """What an agent counts, at one moment."""

    def __init__(self, agent: LiveAgent, stats: LiveStats, **rest: Any) -> None:
        """`rest`: version_time, learned_time, now, rollbacks, build."""
        self.agent, self.stats, self.rest = agent, stats, rest

    def collect(self) -> Iterator[Any]:
        """The metrics."""
        stats, rest = self.stats, self.rest
        decisions = CounterMetricFamily(
            "lcpo_decisions", "Decisions by who decided.", labels=["source"]
        )
        rewards = GaugeMetricFamily("lcpo_reward_mean", "Mean reward.", labels=["source"])
        for source in SOURCES:
            decisions.add_metric([source], stats.decisions.get(source, 0))
            if source in stats.mean_reward:
                rewards.add_metric([source], stats.mean_reward[source])
        modes = GaugeMetricFamily("lcpo_mode", "1 for the current mode.", labels=["mode"])
        for mode in MODES:
            modes.add_metric([mode], float(mode == stats.mode))
        yield from (decisions, rewards, modes)
        waiting, learned = self.agent.num_waiting, rest["learned_time"]
        age = rest["now"] - rest["version_time"]
        for name, help, value in (
            ("log_unapplied_records", "Complete steps that have not been learned from.", waiting),
            ("policy_age_seconds", "Time since the policy changed.", age),
            ("learner_last_success_timestamp_seconds", "Last update that was kept.", learned),
            ("open_decisions", "Decisions that wait for a reward or a successor.", stats.open),
            ("log_bytes", "Size of the log.", stats.log_bytes),
        ):
            yield GaugeMetricFamily(f"lcpo_{name}", help, value)
        kl = self.agent.metrics.get("anchor_kl")
        if kl is not None:
            yield GaugeMetricFamily("lcpo_anchor_kl", "KL divergence on anchors.", kl)
        for name, help, value in (
            ("updates", "Updates that were kept.", stats.updates),
            ("updates_dropped", "Updates that were dropped.", stats.dropped_updates),
            ("rollbacks", "Rollbacks since the server started.", rest["rollbacks"]),
        ):
            yield CounterMetricFamily(f"lcpo_{name}", help, value)
        names = ("version", "config_hash", "policy_version")
        build = GaugeMetricFamily("lcpo_build_info", "What is running.", labels=names)
        build.add_metric([str(rest["build"][name]) for name in names], 1.0)
        yield build
