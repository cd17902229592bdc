"""The straggler task: queueing theory, a toy cluster, what a proxy can see, limits, states."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from stopping import stop_after, stops_change_nothing
from toy_cluster import Cluster

from lcpo.config import make, to_json
from lcpo.envs.base import WorldError
from lcpo.errors import InputError
from lcpo.run.drive import group
from lcpo.run.plan.check import check_env
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import load_results
from lcpo.straggler import jobs as sources
from lcpo.straggler import task, workloads
from lcpo.straggler.jobs import BLOCK, ArrayJobs, Block, PoissonJobs
from lcpo.straggler.task import (
    BUCKET_MS,
    FAULTS,
    FUTURE_SIZES,
    IDLE_TERMINAL,
    LATE_WINDOWS,
    NEVER,
    READINGS,
    TIMEOUTS_MS,
    WHOLE_TRACE_SCALES,
    Straggler,
)
from lcpo.straggler.worlds import StragglerWorlds

pytest.importorskip("numba")
close = np.testing.assert_allclose


def opened(env: Straggler, num_worlds: int, jobs: Any = None, **more: Any) -> StragglerWorlds:
    """Worlds with seeds 0 .. N - 1, reset."""
    worlds = StragglerWorlds(env, jobs or env.jobs, num_worlds, range(num_worlds), **more)
    worlds.reset(np.ones(num_worlds, bool))
    return worlds


def play(worlds: StragglerWorlds, action: int = NEVER) -> Any:
    n = worlds.num_worlds
    return worlds.step(np.full((n, 1), action), np.zeros((n, 0)))


def play_randomly(worlds: StragglerWorlds, steps: int, seed: int = 0) -> np.ndarray:
    """All that random actions bring about, [steps, N, ...]; a world has its own."""
    rngs = [np.random.default_rng([seed, int(s)]) for s in worlds.arrays.world["seed"]]
    out = []
    for _ in range(steps):
        action = np.array([[r.integers(0, NEVER + 1)] for r in rngs])
        step = worlds.step(action, np.zeros((len(rngs), 0)))
        out.append(np.column_stack([step.obs, step.reward, step.elapsed, step.weight]))
    return np.array(out)


def latencies(worlds: StragglerWorlds, steps: int, action: int = NEVER) -> np.ndarray:
    out = []
    for _ in range(steps):
        play(worlds, action)
        out += [worlds.answers(i)[0] for i in range(worlds.num_worlds)]
    return np.concatenate(out)


def recorded(num_jobs: int, rate: float, size: float, seed: int = 0) -> Any:
    """Poisson arrivals, exponential sizes, and coins."""
    rng = np.random.default_rng(seed)
    sizes, gaps = rng.exponential(size, num_jobs), rng.exponential(1000.0 / rate, num_jobs)
    return ArrayJobs(sizes, gaps, rng.random((num_jobs, 2)) < 0.1)


# Queueing theory


@pytest.mark.learn
def test_waiting_time_of_one_server_is_that_of_m_d_1() -> None:
    """W = S + rho S / (2 (1 - rho)), to 2 %; 1.4M requests."""
    env = Straggler(num_servers=1, rate=70.0, size=10.0, size_cv=0.0, slow_share=0.0)
    found = latencies(opened(env, 20), 2000).mean()
    close(found, 10.0 + 0.7 * 10.0 / (2.0 * 0.3), rtol=0.02)


def test_latency_of_two_servers_is_that_of_join_the_shortest_queue() -> None:
    """The exact chain of two queues with exponential services, to 2 %; 0.9M requests."""
    rate, size, most = 160.0, 10.0, 45  # a load of 0.8
    pairs = [(i, j) for i in range(most + 1) for j in range(i + 1)]
    place = {pair: k for k, pair in enumerate(pairs)}
    rates = np.zeros((len(pairs), len(pairs)))
    for (i, j), k in place.items():
        moves = [((i, j + 1), rate / 1000), ((i - 1, j), 1 / size), ((i, j - 1), 1 / size)]
        for pair, flow in moves:
            to = place.get((max(pair), min(pair)))
            if min(pair) >= 0 and to is not None:
                rates[k, to] += flow
                rates[k, k] -= flow
    equations = np.vstack([rates.T[1:], np.ones(len(pairs))])
    stationary = np.linalg.solve(equations, np.eye(len(pairs))[-1])
    expected = stationary @ [i + j for i, j in pairs] / (rate / 1000)
    env = Straggler(num_servers=2, slow_share=0.0)
    jobs = recorded(300_000, rate, size)
    jobs.slow[:] = False
    found = np.mean([latencies(opened(env, 1, _late(jobs, k)), 3700).mean() for k in range(3)])
    close(found, expected, rtol=0.02)


def _late(jobs: ArrayJobs, third: int) -> ArrayJobs:
    """The jobs from a third, or two, on."""
    shift = third * len(jobs.sizes) // 3
    return ArrayJobs(np.roll(jobs.sizes, -shift), np.roll(jobs.gaps, -shift), jobs.slow)


def test_p95_at_low_load_is_that_of_the_mixture() -> None:
    """A request in ten takes ten times as long, and nobody waits: to 3 %; 50,000 requests."""
    spread = np.log1p(1.5**2) ** 0.5

    def share_below(x: float) -> float:
        scores = (np.log(x / np.array([80.0, 800.0])) + 0.5 * spread**2) / spread
        return float(ndtr(scores) @ [0.9, 0.1])

    expected: Any = brentq(lambda x: share_below(x) - 0.95, 1.0, 1e4)
    found = np.quantile(latencies(opened(Straggler(rate=1.0), 50), 2000), 0.95)
    close(found, expected, rtol=0.03)


@pytest.mark.parametrize("cancel", [False, True])
def test_copies_are_conserved_and_twins_are_apart(cancel: bool) -> None:
    worlds = opened(Straggler(num_servers=3, rate=9.0, cancel=cancel, max_copies=500), 8)
    a, w = worlds.arrays, worlds.arrays.world
    for t in range(100):
        play_randomly(worlds, 1, seed=t)
        queues = a.servers["queue"].sum(axis=1)
        np.testing.assert_array_equal(
            w["arrived"] + w["hedged"], w["finished"] + w["cancelled"] + queues
        )
        open_jobs = w["arrived"] - w["answered"]
        assert ((open_jobs >= 0) & (open_jobs <= queues)).all()
        for i in range(8):  # second copies whose request is open: bits 1 and not 2
            second = np.flatnonzero(in_queue(worlds, i) & (a.copies["kind"][i] & 3 == 1))
            first = a.copies["twin"][i, second]
            assert (a.copies["server"][i, second] != a.copies["server"][i, first]).all()
    assert (w["hedged"] > 50).all()
    assert (w["cancelled"] > 50).all() == cancel


def in_queue(worlds: StragglerWorlds, i: int) -> np.ndarray:
    """Which places of world i hold a copy."""
    free, place = np.zeros(worlds.task.max_copies, bool), worlds.arrays.world["free"][i]
    while place >= 0:
        free[place] = True
        place = worlds.arrays.copies["behind"][i, place]
    return ~free


@pytest.mark.parametrize("cancel", [False, True])
def test_a_toy_cluster_does_the_same(cancel: bool) -> None:
    """400 windows of random timeouts: latencies, queues, their averages, sizes, reward."""
    jobs, rng = recorded(4000, 9.0, 80.0), np.random.default_rng(1)
    toy = Cluster(jobs, 4, cancel)
    worlds = opened(Straggler(num_servers=4, cancel=cancel), 1, jobs)
    silent = 0
    for _ in range(400):
        action = NEVER if worlds.arrays.world["unsafe"][0] else int(rng.integers(0, NEVER + 1))
        expected, step = toy.play(action), play(worlds, action)
        found = worlds.answers(0)[0]
        close(np.sort(found), np.sort(expected.latencies), rtol=1e-9, atol=1e-9)
        obs = worlds.arrays.obs[0]
        np.testing.assert_array_equal(obs[0:8:2], expected.queues)
        close(obs[1:8:2], expected.mean_queues, rtol=1e-9, atol=1e-9)
        sums = worlds.arrays.world["sums"][0, worlds.arrays.world["window"][0]]
        close(sums[2:], [len(expected.finished), sum(expected.finished)], rtol=1e-9)
        if len(found):
            close(step.reward[0], -np.quantile(found, 0.95) / 1600.0, rtol=1e-6)
        else:
            waits = [toy.arrivals[j] for j in range(toy.next_job) if j not in toy.answered]
            close(step.reward[0], -(toy.now - min(waits, default=toy.now)) / 1600.0, rtol=1e-6)
            silent += 1
    assert silent > 0
    assert worlds.arrays.world["hedged"][0] > 500


# Windows, features, reward


def test_windows_are_exact_and_silence_is_not_free() -> None:
    """One request of 1200 ms: it ages, is answered in the third window; then nothing is open."""
    jobs = ArrayJobs([1200.0, 1.0], [5000.0, 5000.0], np.zeros((2, 2), bool))
    worlds = opened(Straggler(), 1, jobs)
    steps = [play(worlds) for _ in range(5)]
    close(np.ravel([s.reward for s in steps]) * -1600.0, [500, 1000, 1200, 0, 0], rtol=1e-6)
    assert not any(s.terminated[0] or s.truncated[0] for s in steps)
    assert all(s.elapsed[0] == 1.0 == s.weight[0] for s in steps)
    assert worlds.arrays.world["clock"][0] == 2500.0
    late = opened(Straggler(faults=(LATE_WINDOWS, IDLE_TERMINAL)), 1, jobs)
    step = play(late)
    assert step.terminated[0]
    close([step.elapsed[0], step.reward[0]], [2.4, -0.75], rtol=1e-6)
    assert late.reset(np.ones(1, bool)).any()
    assert late.arrays.world["clock"][0] == 1200.0  # a cluster goes on through resets


def test_late_windows_drift_as_published() -> None:
    """Answers at 490 and 1100 ms: the second window begins at 490, but counts from 500 on."""
    jobs = ArrayJobs([490.0, 500.0], [600.0, 9000.0], np.zeros((2, 2), bool))
    worlds = opened(Straggler(faults=(LATE_WINDOWS,)), 1, jobs)
    steps, w = [play(worlds), play(worlds)], worlds.arrays.world[0]
    close([s.elapsed[0] * 500.0 for s in steps], [490.0, 610.0], rtol=1e-6)
    close([w["clock"], w["base"]], [1100.0, 500.0 + 610.0])


@pytest.mark.parametrize(("faults", "leaks"), [((), False), ((FUTURE_SIZES,), True)])
def test_features_tell_nothing_that_is_to_come(faults: tuple[str, ...], leaks: bool) -> None:
    """Until 2500 ms two clusters differ in requests under way, and in the gap after the last."""
    sizes, gaps, seen = np.full(60, 40.0), np.full(60, 100.0), []
    for size, gap in [(2000.0, 100.0), (3000.0, 300.0)]:
        sizes[8], gaps[25] = size, gap
        jobs = ArrayJobs(sizes.copy(), gaps.copy(), np.zeros((60, 2), bool))
        worlds = opened(Straggler(faults=faults), 1, jobs)
        worlds.rules = worlds.rules._replace(size_scale=400.0, rate_scale=0.1)
        seen.append([play(worlds).obs for _ in range(5)])
    assert (np.array(seen[0]) != np.array(seen[1])).any() == leaks


def test_rate_and_size_are_those_that_were_seen() -> None:
    """Requests every 100 ms that take 40 ms, from 1000 to 1500 ms on none."""
    gaps = np.full(15, 100.0)
    gaps[9] = 4100.0
    jobs = ArrayJobs(np.full(15, 40.0), gaps, np.zeros((15, 2), bool))
    worlds = opened(Straggler(), 1, jobs)
    per_ms, size = 10.0 / 100.0, 10.0 * 40.0  # scales: of the first job in a hundred
    obs = [play(worlds).obs[0, 20:] for _ in range(7)]
    close(obs[0][:2], [6 / 500 / per_ms, 40.0 / size], rtol=1e-6)  # at 0, 100, ... 500
    close(obs[2][:2], [10 / 1500 / per_ms, 40.0 / size], rtol=1e-6)
    close(obs[2][2:5], [6 / 500 / per_ms, 40.0 / size, 10 / 1500 * 40.0 / 10], rtol=1e-6)
    close(obs[6][:2], [0.0, 40.0 / size], atol=1e-9)  # the last size stands, the rate is 0
    weights = 0.99 ** np.arange(7, -1, -1)  # with the zeros at the reset
    rates = [0.0] + [o[0] for o in obs]
    close(obs[6][7], weights @ rates / weights.sum(), rtol=1e-5)
    context = worlds.task.spec.context
    assert (context.start, context.end) == (27, 29)
    assert worlds.task.spec.elements == (10, 2)


def test_scales_come_from_the_beginning_of_the_trace() -> None:
    jobs = ArrayJobs(np.r_[np.full(2, 10.0), np.full(198, 50.0)], np.r_[1.0, 3.0, np.ones(198)])
    rules = opened(Straggler(), 1, jobs).rules
    close([rules.size_scale, rules.rate_scale], [100.0, 5.0])
    whole = opened(Straggler(faults=(WHOLE_TRACE_SCALES,)), 1, jobs).rules
    close([whole.size_scale, whole.rate_scale], [496.0, 10.0 / 1.01])


def test_a_second_copy_has_its_price() -> None:
    free, dear = (opened(Straggler(price=price), 1) for price in (0.0, 16.0))
    for _ in range(20):
        before = dear.arrays.world["hedged"][0]
        a, b = play(free, 3), play(dear, 3)
        sent = dear.arrays.world["hedged"][0] - before
        close(a.reward[0] - b.reward[0], 0.01 * sent, atol=1e-6)
    assert dear.arrays.world["hedged"][0] > 20


def test_slow_servers_are_slow_for_a_while() -> None:
    """All requests of ten seconds take 1 ms, or all of them 10; one period in ten is slow."""
    env = Straggler(num_servers=1, slow_ms=10_000.0)
    worlds, periods = opened(env, 40, ArrayJobs([1.0], [100.0])), []
    for _ in range(100):
        found = [[] for _ in range(40)]
        for _ in range(20):
            play(worlds)
            for i in range(40):
                latency, arrival = worlds.answers(i)
                found[i] += latency[arrival % 10_000 > 1.0].tolist()
        assert all(np.ptp(f) < 1e-6 for f in found)
        periods += [f[0] > 5.0 for f in found]
    close(np.mean(periods), 0.1, atol=0.02)


def test_servers_are_slow_each_by_itself() -> None:
    """Two requests at once go to two servers: both are slow in one period of a hundred."""
    env = Straggler(num_servers=2, slow_ms=500.0)
    worlds, slow = opened(env, 40, ArrayJobs([1.0, 1.0], [0.0, 500.0])), []
    for _ in range(100):
        play(worlds)
        pairs = [worlds.answers(i)[0] for i in range(40)]
        slow += [np.count_nonzero(latency > 5.0) for latency in pairs if len(latency) == 2]
    assert len(slow) > 3900
    shares = np.bincount(slow, minlength=3) / len(slow)
    close(shares, [0.81, 0.18, 0.01], atol=0.02)
    assert 0.0 < shares[2] < 0.02


def test_slow_copies_have_random_numbers_of_their_own() -> None:
    """Drawn from the stream of gaps and sizes, or of starts, they would depend on them."""
    env = Straggler(rate=20.0, size=80.0)
    worlds = opened(env, 2)
    for world, seed in enumerate((0, 1)):
        jobs = worlds.arrays.jobs[world]
        coins = np.stack([jobs["slow"], jobs["second_slow"]], axis=1)
        close(coins.mean(axis=0), env.slow_share, atol=0.02)
        used = [sources.generator(seed, 0, stream).random((BLOCK, 2)) for stream in (0, 2)]
        assert all(0.15 < np.mean(coins != (u < env.slow_share)) < 0.21 for u in used)
        sizes, gaps, _ = env.jobs.block(seed, 0, 0.0)
        for values in (sizes, gaps):
            assert abs(np.corrcoef(values, coins[:, 0])[0, 1]) < 0.06


# Readings


def reading(step: Any, name: str) -> np.ndarray:
    return step.readings[:, READINGS.index(name)]


@pytest.mark.parametrize("faults", [(), FAULTS])
def test_percentiles_of_five_minutes_are_those_of_their_requests(faults: tuple[str, ...]) -> None:
    """By arrival, from all answers, to 0.3 %; an hour without requests is left out.

    Late windows do not end with the bucket: a few requests may count in the one before.
    """
    sizes, gaps = np.random.default_rng(0).lognormal(3.0, 1.5, (2, 30_000))
    gaps[10_000] = 3.6e6
    worlds = opened(Straggler(faults=faults), 2, ArrayJobs(sizes, gaps))
    seen, told = [[], []], [[], []]
    for _ in range(17_000 if not faults else 9_000):
        step = play(worlds, 4)
        for i in range(2):
            seen[i].append(np.array(worlds.answers(i)))
            if reading(step, "buckets")[i]:
                told[i].append((worlds.arrays.world["clock"][i], *step.readings[i, -3:]))
        assert not step.readings[reading(step, "buckets") == 0.0, -3:].any()
    clock = worlds.arrays.world["clock"].min()
    for answers, found in zip(seen, told, strict=True):
        latency, arrival = np.concatenate(answers, axis=1)
        bucket = (arrival // BUCKET_MS).astype(int)
        kept = [b for b in np.unique(bucket) if (b + 2) * BUCKET_MS <= clock]
        assert len(kept) > 8
        for b, (time, *values) in zip(kept, found, strict=not faults):
            exact = np.percentile(latency[bucket == b], [95, 99, 99.9])
            close(values[:2], exact[:2], rtol=0.03 if faults else 0.003)
            close(values[2], exact[2], rtol=0.2 if faults else 0.003)
            assert time == (b + 2) * BUCKET_MS or faults


def test_an_answer_that_comes_late_counts_in_the_oldest_open_bucket() -> None:
    """A request of 1000 s, which arrived in bucket 0, is answered in bucket 3: it is in bucket 2.

    The others take 0.05 ms, less than the histogram tells apart.
    """
    sizes, gaps = np.full(4000, 0.05), np.full(4000, 1000.0)
    sizes[0] = 1e6
    worlds = opened(Straggler(num_servers=2), 1, ArrayJobs(sizes, gaps, np.zeros((4000, 2), bool)))
    told = [s.readings[0] for s in (play(worlds) for _ in range(4200)) if s.readings[0, -4]]
    close([r[-2] for r in told], [0.1] * 6, rtol=0.003)
    over = [(r[-1] > 1.0) for r in told]
    assert over == [False, False, True, False, False, False]


@pytest.mark.parametrize("cancel", [False, True])
def test_readings_are_what_a_toy_cluster_counts(cancel: bool) -> None:
    """400 windows of random timeouts. Work is what servers did, and what they still have to do."""
    jobs, rng = recorded(4000, 9.0, 80.0), np.random.default_rng(1)
    toy = Cluster(jobs, 4, cancel)
    worlds = opened(Straggler(num_servers=4, cancel=cancel), 1, jobs)
    total = dict.fromkeys(READINGS, 0.0)
    for _ in range(400):
        unsafe = bool(worlds.arrays.world["unsafe"][0])
        action = NEVER if unsafe else int(rng.integers(0, NEVER + 1))
        before, expected, step = toy.next_job, toy.play(action), play(worlds, action)
        found = {name: float(reading(step, name)[0]) for name in READINGS}
        assert found["arrived"] == toy.next_job - before
        assert found["unsafe"] == unsafe
        assert found["served"] == len(expected.finished)
        close(found["service_ms"], sum(expected.finished), rtol=1e-5)
        slower = [sum(x > ms for x in expected.first_latencies) for ms in TIMEOUTS_MS[:NEVER]]
        assert list(step.readings[0, 7:15]) == slower
        total = {name: total[name] + found[name] for name in READINGS}
    assert total["hedged"] == worlds.arrays.world["hedged"][0] > 500
    first = jobs.sizes * np.where(jobs.slow[:, 0], 10.0, 1.0)
    close(total["first_ms"], first[: toy.next_job].sum(), rtol=1e-5)
    close(total["work_ms"], toy.worked + toy.left(), rtol=1e-5)
    assert total["slower_1000"] > 10


def test_the_safety_rule_tells_what_it_plays() -> None:
    """The guard foretells it, the executed action and the weight are its own."""
    worlds, guard = opened(Straggler(rate=40.0), 3), Straggler().spec.guard
    assert guard is not None
    obs, under = worlds.arrays.obs.copy(), []
    for _ in range(300):
        step = play(worlds, 0)
        under.append(guard.holds(obs))
        played: Any = step.action
        np.testing.assert_array_equal(played[:, 0] == guard.action[0], under[-1])
        np.testing.assert_array_equal(step.weight == 0.0, under[-1])
        np.testing.assert_array_equal(reading(step, "unsafe") == 1.0, under[-1])
        assert (played[~under[-1]] == 0).all()
        obs = step.obs
    assert 0.1 < np.mean(under) < 0.9


# Limits


def test_an_overloaded_cluster_stops_and_says_so() -> None:
    worlds = opened(Straggler(rate=200.0, max_copies=300), 2)
    with pytest.raises(WorldError, match="300 copies are in the cluster: it is overloaded"):
        play_randomly(worlds, 200)
    w, queues = worlds.arrays.world, worlds.arrays.servers["queue"].sum(axis=1)
    np.testing.assert_array_equal(w["arrived"] + w["hedged"], w["finished"] + queues)
    assert queues.max() == 300


@pytest.mark.parametrize("action", [NEVER, 0])
def test_a_cluster_survives_an_overload_and_loses_nothing(action: int) -> None:
    """A minute at twice what ten servers can do, and an hour to recover: all are answered."""
    sizes, gaps = np.full(12_500, 100.0), np.full(12_500, 5.0)
    gaps[12_000:] = 10_000.0
    jobs = ArrayJobs(sizes, gaps, np.zeros((12_500, 2), bool))
    worlds = opened(Straggler(), 1, jobs)
    steps = [play(worlds, action) for _ in range(2 * 60 + 2 * 3600)]
    w, unsafe = worlds.arrays.world[0], np.array([s.weight[0] == 0.0 for s in steps])
    assert unsafe[:120].sum() > 80
    assert not unsafe[400:].any()
    assert w["arrived"] == w["answered"] + worlds.arrays.servers["queue"].sum() > 12_000
    assert sum(reading(s, "hedged")[0] for s in steps[60:120]) == 0.0
    reported = [s.readings[0, -3:] for s in steps if reading(s, "buckets")[0]]
    assert len(reported) == 11
    close(reported[0][0], 0.95 * 60_000, rtol=0.1)  # the last of 120 s of work waited for 60


@pytest.mark.parametrize(
    ("sizes", "gaps", "text"),
    [
        ([], [], "with at least one job"),
        ([1.0, 2.0], [1.0], "same length"),
        ([1.0, 0.0], [1.0, 1.0], "job 1 .* size 0"),
        ([-3.0], [1.0], "size -3"),
        ([1.0], [-1.0], "gap -1"),
        ([np.nan], [1.0], "size nan"),
        ([1.0], [np.inf], "gap inf"),
        ([1.0, 1.0], [0.0, 0.0], "all gaps are 0"),
    ],
)
def test_jobs_that_cannot_be(sizes: list, gaps: list, text: str) -> None:
    with pytest.raises(InputError, match=text):
        ArrayJobs(sizes, gaps)


def test_a_source_that_goes_wrong_names_the_world() -> None:
    class Breaking(PoissonJobs):
        def block(self, seed: int, index: int, time: float) -> Block:
            sizes, gaps, _ = super().block(seed, index, time)
            return Block(sizes - (1e9 if seed == 1 and index == 1 else 0.0), gaps)

    worlds = opened(Straggler(), 2, Breaking(2000.0, 0.5, 1.0))
    with pytest.raises(WorldError, match=f"world 1: job {BLOCK} .* needs a finite size above 0"):
        play_randomly(worlds, 10)


def test_a_source_is_told_when_its_block_begins() -> None:
    """And asked the same again after a resume."""
    asked = []

    class Asked(PoissonJobs):
        def block(self, seed: int, index: int, time: float) -> Block:
            asked.append((seed, index, time))
            return super().block(seed, index, time)

    env, source = Straggler(), Asked(2000.0, 0.5, 1.0)
    worlds = opened(env, 1, source)
    play_randomly(worlds, 10)
    gaps = [source.block(0, i, 0.0).gaps.sum() for i in range(2)]
    assert [a[:2] for a in asked[:3]] == [(0, 0), (0, 1), (0, 2)]
    close([a[2] for a in asked[:3]], np.cumsum([0.0, *gaps]), rtol=1e-9)
    last = asked[2]
    StragglerWorlds(env, source, 1, [5]).set_state(worlds.get_state())
    assert asked[-1] == last


def test_a_trace_that_ends_begins_again() -> None:
    """1000 jobs, and ten times these: bit for bit, across blocks of jobs."""
    short = recorded(1000, 200.0, 5.0)
    long = ArrayJobs(*(np.concatenate([x] * 10) for x in (short.sizes, short.gaps, short.slow)))
    env = Straggler(faults=(WHOLE_TRACE_SCALES,))
    a, b = (play_randomly(opened(env, 1, jobs), 90) for jobs in (short, long))
    close(a, b, rtol=1e-6)


def test_many_answers_in_one_window() -> None:
    worlds = opened(Straggler(rate=10_000.0, size=0.2, size_cv=0.0), 2)
    play(worlds)
    for i in range(2):
        latency, arrival = worlds.answers(i)
        assert len(latency) == worlds.arrays.world["answered"][i] > 4000
        assert ((latency > 0.19) & (arrival <= 500.0)).all()


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (np.array([[0], [9]]), r"action \[9\] of world 1: needs indices from 0 to 8"),
        (np.array([[-1], [0]]), r"action \[-1\] of world 0"),
        (np.zeros((2, 1)), "needs integers"),
        (np.zeros(2, int), r"needs integers \[2, 1\]"),
    ],
)
def test_actions_that_cannot_be(action: np.ndarray, text: str) -> None:
    worlds = Straggler().open(2, [0, 1])
    with pytest.raises(InputError, match="has not been reset"):
        worlds.step(np.zeros((2, 1), int), np.zeros((2, 0)))
    worlds.reset(np.ones(2, bool))
    with pytest.raises(InputError, match=text):
        worlds.step(action, np.zeros((2, 0)))


# Workloads


def test_requests_of_a_workload_are_its_jobs(tmp_path: Path) -> None:
    """A file and a twin, scaled; a file that was written anew is read anew; poisson has means."""
    path, rng = tmp_path / "mine.npy", np.random.default_rng(0)
    for scale in (1.0, 2.0):
        table = rng.exponential([[80.0 * scale, 50.0]], (5000, 2))
        np.save(path, table)
        os.utime(path, ns=(0, int(scale)))
        source = Straggler(workload=str(path)).jobs
        sizes, gaps, _ = source.block(3, 1, 0.0)
        again = np.arange(BLOCK, 2 * BLOCK) % 5000
        close(np.column_stack([sizes, gaps]), table[again])
        close(source.means(0.01), table[:50].mean(axis=0))
    assert Straggler(workload=str(path)).jobs is source
    twin = Straggler(workload="workload-2", shorten=20.0, rate=40.0, size=30.0, size_cv=1.0).jobs
    same = workloads.get("workload-2", shorten=20.0, rate=40.0, size=30.0, cv=1.0)
    np.testing.assert_array_equal(twin.block(5, 7, 0.0)[:2], same.jobs(7 * BLOCK, BLOCK, 5))
    close(twin.means(1.0), (30.0, 25.0), rtol=1e-3)
    assert Straggler(size=10.0).jobs == PoissonJobs(20.0, 10.0, 1.5)
    worlds = opened(Straggler(workload="workload-2", shorten=20.0), 2)
    assert play_randomly(worlds, 100)[-1, :, 20].min() > 0.0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"workload": "nope"}, "unknown workload 'nope': known: poisson, workload-1, workload-2"),
        ({"workload": "nope.csv"}, "nope.csv does not exist"),
        ({"workload": "FILE", "size_cv": 2.0}, "a file has its own sizes"),
        ({"workload": "FILE", "shorten": 9.0}, "use a smaller factor"),
        ({"workload": "EMPTY"}, "holds no rows"),
        ({"workload": "ZERO"}, r"'size_ms' of job 2 \(counted from 1\) is 0"),
        ({"workload": "BACK"}, "no gap may be below 0"),
        ({"shorten": 2.0}, "'poisson' has no pass that could be shortened"),
    ],
)
def test_workloads_that_cannot_be_are_refused_at_planning(
    fields: dict[str, Any], text: str, tmp_path: Path
) -> None:
    files = {"FILE": "1,1\n" * 50, "EMPTY": "", "ZERO": "1,1\n0,1\n", "BACK": "1,1\n1,-1\n"}
    if fields.get("workload") in files:
        (tmp_path / "mine.csv").write_text(files[fields["workload"]])
        fields = {**fields, "workload": str(tmp_path / "mine.csv")}
    with pytest.raises(InputError, match=f"the environment: .*{text}"):
        check_env(Straggler(**fields))


# Worlds


@pytest.mark.parametrize("env", [Straggler(), Straggler(cancel=True, slow_ms=5000.0)])
def test_a_world_does_not_depend_on_those_beside_it(env: Straggler) -> None:
    """Forty together on two threads, and some alone: bit for bit."""
    together = play_randomly(opened(env, 40, threads=2), 60)
    for i in (0, 19, 39):
        alone = env.open(1, [i])
        alone.reset(np.ones(1, bool))
        np.testing.assert_array_equal(play_randomly(alone, 60)[:, 0], together[:, i])
    assert (together[:, 0] != together[:, 1]).any()


@pytest.mark.parametrize("env", [Straggler(rate=200.0, size=8.0), Straggler(cancel=True)])
def test_a_state_continues_exactly(env: Straggler) -> None:
    """In other worlds, with other seeds and threads, across blocks of jobs."""
    worlds = opened(env, 3)
    play_randomly(worlds, 70)
    state = worlds.get_state()
    assert all(len(leaf) == 3 for leaf in state.values())
    expected = play_randomly(worlds, 60, seed=1)
    other = env.open(3, [7, 8, 9], threads=1)
    other.set_state(state)
    np.testing.assert_array_equal(play_randomly(other, 60, seed=1), expected)
    for _ in range(1200):  # until five minutes are closed in which they were copied
        expected = play(worlds).readings
        np.testing.assert_array_equal(play(other).readings, expected)
    with pytest.raises(InputError, match=r"state\['copies'\] is missing"):
        other.set_state({k: v for k, v in state.items() if k != "copies"})
    with pytest.raises(InputError, match="requests have changed since this was saved"):
        StragglerWorlds(env, PoissonJobs(20.0, 80.1, 1.5), 3, range(3)).set_state(state)


def test_worlds_that_begin_anywhere_move_when_an_episode_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To places all over the pass, each seed to its own; a saved state moves to the same ones."""
    monkeypatch.setattr(task, "EPISODE", 3)
    size = np.arange(1.0, 40_001.0)  # a job's size tells its place
    path = [[] for _ in range(8)]
    source, env = ArrayJobs(size, np.full(40_000, 100.0)), Straggler(slow_share=0.0)
    worlds = StragglerWorlds(env, source, 8, range(8), anywhere=True)
    copy = StragglerWorlds(env, source, 8, range(50, 58), anywhere=True)
    worlds.reset(np.ones(8, bool))
    for t in range(1, 121):
        step = play(worlds, 1)
        assert step.truncated.all() == (t % 3 == 0) == step.truncated.any()
        if t == 61:
            copy.set_state(worlds.get_state())
        elif t > 61:
            np.testing.assert_array_equal(play(copy, 1).readings, step.readings)
        if t % 3 == 0:
            assert not worlds.reset(step.truncated).any()
            assert not worlds.arrays.servers["queue"].any()
            if t > 61:
                copy.reset(step.truncated)
            for i in range(8):
                path[i].append(worlds.arrays.jobs["size"][i, 0])
    assert (worlds.arrays.world["clock"] == 120 * 500.0).all()
    found = np.array(path) / 40_000
    assert len(np.unique(found[:, 0])) == 8 == len(np.unique(found[:, -1]))
    close(np.histogram(found, 4, (0.0, 1.0))[0] / found.size, [0.25] * 4, atol=0.1)
    some = np.arange(8) < 2  # others go on
    before = worlds.arrays.world["job"].copy()
    worlds.reset(some)
    np.testing.assert_array_equal(worlds.arrays.world["job"] != before, some)


