"""Traces at a fraction of their time, and what agents count in steps."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from lcpo import contexts
from lcpo.agents import AGENTS, presets
from lcpo.config import resolve
from lcpo.contexts import TraceRef, fractions


@pytest.mark.parametrize("name", ["3", "family:drift:7", "turns-100"])
def test_rows_are_taken_at_equal_spacing(name: str) -> None:
    rows = None if name != "family:drift:7" else 1000
    whole, fast = contexts.get(name, rows), contexts.get(f"{name}@1/4", rows and rows // 4)
    np.testing.assert_array_equal(fast, whole[::4])
    assert TraceRef.parse(f"{name}@1/4").shape(rows and rows // 4) == fast.shape
    assert TraceRef.parse(f"{name}@1/4").any_length == TraceRef.parse(name).any_length


def test_switches_come_as_much_sooner() -> None:
    """Those of the rows that are taken: a context holds where its rows are."""
    fast = contexts.switches("revisit@1/100", 20_000)
    np.testing.assert_array_equal(fast.start[:3], [0, 1250, 2500])
    slow = contexts.switches("family:revisit:3", 2_000_000)
    fast = contexts.switches("family:revisit:3@1/7", 2_000_000 // 7)
    kept = fractions.take(_holds(slow, 2_000_000), 2_000_000 // 7, Fraction(1, 7))
    np.testing.assert_array_equal(_holds(fast, 2_000_000 // 7), kept)
    late = contexts.switches("revisit@1/100", 1251)  # whose second visit has one row
    assert late.start.tolist() == [0, 1250]
    whole = contexts.switches("revisit", 125_150)
    none_left = fractions.take_switches(whole, 1250, Fraction(1, 100))
    assert none_left.start.tolist() == [0]
    tiny = contexts.switches("family:revisit:3@1/1000000", 50)  # most visits have no row left
    assert (np.diff(tiny.start) > 0).all()
    first = np.unique(tiny.context, return_index=True)[1]
    assert not tiny.seen[first].any()
    assert tiny.seen.sum() == len(tiny.seen) - len(first)


def _holds(switches: contexts.Switches, rows: int) -> np.ndarray:
    return np.repeat(switches.context, np.diff(switches.start, append=rows))


def test_names(tmp_path) -> None:
    assert str(TraceRef.parse("3").faster(Fraction(1, 20))) == "3@1/20"
    assert str(TraceRef.parse("3@1/4").faster(Fraction(1, 5))) == "3@1/20"
    assert str(TraceRef.parse("3@1/4").faster(Fraction(1))) == "3@1/4"
    file = tmp_path / "mine@home.npy"
    np.save(file, np.arange(12.0).reshape(6, 2))
    np.testing.assert_array_equal(contexts.get(f"{file}@1/3"), [[0.0, 1.0], [6.0, 7.0]])
    assert TraceRef.parse(f"{file}@1/3").is_file
    assert TraceRef.parse(f"{file}@1/3").source == str(file)
    for bad, why in {"3@2": "at most 1", "3@1/0": "at most 1", "3@0": "greater than 0"}.items():
        with pytest.raises(ValueError, match=why):
            TraceRef.parse(bad).describe()
    with pytest.raises(ValueError, match="unknown trace '3@fast'"):
        TraceRef.parse("3@fast").describe()
    with pytest.raises(ValueError, match="has none at 1/1000"):
        TraceRef.parse("turns-100@1/1000").describe()


SAME = {
    "action", "actions", "batch_size", "budget", "c_0", "c_anchor", "c_recent", "cap", "capacity",
    "cg_iterations", "chain_length", "clip", "damping", "detector", "dual", "ensemble_size",
    "entropy_coef", "entropy_floor", "entropy_learning_rate",
    "entropy_target", "epsilon", "faults", "flow", "forget_factor", "gamma", "hidden", "kappa",
    "lam", "learning_rate", "loads", "max_c", "max_disagreement", "max_grad_norm", "max_kl",
    "max_models", "max_rho", "max_trainings", "memory", "minibatches", "model_batch_size",
    "model_batches", "model_hidden", "model_passes", "model_samples", "multiples", "new_stds",
    "num_windows", "omega", "passes", "penalty_coef", "permanent_learning_rate",
    "permanent_optimiser", "policy_clone_coef", "policy_max_grad_norm", "quantile",
    "recent_batches", "refill", "reward_var_offset", "rollout_length", "sampling_rounds",
    "scale_rewards", "schedule", "sigma", "target_period", "target_rate", "tau",
    "updates_per_rollout", "value", "value_clone_coef", "value_learning_rate", "value_steps",
    "w_pi", "w_v",
}  # fmt: skip
"""What an update is made of, and how fast it learns: the same however long a run is."""


def test_every_field_is_known_to_count_steps_or_not() -> None:
    """A new field of an agent belongs into one of the lists: see `lcpo.agents.presets`."""
    fields = {f.name for agent in AGENTS.values() for f in dataclasses.fields(agent.Config)}
    counted = {*presets.FEWER, *presets.FASTER}
    assert counted <= fields
    assert not counted & SAME
    assert fields - counted - SAME == set()


def test_what_counts_steps_is_shortened() -> None:
    def changed(agent: str, fraction: str) -> dict:
        share = Fraction(fraction)
        config, whole = AGENTS[agent].config(buffer_size=1), 8_000_000
        before = resolve(config, whole)
        after = resolve(presets.shorten(config, share), int(whole * share), share)
        return {k: v for k, v in vars(after).items() if v != getattr(before, k)}

    assert changed("ddqn", "1/20") == {"random_steps": 10_000, "epsilon_steps": 50_000}
    assert changed("online-ewc", "1/20") == {
        "random_steps": 10_000, "averaging_rate": pytest.approx(20 * 7e-5),
    }  # fmt: skip
    assert changed("online-ewc", "1/1000000")["averaging_rate"] == 1.0
    assert changed("pt-dqn", "1/20")["permanent_period"] == 1000
    assert changed("pt-dqn", "1/400")["permanent_period"] == 512, "a batch"
    assert changed("mbcd", "1/20")["threshold"] == 50.0
    assert changed("mbcd", "1/20")["train_every"] == (1, 5, 12, 250, 100)
    assert changed("mbcd", "1/20")["train_until"] == (12, 250, 2000, 3000)
    assert changed("sliding-ogd", "1/20")["window"] == 50
    assert changed("lcpo", "1/20") == {}, "its reservoir is a share of the steps"
    assert changed("sac", "1") == {}


@pytest.mark.parametrize(
    ("run", "random", "falling"),
    [
        (20_000_000, 200_000, 1_000_000),
        (8_000_000, 200_000, 1_000_000),
        (4_000_000, 200_000, 1_000_000),
        (200_000, 10_000, 50_000),
        (10, 1, 2),
    ],
)
def test_phases_are_a_share_of_the_run_and_the_papers_at_its_steps(
    run: int, random: int, falling: int
) -> None:
    config = resolve(AGENTS["ddqn"].config(), run)
    assert (config.random_steps, config.epsilon_steps) == (random, falling)
    given = resolve(AGENTS["ddqn"].config(random_steps=0, epsilon_steps=7), run)
    assert (given.random_steps, given.epsilon_steps) == (0, 7)
    # 20M steps in a twentieth of the time: the most shrinks with them.
    short = resolve(AGENTS["ddqn"].config(), run // 20, Fraction(1, 20))
    assert short.random_steps == max(1, min(round(run / 400), 10_000))


def test_share_of_random_actions() -> None:
    """The area under epsilon, by a slow sum."""
    for random, fall, run in [(200, 0, 100), (20, 0, 100), (20, 60, 100), (20, 400, 100)]:
        after = np.arange(run) + 0.5 - random
        epsilon = np.clip(1.0 - after / fall, 0.0, 1.0) if fall else 1.0 * (after < 0)
        found = presets.random_share({"random_steps": random, "epsilon_steps": fall}, run)
        assert found == pytest.approx(np.mean(epsilon), abs=1e-9)
    assert presets.random_share({"rollout_length": 200}, 10) == 0.0
