"""A cheap host environment for tests, with one thing wrong where a test says so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from lcpo.config import config, static
from lcpo.envs.base import Advance, WorldError
from lcpo.types import ContextSlice, Spec, Step

FAULTS = (
    "", "nan", "raises", "raises-alone", "shape", "mask", "neighbours", "unseeded", "deaf", "save",
    "tuple", "flag", "endless", "nan-reset",
)  # fmt: skip


@config
class Drift:
    """Stay near 0: three pushes, and a context that pushes too."""

    moves: str = static("step", "what moves the trace", choices=("step", "episode", "own"))
    length: int = static(13, "episode length", low=1)
    saves: bool = static(True, "whether worlds can be saved")
    num_worlds: int = static(1, "worlds of one run", low=1)
    fault: str = static("", "what goes wrong", choices=FAULTS)
    at: int = static(0, "in which step of a world", low=0)
    seed: int = static(-1, "only in worlds with this seed; -1: in all")

    @property
    def spec(self) -> Spec:
        lags = 1 if self.moves == "own" else 2
        context = ContextSlice(1, channels=1, lags=lags)
        return Spec(1 + lags, context, (3,), num_worlds=self.num_worlds)

    @property
    def advance(self) -> Advance:
        return self.moves  # pyright: ignore[reportReturnType]

    def open(self, num_worlds: int, seeds: Sequence[int], threads: int | None = None) -> Worlds:
        del threads
        assert len(seeds) == num_worlds
        return Worlds(self, np.array(seeds, np.uint64))


class Worlds:
    """Noise comes from (seed, number of the draw)."""

    def __init__(self, env: Drift, seeds: np.ndarray) -> None:
        self.env, self.seeds = env, seeds
        self.draws, self.time, self.steps = np.zeros((3, len(seeds)), np.int64)
        self.place = np.zeros(len(seeds))
        self.closed = False

    def _noise(self, mask: np.ndarray) -> np.ndarray:
        self.draws = self.draws + mask
        if self.env.fault == "unseeded":
            return np.random.normal(size=len(mask))
        with np.errstate(over="ignore"):
            mixed = (self.seeds * np.uint64(2654435761) + self.draws.astype(np.uint64) * np.uint64(
                0x9E3779B97F4A7C15)) ^ np.uint64(0xD1B54A32D192ED03)  # fmt: skip
            mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
        return (mixed >> np.uint64(40)).astype(float) / 2.0**23 - 1.0

    def _faulty(self) -> np.ndarray:
        if "SOUND" in os.environ:  # the environment has been mended
            return np.zeros(len(self.seeds), bool)
        one = (self.seeds == self.env.seed) | (self.env.seed < 0)
        return one & (self.steps == self.env.at + 1)

    def reset(self, mask: np.ndarray) -> np.ndarray:
        everywhere = np.ones_like(mask) if self.env.fault == "mask" else mask
        self.place = np.where(everywhere, self._noise(mask), self.place)
        self.time = np.where(mask, 0, self.time)
        features = self._features()
        if self.env.fault == "nan-reset":
            one = (self.seeds == self.env.seed) | (self.env.seed < 0)
            features[mask & one & (self.steps > self.env.at) & ("SOUND" not in os.environ)] = np.nan
        return features

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        env = self.env
        push = 0.0 if env.fault == "deaf" or env.moves == "own" else 0.2 * context[:, 0]
        everyone = np.ones(len(self.place), bool)
        self.place = self.place + 0.3 * (action[:, 0] - 1) + push + 0.1 * self._noise(everyone)
        if env.fault == "neighbours":
            self.place = self.place + 0.01 * self.place.mean()
        self.time, self.steps = self.time + 1, self.steps + 1
        features, reward, faulty = self._features(), -np.abs(self.place), self._faulty()
        truncated = (self.time >= env.length) & (env.fault != "endless")
        if faulty.any():
            if env.fault == "nan":
                features[faulty] = np.nan
            if env.fault == "raises":
                raise OSError("the simulator is gone")
            if env.fault == "raises-alone":
                raise WorldError({int(np.flatnonzero(faulty)[0]): "it has left the table"})
            if env.fault == "shape":
                features = features[:, :0]
        none = np.zeros(len(self.place), bool)
        if env.fault == "flag":
            none = none.astype(float)
        step: Any = Step(features, reward.astype(np.float32), none, truncated)  # pyright: ignore
        return tuple(step) if env.fault == "tuple" else step  # pyright: ignore

    def _features(self) -> np.ndarray:
        columns = [self.place]
        if self.env.moves == "own":
            columns.append(0.0 * self.place if self.env.fault == "deaf" else self.steps // 40 % 2)
        return np.stack(columns, axis=1).astype(np.float32)

    def get_state(self) -> dict[str, np.ndarray] | None:
        if not self.env.saves:
            return None
        names = ("seeds", "draws", "time", "steps") + (("place",) * (self.env.fault != "save"))
        return {name: getattr(self, name).copy() for name in names}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        for name, value in state.items():
            setattr(self, name, value.copy())

    def close(self) -> None:
        self.closed = True
