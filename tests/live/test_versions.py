"""Versions on the disk, and when the last good one returns."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from lcpo.errors import InputError
from lcpo.live.versions import Rule, Version, Versions, Watch, is_worse, newest_up_to, to_keep


def saved(folder: Path, numbers: range) -> Versions:
    versions = Versions(folder, keep=3)
    for n in numbers:
        versions.save(Version(n, 10 * n, 0.5), {"w": np.full(4, n, np.float32)})
    return versions


def test_versions_come_back_and_old_ones_go(tmp_path: Path) -> None:
    versions = saved(tmp_path / "versions", range(0, 100, 10))
    assert versions.numbers() == list(range(0, 100, 10))
    about, arrays = versions.load(30)
    assert about == (30, 300, 0.5)
    assert arrays["w"].tolist() == [30.0] * 4
    (tmp_path / "versions" / ".0123456789abcdef.part").touch()
    versions.prune(good=45)
    assert versions.numbers() == [0, 40, 70, 80, 90]
    assert len(list((tmp_path / "versions").iterdir())) == 5
    versions.prune(None)
    assert versions.numbers() == [0, 70, 80, 90]
    for wrong in (40, 91, -1, "x"):
        with pytest.raises(InputError, match="version"):
            versions.load(wrong)  # pyright: ignore
    assert Versions(tmp_path / "none").numbers() == []
    Versions(tmp_path / "none").prune(None)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    versions, rng = saved(tmp_path, range(2)), random.Random(0)
    path = tmp_path / "0000000001.npz"
    content = path.read_bytes()
    (tmp_path / "0000000000.npz").rename(path)
    with pytest.raises(InputError, match="renamed"):
        versions.load(1)
    for _ in range(20):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            about, arrays = versions.load(1)
        except InputError:
            continue
        # A bit that means nothing, such as one of a date in the archive.
        assert (about, arrays["w"].tolist()) == ((1, 10, 0.5), [1.0] * 4)


def test_what_is_kept() -> None:
    assert to_keep([7, 1, 3, 5], 1, None) == {1, 7}
    assert to_keep([7, 1, 3, 5], 1, 4) == {1, 3, 7}
    assert to_keep([7, 1, 3, 5], 2, 0) == {1, 5, 7}
    assert newest_up_to([1, 3, 5], 5) == {5}
    assert newest_up_to([], 5) == set()


def test_worse_is_by_more_than_the_margin_over_whole_windows() -> None:
    rule = Rule(margin=0.5, window=10)
    assert is_worse(rule, (10, 4.9), (10, 10.0))
    assert not is_worse(rule, (10, 5.0), (10, 10.0))
    assert not is_worse(rule, (9, -90.0), (10, 10.0))
    assert not is_worse(rule, (10, -90.0), (9, 10.0))
    for margin, window in ((-0.1, 10), (1.0, 1), (float("nan"), 10)):
        with pytest.raises(InputError):
            Rule(margin, window)


def test_a_poisoned_policy_is_seen_within_a_window_and_the_one_before_it_returns() -> None:
    rng = random.Random(0)
    rule = Rule(margin=0.5, window=50)
    for _ in range(20):
        watch, poisoned, step = Watch(rule), rng.randrange(100, 900), 0
        for _ in range(60):
            watch.see_incumbent(rng.gauss(1.0, 0.3))
        for step in range(1000):
            version = step // 7
            reward = rng.gauss(1.0, 0.3) if step < poisoned else -2.0
            if watch.see_policy(version, reward):
                break
        assert poisoned <= step < poisoned + rule.window
        assert watch.good is not None
        assert watch.good <= poisoned // 7
        assert watch.good >= (poisoned - rule.window) // 7
        watch.begin_again()
        assert not any(watch.see_policy(0, -9.0) for _ in range(rule.window - 1))
        assert watch.see_policy(0, -9.0)


def test_a_policy_as_good_as_the_incumbent_stays() -> None:
    rng, watch = random.Random(1), Watch(Rule(margin=0.3, window=100))
    for step in range(5000):
        watch.see_incumbent(rng.gauss(0.0, 1.0))
        assert not watch.see_policy(step // 50, rng.gauss(0.2, 1.0))
    assert watch.good == (5000 - 100) // 50


def test_a_saved_watch_goes_on_as_if_nothing_had_happened() -> None:
    rng = random.Random(2)
    rewards = [(rng.random() < 0.5, rng.gauss(0.0, 1.0) - 0.001 * step) for step in range(900)]
    rule = Rule(0.1, 30)

    def run(stops: bool) -> list[tuple[int, int | None]]:
        watch, found = Watch(rule), []
        for step, (is_policy, reward) in enumerate(rewards):
            if stops:
                watch = Watch.from_json(rule, json.loads(json.dumps(watch.to_json())))
            if not is_policy:
                watch.see_incumbent(reward)
            elif watch.see_policy(step, reward):
                found.append((step, watch.good))
                watch.begin_again()
        return found

    assert run(True) == run(False) != []
