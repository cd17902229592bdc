"""Change points of streams whose answer is known, and against a loop in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.core.changepoint import ChangePoints, cusum, find_changes
from lcpo.errors import InputError

close = np.testing.assert_allclose
WARM = 10_000
CALM = np.resize([-1.0, 1.0], WARM).astype(np.float32)  # mean 0, variance 1
DETECTOR = ChangePoints(sigmas=3.0, threshold=50.0, min_samples=WARM)


def jump(to: float, length: int = 100) -> np.ndarray:
    return np.concatenate([CALM, np.full(length, to, np.float32)])


def slow_loop(values: np.ndarray, detector: ChangePoints) -> tuple[list[int], float, float]:
    """Positions, and the last mean and variance, in float64."""
    found, count, mean, var, score = [], 0, 0.0, 0.0, 0.0
    for place, value in enumerate(values.astype(float).tolist()):
        gap = value - mean
        if count >= detector.min_samples:
            score = max(0.0, score + gap * gap / var - float(detector.sigmas) ** 2)
        count += 1
        mean += gap / count
        var += (gap * (value - mean) - var) / count
        if score > detector.threshold:
            found.append(place)
            count, mean, var, score = 0, 0.0, 0.0, 0.0
    return found, mean, var


def test_cusum_adds_up_evidence_and_forgets_the_rest() -> None:
    score = jnp.zeros(3)
    for evidence in ([2.0, -1.0, 1.0], [3.0, 4.0, -5.0]):
        score = cusum(score, jnp.array(evidence))
    close(score, [5.0, 4.0, 0.0])


def test_a_jump_is_found_after_as_many_steps_as_its_size_says() -> None:
    """5 standard deviations bring 25 - 9 a step: 16, 32, 48, 64 > 50."""
    changed, score, _ = jax.jit(DETECTOR.detect)(jnp.asarray(jump(5.0)))
    close(score[WARM - 1 : WARM + 4], [0.0, 16.0, 32.0, 48.0, 64.0], atol=0.5)
    assert np.flatnonzero(changed)[0] == WARM + 3
    # One number more to warm up, and the jump's first does not count.
    later = DETECTOR._replace(min_samples=WARM + 1)
    assert find_changes(jump(5.0), later)[0] == WARM + 4
    assert len(find_changes(jump(2.9), DETECTOR)) == 0
    assert find_changes(jump(-2.9), DETECTOR._replace(sigmas=2.0))[0] == WARM + 11  # 4.41 a step


def test_all_starts_anew_after_a_change() -> None:
    """The same numbers once more, at another level and scale, are found as late as before."""
    once = jump(5.0, length=4)
    twice = np.concatenate([once, 7.0 + 100.0 * once, once])
    np.testing.assert_array_equal(
        find_changes(twice, DETECTOR), len(once) * np.arange(1, 4) - 1
    )  # fmt: skip


def test_noise_is_no_change() -> None:
    noise = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    assert len(find_changes(noise, ChangePoints(sigmas=3.0))) == 0


def test_float32_agrees_with_a_loop_in_float64() -> None:
    """A drift far from zero; then noise alone, where the mean of very many must still move."""
    rng = np.random.default_rng(1)
    drift = np.cumsum(rng.standard_normal(100_000)) * 0.05
    calm = rng.standard_normal(300_000)
    values = (100.0 + np.concatenate([drift, drift[-1] + calm])).astype(np.float32)
    detector = ChangePoints(sigmas=2.0, threshold=300.0, min_samples=1000)
    changed, _, state = jax.jit(detector.detect)(jnp.asarray(values))
    found, mean, var = slow_loop(values, detector)
    np.testing.assert_array_equal(np.flatnonzero(changed), found)
    assert len(found) > 10
    close(state.mean.value - 100.0, mean - 100.0, atol=2e-5)
    close(state.var.value, var, rtol=2e-6)


def test_streams_settings_and_pieces_are_kept_apart() -> None:
    """Channels, vmapped settings, a loop of steps and a stream in pieces: what each would find."""
    stream = np.stack([jump(5.0), jump(-8.0)], axis=1)
    steps = jax.jit(lambda state, value: DETECTOR.step(state, value))
    state, online = DETECTOR.init((2,)), []
    for value in jnp.asarray(stream[:WARM]):
        state, changed = steps(state, value)
        online.append(changed)
    assert not np.any(online)
    rest, score, _ = DETECTOR.detect(jnp.asarray(stream[WARM:]), state)
    whole, whole_score, _ = DETECTOR.detect(jnp.asarray(stream))
    np.testing.assert_array_equal(rest, whole[WARM:])
    close(score, whole_score[WARM:], rtol=1e-4)
    for channel, place in enumerate((WARM + 3, WARM)):  # 64 - 9 = 55 at once
        assert np.flatnonzero(whole[:, channel])[0] == place
    first = jnp.asarray(stream[:, 0])
    detect = jax.vmap(lambda sigmas: DETECTOR._replace(sigmas=sigmas).detect(first)[0])
    found = detect(jnp.array([3.0, 4.0, 6.0]))
    assert [int(np.argmax(row)) for row in found] == [WARM + 3, WARM + 5, 0]  # 16, 9, -11 a step


def test_a_stream_that_never_varied_changes_with_the_first_other_number() -> None:
    detector = ChangePoints(min_samples=3)
    values = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.1], np.float32)
    changed, score, state = detector.detect(jnp.asarray(values))
    np.testing.assert_array_equal(np.flatnonzero(changed), [5])
    assert not np.any(np.isnan(score))
    assert int(state.num_seen) == 1


@pytest.mark.parametrize(
    ("values", "settings", "told"),
    [
        ([0.0, 1.0, float("nan")], {}, "nan at position 2"),
        ([0.0, 1e300], {}, "1e[+]300 at position 1"),
        ([[0.0, 1.0]], {}, "one at a time"),
        (["a"], {}, "real numbers"),
        ([0.0], {"sigmas": -1.0}, "sigmas = -1"),
        ([0.0], {"threshold": float("nan")}, "threshold = nan"),
        ([0.0], {"min_samples": 1}, "min_samples = 1"),
    ],
)
def test_what_cannot_be_used_is_told(values: list, settings: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        find_changes(values, ChangePoints(**settings))
