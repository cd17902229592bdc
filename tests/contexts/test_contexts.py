"""Context traces: statistics, determinism, the paper's traces, and files that users bring."""

from __future__ import annotations

import builtins
import csv
import hashlib
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from each import for_each

from lcpo import contexts
from lcpo.contexts import families, files, generators, paper
from lcpo.defaults import ENVIRONMENTS
from lcpo.errors import InputError
from lcpo.study.controls import drawn
from lcpo.study.report import trace_figure

GENERATORS = {
    "ou": generators.ornstein_uhlenbeck,
    "piecewise": partial(generators.piecewise_gaussian, dwell=7_000),
    "bursts": partial(generators.bursts, calm=5_000, turn=3_000),
    "sinusoids": generators.sinusoids,
    "iid": partial(generators.iid, hold=7),
    "markov": partial(generators.markov, dwell=500),
    "revisit": partial(generators.revisit, dwell=5_000, jitter=0.5, order="random"),
}
ANY_LENGTH = [name for name, trace in contexts.TRACES.items() if trace.length is None]
MEMBERS = [f"family:{kind}:{seed}" for kind in contexts.FAMILIES for seed in (0, 1)]


# Determinism


@pytest.mark.parametrize("generator", GENERATORS.values(), ids=GENERATORS)
def test_seed_makes_the_trace(generator: partial) -> None:
    first, again, other = (generator(30_000, seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == np.float32
    assert np.abs(first - other).max() > 0.1


@for_each("name", [*ANY_LENGTH, *MEMBERS])
def test_short_trace_is_the_head_of_a_long_one(name: str) -> None:
    rows = generators.BLOCK + 5_000  # into the second block
    np.testing.assert_array_equal(contexts.get(name, rows), contexts.get(name, 600_000)[:rows])


@pytest.mark.parametrize("kind", contexts.FAMILIES)
def test_members_of_a_family_differ(kind: str) -> None:
    members = [families.settings(f"family:{kind}:{seed}")[1] for seed in range(20)]
    assert len({m["seed"] for m in members}) == 20
    (key, *_) = [key for key in ("levels", "mean", "radius") if key in members[0]]
    spread = [float(np.mean(m[key])) for m in members]
    assert np.std(spread) > 0.1


def test_the_drawn_traces_of_the_studies_are_pinned() -> None:
    """`results/rivals` and `results/anchors` were measured on these 90 traces and no others."""
    with (Path(__file__).parent / "data" / "drawn-traces.csv").open() as lines:
        pinned = {row["trace"]: row["sha256"] for row in csv.DictReader(lines)}
    names = drawn.DrawnOptions().contexts()
    assert list(pinned) == names
    for name in names:
        # Rounded, so that the last bit of another machine's exponential does not count.
        rows = np.round(contexts.get(name, 200_000)[::97].astype(np.float64), 4) + 0.0
        assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == pinned[name], name


# Statistics of the processes


def test_ou_has_its_long_run_moments_and_memory() -> None:
    values = generators.ornstein_uhlenbeck(
        400_000, 2, mean=(1.0, -2.0), std=1.5, relaxation=50.0, seed=0
    ).astype(np.float64)
    np.testing.assert_allclose(values.mean(axis=0), [1.0, -2.0], atol=0.1)
    np.testing.assert_allclose(values.std(axis=0), 1.5, rtol=0.03)
    centred = values - values.mean(axis=0)
    for lag in (1, 50, 100):
        correlation = (centred[lag:] * centred[:-lag]).mean(axis=0) / centred.var(axis=0)
        np.testing.assert_allclose(correlation, np.exp(-lag / 50.0), atol=0.03)


@pytest.mark.parametrize("relaxation", [0.01, 3.0, 1e7])
def test_ou_is_the_recursion(relaxation: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop: fast relaxation must not overflow, slow relaxation must not drift off."""
    monkeypatch.setattr(generators, "BLOCK", 1_300)
    found = generators.ornstein_uhlenbeck(5_000, 1, relaxation=relaxation, start=2.0, seed=3)
    rng = np.random.default_rng(3)
    rng.standard_normal(1)  # the start that is not used
    noise = rng.standard_normal(5_000, np.float32).astype(np.float64)
    decay = np.exp(-1.0 / relaxation)
    value, expected = 2.0, np.empty(5_000)
    for t in range(5_000):
        value = decay * value + np.sqrt(-np.expm1(-2.0 / relaxation)) * noise[t]
        expected[t] = value
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_piecewise_levels_and_lengths() -> None:
    values = generators.piecewise_gaussian(
        2_000_000, 2, dwell=1_000, jitter=0.5, std=1.5, noise=0.01, seed=1
    )
    starts = np.flatnonzero(np.abs(np.diff(values[:, 0])) > 0.1) + 1
    lengths = np.diff(starts)
    levels = values[starts]
    assert np.mean(lengths <= 1_500) > 0.9  # a few levels are too near to be told apart
    assert lengths.min() >= 500
    np.testing.assert_allclose(levels.std(axis=0), 1.5, rtol=0.06)
    np.testing.assert_allclose(levels.mean(axis=0), 0.0, atol=0.15)


def test_bursts_circle_through_the_origin() -> None:
    values = generators.bursts(
        400_000, 3, calm=20_000, turn=5_000, max_turns=2, radius=2.0, noise=0.0, seed=2
    )
    strength = np.linalg.norm(values, axis=1)
    np.testing.assert_allclose(strength.max(), 4.0, rtol=1e-4)  # twice the radius
    active = strength > 0
    edges = np.flatnonzero(np.diff(active.astype(int)))
    bursts = (edges[1::2] - edges[::2])[:-1]
    assert set(np.rint(bursts / 5_000)) == {1, 2}
    assert 10_000 <= edges[0] <= 30_000
    assert np.linalg.matrix_rank(values[active], tol=1e-2) == 2


def test_sinusoids_have_drawn_phases() -> None:
    """Uniform on the circle, and each channel its own."""
    first = np.array(
        [generators.sinusoids(1001, periods=4_000, amplitude=3.0, noise=0.0, seed=seed)[[0, 1000]]
         for seed in range(200)]
    )  # fmt: skip  # [seeds, now and a quarter of a period later, channels]
    np.testing.assert_allclose(np.sum(first**2, axis=1), 9.0, rtol=1e-5)
    phases = np.arctan2(first[:, 0], first[:, 1]) % (2.0 * np.pi)
    for quarter in range(4):
        inside = (phases >= 0.5 * np.pi * quarter) & (phases < 0.5 * np.pi * (quarter + 1))
        np.testing.assert_allclose(inside.mean(axis=0), 0.25, atol=0.1)
    apart = (phases[:, 0] - phases[:, 1]) % (2.0 * np.pi)
    assert 0.4 < np.mean(apart < np.pi) < 0.6


def test_sinusoids_have_their_periods() -> None:
    values = generators.sinusoids(60_000, 3, periods=(3_000, 5_000), noise=0.0, seed=0)
    np.testing.assert_allclose(values.max(axis=0), 2.0, rtol=1e-3)
    peaks = np.abs(np.fft.rfft(values, axis=0)).argmax(axis=0)
    np.testing.assert_array_equal(peaks, [20, 12, 20])


def test_iid_rows_are_independent_and_held() -> None:
    values = generators.iid(200_000, 2, mean=(1.0, 0.0), std=0.5, seed=0).astype(np.float64)
    np.testing.assert_allclose(values.mean(axis=0), [1.0, 0.0], atol=0.01)
    np.testing.assert_allclose(values.std(axis=0), 0.5, rtol=0.01)
    assert abs(np.corrcoef(values[1:, 0], values[:-1, 0])[0, 1]) < 0.01
    held = generators.iid(1_000, 1, hold=30, seed=0)[:, 0]
    np.testing.assert_array_equal(np.flatnonzero(np.diff(held)), np.arange(29, 999, 30))


def test_markov_stays_and_jumps() -> None:
    levels = np.array([[0.0], [1.0], [2.0], [3.0]])
    path = generators.markov(1_000_000, levels=levels, dwell=50, noise=0.0, seed=0)[:, 0]
    jumps = np.flatnonzero(np.diff(path))
    np.testing.assert_allclose(len(path) / len(jumps), 50, rtol=0.05)
    np.testing.assert_allclose(np.bincount(path.astype(int)) / len(path), 0.25, atol=0.02)
    pairs = {(path[i], path[i + 1]) for i in jumps}
    assert len(pairs) == 12  # every level leads to every other


def test_two_contexts() -> None:
    """The schedule tells what the rows are; a short run sees the first of both."""
    values, schedule = contexts.get("two-contexts"), contexts.switches("two-contexts", 25_200)
    assert values.shape == (25_200, 1)
    visits = np.split(values[:, 0], schedule.start[1:])
    assert [np.unique(v).tolist() for v in visits] == [[-1.0], [1.0], [-1.0]]
    assert (schedule.context.tolist(), schedule.seen.tolist()) == ([0, 1, 0], [False, False, True])
    assert contexts.switches("two-contexts", 6_000).start.tolist() == [0]
    assert contexts.switches("two-contexts", 6_001).start.tolist() == [0, 6_000]


def test_revisit_returns_often() -> None:
    """What the forgetting study needs: three winds, at least 8 revisits in 2 million steps."""
    values, schedule = contexts.get("revisit", 2_000_000), contexts.switches("revisit", 2_000_000)
    assert schedule.start[0] == 0
    assert np.all(schedule.start % 200 == 0)  # a rollout has one context
    assert sorted(set(schedule.context)) == [0, 1, 2]
    assert schedule.seen.sum() == len(schedule.start) - 3 >= 8
    ends = [*schedule.start[1:], len(values)]
    for start, end, context in zip(schedule.start, ends, schedule.context, strict=True):
        level = values[start:end].mean(axis=0)
        np.testing.assert_allclose(level, generators.THREE_WINDS[context], atol=0.005)
        np.testing.assert_allclose(values[start:end].std(axis=0), 0.1, rtol=0.02)


def test_family_schedule_is_the_trace_s() -> None:
    name = "family:revisit:4"
    levels = families.settings(name)[1]["levels"]
    values, schedule = contexts.get(name, 500_000), contexts.switches(name, 500_000)
    ends = [*schedule.start[1:], len(values)]
    for start, end, context in zip(schedule.start, ends, schedule.context, strict=True):
        np.testing.assert_allclose(values[start:end].mean(axis=0), levels[context], atol=0.02)
    assert np.all(np.diff(schedule.context) != 0)
    with pytest.raises(ValueError, match="'ou' has no switching schedule: use 'revisit'"):
        contexts.switches("ou", 1_000)


def test_mixture_follows_one_part_at_a_time() -> None:
    parts = [lambda rows, c=c: np.full((rows, 1), c) + np.arange(rows)[:, None] for c in (0, 0.5)]
    values = generators.mixture(10_000, parts, dwell=300, seed=0)[:, 0]
    which = values - np.arange(10_000)
    assert set(which) == {0.0, 0.5}
    assert 20 < np.count_nonzero(np.diff(which)) < 50
    with pytest.raises(ValueError, match=r"part 1 has shape \(100, 2\)"):
        generators.mixture(100, [lambda n: np.zeros((n, 1)), lambda n: np.zeros((n, 2))], seed=0)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="dwell = 0"):
        generators.revisit(100, dwell=0, seed=0)
    with pytest.raises(ValueError, match="relaxation = -1"):
        generators.ornstein_uhlenbeck(100, relaxation=-1.0, seed=0)
    with pytest.raises(ValueError, match="1 contexts to switch"):
        generators.revisit_switches(100, num_contexts=1, seed=0)
    with pytest.raises(ValueError, match="jitter = 1"):
        generators.revisit(100, jitter=1.0, seed=0)


# The paper's traces


@pytest.mark.learn
@pytest.mark.parametrize(("number", "mean", "std"), [
    (1, (-0.82, -0.91), (0.81, 0.70)), (2, (0.01, 0.01), (2.22, 1.78)),
])  # fmt: skip
def test_traces_1_and_2_follow_the_digitised_curve(
    number: int, mean: tuple[float, float], std: tuple[float, float]
) -> None:
    trace = contexts.get(str(number))
    assert trace.shape == (20_000_000, 2)
    steps, winds = paper.points(number)
    inside = steps < len(trace)
    np.testing.assert_allclose(trace[steps[inside]], winds[inside], atol=1e-5)
    np.testing.assert_allclose(trace.mean(axis=0, dtype=np.float64), mean, atol=0.02)
    np.testing.assert_allclose(trace[::100].std(axis=0, dtype=np.float64), std, atol=0.02)
    diffusion = np.diff(trace[:4_000_000], axis=0).std(axis=0, dtype=np.float64)
    np.testing.assert_allclose(diffusion, [(4.6e-4, 4.6e-4), (5e-4, 7.8e-4)][number - 1], rtol=0.01)


def test_a_short_paper_trace_is_the_head_of_the_whole() -> None:
    np.testing.assert_array_equal(paper.trace_1(150_000), paper.trace_1(400_000)[:150_000])
    np.testing.assert_array_equal(paper.trace_3(1_200_000), paper.trace_3(2_000_000)[:1_200_000])


def test_trace_3_is_piecewise_constant() -> None:
    trace = contexts.get("3")
    assert trace.shape == (8_000_000, 2)
    segments = {
        (0, 1_080_000): (-0.378, -1.044),
        (3_928_000, 5_421_000): (3.573, -0.437),
        (6_864_000, 8_000_000): (-1.810, -2.709),
    }
    for (start, end), wind in segments.items():
        segment = trace[start:end].astype(np.float64)
        np.testing.assert_allclose(segment.mean(axis=0), wind, atol=3e-4)
        np.testing.assert_allclose(segment.std(axis=0), 0.075, rtol=0.01)


def test_trace_4_is_calm_then_circles() -> None:
    trace = contexts.get("4")
    means = trace_figure.block_means(trace, 1_000)
    for calm in (slice(0, 4_500), slice(6_000, 6_500), slice(7_000, 7_500)):
        np.testing.assert_allclose(means[calm], 0.0, atol=0.06)
    for start in (4_500, 5_000, 5_500, 6_500, 7_500):
        circle = means[start : start + 500] - [-2.5, 0.0]
        np.testing.assert_allclose(np.linalg.norm(circle, axis=1), 2.5, atol=0.06)
        np.testing.assert_allclose(means[start + 125], [-2.5, 2.5], atol=0.06)  # a quarter turn
    np.testing.assert_allclose(trace[:1_000_000].std(axis=0), 0.37, rtol=0.01)


WINDY = [name for name, known in ENVIRONMENTS.items() if known.wind_divisors]


def test_published_wind_scales() -> None:
    eighths = {
        (env, trace) for env in WINDY for trace in "1234"
        if paper.wind_scale(env, trace) == 0.125
    }  # fmt: skip
    assert len(eighths) == 8
    assert {("reacher", "2"), ("hopper", "3"), ("inverted-pendulum", "4")} <= eighths
    assert paper.wind_scale("inverted-double-pendulum", "revisit") == 1.0
    with pytest.raises(ValueError, match="did you mean 'pendulum'"):
        paper.wind_scale("pendulun", "1")
    whole = contexts.get("iid", 100)
    np.testing.assert_array_equal(contexts.get("iid", 100, scale=0.125), whole / 8)


# Names


@pytest.mark.parametrize(("name", "says"), [
    ("revisti", "unknown trace 'revisti': did you mean 'revisit'"),
    ("family:drfit:1", "unknown trace family 'drfit': did you mean 'drift'"),
    ("family:drift", "the seed is '', needs a whole number"),
    ("family:drift:-1", "the seed is '-1', needs a whole number"),
    ("mine.txt", r"mine.txt: needs a name that ends in .npy or .csv or .parquet"),
])  # fmt: skip
def test_unknown_names(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        contexts.get(name, 10)


def test_length_is_checked() -> None:
    with pytest.raises(ValueError, match="has 8,000,000 rows, the run needs 8,000,001"):
        contexts.get("3", 8_000_001)
    with pytest.raises(ValueError, match="can have any length"):
        contexts.get("revisit")
    assert contexts.get("revisit", 1234).shape == (1234, 2)


# A user's own files

VALUES = np.array([[0.5, -1.25], [2.0, 3.0], [1e-3, 4.0]])


def test_npy(tmp_path: Path) -> None:
    for dtype in (np.float64, np.float32, np.float16):
        np.save(tmp_path / "mine.npy", VALUES.astype(dtype))
        found = contexts.get(str(tmp_path / "mine.npy"), 2)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, VALUES.astype(dtype).astype(np.float32))
    np.save(tmp_path / "fortran.npy", np.asfortranarray(VALUES))
    np.testing.assert_array_equal(contexts.get(str(tmp_path / "fortran.npy")), np.float32(VALUES))


def test_float32_npy_is_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.float32(VALUES))
    found = contexts.get(str(tmp_path / "mine.npy"))
    assert isinstance(found.base, np.memmap)


@pytest.mark.parametrize("text", [
    "0.5,-1.25\n2,3\n1e-3,4\n",
    "wx,wy\n0.5,-1.25\n2,3\n1e-3,4",
    '\ufeff"wind x","wind y"\r\n"0.5",-1.25\r\n2,3\r\n\r\n1e-3, 4\r\n',
    "\n\nwx,wy\n0.5,-1.25\n2,3\n1e-3,4\n\n",
])  # fmt: skip
def test_csv(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.csv").write_text(text, encoding="utf-8", newline="")
    np.testing.assert_array_equal(contexts.get(str(tmp_path / "mine.csv"), 3), np.float32(VALUES))


def test_csv_with_one_column(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("load\n1\n2\n")
    assert contexts.get(str(tmp_path / "mine.csv")).tolist() == [[1.0], [2.0]]


def test_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"wx": VALUES[:, 0], "wy": [-1, 3, 4]}).write_parquet(tmp_path / "mine.parquet")
    found = contexts.get(str(tmp_path / "mine.parquet"), 3)
    np.testing.assert_array_equal(found, np.array([[0.5, -1], [2, 3], [1e-3, 4]], np.float32))


def test_parquet_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.parquet").write_bytes(b"")
    real = builtins.__import__

    def no_polars(name: str, *args, **kwargs):
        if name == "polars":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_polars)
    with pytest.raises(ImportError, match=r'pip install "lcpo\[study\]"'):
        contexts.get(str(tmp_path / "mine.parquet"))


@pytest.mark.parametrize(("text", "says"), [
    ("wx,wy\n1,2\n3,abc\n", r"line 3, column 2 \('wy'\) is 'abc': needs numbers separated"),
    ("1,abc\n3,4\n", "line 1, column 2 is 'abc'"),
    ("1,2\n\n3,nan\n", "line 3, column 2 is 'nan': every entry must be finite"),
    ("1,2\n3,4\n-inf,5\n", "line 3, column 1 is '-inf': every entry must be finite"),
    ("1,2\n3,\n", "line 2, column 2 is empty: every entry must be finite; to fill a copy: lcpo "),
    ("wx,wy\n1,2\n3,4,5\n", "line 3 has 3 columns, the lines before it have 2"),
    ("1,2\n3\n", "line 2 has 1 columns, the lines before it have 2"),
    ("wx,wy\n1,2,3\n4,5,6\n", "line 2 has 3 columns, the lines before it have 2"),
    ("1;2\n3;4\n", r"line 2, column 1 \('1;2'\) is '3;4': needs numbers separated by commas"),
    ("1,2\n1_0,3\n", "line 2, column 1 is '1_0'"),
    ("1,2\n3,1e300\n", r"row 2, column 2 \(counted from 1\) is 1e\+300: .* float32"),
    ("wx,wy\n", "holds no rows"),
    ("", "holds no rows"),
])  # fmt: skip
def test_bad_csv(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"mine.csv.*{says}"):
        contexts.get(str(tmp_path / "mine.csv"))


def test_binary_csv(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(b"1,2\n\xff\xfe,3\n")
    with pytest.raises(ValueError, match=r"mine.csv: not UTF-8 text"):
        contexts.get(str(tmp_path / "mine.csv"))


@pytest.mark.parametrize(("values", "says"), [
    (np.arange(5.0), r"has shape \(5,\): needs \[rows, channels\]; .*reshape\(-1, 1\)"),
    (np.ones((3, 2, 2)), r"has shape \(3, 2, 2\): needs \[rows, channels\]"),
    (np.ones((0, 2)), r"has shape \(0, 2\)"),
    (np.array([[1.0, 2.0], [3.0, np.nan]]), r"row 2, column 2 \(counted from 1\) is nan"),
    (np.array([["a", "b"]]), "holds <U1 entries: needs real numbers"),
    (np.ones((3, 2), complex), "holds complex128 entries: needs real numbers"),
    (np.array([[1, None]], object), "not a plain .npy array of numbers: .*pickled"),
])  # fmt: skip
def test_bad_npy(tmp_path: Path, values: np.ndarray, says: str) -> None:
    np.save(tmp_path / "mine.npy", values)
    with pytest.raises(ValueError, match=rf"mine.npy.*{says}"):
        contexts.get(str(tmp_path / "mine.npy"))


def test_nan_is_found_in_every_block(tmp_path: Path) -> None:
    values = np.zeros((2 * generators.BLOCK, 1))
    values[generators.BLOCK + 3] = np.nan
    np.save(tmp_path / "mine.npy", values)
    with pytest.raises(ValueError, match=f"row {generators.BLOCK + 4}, column 1 "):
        contexts.get(str(tmp_path / "mine.npy"))


def test_not_an_npy_at_all(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", VALUES)
    (tmp_path / "mine.npz").rename(tmp_path / "mine.npy")
    with pytest.raises(ValueError, match=r"mine.npy is an \.npz archive"):
        contexts.get(str(tmp_path / "mine.npy"))
    (tmp_path / "text.npy").write_text("0.1 0.2")
    with pytest.raises(ValueError, match=r"text.npy is not a plain \.npy"):
        contexts.get(str(tmp_path / "text.npy"))


@pytest.mark.parametrize(("columns", "says"), [
    ({"wx": [1, None]}, "row 2, column 'wx' is empty"),
    ({"wx": [1.0, 2.0], "note": ["a", "b"]}, "column 'note' holds String entries: needs numbers"),
    ({"wx": [1.0, float("nan")]}, r"row 2, column 1 \(counted from 1\) is nan"),
])  # fmt: skip
def test_bad_parquet(tmp_path: Path, columns: dict, says: str) -> None:
    pl.DataFrame(columns).write_parquet(tmp_path / "mine.parquet")
    with pytest.raises(ValueError, match=rf"mine.parquet.*{says}"):
        contexts.get(str(tmp_path / "mine.parquet"))


def test_too_short_and_missing_files(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", VALUES)
    with pytest.raises(ValueError, match=r"mine.npy' has 3 rows, the run needs 1,000"):
        contexts.get(str(tmp_path / "mine.npy"), 1_000)
    with pytest.raises(FileNotFoundError, match=r"other.npy does not exist"):
        contexts.get(str(tmp_path / "other.npy"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileNotFoundError, match="is a folder"):
        files.read(str(tmp_path / "folder.csv"))


# The figure


def test_block_means_keep_the_short_last_block() -> None:
    values = np.arange(10.0)[:, None]
    np.testing.assert_array_equal(trace_figure.block_means(values, 4)[:, 0], [1.5, 5.5, 8.5])


def test_summary_and_figure(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", VALUES)
    summary = trace_figure.trace_summary(str(tmp_path / "mine.npy"))
    assert (summary["rows"], summary["channels"]) == (3, 2)
    for key in ("mean", "std", "min", "max"):
        expected = getattr(np, key)(np.float32(VALUES), axis=0)
        np.testing.assert_allclose(summary[key], expected, rtol=1e-6)
    names = [str(tmp_path / "mine.npy"), "revisit", "family:drift:0"]
    trace_figure.plot_traces(names[1:], tmp_path / "new" / "traces.png", rows=300_000)
    trace_figure.plot_traces(names[:1], tmp_path / "mine.svg")
    assert (tmp_path / "new" / "traces.png").read_bytes()[1:4] == b"PNG"
    assert "<svg" in (tmp_path / "mine.svg").read_text()
    with pytest.raises(ValueError, match="no trace to draw"):
        trace_figure.plot_traces([], tmp_path / "none.png")


# Contexts that take turns, by number


def test_turns() -> None:
    """What the theorem's runs need: by episode a whole cycle, by step as many rows as they take."""
    by_episode, by_step = contexts.get("turns-100"), contexts.get("turns-3", 20)
    np.testing.assert_array_equal(by_episode[:, 0], np.repeat([0, 1, 2], 100))
    np.testing.assert_array_equal(by_step[:, 0], np.resize(np.repeat([0, 1, 2], 3), 20))
    assert by_episode.dtype == by_step.dtype == np.float32


# What a user can mend is told as such


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        contexts.get(f"{tmp_path}/{'x' * 300}.npy")
    with pytest.raises(InputError, match="unknown trace"):
        contexts.get("x" * 300)
    (tmp_path / "wide.csv").write_text("1," + "2" * 200_000 + "\n")
    with pytest.raises(InputError, match=r"wide\.csv: not a csv file \(field larger"):
        contexts.get(str(tmp_path / "wide.csv"))


def test_rows_that_no_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(rows: int) -> np.ndarray:
        raise MemoryError

    with pytest.raises(InputError, match="rows = 100000000000000000: needs a whole number"):
        contexts.get("turns-3", 10**17)
    monkeypatch.setitem(
        contexts.TRACES, "turns-3", contexts.TRACES["turns-3"]._replace(make=too_many)
    )
    with pytest.raises(InputError, match="2,000,000,000 rows do not fit into memory"):
        contexts.get("turns-3", 2 * 10**9)
    with pytest.raises(InputError, match=r"GiB are free: ask for fewer rows"):
        trace_figure.load("turns-3", 2**31 - 1)


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot draw '\.xyz': use \.png"):
        trace_figure.plot_traces(["turns-100"], tmp_path / "figure.xyz")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match=r"folder\.png is a folder"):
        trace_figure.plot_traces(["turns-100"], tmp_path / "folder.png")
    with pytest.raises(InputError, match="rows = 0: needs a whole number from 1"):
        trace_figure.plot_traces(["3"], tmp_path / "figure.png", rows=0)
