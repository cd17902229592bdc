"""`lcpo calibrate`: the simulated detector against LCPO's own, and against known activities."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo import contexts
from lcpo.contexts import generators
from lcpo.core import buffers, ood
from lcpo.study.advice.calibrate import (
    Calibration,
    Lookback,
    calibrate,
    inactivity_warning,
    plot,
    shorter_rollout,
    summary,
)
from lcpo.types import ContextSlice

SQUARED_SIGMAS = (0.25, 0.5, 1.0, 2.0, 4.0)
ACTIVE = {
    "1": (0.91, 0.89, 0.84, 0.58, 0.27),
    "2": (0.97, 0.96, 0.96, 0.95, 0.89),
    "3": (0.86, 0.86, 0.86, 0.73, 0.73),
    "4": (0.43, 0.42, 0.40, 0.36, 0.30),
}
"""Share of updates in which a fifth of the history is OOD, computed without sampling."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "3" else [pytest.mark.learn]) for n in ACTIVE]
)
def test_activity_on_the_paper_s_traces(name: str) -> None:
    trace = contexts.get(name)
    found = calibrate(trace)
    active = [found.activity(np.sqrt(s)) for s in SQUARED_SIGMAS]
    np.testing.assert_allclose(active, ACTIVE[name], atol=0.03)
    eighth = calibrate(trace, scale=0.125)
    assert eighth.activity(1.0) == 0.0  # the published cells in which LCPO never constrains
    assert found.activity(0.5, first_step=6_000_000) > 0.99


def test_activity_of_lcpo_s_own_detector() -> None:
    """Run the real reservoir and sampler along a trace, update by update."""
    rows, length, capacity, sigma = 200_000, 200, 2_000, 1.4
    trace = generators.ornstein_uhlenbeck(rows, relaxation=40_000, seed=0)
    context = ContextSlice(0, 2, 3)
    index = np.maximum(np.arange(rows)[:, None] - np.arange(3), 0)
    obs = trace[index].swapaxes(1, 2).reshape(-1, length, 6)

    def update(memory: buffers.Reservoir, inputs: tuple) -> tuple:
        recent, key = inputs
        add_key, sample_key = jax.random.split(key)
        found = ood.sample_ood(
            memory, lambda data: ood.l2(context, recent, data), sigma, length, 5, sample_key
        )[1]
        return buffers.reservoir_add(memory, recent, add_key), found

    keys = jax.random.split(jax.random.key(0), len(obs))
    memory = buffers.reservoir_init(capacity, (6,))
    active = np.asarray(jax.lax.scan(update, memory, (jnp.asarray(obs), keys))[1])
    simulated = calibrate(trace, lookback=Lookback(buffer_size=capacity))
    np.testing.assert_array_equal(simulated.step, length * np.arange(len(obs)))
    assert 0.2 < active.mean() < 0.8
    assert np.mean((simulated.reach > sigma) == active) > 0.94
    assert abs(simulated.activity(sigma) - active.mean()) < 0.02


def test_reach_and_quantiles_by_hand() -> None:
    """Half the run at 0, half at 3: active from the switch on, while a fifth of the past is 0."""
    trace = np.repeat([0.0, 3.0], 50_000)[:, None]
    found = calibrate(trace, lookback=Lookback(100))
    np.testing.assert_allclose(found.reach[found.step < 50_000], 0.0)
    np.testing.assert_allclose(found.reach[found.step > 50_100], 3.0)
    assert found.activity(2.9) == pytest.approx(0.5, abs=0.01)
    assert found.activity(3.1) == 0.0
    assert found.suggested == 1.5
    assert found.quantiles[1] == 0.0
    assert found.quantiles[100] == 3.0
    assert found.percentile(1.0) == pytest.approx(100 * (0.5 + 0.5 * np.log(2.0) / 2), abs=12)
    doubled = calibrate(trace, lookback=Lookback(100), scale=-2.0)
    assert doubled.suggested == 3.0


def test_contexts_are_means_over_their_lags() -> None:
    trace = np.tile([1.0, -1.0], 5_000)[:, None]
    assert calibrate(trace, lookback=Lookback(lags=1)).noise == pytest.approx(1.0)
    assert calibrate(trace, lookback=Lookback(lags=2)).noise == pytest.approx(0.0, abs=0.01)
    assert calibrate(trace, lookback=Lookback(lags=3)).noise == pytest.approx(1 / 3, abs=0.01)


def test_a_fifth_of_the_past_must_differ() -> None:
    trace = np.concatenate([np.full(10_000, 3.0), np.zeros(90_000)])[:, None]
    found = calibrate(trace, lookback=Lookback(100, buffer_size=100_000))
    assert found.step[found.reach > 1.0].min() == 10_000
    assert found.activity(1.0) == pytest.approx(0.4, abs=0.02)  # until 10,000 of 50,000
    more = calibrate(trace, lookback=Lookback(100, buffer_size=100_000, rounds=8))
    assert more.activity(1.0) == pytest.approx(0.7, abs=0.03)  # an eighth is enough


@pytest.mark.parametrize("name", ["2", "3", "4"])
def test_suggested_sigma_is_used(name: str) -> None:
    """It lies above the noise, and rests in few of the updates in which the past differs."""
    found = calibrate(contexts.get(name))
    assert found.suggested is not None
    assert found.noise < found.suggested < 2.0
    assert found.activity(found.suggested) > 0.85 * found.activity(found.noise)


