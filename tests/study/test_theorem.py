"""The paper's theorem on MDPs whose Q* is known, the cases that break it, and its lemma."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo import api
from lcpo.envs.probes import Place, SwitchingMDP
from lcpo.run.options import RunOptions
from lcpo.run.plan.check import check_env
from lcpo.run.store.results import Result, load_results
from lcpo.study.controls import theorem


def test_switching_mdp_moves_as_its_tables_say() -> None:
    env = SwitchingMDP()
    check_env(env)
    probabilities, rewards = env.tables()
    np.testing.assert_allclose(probabilities.sum(-1), 1.0)
    keys = jax.random.split(jax.random.key(0), 4000)
    step = jax.vmap(env.step, in_axes=(None, None, None, 0))
    for here in [(0, 1, 2), (2, 3, 0)]:
        context, state, action = (jnp.array([x]) for x in here)
        place = Place(state[0], jnp.int32(0))
        after, outcome = step(place, action, context.astype(jnp.float32), keys)
        share = np.bincount(after.number, minlength=5) / len(keys)
        np.testing.assert_allclose(share, probabilities[here], atol=0.03)
        np.testing.assert_allclose(outcome.reward, rewards[here], rtol=1e-6)
        np.testing.assert_array_equal(outcome.terminated, after.number == 4)
        assert not outcome.truncated.any()
    _, last = step(Place(jnp.int32(0), jnp.int32(9)), jnp.array([0]), jnp.zeros(1), keys)
    np.testing.assert_array_equal(last.truncated, ~last.terminated)
    assert last.truncated.any()


def slow_optimum(env: SwitchingMDP, context: int, gamma: float) -> np.ndarray:
    """Value iteration, entry by entry."""
    probabilities, rewards = env.tables()
    states, actions = range(env.num_states - 1), range(env.num_actions)
    value = np.zeros(env.num_states)  # the terminal state's stays 0
    q = np.zeros((env.num_states, env.num_actions))
    for _ in range(200):
        for s in states:
            for a in actions:
                q[s, a] = rewards[context, s, a] + gamma * probabilities[context, s, a] @ value
        value[:-1] = q[:-1].max(1)
    return q


def test_optimum_and_distances() -> None:
    env = SwitchingMDP()
    best = theorem.optimum(env, theorem.GAMMA)
    for context in range(env.num_contexts):
        slow = slow_optimum(env, context, theorem.GAMMA)
        np.testing.assert_allclose(best[context, :-1], slow[:-1], atol=1e-9)
    error, regret = theorem.distances(env, best)
    assert error.max() < 1e-9
    assert regret.max() < 1e-9
    # The best actions differ between contexts: one table row for all could not be right.
    assert len(np.unique(best[:, :-1].argmax(-1), axis=0)) == env.num_contexts
    worse = best.copy()
    worse[1, 0, best[1, 0].argmin()] += 10.0
    error, regret = theorem.distances(env, worse)
    np.testing.assert_allclose(error, [0.0, 10.0, 0.0], atol=1e-9)
    assert regret[1] > 0.1
    assert regret[[0, 2]].max() < 1e-9


def run(out: Path, seeds: int, steps: int) -> list[Result]:
    """The runs of the study, in this process."""
    jobs = theorem.plan_runs(theorem.TheoremOptions(seeds=seeds, steps=steps))
    assert api.run(jobs, RunOptions(out, workers=0, progress=False)) == []
    return load_results(out, jobs)


@pytest.mark.learn
def test_metrics_of_a_run_agree_with_its_final_table(tmp_path: Path) -> None:
    """One row is one update here, so the last row is the end of the run."""
    results = run(tmp_path, seeds=1, steps=2000)
    assert len(results) == len(theorem.SETTINGS)
    for result in results:
        error, regret = theorem.distances(theorem.ENV, theorem.final_q(result))
        assert len(result.record["step"]) == 20
        for context in range(3):
            last = [result.record[f"{name}_{context}"][-1] for name in ("q_error", "regret")]
            np.testing.assert_allclose(last, [error[context], regret[context]], atol=1e-6)
    report = theorem.study.report(theorem.TheoremOptions(), results)
    assert report.figures["figure"].png.startswith(b"\x89PNG")
    assert [row[1] for row in report.seeds.rows] == list(theorem.SETTINGS)
    assert [row[0] for row in report.tables["table"].texts()] == [
        setting.label for setting in theorem.SETTINGS.values()
    ]


def test_every_policy_has_its_regret() -> None:
    env = theorem.ENV
    regrets = theorem.policy_regrets(env, theorem.GAMMA)
    assert regrets.shape == (3, 81)
    for number, policy in enumerate([(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 1, 0)]):
        q = np.zeros((3, 5, 3))
        q[:, np.arange(4), list(policy)] = 1.0
        np.testing.assert_allclose(theorem.distances(env, q)[1], regrets[:, number], atol=1e-12)


BARE = """
import sys
for name in ("tyro", "rich", "polars", "gymnasium", "mujoco", "scipy.stats", "matplotlib"):
    sys.modules[name] = None
