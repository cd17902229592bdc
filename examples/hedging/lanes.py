"""Starts the processes of the demo, and ends them on every way out.

A lane is a listener of the proxy with eight backends of its own. All lanes get the same requests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from examples.hedging import envoy, workload
from examples.hedging.envoy import LanePorts
from examples.hedging.http import Port, free_ports
from examples.hedging.seen import STATS, LaneView, Window, retries
from lcpo.errors import InputError
from lcpo.straggler.task import NEVER

ROOT = Path(__file__).parents[2]
START_SECONDS, STOP_SECONDS = 20.0, 5.0


class Processes:
    """Processes that were started here; leaving the context ends them all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a process; what it prints goes to NAME.log."""
        # Sessions of their own: Ctrl-C reaches this process alone, which ends the others in order,
        # and Linux shares processors between sessions, so that one does not starve the other.
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._running[name] = process
        return process

    def module(self, name: str, module: str, given: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Start a module of this example."""
        command = [sys.executable, "-m", f"examples.hedging.{module}", json.dumps(given)]
        return self.start(name, command)

    def check(self) -> None:
        """RuntimeError if a process has ended by itself."""
        for name, process in self._running.items():
            if process.poll() not in (None, 0):
                tail = (self._folder / f"{name}.log").read_text(errors="replace")[-1500:]
                raise RuntimeError(f"{name} ended with {process.returncode}:\n{tail}")

    def forget(self, name: str) -> subprocess.Popen[bytes]:
        """Leave a process to the caller, who is about to end it."""
        return self._running.pop(name)

    def stop(self) -> None:
        """Ask all processes to end, then kill those that do not."""
        left = list(self._running.values())
        self._running.clear()
        for process in left:
            process.terminate()
        late = time.monotonic() + STOP_SECONDS
        for process in left:
            try:
                process.wait(max(late - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the program as Ctrl-C does, so that contexts are left.

    A shell starts background jobs with SIGINT ignored; `kill -INT` shall end them, too. Under nohup
    SIGHUP stays ignored.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, old in zip(numbers, before, strict=True):
            signal.signal(number, old)


def until(what: str, ready: Any, processes: Processes, seconds: float = START_SECONDS) -> None:
    """Wait until a call no longer raises OSError."""
    late = time.monotonic() + seconds
    while True:
        try:
            ready()
            return
        except OSError as error:
            processes.check()
            if time.monotonic() > late:
                raise RuntimeError(f"{what} did not start within {seconds:g} s: {error}") from error
        time.sleep(0.05)


@dataclasses.dataclass
class Lanes:
    """Lanes that run, and the timeouts that are in force."""

    ports: list[LanePorts]
    views: dict[str, LaneView]
    admin: Port
    actions: dict[str, int]

    def look(self) -> dict[str, Window]:
        """What was seen of each lane since the last look."""
        counts, now = retries(self.admin), time.time()
        return {name: view.look(now, counts) for name, view in self.views.items()}

    def switch(self, actions: Mapping[str, int]) -> None:
        """Put timeouts in force, all in one call."""
        changes = {name: (self.actions[name], action) for name, action in actions.items()}
        target = envoy.switch(changes)
        if target:
            self.admin.post(target)
        self.actions.update(actions)

    def close(self) -> None:
        self.admin.close()
        for view in self.views.values():
            view.close()


def open_lanes(names: Sequence[str], folder: Path, processes: Processes, program: str | None,
               seed: int) -> Lanes:  # fmt: skip
    """Start backends and proxy. `program`: of Envoy; None: the proxy of this example."""
    per_lane = workload.SERVERS + 2
    free = free_ports(per_lane * len(names) + 1)
    admin, lanes, reports = free.pop(), [], {}
    for name in names:
        own, free = free[:per_lane], free[per_lane:]
        port, reports[name], *backends = own
        lanes.append(LanePorts(name, port, tuple(backends), str(folder / f"{name}.jsonl")))
        given = {"ports": backends, "report": reports[name], "seed": seed}
        processes.module(f"backends-{name}", "backends", given)
    if program is None:
        given = {"lanes": [dataclasses.asdict(lane) for lane in lanes], "admin": admin}
        processes.module("proxy", "proxy", given)
    else:
        path = folder / "envoy.json"
        envoy.write(path, lanes, admin)
        problem = envoy.validate(program, path)
        if problem:
            raise InputError(f"{program} refuses {path}: is it Envoy 1.30 or newer? {problem}")
        processes.start("proxy", envoy.command(program, path))
    port = Port(admin)
    until("the proxy", lambda: port.get(STATS), processes)
    views = {}
    for lane in lanes:
        queues = Port(reports[lane.name])
        until(f"backends of {lane.name}", functools.partial(queues.get, "/"), processes)
        queues.close()
        views[lane.name] = LaneView(lane.name, Path(lane.log), reports[lane.name])
    return Lanes(lanes, views, port, dict.fromkeys(names, NEVER))
