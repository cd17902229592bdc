"""`lcpo serve`, and the controller that asks it.

The agent's lane never hedges by itself: that is its incumbent and its fallback. The server starts
with the policy from the simulator, in shadow mode.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from examples.hedging.http import free_ports
from examples.hedging.lanes import Processes, until
from examples.hedging.live import Choice
from examples.hedging.seen import Window
from lcpo.serve.client import Client
from lcpo.straggler.task import NEVER, READINGS

ROLLOUT = 40
"""Windows between updates: 20 seconds."""
START_SECONDS = 180.0
"""The first start on a machine compiles; later ones find the programs in a cache."""
CONFIG = """\
folder = "agent"
[agent]
policy = {policy}
mode = "shadow"
[agent.config]
rollout_length = {rollout}
[live]
incumbent = {never}
fallback = {never}
late = 100
checkpoint_every = 200
[serve]
address = "127.0.0.1:{port}"
"""


class Server:
    """`lcpo serve` in a process that can be killed and started again."""

    def __init__(self, folder: Path, policy: Path, processes: Processes) -> None:
        (self.port,) = free_ports(1)
        self.agent = folder / "agent"
        self._processes = processes
        self._config = folder / "serve.toml"
        text = CONFIG.format(
            policy=json.dumps(str(policy)), rollout=ROLLOUT, never=NEVER, port=self.port
        )
        self._config.write_text(text)
        self.kills: list[tuple[float, float]] = []
        """When the server was killed, and when it was ready again."""
        self._killed: float | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process; it is not ready yet."""
        program = Path(sys.executable).parent / "lcpo"
        command = [str(program), "serve", str(self._config)]
        # Compiling must not take the processor from the proxy.
        self._processes.start("serve", ["nice", "-n", "5", *command])

    def wait(self) -> None:
        """Wait until the server can decide."""
        until("lcpo serve", lambda: self._ask("GET", "/readyz"), self._processes, START_SECONDS)

    def is_ready(self) -> bool:
        """Whether it can decide now; notes when it could again after it was killed."""
        try:
            self._ask("GET", "/readyz")
        except OSError:
            return False
        if self._killed is not None:
            self.kills.append((self._killed, time.time()))
            self._killed = None
        return True

    def kill(self) -> None:
        """`kill -9`, and start again at once."""
        process = self._processes.forget("serve")
        process.kill()
        process.wait()
        self._killed = time.time()
        self.start()

    def set_mode(self, mode: str, why: str, **design: Any) -> None:
        """Change the mode."""
        body: dict[str, Any] = {"mode": mode, "why": why}
        self._ask("POST", "/v1/mode", body | ({"switchback": design} if design else {}))

    def status(self) -> dict[str, Any]:
        """`/v1/status`."""
        return json.loads(self._ask("GET", "/v1/status"))

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2.0)
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise OSError(f"{method} {path}: {answer.status} {text[:300].decode(errors='replace')}")
        return text


class Asked:
    """A controller that asks a server. It keeps what it has reported, to compare with the log."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._id: int | None = None
        self._overruled = False
        self.reported: dict[int, float] = {}
        """Rewards by the id of the decision."""

    def decide(self, window: Window, obs: np.ndarray, reward: float, unsafe: bool) -> Choice:
        """Report what the last decision led to, then ask for the next one."""
        if self._id is not None:
            # The successor is the observation of the next call: an outcome may arrive after it.
            rest: dict[str, Any] = {"readings": readings(window, unsafe)}
            if self._overruled:  # the safety rule has played another action
                rest["action"] = [NEVER]
            if not self._client.observe(self._id, reward, **rest):
                raise RuntimeError("the queue of outcomes is full: has the server stopped?")
            self.reported[self._id] = reward
        made = self._client.act(obs.tolist())
        self._id = made.id
        asked = int(np.atleast_1d(made.action)[0])
        self._overruled = unsafe and asked != NEVER
        return Choice(NEVER, "safety rule") if self._overruled else Choice(asked, made.source)


def readings(window: Window, unsafe: bool) -> list[float]:
    """The simulator's readings of a window; those that a proxy does not know are 0.

    No learning agent uses them: they are for rules and records.
    """
    known = {"arrived": window.sizes.size, "hedged": window.hedged, "unsafe": unsafe}
    return [float(known.get(name, 0.0)) for name in READINGS]


def replayed(server: Server, note: Callable[[str], object]) -> bool:
    """Whether `lcpo replay` rebuilds the same learner from the log."""
    program = Path(sys.executable).parent / "lcpo"
    done = subprocess.run(
        [str(program), "replay", str(server.agent)], capture_output=True, text=True
    )
    note((done.stdout + done.stderr).strip())
    return done.returncode == 0
