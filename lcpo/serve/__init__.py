"""A live agent behind HTTP, for systems that are not written in Python: `lcpo serve CONFIG.toml`.

config    the configuration file, checked; what may change while the server runs; its `tables`
check     `lcpo serve --check`: the configuration in words
server    the process: socket, signals, opening the agent, drain and checkpoint
protocol  connections: slow, idle and oversized ones are closed
app       requests: who may ask, what is malformed, which status an error has
calls     bodies and answers of the calls to the agent
openapi   the description of these calls, made from their types
state     what the server knows besides the agent: readiness, problems, counts
status    the document of `/v1/status`; `series`: its columns over time
metrics   for Prometheus
events    JSON lines on stderr, and notes to systemd
client    a client of one file, which needs only the standard library

The server needs the extra `serve`; the client and this package need nothing.
"""

from __future__ import annotations

import importlib

from lcpo.errors import MissingPackage

NEEDED = ("msgspec", "prometheus_client", "uvicorn", "httptools")
"""Packages of the extra; uvloop is used where it is installed."""


def check_installed() -> None:
    """Raise MissingPackage if the extra is not installed."""
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise MissingPackage(
                f"`lcpo serve` needs {name}, which is not installed: pip install 'lcpo[serve]'"
            ) from error
