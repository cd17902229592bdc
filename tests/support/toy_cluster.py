"""The cluster of the straggler task in plain Python: slow, and written in another way.

No finish is computed ahead: a server knows what it is at work on and since when. A timer of each
request asks, when it rings, whether there is an answer.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lcpo.straggler.jobs import ArrayJobs
from lcpo.straggler.task import TIMEOUTS_MS, WINDOW_MS


class Window(NamedTuple):
    latencies: list[float]
    queues: list[int]
    mean_queues: list[float]
    finished: list[float]  # service times of first copies
    first_latencies: list[float]  # theirs, whether they were the answer or not


class Copy(NamedTuple):
    job: int
    second: bool
    service: float


@dataclass
class Server:
    copies: deque[Copy] = field(default_factory=deque)
    since: float = 0.0  # when the first of them began

    @property
    def finish(self) -> float:
        return self.since + self.copies[0].service if self.copies else np.inf


class Cluster:
    def __init__(self, jobs: ArrayJobs, num_servers: int, cancel: bool) -> None:
        assert jobs.slow is not None
        self.sizes, self.slow, self.cancel = jobs.sizes, jobs.slow, cancel
        self.arrivals = np.concatenate([[0.0], np.cumsum(jobs.gaps)])
        self.servers = [Server() for _ in range(num_servers)]
        self.timers: list[tuple[float, int]] = []
        self.homes: dict[int, list[int]] = {}
        self.answered: set[int] = set()
        self.next_job, self.now, self.worked = 0, 0.0, 0.0

    def play(self, action: int) -> Window:
        end, latencies, finished, first_latencies = self.now + WINDOW_MS, [], [], []
        start, areas = self.now, np.zeros(len(self.servers))
        while True:
            s = min(range(len(self.servers)), key=lambda i: self.servers[i].finish)
            due = [self.servers[s].finish, self.timers[0][0] if self.timers else np.inf,
                   self.arrivals[self.next_job]]  # fmt: skip
            event = min(*due, end)
            areas += np.array(self.queues()) * (event - self.now)
            self.worked += np.count_nonzero(self.queues()) * (event - self.now)
            self.now = event
            if min(due) > end:
                means = list(areas / (end - start))
                return Window(latencies, self.queues(), means, finished, first_latencies)
            if due[0] == event:
                copy = self.leave(s, self.servers[s].copies[0])
                if not copy.second:
                    finished.append(copy.service)
                    first_latencies.append(event - self.arrivals[copy.job])
                if copy.job not in self.answered:
                    self.answered.add(copy.job)
                    latencies.append(event - self.arrivals[copy.job])
                    if self.cancel:
                        self.withdraw(copy.job)
            elif due[1] == event:
                job = heapq.heappop(self.timers)[1]
                if job not in self.answered:
                    self.send(job, second=True)
            else:
                if TIMEOUTS_MS[action] > 0:
                    heapq.heappush(self.timers, (event + TIMEOUTS_MS[action], self.next_job))
                self.send(self.next_job, second=False)
                self.next_job += 1

    def queues(self) -> list[int]:
        return [len(server.copies) for server in self.servers]

    def left(self) -> float:
        """Service time that is still to be given."""
        at_work = [server for server in self.servers if server.copies]
        done = sum(self.now - server.since for server in at_work)
        return sum(copy.service for server in at_work for copy in server.copies) - done

    def send(self, job: int, second: bool) -> None:
        homes = self.homes.setdefault(job, [])
        others = [i for i in range(len(self.servers)) if i not in homes]
        best = min(others, key=lambda i: len(self.servers[i].copies))
        homes.append(best)
        if not self.servers[best].copies:
            self.servers[best].since = self.now
        service = self.sizes[job] * (10.0 if self.slow[job, int(second)] else 1.0)
        self.servers[best].copies.append(Copy(job, second, service))

    def leave(self, s: int, copy: Copy) -> Copy:
        server = self.servers[s]
        if server.copies[0] is copy:
            server.since = self.now
        server.copies.remove(copy)
        return copy

    def withdraw(self, job: int) -> None:
        for s in self.homes[job]:
            for copy in [c for c in self.servers[s].copies if c.job == job]:
                self.leave(s, copy)
