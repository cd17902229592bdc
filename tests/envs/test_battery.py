"""The home battery of the tutorial: its arithmetic, its rule, and an agent that beats idling."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lcpo
from lcpo.cli import main as cli
from lcpo.run.store.record import mean_reward
from lcpo.run.store.results import load_results

ROOT = Path(__file__).parents[2]
HEADER = "time,price,sun,load\n"
NOON, NIGHT = "2024-07-01T12:00:00", "2024-01-01T02:00:00"


@pytest.fixture
def battery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where a user works: the module is here, and writes its CSV file here."""
    (tmp_path / "battery.py").write_text((ROOT / "examples/battery.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("battery")


def house(battery: Any, *rows: str) -> Any:
    Path("house.csv").write_text(HEADER + "\n".join(rows) + "\n")
    env = battery.Battery("house.csv")
    env.reset()
    return env


def play(env: Any, battery: Any, kilowatts: float) -> float:
    (action,) = np.flatnonzero(kilowatts == battery.LEVELS)
    return env.step(action)[1]


def test_a_kilowatt_hour_is_bought_at_the_price_and_sold_at_the_tariff(battery: Any) -> None:
    env = house(battery, f"{NIGHT},20,0,2000", f"{NOON},20,4000,0")
    assert play(env, battery, 0.0) == pytest.approx(-0.5 * 20.0)
    assert play(env, battery, 0.0) == pytest.approx(1.0 * battery.FEED_IN)
    assert play(env, battery, 4.0) == pytest.approx(-1.5 * 20.0), "the file starts again"
    assert env.charge == pytest.approx(5.0 + 0.95)
    assert play(env, battery, -4.0) == pytest.approx(2.0 * battery.FEED_IN)
    assert env.charge == pytest.approx(5.95 - 1.0 / 0.95)


def test_the_battery_is_never_overcharged_and_never_below_empty(battery: Any) -> None:
    env = house(battery, f"{NIGHT},20,0,0")
    costs = [play(env, battery, 4.0) for _ in range(7)]
    assert env.charge == pytest.approx(battery.CAPACITY)
    assert sum(costs) == pytest.approx(-20.0 * 5.0 / 0.95)
    assert costs[-1] == pytest.approx(0.0), "no energy flows into a full battery"
    sold = [play(env, battery, -4.0) for _ in range(11)]
    assert env.charge == pytest.approx(0.0, abs=1e-9)
    assert sum(sold) == pytest.approx(battery.FEED_IN * 10.0 * 0.95)


def test_a_saved_state_continues_the_same_way(battery: Any) -> None:
    battery.write_data(days=1)
    env, other = battery.Battery(), battery.Battery()
    env.reset()
    other.reset()
    for action in (6, 0, 5):
        env.step(action)
    other.set_state(env.get_state())
    for action in (1, 6):
        (obs, reward, *_), (same, again, *_) = env.step(action), other.step(action)
        assert reward == again
        jax.tree.map(np.testing.assert_array_equal, obs, same)


@pytest.mark.parametrize(
    ("season", "hour", "charge", "price", "sun", "load", "kilowatts"),
    [
        (1.0, 12.0, 5.0, 20.0, 2600.0, 500.0, 2.0),  # store the surplus
        (1.0, 19.0, 5.0, 40.0, 0.0, 1100.0, -1.0),  # serve the house
        (-1.0, 2.0, 5.0, 20.0, 0.0, 300.0, 4.0),  # a winter night
        (-1.0, 2.0, 9.5, 20.0, 0.0, 300.0, 0.0),  # the battery is full enough
        (-1.0, 2.0, 5.0, 31.0, 0.0, 300.0, 0.0),  # the price is too high
        (-1.0, 6.0, 5.0, 20.0, 0.0, 300.0, 0.0),  # the night is over
        (1.0, 2.0, 5.0, 20.0, 0.0, 300.0, 0.0),  # a summer night
    ],
)
def test_the_rule(
    season: float, hour: float, charge: float, price: float, sun: float, load: float,
    kilowatts: float, battery: Any,
) -> None:  # fmt: skip
    angle = 2.0 * np.pi * hour / 24.0
    obs = jnp.array([[charge, season, np.sin(angle), np.cos(angle), price, sun, load]], jnp.float32)
    action, _ = battery.act(None, None, None, obs, None)
    assert action.shape == (1, 1)
    assert battery.LEVELS[int(action[0, 0])] == kilowatts


def test_the_context_is_price_sun_and_load(battery: Any) -> None:
    env = lcpo.from_gymnasium(
        "battery:Battery", context="key:home", arguments={"data": battery.write_data(days=1)}
    )
    world = env.open(1, seeds=[0])
    obs = world.reset(np.ones(1, bool))
    world.close()
    newest = env.spec.context.history(jnp.asarray(obs))[0, :, 0]
    np.testing.assert_allclose(newest, battery.Battery().rows[0], rtol=1e-6)
    (charge, season, *_) = obs[0]
    assert (charge, season) == (5.0, pytest.approx(-1.0, abs=1e-3))


def test_other_seeds_draw_other_years(battery: Any) -> None:
    home, research = (
        Path(battery.write_data(f"{seed}.csv", days=2, seed=seed)).read_text().splitlines()
        for seed in (0, 1)
    )
    assert len(home) == len(research) == 1 + 2 * 96
    assert sum(a == b for a, b in zip(home[1:], research[1:], strict=True)) == 0


def test_check_env_reports_the_scales(battery: Any, capsys: Any) -> None:
    battery.write_data(days=2)
    assert cli.main(["check-env", "battery:Battery", "--env.context", "key:home"]) == 0
    printed = capsys.readouterr().out
    assert "is out of scale" in printed
    assert "--normalise running" in printed


@pytest.mark.learn
def test_the_learner_beats_an_idle_battery(battery: Any) -> None:
    """The comparison of the tutorial, with one seed."""
    battery.main(out="o", seeds=1)
    late = {r.job.agent: mean_reward(r.record, r.job.steps // 2) for r in load_results("o")}
    others = ("ppo", "lcpo", "random", f"constant:{battery.IDLE}")
    assert late["battery:learner"] > max(late[name] for name in others) + 0.3
