"""The paper's theorem on MDPs whose Q* is known, the cases that break it, and its lemma."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lcpo.envs.probes import Place, SwitchingMDP
from lcpo.run.plan.check import check_env
from lcpo.study.paper import theorem


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
        after, outcome = step(place, action, context.astype(float), keys)
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


@pytest.mark.learn
def test_q_learning_is_optimal_in_every_context_unless_an_assumption_breaks() -> None:
    """Values are up to 3. All seeds, the worst context; each broken case stays far off."""
    found = {k: theorem.measure(s, seeds=4, steps=200_000) for k, s in theorem.SETTINGS.items()}
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