from lcpo.run import worker
sys.exit(worker.main(sys.argv[1:]))
"""


@pytest.mark.learn
def test_a_bare_machine_runs_the_jobs(tmp_path: Path) -> None:
    """A worker imports the agent of the study, and nothing that draws or prints."""
    from lcpo.run.engines.engine import write_plan

    jobs = theorem.plan_runs(theorem.TheoremOptions(seeds=1, steps=200))[:1]
    write_plan(jobs, tmp_path)
    command = [sys.executable, "-c", BARE, str(tmp_path / "plan.json")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert load_results(tmp_path)[0].status == "finished"


@pytest.mark.learn
def test_q_learning_is_optimal_in_every_context_unless_an_assumption_breaks(
    tmp_path: Path,
) -> None:
    """Values are up to 3. All seeds, the worst context; each broken case stays far off."""
    found = theorem.measure(run(tmp_path, seeds=4, steps=200_000))
    assert found["holds"].regret[-1].max() < 1e-9  # [seeds, contexts]
    assert found["holds"].error[-1].max() < 0.3
    assert (found["holds"].error[-1] < 0.25 * found["holds"].error[0]).all()
    for name in ("greedy", "short", "constant", "within"):
        assert found[name].error[-1].max(-1).min() > 0.4, name
    for name in ("greedy", "short"):
        assert found[name].regret[-1].max(-1).min() > 0.5, name
    assert set(found) == {"holds", "greedy", "short", "constant", "within"}


@pytest.mark.parametrize(
    "rate", [lambda i: 1 / i, lambda i: i**-0.7, lambda i: 1 / (i + np.sqrt(i))]
)
@pytest.mark.parametrize("window", [1, 3, 50])
def test_lemma_bounds_hold_at_every_length(rate, window: int) -> None:
    """N (beta_1 + ... + beta_J) >= alpha_{N+1} + ... + alpha_{N(J+1)}, whichever are picked."""
    count = 2000
    alpha = rate(np.arange(1.0, window * (count + 1) + 1))
    blocks = alpha[: window * count].reshape(count, window)
    rng = np.random.default_rng(0)
    for pick in (
        np.zeros(count, int),
        np.full(count, window - 1),
        rng.integers(window, size=count),
    ):
        beta = blocks[np.arange(count), pick]
        rest = np.cumsum(alpha[window:])[window - 1 :: window]
        assert (window * np.cumsum(beta) >= rest * (1 - 1e-12)).all()
        assert np.sum(beta**2) <= np.sum(alpha**2)


def limit_of_q(rate: Callable[[int, np.ndarray, np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Mean over 1000 runs of Q after 20,000 visits, and its standard error.

    One state, one action; r is 1 or 0, each with probability 1/2, and the episode ends: Q* = 1/2.
    `rate(n, reward, coin)` is that of visit n; the coin, 1 or 0 too, says nothing of the reward.
    """
    rng, q = np.random.default_rng(0), np.zeros(1000)
    for n in range(1, 20_001):
        reward, coin = rng.integers(0, 2, (2, len(q)))
        q += rate(n, reward, coin) * (reward - q)
    return q.mean(), q.std(ddof=1) / np.sqrt(len(q))


def test_rates_must_not_look_at_the_outcome() -> None:
    """1 / n where r = 1, else 1 / (2n), goes to 2/3; by a coin, or without one, to Q* = 1/2."""
    for rate, expected in (
        (lambda n, reward, coin: np.where(reward, 1.0, 0.5) / n, 2 / 3),
        (lambda n, reward, coin: np.where(coin, 1.0, 0.5) / n, 1 / 2),
        (lambda n, reward, coin: np.full(len(reward), 1.0 / n), 1 / 2),
    ):
        mean, error = limit_of_q(rate)
        assert error < 1e-3
        # Of the first visits 20,000^-0.75 is left over: under 1e-3.
        assert abs(mean - expected) < 4 * error + 1e-3


def visits(num_runs: int, num_episodes: int, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether each window of a run has a visit of probability 0.3 an episode; the rates that count.

    Rates are 1 / i in episode i.
    """
    seen = np.random.default_rng(0).random((num_runs, num_episodes)) < 0.3
    each = np.logical_or.reduce(seen.reshape(num_runs, -1, window), axis=2)
    return each, np.cumsum(seen / np.arange(1, num_episodes + 1), axis=1)


def test_visits_with_a_probability_bounded_below_are_enough() -> None:
    """Every run misses a window of 10 sooner or later; the rates that count grow as 0.3 ln i."""
    each, sums = visits(num_runs=200, num_episodes=20_000, window=10)
    assert not each.all(axis=1).any()
    gain = sums[:, -1] - sums[:, 199]
    np.testing.assert_allclose(gain.mean(), 0.3 * np.log(100.0), rtol=0.02)
    assert gain.min() > 0.2 * np.log(100.0)


def test_lemma_needs_its_two_conditions() -> None:
    """Sums up to 10^4 and 10^6: those that diverge gain, the counterexamples do not."""

    def gain(name: str) -> float:
        small, large = (theorem.subsequence(name, 10**k)[1].sum() for k in (4, 6))
        return large - small

    hundredfold = np.log(100.0)
    np.testing.assert_allclose(gain("all"), hundredfold, rtol=1e-3)
    np.testing.assert_allclose(gain("bounded"), hundredfold / theorem.WINDOW, rtol=0.05)
    assert gain("sparse") < 1e-3  # its gaps grow without bound
    assert gain("uneven") < 1e-12  # its rates are not monotone
    index, _ = theorem.subsequence("bounded", 10**4)
    np.testing.assert_array_equal((index - 1) // theorem.WINDOW, np.arange(len(index)))
