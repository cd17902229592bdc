"""How fast is the event log? Events per second, bytes and memory; to write, to read.

    python benchmarks/live_log.py [--events 1000000] [--folder FOLDER]

An event is that of a decision of the autoscaler: three features, an action, a probability. The
folder decides what is measured: use the disk that the log will be on.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from lcpo.live.log import Log, read
from lcpo.live.records import pack


def payload(number: int) -> bytes:
    obs = np.array([number, 4.0, 250.0], np.float32)
    values = {"id": f"{number:x}", "stream": "0", "time": 1e9 + number, "probability": 0.25}
    return pack({**values, "action": [3], "obs": obs})


def write(folder: Path, count: int, durability: str, threads: int = 1) -> tuple[float, int]:
    """(events per second, bytes)"""
    with Log(folder, durability=durability) as log:  # pyright: ignore

        def work() -> None:
            for number in range(count // threads):
                log.append(1, payload(number))

        began = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return count / (time.perf_counter() - began), log.num_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast is the event log?")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder, count = Path(made), given.events
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rate, size = write(folder / "log", count, "process")
        print(f"write, process durability     {rate:9,.0f} events/s, {size / count:.0f} bytes each")
        began = time.perf_counter()
        read_count = sum(1 for record in read(folder / "log") if record.values)
        print(f"read and decode               {read_count / (time.perf_counter() - began):9,.0f}")
        began = time.perf_counter()
        Log(folder / "log", after=count // 2).close()
        print(f"open, half of it checkpointed {time.perf_counter() - began:9.2f} s")
        for threads in (1, 4, 16):
            some = max(threads, count // 200)
            rate, _ = write(folder / f"power-{threads}", some, "power", threads)
            print(f"write, power, {threads:2} threads      {rate:9,.0f} events/s")
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"peak memory beyond the start  {(after - before) / 1024:9.0f} MiB")


if __name__ == "__main__":
    main()
