"""What is told below a table: actions that were mostly random, and what is out of scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from commands import run
from gym_examples import Walk  # noqa: F401 - to be found by name
from gymnasium import spaces

from lcpo.core import scales
from lcpo.gym import from_gymnasium
from lcpo.run.plan.job import Job, env_name
from lcpo.run.plan.notes import exploration_notes, notes
from lcpo.run.plan.plan import plan
from lcpo.run.store.results import Result
from lcpo.study.advice.findings import run_findings


def planned(agent: str, steps: int = 4000, **more: Any) -> Job:
    return plan(agent, "pendulum", trace="iid", steps=steps, seeds=1, **more)[0]


def test_who_mostly_acts_at_random_says_so() -> None:
    jobs = [
        planned("ddqn"),
        planned("sac", overrides={"random_steps": 2200}),
        planned("ddqn", overrides={"random_steps": 1000, "epsilon_steps": 3000}),
        planned("prescient-sac", training_steps=32_000),
        planned("random"),
    ]
    told = exploration_notes(jobs)
    assert [text.partition(" (")[0] for text in told] == [
        "sac acts at random in 55% of its 4,000 steps",
        "ddqn acts at random in 62% of its 4,000 steps",
        "prescient-sac acts at random in 100% of its 32,000 steps",
    ]
    assert "(random_steps = 1,000, epsilon_steps = 3,000): run more steps" in told[1]
    assert notes([jobs[1]]) == told[:1]
    results = [ended(jobs[2]), ended(jobs[2]), ended(jobs[0])]
    assert run_findings(results) == [told[1]]


def ended(job: Job, largest: float = 5.0) -> Result:
    record = {"largest_obs": np.full(3, largest), "updates": np.ones(3), "step": np.arange(3)}
    return Result(job, "finished", None, record, 1.0, {}, Path("nowhere"))


def test_which_columns_are_out_of_scale() -> None:
    values = np.array([[0.0, 2000.0, 1.0, 0.001], [0.0, 5.0, -8.0, -0.002]])
    assert scales.out_of_scale(values) == [1, 3]
    assert scales.ranges(values, [1, 3]) == "1 (5 to 2000), 3 (-0.002 to 0.001)"
    assert scales.ranges(np.ones((2, 9)), range(9)).endswith("5 (1 to 1) and 3 more")


def test_a_rare_event_of_ordinary_size_is_in_scale() -> None:
    """Its root mean square is tiny, but a factor would make it too large."""
    values = np.zeros((40_000, 2))
    values[-1] = 1.0, 0.005
    assert scales.out_of_scale(values) == [1]


def test_a_trace_out_of_scale_is_told_with_the_factor(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 2)) * np.array([900.0, 1.0])
    np.save(tmp_path / "load.npy", rows)

    def found(scale: float | None = None) -> list[str]:
        jobs = plan("a2c", "pendulum", trace=tmp_path / "load.npy", seeds=2, scale=scale)
        return run_findings([ended(job) for job in jobs])

    (text,) = found()
    assert text.startswith("context channel 0 (-")
    assert "is out of scale: multiply the trace, as with --scale 0.001" in text
    assert "--scale" in found(0.5)[0]
    assert found(0.01) == []
    rows = np.full((4000, 2), 0.001)
    np.save(tmp_path / "load.npy", rows)
    assert "--scale 1000" in found()[0]
    rows[-1, 1] = 0.5
    np.save(tmp_path / "load.npy", rows)
    assert found() == [], "a factor would make the rare event too large"


def test_observations_out_of_scale_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    env = from_gymnasium("gym_examples:Walk", context="key:wind")
    target: Any = env_name(env)

    def found(agent: str, largest: float, **more: Any) -> list[str]:
        (job,) = plan(
            agent, target, trace=None, steps=400, seeds=1, env_overrides={"context": "key:wind"},
            **more,
        )  # fmt: skip
        return run_findings([ended(job, largest)])

    monkeypatch.setattr(scales, "LARGE", 0.05)  # its observations are small
    (text,) = found("a2c", 0.06)
    assert text.startswith("gym_examples:Walk: observation entry 0 (")
    assert "--normalise running" in text
    assert found("a2c", 0.06, normalise="running") == []
    assert found("a2c", 0.04) == [], "nothing is played"
    assert found("random", 0.06) == []


class Busy(gymnasium.Env):
    """A load of 1, 5 or 9 with noise of 1, each for 400 steps. It goes on through resets."""

    observation_space = spaces.Dict({
        "load": spaces.Box(-99.0, 99.0, (1,), np.float32),
        "cost": spaces.Box(-99.0, 99.0, (1,), np.float32),
    })  # fmt: skip
    action_space = spaces.Discrete(2)
    time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.time += 1
        return self._observe(), 0.0, False, self.time % 50 == 0, {}

    def _observe(self) -> dict[str, np.ndarray]:
        load = 1.0 + 4.0 * (self.time // 400 % 3) + self.np_random.normal()
        return {"load": np.array([load], np.float32), "cost": np.zeros(1, np.float32)}


def told_of_load(sigma: float, active: float, **more: Any) -> list[str]:
    """The findings of a run on the environment with a load."""
    (job,) = plan(
        "lcpo", f"{__name__}:Busy", trace=None, steps=80_000, seeds=1,
        env_overrides={"context": "key:load"}, overrides={"sigma": sigma}, **more,
    )  # fmt: skip
    result = ended(job, 0.5)
    result.record["constraint_active"] = np.full(3, active)
    return run_findings([result, result])


COMMAND = f"lcpo calibrate --env {__name__}:Busy"


def test_the_noise_of_a_gymnasium_context_is_told() -> None:
    (text,) = told_of_load(sigma=0.5, active=0.99)
    assert text.startswith("lcpo: sigma = 0.5 lies below the noise of the context within a rollout")
    noise = float(text.partition("(")[2].partition(")")[0])
    assert 2.3 < noise < 3.2, "the 99th percentile of a normal distribution's size"
    assert text.endswith(f"choose a larger one: {COMMAND} --env.context key:load")
    assert told_of_load(sigma=4.0, active=0.99) == []
    scaled = {"normalise": "running"}
    assert told_of_load(sigma=1.0, active=0.99, **scaled) == [], "in standard deviations"
    (text,) = told_of_load(sigma=0.5, active=0.99, **scaled)
    assert "--normalise running" in text


def test_a_sigma_that_is_too_large_for_a_gymnasium_context_is_told() -> None:
    (text,) = told_of_load(sigma=90.0, active=0.0)
    assert text.startswith(f"lcpo: active in 0.0 % of updates: choose a smaller sigma: {COMMAND}")


def test_calibrate_an_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ask = ["calibrate", "--env", f"{__name__}:Busy", "--env.context", "key:load", "--rows", "6000"]
    assert run(*ask) == 0
    shown = capsys.readouterr().out
    assert f"contexts of {__name__}:Busy under random actions: 6,000 steps, 30 updates" in shown
    sigma = float(shown.partition("suggested sigma = ")[2].split()[0])
    assert 2.5 < sigma < 4.0, "above the noise, below the distance of the loads"
    assert run(*ask, "--normalise", "2,10") == 0
    shown = capsys.readouterr().out
    assert float(shown.partition("suggested sigma = ")[2].split()[0]) == pytest.approx(sigma / 10)
    assert run("calibrate", "--env", "inverted-pendulum", "--trace", "3", "--rows", "4000") == 0
    assert "inverted-pendulum, trace 3: 4,000 steps, 20 updates (20 simulated), contexts times " \
        "0.125" in capsys.readouterr().out  # fmt: skip
    for more, says in (
        ([*ask, "--trace", "3"], "takes no trace"),
        ([*ask, "--lags", "2"], "has 1 lags: leave --lags out"),
        (["calibrate", "--env", "grid-world"], "advances by episode"),
        (["calibrate"], "give --trace, or --env"),
        (["calibrate", "--trace", "iid", "--normalise", "running"], "give --env, too"),
        (["calibrate", "--trace", "iid", "--scale", "1,2,3"], "scale has 3 numbers: needs one, or"),
        (
            ["calibrate", "--trace", "iid", "--scale", "1,x"],
            "scale = '1,x': needs a number, or one",
        ),
    ):
        assert run(*more) == 2
        assert says in capsys.readouterr().err
