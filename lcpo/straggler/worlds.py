"""Many clusters of the straggler task, stepped together by compiled code on a pool of threads.

A cluster starts with its first reset and has no episodes: further resets do nothing. Clusters with
random starts do have episodes: they are truncated after half an hour, and a reset empties the
cluster and moves it to another place in the workload. A cluster that is full raises `WorldError`:
it is overloaded, and no request is dropped.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from lcpo.envs.base import WorldError
from lcpo.envs.checked import CheckedWorlds
from lcpo.errors import InputError, MissingPackage
from lcpo.straggler import jobs as sources
from lcpo.straggler import task as names
from lcpo.straggler.jobs import BLOCK, Jobs
from lcpo.straggler.task import Straggler
from lcpo.types import Step

WORLDS_PER_THREAD = 16  # fewer are not worth waking a thread
SCALE_SHARE = 0.01  # of the trace: what the scales of the features are taken from
STARTS = 2**20
"""Blocks at which a world may begin: many passes of any workload, each with its own jobs."""
_STATE = ("world", "servers", "copies", "buckets", "obs")
"""Arrays that are saved; the others follow from them."""


class StragglerWorlds(CheckedWorlds):
    """N clusters, as in lcpo.envs.base.HostWorlds; `arrays` holds their state."""

    def __init__(
        self,
        task: Straggler,
        jobs: Jobs,
        num_worlds: int,
        seeds: Sequence[int],
        threads: int | None = None,
        anywhere: bool = False,
    ) -> None:
        try:
            self._compiled: Any = importlib.import_module("lcpo.straggler.windows")
        except ImportError as error:
            raise MissingPackage(
                f'the straggler task needs numba ({error}): pip install "lcpo[straggler]"'
            ) from error
        super().__init__(num_worlds, seeds, threads)
        self.task, self.jobs = task, jobs
        self.rules = self._rules()
        self.arrays, self._anywhere = self._empty(num_worlds), anywhere
        self.arrays.world["seed"] = seeds
        self._begun = False  # whether all worlds have
        self._start = np.full(num_worlds, self._compiled.START)
        count = min(self.threads, max(1, num_worlds // WORLDS_PER_THREAD))
        edges = np.linspace(0, num_worlds, count + 1).astype(int).tolist()
        self._parts = list(itertools.pairwise(edges))
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def _rules(self) -> Any:
        task, faults = self.task, self.task.faults
        share = 1.0 if names.WHOLE_TRACE_SCALES in faults else SCALE_SHARE
        size, gap = self.jobs.means(share)
        copied = ("slow_factor", "slow_share", "slow_ms", "price", "reward_ms")
        return self._compiled.events.Rules(
            **{name: float(getattr(task, name)) for name in copied},  # an int is another program
            window=names.WINDOW_MS, rate_scale=10.0 / gap, size_scale=10.0 * size,
            cancel=task.cancel,
            late_windows=names.LATE_WINDOWS in faults, future_sizes=names.FUTURE_SIZES in faults,
            idle_terminal=names.IDLE_TERMINAL in faults,
            declared_sizes=task.observe == names.PROXY, losers_unseen=task.balance == names.PROXY,
        )  # fmt: skip

    def _empty(self, n: int) -> Any:
        """`n` clusters without a request, whose first one arrives at time 0."""
        servers, copies = self.task.num_servers, self.task.max_copies
        events = self._compiled.events
        world: Any = np.zeros(n, events.WORLD)
        world["hedge_time"], world["hedge_head"], world["hedge_tail"] = np.inf, -1, -1
        world["ewma_weight"], world["block"] = 1.0, -1  # zeros are the first that is averaged
        world["means"] = self.jobs.means(1.0)
        arrays = self._compiled.Arrays(
            world, np.zeros((n, servers), events.SERVER), np.zeros((n, copies), events.COPY),
            np.zeros((n, BLOCK), events.JOB), np.zeros((n, 256), events.ANSWER),
            np.zeros((n, 2, self._compiled.buckets.NUM_BINS), np.int32),
            np.zeros((n, 2 * servers + names.NUM_COMMON)),
        )  # fmt: skip
        arrays.servers["next_finish"] = np.inf
        arrays.servers["head"] = arrays.servers["tail"] = -1
        arrays.copies["behind"] = np.append(np.arange(1, copies), -1)  # the list of free places
        return arrays

    def reset(self, mask: np.ndarray) -> np.ndarray:
        self.check_mask(mask)
        begins = mask if self._anywhere else mask & (self.arrays.world["block"] < 0)
        for world in np.flatnonzero(begins).tolist():
            if self._anywhere:
                self._move(world)
            self._next_block(world)
        self._begun = bool((self.arrays.world["block"] >= 0).all())
        return self.arrays.obs.astype(np.float32)

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """A window of all worlds, with actions [N, 1]. The safety rule may override them."""
        action, n = np.asarray(action), self.num_worlds
        self.check_actions(action, 1, names.NEVER + 1)
        if not self._begun:
            self.check_begun(self.arrays.world["block"] >= 0)
        chosen = action[:, 0].astype(np.int64)
        out: Any = np.empty(n, self._compiled.OUT)
        status = self._start.copy()
        while not self._advance(out, chosen, status):
            self._serve(status)
        ends: Any = np.zeros(n, bool)
        if self._anywhere:
            ends = self.arrays.world["played"] >= names.EPISODE
        obs: Any = self.arrays.obs.astype(np.float32)
        return Step(
            obs, out["reward"], out["terminated"], ends, out["elapsed"], out["weight"],
            out["action"][:, None], out["readings"],
        )  # fmt: skip

    def _advance(self, out: Any, chosen: np.ndarray, status: np.ndarray) -> bool:
        """Continue the simulation; whether the windows of all worlds are over."""

        def part(edges: tuple[int, int]) -> bool:
            return self._compiled.advance(self.rules, self.arrays, out, chosen, status, *edges)

        if self._pool is None:
            return part(self._parts[0])
        return all(list(self._pool.map(part, self._parts)))

    def _serve(self, status: np.ndarray) -> None:
        """Give worlds what they stopped for; WorldError if a cluster is full."""
        c = self._compiled
        full = np.flatnonzero(status == c.FULL)
        if full.size:
            copies = f"{self.task.max_copies} copies are in the cluster"
            cause = f"{copies}: it is overloaded; lower the rate, or raise max_copies"
            raise WorldError(dict.fromkeys(full.tolist(), cause))
        for world in np.flatnonzero(status == c.NEEDS_JOBS).tolist():
            self._next_block(world)
        if (status == c.NEEDS_ROOM).any():
            answers = self.arrays.answers
            more = np.concatenate([answers, np.zeros_like(answers)], axis=1)
            self.arrays = self.arrays._replace(answers=more)

    def _move(self, world: int) -> None:
        """An empty cluster before a random block. Its clock continues, so slow servers do not
        repeat."""
        fresh, before = self._empty(1), self.arrays.world[world].copy()
        for name in _STATE:
            getattr(self.arrays, name)[world] = getattr(fresh, name)[0]
        w = self.arrays.world[world : world + 1]
        for name in ("seed", "clock", "base", "bucket", "episode"):
            w[name] = before[name]
        rng = sources.generator(int(w["seed"][0]), int(w["episode"][0]), stream=2)
        block = int(rng.integers(STARTS))
        w["block"], w["job"], w["next_arrival"] = block - 1, block * BLOCK, w["clock"]
        w["episode"] += 1

    def _next_block(self, world: int) -> None:
        w = self.arrays.world[world : world + 1]
        w["block"] += 1
        w["block_time"] = w["next_arrival"]
        self._load_block(world)

    def _load_block(self, world: int) -> None:
        """The block of jobs that a world is in, and the coins of their copies."""
        w = self.arrays.world[world]
        seed, index = int(w["seed"]), int(w["block"])
        sizes, gaps, slow = self.jobs.block(seed, index, float(w["block_time"]))
        try:
            sources.check(sizes, gaps, index * BLOCK)
        except InputError as error:
            raise WorldError({world: str(error)}) from error
        if slow is None:
            rng = sources.generator(seed, index, stream=1)
            slow = rng.random((BLOCK, 2)) < self.task.slow_share
        jobs = self.arrays.jobs[world]
        jobs["size"], jobs["gap"] = sizes, gaps
        jobs["slow"], jobs["second_slow"] = slow[:, 0], slow[:, 1]

    def answers(self, world: int) -> tuple[np.ndarray, np.ndarray]:
        """Latencies and arrivals, in ms, of the requests that were answered in the last step."""
        found = self.arrays.answers[world, : self.arrays.world["num_answers"][world]]
        return found["latency"].copy(), found["arrival"].copy()

    def get_state(self) -> dict[str, np.ndarray]:
        return {name: _bytes(getattr(self.arrays, name)).copy() for name in _STATE}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.check_state(state, self.get_state())
        now = self.arrays.world["means"].copy()
        for name in _STATE:
            _bytes(getattr(self.arrays, name))[:] = state[name]
        then = self.arrays.world["means"]
        if not np.allclose(then, now, rtol=1e-9, atol=0.0):
            raise InputError(
                f"the requests have changed since this was saved: mean size and gap were "
                f"{then[0].tolist()} ms, now {now[0].tolist()}: restore the old workload file, or "
                "start again in another folder"
            )
        for world in np.flatnonzero(self.arrays.world["block"] >= 0).tolist():
            self._load_block(world)
        self._begun = bool((self.arrays.world["block"] >= 0).all())

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def _bytes(records: np.ndarray) -> np.ndarray:
    """A view of records [N, ...] as plain bytes [N, size]."""
    return records.reshape(len(records), -1).view(np.uint8)
