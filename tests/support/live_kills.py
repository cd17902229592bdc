"""A live agent whose process is killed at random moments, and a client that does not give up.

    python tests/support/live_kills.py FOLDER [--kills 100] [--observations 10000]

The client sends calls through a pipe. Where no answer comes, the process was killed: the client
starts another one and repeats the observation, with the decision's id. A decision that got lost is
asked for again. Processes die at any moment: within calls, while they learn, save or recover. All
that was acknowledged must be in the log, once.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from live_examples import World, opened

STREAMS = 5


class Outcome(NamedTuple):
    """What the client knows in the end."""

    acknowledged: collections.Counter[int]
    """Observations by the id of their decision."""
    kills: int
    digest: str
    """Of the learner, asked in the end."""


def serve(folder: Path, learn: str, calls: Connection) -> None:
    """Answer calls until killed."""
    options: dict[str, Any] = {"late": 5} if not (folder / "live.json").exists() else {}
    agent = opened(folder, checkpoint_every=500, segment_bytes=100_000, learn=learn, **options)
    calls.send("ready")
    while True:
        name, arguments, named = calls.recv()
        if name == "close":
            agent.close()
            calls.send("closed")
            return
        answer = agent.digest() if name == "digest" else getattr(agent, name)(*arguments, **named)
        calls.send(answer)


class Client:
    """Calls a process that may be killed."""

    def __init__(self, folder: Path, learn: str, rng: random.Random) -> None:
        self.given, self.rng, self.kills, self.planned = (folder, learn), rng, 0, 0
        self.is_doomed = False
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["jax.numpy", "optax", "scipy.special"])
        self.start()

    def start(self) -> None:
        """A process that has recovered what is in the folder; one in five dies meanwhile."""
        while True:
            self.calls, theirs = self.processes.Pipe()
            self.process = self.processes.Process(target=serve, args=(*self.given, theirs))
            self.process.start()
            theirs.close()
            self.is_doomed = False
            if self.planned and self.rng.random() < 0.2:
                self.kill_after(self.rng.uniform(0.0, 3.0))
            try:
                assert self.calls.recv() == "ready"
                return
            except EOFError:
                self.bury()

    def kill_after(self, seconds: float) -> None:
        """As `kill -9` does, whatever the process does then. A process dies once."""
        if self.is_doomed:
            return
        self.planned, self.is_doomed = self.planned - 1, True
        timer = threading.Timer(seconds, self.process.kill)
        timer.daemon = True
        timer.start()

    def bury(self) -> None:
        """The process was killed."""
        self.process.join()
        assert self.process.exitcode == -signal.SIGKILL
        self.kills += 1
        self.calls.close()

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """The answer, from whichever process gives it; whether it was the first attempt."""
        is_first = True
        while True:
            try:
                self.calls.send((name, arguments, named))
                return self.calls.recv(), is_first
            except (EOFError, OSError):
                self.bury()
                self.start()
                is_first = False


def play(folder: Path, observations: int, kills: int, seed: int = 0, learn: str = "now") -> Outcome:
    """So many acknowledged observations over five streams, with so many kills in between."""
    rng = random.Random(seed)
    client = Client(folder, learn, rng)
    worlds = [World(i) for i in range(STREAMS)]
    acknowledged: collections.Counter[int] = collections.Counter()
    client.planned, every = kills, observations // (kills + 1)
    while (number := sum(acknowledged.values())) < observations:
        if client.planned and number >= every * (kills - client.planned + 1):
            client.kill_after(rng.choice([0.0, 0.0005, 0.002, 0.02]) * rng.random())
        stream = rng.randrange(STREAMS)
        world = worlds[stream]
        made, _ = client.call("act", *world.seen, stream=str(stream))
        reward = world.play(int(made.action[0]))
        answer, is_first = client.call("observe", reward, id=made.id)
        assert answer in ("ok", "late") or (answer == "duplicate" and not is_first), answer
        acknowledged[made.id] += 1
    while client.planned or client.is_doomed:  # those that are still to die
        client.kill_after(0.0)
        client.process.join()
        client.call("digest")
    digest, _ = client.call("digest")
    assert client.call("close")[0] == "closed"
    client.process.join()
    return Outcome(acknowledged, client.kills, digest)


def check(folder: Path, found: Outcome) -> str:
    """Compare with the log and with an undisturbed replay; one line."""
    from lcpo.live import Decide, Observe, replay
    from lcpo.live.journal import decode
    from lcpo.live.log import read

    entries = [decode(record) for record in read(folder / "log")]
    logged = collections.Counter(
        entry.id for entry in entries if isinstance(entry, Observe) and entry.reward is not None
    )
    assert logged == found.acknowledged, "lost or doubled"
    assert max(logged.values()) == 1
    decided = collections.Counter(entry.id for entry in entries if isinstance(entry, Decide))
    assert max(decided.values()) == 1
    replayed = replay(folder)
    assert replayed.first == 0
    assert replayed.state.digest() == found.digest
    count, updates = sum(logged.values()), replayed.state.updates
    return f"{count} observations, {found.kills} kills, {updates} updates: equal to its replay"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--observations", type=int, default=10_000)
    parser.add_argument("--learn", choices=("now", "background"), default="now")
    given = parser.parse_args()
    began = time.monotonic()
    found = play(given.folder, given.observations, given.kills, learn=given.learn)
    print(check(given.folder, found))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