def test_suggested_sigma_separates_the_winds() -> None:
    found = calibrate("revisit")
    assert found.rows == 2_000_000
    assert found.suggested == pytest.approx(1.4, abs=0.1)  # the winds are 2.6 apart
    assert found.activity(1.4) == pytest.approx(0.937, abs=0.005)


def test_no_sigma_where_contexts_are_alike() -> None:
    assert calibrate("iid", rows=400_000).suggested is None
    constant = calibrate(np.ones((10_000, 2)))
    assert constant.suggested is None
    warning = inactivity_warning(constant, 1.0)
    assert warning is not None
    assert warning.startswith("active in 0.0 % of updates: the contexts of the past differ no more")
    assert "no sigma suggested" in summary(constant)
    assert "- another context, or a2c: this one never changes" in summary(constant)


def test_no_sigma_but_a_next_step() -> None:
    """A day of 96 rows fits into a rollout: shorter ones see the hours change."""
    hours = 3.0 * np.sin(2 * np.pi * np.arange(20_000) / 96)[:, None]
    found = calibrate(hours)
    assert found.suggested is None
    length, sigma = shorter_rollout(hours, Lookback(), 1.0) or (0, 0.0)
    assert length == 50
    assert calibrate(hours, lookback=Lookback(length)).suggested == sigma
    text = summary(found, (length, sigma))
    assert f"- shorter rollouts: --rollout-length 50 suggests sigma = {sigma:g}\n" in text
    assert "- the agent lcpo-uniform" in text
    assert shorter_rollout("iid", Lookback(), 1.0, 40_000) is None, "no length helps"
    assert "shorter" not in summary(found)


def test_scale_by_channel() -> None:
    """A channel of large numbers hides the one that matters, until each has its own factor."""
    rng = np.random.default_rng(0)
    price = np.repeat([0.1, 0.4, 0.1, 0.4], 5_000)
    rows = np.stack([price, 900.0 * rng.normal(size=20_000)], axis=1)
    raw = calibrate(rows)
    assert raw.suggested is None
    hint = "the channels differ in scale (standard deviations: channel 0 0.15, channel 1 900)"
    assert hint in summary(raw)
    assert "give all the same weight: --scale 6.7,0.0011, and train on a copy" in summary(raw)
    assert "weight: --normalise running" in summary(raw._replace(is_own=True))
    scaled = calibrate(rows, scale=(20.0, 0.0011))
    assert scaled.suggested is not None
    assert scaled.noise < scaled.suggested < 6.0
    assert "contexts times 20, 0.0011" in summary(scaled)
    assert "differ in scale" not in summary(scaled)
    np.testing.assert_allclose(scaled.reach, calibrate(rows * [20.0, 0.0011]).reach, rtol=1e-4)


def test_warning() -> None:
    found = calibrate(contexts.get("3"), scale=0.125)
    assert inactivity_warning(found, 1.0) == (
        "active in 0.0 % of updates: sigma is above the 99th percentile of context distances; "
        f"try sigma = {found.suggested:g}"
    )
    assert inactivity_warning(found, 0.05) is None
    assert inactivity_warning(calibrate(contexts.get("3")), 1.0) is None


def test_warning_with_the_share_measured_in_a_run() -> None:
    found = calibrate(contexts.get("3"))
    assert inactivity_warning(found, 9.0, active=0.4) is None
    warning = inactivity_warning(found, 9.0, active=0.004)
    assert warning is not None
    assert warning.startswith("active in 0.4 % of updates: sigma is above the 99th percentile")
    odd = inactivity_warning(found, 1.0, active=0.0)
    assert odd is not None
    assert "sigma = 1 should make it 86." in odd


def test_warning_names_the_true_percentile() -> None:
    """Never a fifth of the past, yet some of it is farther away than sigma."""
    trace = np.concatenate([np.zeros(90_000), np.full(2_000, 3.0), np.zeros(8_000)])
    far = trace + 0.1 * np.sin(np.arange(100_000) / 9_000)
    warning = inactivity_warning(
        calibrate(far[:, None], rows=100_000, lookback=Lookback(rounds=1)), 1.5
    )
    assert warning is not None
    assert "above the 97th percentile" in warning or "above the 96th percentile" in warning


def test_calibrate_needs_two_updates() -> None:
    with pytest.raises(ValueError, match="300 rows are 1 updates of 200 steps: needs at least 2"):
        calibrate(np.zeros((300, 1)))
    with pytest.raises(ValueError, match="has 300 rows, but 1,000 were requested"):
        calibrate(np.zeros((300, 1)), rows=1_000)


def test_summary_and_picture(tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", contexts.get("bursts", 1_000_000))
    found = calibrate(str(tmp_path / "mine.npy"), sigmas=(0.7, 30.0))
    assert isinstance(found, Calibration)
    text = summary(found)
    assert "1,000,000 steps, 5,000 updates (1,000 simulated)" in text
    assert f"{100 * found.activity(0.7):.1f} %   0.0 %" in text
    assert f"suggested sigma = {found.suggested:g} " in text
    plot(found, tmp_path / "new" / "calibration.png")
    assert (tmp_path / "new" / "calibration.png").read_bytes()[1:4] == b"PNG"
