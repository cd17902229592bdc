"""Streams of jobs: by index, whatever the pieces; rates, sizes and time as they should be."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import workload_files

from lcpo.errors import InputError
from lcpo.straggler import workloads
from lcpo.straggler.workloads import formats, paper
from lcpo.straggler.workloads.base import Given, Profile, Workload
from lcpo.straggler.workloads.drawn import Poisson, lognormal


def steps() -> Poisson:
    """A minute at 300 jobs per second, a minute without jobs, a minute at 30; sizes 10 and 40."""
    jobs = np.repeat([300.0, 0.0, 30.0], 60)
    return Poisson("steps", Profile(1000.0, jobs, np.repeat([10.0, 0.0, 40.0], 60)), lognormal(1.0))


def given() -> Given:
    rng = np.random.default_rng(0)
    return Given("mine", rng.lognormal(size=9_973), rng.exponential(500.0, 9_973))


def clients(folder: Path) -> Workload:
    return workloads.get(workload_files.servegen(folder))


KINDS: dict[str, Callable[[Path], Workload]] = {
    "poisson": lambda _: steps(),
    "given": lambda _: given(),
    "clients": clients,
}


# Jobs by index


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_depends_on_its_index_and_the_seed_alone(kind: str, tmp_path: Path) -> None:
    """Asked for at once or in pieces, over the ends of blocks and passes, and after others."""
    workload = KINDS[kind](tmp_path)
    count = 45_001  # more than two passes
    whole = np.stack(workload.jobs(0, count, seed=3))
    assert whole.dtype == np.float64
    assert (whole[0] > 0).all()
    assert (whole[1] >= 0).all()
    edges = [0, 1, 2, 700, 4_095, 4_500, 4_501, 19_790, 31_000, count]
    other = KINDS[kind](tmp_path)  # nothing kept from before
    for first, end in reversed(list(itertools.pairwise(edges))):
        piece = np.stack(other.jobs(first, end - first, seed=3))
        np.testing.assert_array_equal(piece, whole[:, first:end])


@pytest.mark.parametrize("kind", ["poisson", "clients"])
def test_seeds_and_passes_have_other_jobs(kind: str, tmp_path: Path) -> None:
    workload = KINDS[kind](tmp_path)
    total = workload.num_jobs(0)
    gaps = [workload.jobs(*where)[1] for where in ((0, 1000, 0), (total, 1000, 0), (0, 1000, 1))]
    for other in gaps[1:]:  # gaps within bursts are as good as 0, and alike
        assert not np.isin(gaps[0][gaps[0] > 1.0], other).any()
    far = workload.jobs(10**12, 3, seed=2**64 - 1)
    np.testing.assert_array_equal(far, workload.jobs(10**12, 3, seed=2**64 - 1))


# Rates, sizes, time


def arrivals(workload: Workload, seed: int = 0, count: int = 60_000) -> tuple[np.ndarray, ...]:
    """Times of arrival and sizes."""
    sizes, gaps = workload.jobs(0, count, seed)
    return np.concatenate([[0.0], np.cumsum(gaps)[:-1]]), sizes


def test_poisson_jobs_follow_rate_and_size_over_time() -> None:
    times, sizes = arrivals(steps())
    minute = (times // 60_000).astype(int)
    assert np.unique(minute[minute < 6]).tolist() == [0, 2, 3, 5]  # none without a rate
    for number, rate, size in ((0, 300, 10), (2, 30, 40), (3, 300, 10), (5, 30, 40)):
        there = minute == number
        # Five standard errors: of a count of 60 rate, and of a mean with variation 1.
        assert abs(there.sum() - 60 * rate) < 5 * np.sqrt(60 * rate)
        assert abs(sizes[there].mean() / size - 1) < 5 / np.sqrt(60 * rate)
    gaps = np.diff(times[minute == 0])
    assert abs(gaps.std() / gaps.mean() - 1) < 0.05  # as of independent arrivals
    assert abs(sizes[minute == 0].std() / 10 - 1) < 0.15


def test_means_of_the_first_jobs_and_of_all() -> None:
    workload = steps()
    total = 60 * 330
    whole = (60 * (300 * 10 + 30 * 40) / total, 180_000 / total)
    np.testing.assert_allclose(workload.means(), whole)
    # The first 1 % of the jobs, 198, come in the first second: 300 of them.
    np.testing.assert_allclose(workload.means(0.01), (10.0, 1000 / 300))
    mine = given()
    np.testing.assert_allclose(mine.means(), (mine.sizes.mean(), mine.gaps.mean()))
    np.testing.assert_allclose(mine.means(0.01), (mine.sizes[:100].mean(), mine.gaps[:100].mean()))


@pytest.mark.parametrize("kind", KINDS)
def test_scale_and_shorten(kind: str, tmp_path: Path) -> None:
    """More and larger jobs; then a pass in less time with the same rate and size."""
    workload = KINDS[kind](tmp_path)
    before, after = workload.means(), workload.scale(2.0, 3.0).means()
    np.testing.assert_allclose(after, (3 * before.size, before.gap / 2))
    short = workload.shorten(4.0)
    np.testing.assert_allclose(short.length, workload.length / 4, rtol=0.05)
    tolerance = 0.15 if kind == "given" else 1e-9
    np.testing.assert_allclose(short.means(), before, rtol=tolerance)
    sizes, gaps = (x.mean() for x in short.jobs(0, short.num_jobs(0), seed=0))
    np.testing.assert_allclose((sizes, gaps), short.means(), rtol=0.1)
    profile = short.profile()
    np.testing.assert_allclose(len(profile.jobs) * profile.window, short.length)
    np.testing.assert_allclose(profile.jobs.sum() * short.means().gap, short.length)


def test_short_given_jobs_are_whole_minutes_of_the_long_ones() -> None:
    mine = given()
    times, _ = arrivals(mine, count=len(mine.sizes))
    short = mine.shorten(5.0)
    kept = times % 300_000 < 60_000
    kept[times >= 300_000 * (mine.length // 300_000)] = False
    np.testing.assert_array_equal(short.sizes, mine.sizes[kept])
    inside = np.flatnonzero(kept[:-1] & kept[1:])  # gaps within a minute are as they were
    place = np.cumsum(kept) - 1
    np.testing.assert_allclose(short.gaps[place[inside]], mine.gaps[inside], atol=1e-6)
    with pytest.raises(InputError, match="use a smaller factor"):
        mine.shorten(20.0)


# The twins


@pytest.mark.parametrize("number", [1, 2])
def test_twins_follow_the_figure(number: int) -> None:
    figure, profile = paper.read_figure(number), paper.twin(number).profile()
    hours = profile.hours + figure.hours[0]
    calm = np.ones(len(hours), bool)
    for event in paper.EVENTS[number]:
        calm &= (hours < event.begin - 4) | (hours > event.end + 4)
    for read, found in ((figure.rate, profile.rate), (figure.size, profile.size)):
        ratio = np.log(found[calm] / np.interp(hours[calm], figure.hours, read[:, 1]))
        assert abs(ratio.mean()) < 0.02
        wanted = paper.FLUCTUATION[number] if found is not profile.size else 0.0
        assert abs(ratio.std() - wanted) < 0.1 * wanted + 1e-3
    peaks = {1: [(288.2, 49.5), (321.5, 51.2), (348.6, 21.5)], 2: [(392.8, 190), (409.3, 0)]}
    for hour, height in peaks[number]:
        found = profile.rate[np.abs(hours - hour) < 0.02].mean()
        assert abs(found - height) <= 0.35 * height  # the rate fluctuates, too
    assert np.all(profile.rate[np.abs(hours - 409.25) < 0.9] == 0) == (number == 2)
    short = workloads.get(f"workload-{number}", shorten=20)
    assert 24 < short.length / 3.6e6 < 25.1
    sizes, gaps = short.jobs(0, 400_000, seed=0)
    total = np.cumsum(gaps)[-1]
    part = profile.jobs[: int(total / 500)].sum() / 20
    assert abs(400_000 / part - 1) < 0.02
    assert abs(sizes.std() / sizes.mean() - 2) < 0.2


# Files


GOOD = {
    "names.csv": "time_ms, extra,size_ms\n5,0,1\n7,0,2\n13,0,3\n",
    "plain.csv": "1,2\n2,6\n3,4\n",
    "gaps.csv": "gap_ms,size_ms\n2,1\n6,2\n4,3\n",
}


@pytest.mark.parametrize("name", [*GOOD, "mine.npy", "mine.npz"])
def test_jobs_from_a_file(name: str, tmp_path: Path) -> None:
    """Of times, the gap after the last is the mean of the others: 4."""
    path = tmp_path / name
    if name in GOOD:
        path.write_text(GOOD[name])
    elif name.endswith(".npy"):
        np.save(path, np.array([[1, 2], [2, 6], [3, 4]], np.float32))
    else:
        np.savez(path, size_ms=[1, 2, 3], time_ms=[5.0, 7.0, 13.0], note="mine")
    sizes, gaps = workloads.get(path).jobs(1, 4, seed=0)
    np.testing.assert_array_equal(sizes, [2, 3, 1, 2])
    np.testing.assert_array_equal(gaps, [6, 4, 2, 6])
    scaled = workloads.get(str(path), rate=500.0, size=1.0)
    np.testing.assert_allclose(scaled.means(), (1.0, 2.0))


BAD = {
    "1,2\nnan,3\n": r"line 2, column 1 is 'nan': every entry must be finite",
    "1,2\n0,3\n": r"'size_ms' of job 2 \(counted from 1\) is 0: every size must be above 0",
    "1,2\n-4,3\n": r"is -4: every size must be above 0",
    "1,2\n4,-3\n": r"'gap_ms' of job 2 \(counted from 1\) is -3: no gap may be below 0",
    "1,0\n4,0\n": "all gaps are 0",
    "size_ms,time_ms\n1,2\n1,9\n1,8\n": r"job 3 .* arrives at 8, .* at 9: sort the jobs by time",
    "": "holds no rows",
    "size_ms,gap_ms\n": "holds no rows",
    "1,2\n": "has 1 jobs: needs at least 2",
    "1,2,3\n4,5,6\n": "has 3 columns without names: needs two columns",
    "size,gap_ms\n1,2\n2,3\n": "has 'size', 'gap_ms': needs two columns, size and gap in ms",
    "size_ms,gap_ms,time_ms\n1,2,3\n": "needs two columns",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=BAD[text]):
        workloads.get(path)


def test_bad_arrays_and_names_are_told(tmp_path: Path) -> None:
    np.save(tmp_path / "bad.npy", np.array([[1.0, 2.0], [np.inf, 3.0]]))
    np.savez(tmp_path / "text.npz", size_ms=["a", "b"], gap_ms=[1, 2])
    np.savez(tmp_path / "uneven.npz", size_ms=[1, 2, 3], gap_ms=[1, 2])
    np.savez(tmp_path / "none.npz", other=[1])
    (tmp_path / "noise.npz").write_text("not an archive")
    for name, match in (
        ("bad.npy", "'size_ms' of job 2 .* is inf: every entry must be finite"),
        ("text.npz", "needs real numbers in one dimension"),
        ("uneven.npz", "3 sizes but 2 entries of 'gap_ms'"),
        ("none.npz", "has 'other': needs"),
        ("noise.npz", "not an .npz archive of plain"),
        ("missing.csv", "does not exist"),
        ("mine.txt", "needs a name that ends in .csv or .npy or .npz"),
    ):
        with pytest.raises(InputError, match=match):
            workloads.get(tmp_path / name)
    with pytest.raises(InputError, match="did you mean 'workload-1'"):
        workloads.get("workload1")
    for arguments in ({"shorten": 0.5}, {"rate": 0.0}, {"size": float("nan")}):
        with pytest.raises(InputError, match="needs a number from"):
            workloads.get("workload-1", **arguments)
    for arguments in ((-1, 1, 0), (0, 0, 0), (0, 1, -1), (0, 1, 2**64)):
        with pytest.raises(InputError, match="needs a whole number"):
            steps().jobs(*arguments)
    with pytest.raises(InputError, match=r"about 19\.8 jobs in a pass"):
        steps().shorten(1000.0)


# Public data


def test_azure_requests_are_replayed(tmp_path: Path) -> None:
    workload = workloads.get(workload_files.azure(tmp_path / "a.npz"))
    sizes, gaps = workload.jobs(0, 4, seed=0)
    np.testing.assert_array_equal(sizes, [10, 20, 60, 10])
    np.testing.assert_array_equal(gaps, [500, 1500, 1000, 500])


def test_world_cup_counts_are_rates(tmp_path: Path) -> None:
    path = workload_files.world_cup(tmp_path / "w.npz")
    whole = workloads.get(path)
    np.testing.assert_allclose(whole.profile().rate, [10, 20, 0, 100])
    np.testing.assert_allclose(whole.means(), (28.0, 240_000 / 7800))
    part = formats.world_cup_98(path, sizes=np.array([1.0, 3.0, 8.0]), first=1, count=2)
    times, sizes = arrivals(part, count=1000)
    assert np.isin(sizes.round(9), [1.0, 3.0, 8.0]).all()
    assert abs(sizes.mean() / 4 - 1) < 0.1
    assert times[-1] < 61_000  # all in the first of its two minutes
    with pytest.raises(InputError, match="first = 4"):
        formats.world_cup_98(path, first=4)


def test_clients_keep_their_counts_bursts_and_sizes(tmp_path: Path) -> None:
    workload = formats.servegen(workload_files.servegen(tmp_path))
    times, sizes = arrivals(workload, count=4500)
    assert workload.num_jobs(seed=0) == 4500
    first, second = sizes[:3000], sizes[3000:]
    # Tokens of the first window: 10, and 50 for one in four. 3000 draws, five standard errors.
    assert np.unique(first).tolist() == [10, 50]
    assert abs(np.mean(first == 50) - 0.25) < 0.04
    # Client 0 has 7 now; client 1, without a file, the pooled 0 (counted as 1) and 3.
    assert (second == 7).sum() == 500
    assert abs((second == 1).sum() - 500) < 5 * np.sqrt(250)
    np.testing.assert_allclose(workload.profile().size, [20.0, (500 * 7 + 1000 * 2) / 1500])
    gaps = np.diff(times[:3000])
    assert gaps.std() / gaps.mean() > 2  # Gamma with shape 0.1: 3.2
    # Without a phase the last job of every client would be on the edge of its window.
    edge = workload.draw(np.random.default_rng(0), slice(0, 1), np.array([3000]))[0]
    assert edge.min() > 0
    assert edge.max() < 600_000
    # 3001.5, 500.25 and 1000.5 jobs: whole numbers, on average as many.
    more = workload.scale(rate=1.0005)
    assert abs(np.mean([more.num_jobs(seed) for seed in range(100)]) - 4502.25) < 0.4


def test_files_of_clients_that_do_not_fit_are_told(tmp_path: Path) -> None:
    for changes, match in (
        ({"arrivals": {"client": np.array([0, 2, 1])}}, "client 2 sends requests at 600 s"),
        ({"arrivals": {"shape": np.array([0.1, 0.0, 1.0])}}, "'shape' of job 2 .* is 0: needs"),
        ({"arrivals": {"t_start_s": np.array([0, 600, 1200])}}, "numbered from 0 to 1"),
        ({"tokens": {"ptr": np.array([0, 2, 2, 5])}}, "'ptr' must rise"),
        ({"tokens": {"count": np.array([3, 1, 0, 1, 1])}}, "'count' of job 3 .* is 0: needs"),
    ):
        path = workload_files.servegen(tmp_path, **changes)
        with pytest.raises(InputError, match=match):
            workloads.get(path)
    (tmp_path / "x_output_tokens.npz").unlink()
    with pytest.raises(InputError, match=r"x_output_tokens\.npz does not exist"):
        workloads.get(path)
    other = path.rename(tmp_path / "other.npz")
    with pytest.raises(InputError, match="NAME_arrivals"):
        workloads.get(other)
