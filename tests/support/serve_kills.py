"""A server that is killed at random moments, and clients that do not give up.

    python tests/support/serve_kills.py FOLDER [--kills 50] [--requests 10000]

Even clients act with a fallback and a short timeout. Odd ones repeat `/v1/step` with the same key
until it is answered. Everything that was acknowledged must be in the log, once.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import multiprocessing
import random
import threading
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from live_examples import World
from served import free_port, write

from lcpo.live import Decide, Observe, replay
from lcpo.live.journal import decode
from lcpo.live.log import read
from lcpo.serve.client import Client, Unavailable

CLIENTS = 8


class Seen(NamedTuple):
    """What a client knows of a decision."""

    stream: str
    action: list[int]
    reward: float
    key: str | None


class Outcome(NamedTuple):
    """What the clients know in the end."""

    decisions: dict[int, Seen]
    local: int
    """Decisions of the clients' own fallback."""
    kills: int
    lost: list[str]
    waits: list[float]
    """Seconds that `act` of clients with a fallback took."""


def serve(config: Path) -> None:
    """Serve until killed, or told to stop."""
    from lcpo.serve import server
    from lcpo.serve.events import Events

    with (config.parent / "log.jsonl").open("a") as log:
        server.run(config, events=Events(log))


class Forked:
    """Servers in processes that have imported everything before, so that they start quickly."""

    def __init__(self, config: Path, port: int) -> None:
        self.config, self.url = config, f"http://127.0.0.1:{port}"
        self._make = multiprocessing.get_context("forkserver")
        self._make.set_forkserver_preload(["jax.numpy", "optax", "scipy.special", "uvicorn"])
        self.start()

    def start(self) -> None:
        """A process that has recovered what is in the folder."""
        self.process = self._make.Process(target=serve, args=(self.config,))
        self.process.start()
        until = time.monotonic() + 400.0
        while time.monotonic() < until and self.process.is_alive():
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/readyz", timeout=10.0)
                return
            time.sleep(0.3)
        raise AssertionError("the server is not ready")

    def kill(self) -> None:
        """As `kill -9` does, and another one starts."""
        self.process.kill()
        self.process.join()
        self.start()

    def stop(self) -> int | None:
        """SIGTERM; the exit code."""
        self.process.terminate()
        self.process.join(60.0)
        return self.process.exitcode


class Players:
    """Clients in threads, each with a stream and a world."""

    def __init__(self, url: str) -> None:
        self.url, self.stop = url, threading.Event()
        self.decisions: dict[int, Seen] = {}
        self.local, self.lost, self.waits = 0, list[str](), list[float]()
        self.failed: list[str] = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._play, args=(i,)) for i in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    @property
    def acknowledged(self) -> int:
        """Requests: every decision is acted on and observed."""
        return 2 * len(self.decisions)

    def join(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _play(self, number: int) -> None:
        try:
            with_fallback = number % 2 == 0
            client = Client(self.url, timeout=1.0, fallback=[0] if with_fallback else None)
            world, stream = World(number), str(number)
            while not self.stop.is_set():
                if with_fallback:
                    self._act(client, world, stream)
                else:
                    self._step(client, world, stream)
            assert client.close(60.0), "outcomes were not acknowledged"
            self.lost += client.lost
        except BaseException as error:
            self.failed.append(f"client {number}: {error!r}")

    def _act(self, client: Client, world: World, stream: str) -> None:
        began = time.monotonic()
        made = client.act(*world.seen, stream=stream)
        self.waits.append(time.monotonic() - began)
        reward = world.play(int(made.action[0]))
        if made.id is None:
            self.local += 1
            time.sleep(0.3)
            return
        self._note(made.id, Seen(stream, made.action, reward, None))
        assert client.observe(made.id, reward)

    def _step(self, client: Client, world: World, stream: str) -> None:
        obs, context = world.seen
        act = {"obs": obs, "context": context, "stream": stream, "key": uuid.uuid4().hex}
        made = self._insist(client, {"act": act})["act"]
        assert "error" not in made, made
        reward = world.play(int(made["action"][0]))
        answer = self._insist(client, {"observe": {"id": made["id"], "reward": reward}})["observe"]
        assert answer in ({"result": "ok"}, {"result": "duplicate"}), answer
        self._note(made["id"], Seen(stream, made["action"], reward, act["key"]))

    def _insist(self, client: Client, item: dict[str, Any]) -> Any:
        while True:
            try:
                return client.step([item], timeout=1.0)[0]
            except Unavailable:
                time.sleep(0.3)

    def _note(self, number: int, seen: Seen) -> None:
        with self._lock:
            assert number not in self.decisions, "two clients have the same decision"
            self.decisions[number] = seen


def play(folder: Path, requests: int, kills: int, seed: int = 0) -> Outcome:
    """So many acknowledged requests, with so many kills in between."""
    rng, port = random.Random(seed), free_port()
    live = "late = 100\ncheckpoint_every = 2000"
    config = write(folder, f"127.0.0.1:{port}", live=live)
    server = Forked(config, port)
    players, killed = Players(server.url), 0
    try:
        for _ in range(kills):
            until = time.monotonic() + 60.0
            goal = players.acknowledged + rng.randrange(1, 2 * requests // (kills + 1))
            while players.acknowledged < goal and time.monotonic() < until and not players.failed:
                time.sleep(rng.choice([0.0, 0.001, 0.01]))
            server.kill()
            killed += 1
        while players.acknowledged < requests and not players.failed:
            time.sleep(0.01)
    finally:
        players.join()
        code = server.stop()
    assert not players.failed, players.failed
    assert code == 0
    return Outcome(players.decisions, players.local, killed, players.lost, players.waits)


def check(folder: Path, found: Outcome) -> str:
    """Compare with the log and with an undisturbed replay; one line."""
    assert not found.lost, found.lost
    entries = [decode(record) for record in read(folder / "agent" / "log")]
    made = [entry for entry in entries if isinstance(entry, Decide)]
    by_id = {entry.id: entry for entry in made}
    assert len(by_id) == len(made), "a decision is in the log twice"
    keys = collections.Counter((entry.stream, entry.key) for entry in made)
    assert max(keys.values()) == 1, "a call was acted on twice"
    rewards = collections.Counter(
        entry.id for entry in entries if isinstance(entry, Observe) and entry.reward is not None
    )
    assert rewards == collections.Counter(found.decisions.keys()), "lost or doubled"
    for number, seen in found.decisions.items():
        entry = by_id[number]
        assert (entry.stream, entry.action.tolist()) == (seen.stream, seen.action)
        assert seen.key in (None, entry.key)
    observed = {entry.id: entry.reward for entry in entries if isinstance(entry, Observe)}
    assert all(observed[number] == seen.reward for number, seen in found.decisions.items())
    newest = max((folder / "agent" / "checkpoints").glob("*.json"))
    replayed = replay(folder / "agent")
    assert replayed.state.digest() == json.loads(newest.read_text())["learner"]
    unknown = len(made) - len(found.decisions)
    return (
        f"{2 * len(found.decisions):,} acknowledged requests, {found.kills} kills: none lost, none "
        f"doubled; {unknown} decisions whose answer was lost; {found.local} local decisions; "
        f"longest act {max(found.waits):.2f} s; {replayed.state.updates} updates, equal to the "
        f"replay at {replayed.checked} checkpoints"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--requests", type=int, default=10_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    began = time.monotonic()
    print(check(given.folder, play(given.folder, given.requests, given.kills)))
    print(f"{time.monotonic() - began:.0f} s")
