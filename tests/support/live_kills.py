"""A live agent whose process is killed at random moments, and a client that does not give up.

    python tests/support/live_kills.py FOLDER [--kills 100] [--observations 10000]

The client sends calls through a pipe. Where no answer comes, the process was killed: the client
starts another one and repeats the observation, with the decision's id. All that was acknowledged
must be in the log, once.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import sys
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


def serve(folder: Path, calls: Connection) -> None:
    """Answer calls until killed."""
    agent = opened(folder, late=5, checkpoint_every=500, segment_bytes=100_000)
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload(["jax.numpy", "optax", "scipy.special"])
        self.kills = 0
        self.start()

    def start(self) -> None:
        """A process that has recovered what is in the folder."""
        self.calls, theirs = self.processes.Pipe()
        self.process = self.processes.Process(target=serve, args=(self.folder, theirs))
        self.process.start()
        theirs.close()
        assert self.calls.recv() == "ready"

    def kill(self) -> None:
        """As `kill -9` does."""
        self.process.kill()
        self.process.join()
        self.kills += 1
        self.calls.close()
        self.start()

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """The answer."""
        self.calls.send((name, arguments, named))
        return self.calls.recv()


def play(folder: Path, observations: int, kills: int, seed: int = 0) -> Outcome:
    """So many acknowledged observations over five streams, with so many kills in between."""
    rng, client = random.Random(seed), Client(folder)
    worlds = [World(i) for i in range(STREAMS)]
    acknowledged: collections.Counter[int] = collections.Counter()
    moments = set(rng.sample(range(1, observations), kills))
    while sum(acknowledged.values()) < observations:
        number = sum(acknowledged.values())
        stream = rng.randrange(STREAMS)
        world = worlds[stream]
        made = client.call("act", *world.seen, stream=str(stream))
        reward = world.play(int(made.action[0]))
        if number not in moments:
            assert client.call("observe", reward, id=made.id) in ("ok", "late")
        else:
            moments.remove(number)
            client.calls.send(("observe", (reward,), {"id": made.id}))
            time.sleep(rng.choice([0.0, 0.0001, 0.0005, 0.002]))
            client.kill()  # before, during or after the write
            answer = client.call("observe", reward, id=made.id)
            assert answer in ("ok", "late", "duplicate"), answer
        acknowledged[made.id] += 1
    digest = client.call("digest")
    assert client.call("close") == "closed"
    client.process.join()
    return Outcome(acknowledged, client.kills, digest)


def check(folder: Path, found: Outcome) -> str:
    """Compare with the log and with an undisturbed replay; one line."""
    from lcpo.live import Observe, replay
    from lcpo.live.journal import decode
    from lcpo.live.log import read

    entries = [decode(record) for record in read(folder / "log")]
    logged = collections.Counter(
        entry.id for entry in entries if isinstance(entry, Observe) and entry.reward is not None
    )
    assert logged == found.acknowledged, "lost or doubled"
    assert max(logged.values()) == 1
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
    given = parser.parse_args()
    began = time.monotonic()
    print(check(given.folder, play(given.folder, given.observations, given.kills)))
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