@pytest.mark.learn
def test_a_prescient_run_trains_anywhere_and_is_judged_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in both phases and not: the same record. 3 episodes in the training, then none."""
    monkeypatch.setattr(group, "CHUNK_STEPS", 200)
    monkeypatch.setattr(task, "EPISODE", 300)
    begun: list[bool] = []
    make = StragglerWorlds.__init__
    monkeypatch.setattr(
        StragglerWorlds, "__init__",
        lambda *a, **k: (begun.append(k.get("anywhere", False)), make(*a, **k))[1],
    )  # fmt: skip
    jobs = plan(
        "prescient-a2c", "straggler", trace=None, steps=400, seeds=[0], training_steps=1000,
        overrides={"rollout_length": 50}, env_overrides={"workload": "workload-1", "shorten": 99.0},
    )  # fmt: skip
    assert stops_change_nothing(jobs, tmp_path, stop_after(450)) >= 1
    assert any(begun)
    assert not all(begun)
    (result,) = load_results(tmp_path / "whole")
    assert result.training["episodes"].sum() == 3
    assert result.record["episodes"].sum() == 0


def test_the_config_is_plain_values() -> None:
    env = make(Straggler, {"rate": 5, "cancel": True, "faults": ["late-windows"]})
    assert make(Straggler, to_json(env)) == env


def test_without_numba_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from lcpo.straggler.task import Straggler\n"
        "env = Straggler(); env.spec\n"
        "try: env.open(1, [0])\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "lcpo[straggler]"' in done.stdout
