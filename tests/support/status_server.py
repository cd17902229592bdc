"""A server of nothing but the status page and one document, as `lcpo serve` answers them."""

from __future__ import annotations

import contextlib
import http.server
import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lcpo

PAGE = Path(lcpo.__file__).parent / "serve" / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
BIN = 60


class Scene:
    """What the server answers, and what it was asked."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = example()
        self.token: str | None = None
        self.answer: tuple[int, dict[str, Any]] | None = None
        """In place of the status."""
        self.hangs = threading.Event()
        """Set: the status is not answered until it is cleared."""
        self.waits = threading.Event()
        """Set: readiness is not answered until it is cleared."""
        self.posts: list[tuple[str, dict[str, Any], str | None]] = []
        self.asked = self.asked_ready = 0


@contextlib.contextmanager
def serve(scene: Scene, port: int = 0) -> Iterator[str]:
    """Serve a scene on loopback; the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/v1/status":
                scene.asked += 1
                while scene.hangs.is_set():
                    time.sleep(0.05)
                if scene.answer is not None:
                    self.reply(*scene.answer)
                elif self.allowed():
                    self.reply(200, scene.status)
                return
            if path == "/readyz":
                scene.asked_ready += 1
                while scene.waits.is_set():
                    time.sleep(0.05)
                lines = "agent: replaying the log\nlog: ok\ndrain: ok\n"
                self.send(503, lines.encode(), "text/plain; charset=utf-8")
                return
            file = PAGE / ("index.html" if path == "/" else path[1:])
            if file.parent != PAGE or not file.is_file():
                self.reply(404, {"error": "there is no such page"})
                return
            self.send(200, file.read_bytes(), f"{KINDS[file.suffix]}; charset=utf-8")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scene.posts.append((self.path, body, self.headers["Authorization"]))
            if self.allowed():
                scene.status["stats"]["policy_version"] = 49
                self.reply(200, {"policy_version": 49})

        def allowed(self) -> bool:
            if scene.token is None or self.headers["Authorization"] == f"Bearer {scene.token}":
                return True
            self.reply(401, {"error": "send the token: Authorization: Bearer TOKEN"})
            return False

        def reply(self, code: int, found: dict[str, Any]) -> None:
            self.send(code, json.dumps(found).encode(), "application/json")

        def send(self, code: int, content: bytes, kind: str) -> None:
            with contextlib.suppress(ConnectionError):  # a page that was closed meanwhile
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Content-Security-Policy", POLICY)
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("Cache-Control", "no-store")
                self.send_header("Connection", "close")  # a server that was closed must not answer
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        scene.hangs.clear()
        scene.waits.clear()
        server.shutdown()
        thread.join()
        server.server_close()


def example(bins: int = 120, channels: int = 3, now: float = 1_790_000_000.0) -> dict[str, Any]:
    """A status with everything: switchback mode, rewards of both, a gap, two problems."""
    start = [now - BIN * (bins - k) for k in range(bins)]
    wave = [math.sin(k / 9) for k in range(bins)]
    gap = range(bins // 2, bins // 2 + 4)
    return {
        "version": "0.3.0", "config_hash": "5f2c9a1e7b34d086", "started": now - 90_000, "now": now,
        "mode": "switchback", "ready": True, "draining": False,
        "stats": {
            "mode": "switchback", "policy_version": 48, "good_version": 40,
            "decisions": {"policy": 21_480, "incumbent": 193_104, "guard": 212, "fallback": 31},
            "mean_reward": {"policy": -1.117, "incumbent": -1.294, "guard": -1.61,
                            "fallback": None},
            "open": 12, "late": 340, "expired": 3, "discarded": 7, "updates": 48,
            "dropped_updates": 1, "problem": "update 31 was dropped: reward 4e19 is not plausible",
            "switchback": {"difference": 0.177, "low": 0.094, "high": 0.26, "groups": 41,
                           "policy": -1.117, "incumbent": -1.294, "num_left_out": 6},
            "sequence": 644_113, "checkpoint": 640_000, "log_bytes": 87_301_120,
        },
        "versions": [{"number": 8 * k, "sequence": 13_000 * k, "time": now - 3600 * (7 - k),
                      "good": k == 5} for k in range(7)],
        "problems": [
            {"time": now - 400, "text": "rollback to version 40: 500 rewards of the policy have "
                                        "mean -2.31, and 500 of the incumbent -1.29"},
            {"time": now - 4000, "text": "update 31 was dropped: reward 4e19 is not plausible"},
        ],
        "series": {
            "start": start,
            "policy": [None if k in gap or k % 5 == 2 else -1.1 + 0.3 * wave[k]
                       for k in range(bins)],
            "incumbent": [None if k in gap else -1.3 + 0.3 * wave[k] for k in range(bins)],
            "decisions": [0 if k in gap else 100 for k in range(bins)],
            "guard": [None if k in gap else 0.01 + 0.01 * (k % 7 == 0) for k in range(bins)],
            "fallback": [None if k in gap else 0.03 * (k < 10) for k in range(bins)],
            "active": [0.5 + 0.3 * wave[k] if k % 3 else None for k in range(bins)],
            "context": [None if k in gap else [120 + 40 * wave[k - c] / (c + 1) for c in
                        range(channels)] for k in range(bins)],
        },
        "log": {"unapplied": 13, "bytes": 87_301_120},
        "switchback_design": {"length": 3600.0, "share": 0.1, "burn_in": 300.0, "seed": 0},
    }  # fmt: skip


def empty(mode: str = "shadow") -> dict[str, Any]:
    """A status right after the first start: no decision, no reward, no version."""
    found = example(0)
    found["mode"] = found["stats"]["mode"] = mode
    found["versions"], found["problems"], found["switchback_design"] = [], [], None
    zero = dict.fromkeys(found["stats"]["decisions"], 0)
    found["stats"] |= {
        "policy_version": 0, "good_version": None, "decisions": zero,
        "mean_reward": dict.fromkeys(zero), "switchback": None, "problem": None, "updates": 0,
        "dropped_updates": 0, "open": 0, "late": 0, "expired": 0, "discarded": 0, "sequence": 1,
        "checkpoint": 0,
    }  # fmt: skip
    found["log"] = {"unapplied": 0, "bytes": 96}
    return found


def opening() -> dict[str, Any]:
    """A status while the server replays its log."""
    found = empty()
    return found | {"mode": None, "ready": False, "stats": None, "log": None}
