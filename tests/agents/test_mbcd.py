"""MBCD's bookkeeping: when a context has changed, to which, and what then happens."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_agents import T, random_batch, small_config

from lcpo.agents import AGENTS, mbcd, sac
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError

SPEC = Pendulum().spec
CONFIG: mbcd.Config = small_config(AGENTS["mbcd"], threshold=100.0, min_steps=4, forget=5)
EVERY = jnp.arange(CONFIG.max_models)


def fresh(**values: Any) -> mbcd.State:
    """Two contexts met, the first in use; numbers as they would be."""
    state = mbcd.init(CONFIG, SPEC, jax.random.key(0))
    steps = jnp.array([50, 60, 0], jnp.int32)
    given: dict[str, Any] = {"steps": steps, "num_models": jnp.int32(2), **values}
    return state._replace(**given)


def seen(per_step: list[float], **values: Any) -> mbcd.Seen:
    """Each model's log density at every step, minus that of the first; the last: a new one's."""
    densities = jnp.broadcast_to(jnp.array(per_step)[:, None], (len(per_step), T))
    found = mbcd.Seen(densities[:-1], densities[-1], jnp.zeros(T))
    return found._replace(**values)


find = jax.jit(mbcd.find_change, static_argnums=1)
NONE = float("-inf")


@pytest.mark.learn
def test_a_change_is_found_when_the_score_exceeds_the_threshold() -> None:
    """10 a step: 100 after ten steps is not enough, 110 is."""
    change = find(CONFIG, SPEC, fresh(), seen([0.0, 10.0, NONE, 4.0]))
    assert (bool(change.found), int(change.step), int(change.context)) == (True, 10, 1)
    np.testing.assert_allclose(change.scores, [0.0, 110.0, 0.0, 44.0])
    slow = find(CONFIG, SPEC, fresh(), seen([0.0, 5.0, NONE, 4.0]))
    assert not slow.found
    np.testing.assert_allclose(slow.scores, [0.0, 5.0 * T, 0.0, 4.0 * T])
    later = fresh(scores=slow.scores)  # scores go on from rollout to rollout
    assert int(find(CONFIG, SPEC, later, seen([0.0, 5.0, NONE, 4.0])).step) == 20 - T


def test_nothing_is_scored_early_or_where_members_disagree() -> None:
    """From `min_steps` interactions on, as far as the model in use is sure."""
    steps = jnp.array([0, 60, 0], jnp.int32)
    change = find(CONFIG, SPEC, fresh(steps=steps), seen([0.0, 1.0, NONE, 0.0]))
    np.testing.assert_allclose(change.scores[1], T - 5.0)  # the first with more than 4 before it
    unsure = jnp.where(jnp.arange(T) % 2 == 0, 2.9, 3.1)
    change = find(CONFIG, SPEC, fresh(), seen([0.0, 1.0, NONE, 0.0], disagreement=unsure))
    np.testing.assert_allclose(change.scores[1], T / 2)


THREE = SPEC._replace(num_worlds=3)


def test_of_several_worlds_each_step_counts() -> None:
    """Interactions are counted in all worlds; what is forgotten is divided among them."""
    steps = jnp.array([0, 60, 0], jnp.int32)
    change = find(CONFIG, THREE, fresh(steps=steps), seen([0.0, 1.0, NONE, 0.0]))
    np.testing.assert_allclose(change.scores[1], T - 2.0)  # 0 and 3 before it are too few

    config = dataclasses.replace(CONFIG, buffer_size=200)
    batch = random_batch(THREE, jax.random.key(1))
    state = mbcd.init(config, THREE, jax.random.key(0))
    state = state._replace(steps=jnp.array([48, 60, 0], jnp.int32), num_models=jnp.int32(2))
    state = enter(config, THREE, state, batch, STAYS)
    before, state = state, enter(config, THREE, state, batch, changed(2, 1, True))
    np.testing.assert_array_equal(state.steps, [48 + 3 * T, 60, 3 * (T - 1)])
    kept = state.memory.rollouts.blocks
    np.testing.assert_array_equal(kept.first[:2], [0, 1])
    # Five are forgotten, which is two steps of each world: one here, one in the rollout before.
    np.testing.assert_array_equal(kept.size[:2], [T - 1, T - 1])
    due = functools.partial(mbcd.num_due, dataclasses.replace(config, max_trainings=100), THREE)
    assert due(before, state, changed(2, 1, True)) == 4  # at 10, 20, 30 and 40 of 45
    start = before._replace(steps=jnp.array([48, 60, 0], jnp.int32))
    assert due(start, before, STAYS) == 5  # at 50, ..., 90 of 96


@pytest.mark.learn
def test_densities_are_sums_over_worlds() -> None:
    """Three worlds that see the same: three times the evidence of one, and as much agreement."""
    one = random_batch(SPEC, jax.random.key(2))
    three = jax.tree.map(lambda x: jnp.repeat(x, 3, axis=1), one)
    alone = mbcd.observe(CONFIG, SPEC, fresh(), one)
    together = mbcd.observe(CONFIG, THREE, fresh(), three)
    np.testing.assert_allclose(together.log_density[:2], 3.0 * alone.log_density[:2], rtol=1e-4)
    np.testing.assert_allclose(together.log_density_new, 3.0 * alone.log_density_new, rtol=1e-4)
    np.testing.assert_allclose(together.disagreement, alone.disagreement, rtol=1e-4)


@pytest.mark.parametrize(
    ("met", "densities", "faults", "expected"),
    [
        (2, [0.0, 10.0, NONE, 20.0], (), 2),  # a new one
        (2, [0.0, 20.0, NONE, 20.0], (), 1),  # no better than one that is known
        (3, [0.0, 2.0, 5.0, 20.0], (), 2),  # no room for a new one: the best that there is
        (3, [0.0, -5.0, -5.0, 20.0], (), 1),  # none is better: the one in use stays
        (3, [0.0, -5.0, -5.0, 20.0], (mbcd.TIES_GO_FIRST,), 0),
    ],
)
def test_where_a_change_leads(
    met: int, densities: list[float], faults: tuple[str, ...], expected: int
) -> None:
    """The context in use is 1 in the last two cases."""
    current = 1 if densities[1] < 0.0 else 0
    if current:  # log densities relative to model 1, which is in use
        densities = [densities[1], densities[0], *densities[2:]]
    config = dataclasses.replace(CONFIG, faults=faults)
    state = fresh(num_models=jnp.int32(met), current=jnp.int32(current))
    change = find(config, SPEC, state, seen(densities))
    assert bool(change.found)
    assert int(change.context) == expected
    assert bool(change.is_new) == (expected == met)


def changed(to: int, at: int, is_new: bool) -> mbcd.Change:
    """A change as `find_change` would tell it."""
    yes = jnp.bool_(True)
    flags = yes, jnp.int32(at), jnp.int32(to), jnp.bool_(is_new)
    return mbcd.Change(*flags, jnp.arange(CONFIG.max_models + 1.0))


STAYS = mbcd.Change(jnp.bool_(False), jnp.int32(0), jnp.int32(0), jnp.bool_(False), jnp.arange(4.0))
enter = jax.jit(mbcd.enter, static_argnums=1)


def test_a_new_context_gets_what_follows_the_change() -> None:
    """Its steps and its rows of the replay; the last of the old context's are forgotten."""
    state, batch = fresh(), random_batch(SPEC, jax.random.key(1))
    state = enter(CONFIG, SPEC, state, batch, STAYS)
    np.testing.assert_array_equal(state.steps, [50 + T, 60, 0])
    np.testing.assert_array_equal(state.scores, jnp.arange(4.0))
    state = enter(CONFIG, SPEC, state, batch, changed(2, 3, True))
    np.testing.assert_array_equal(state.steps, [50 + T, 60, T - 3])
    assert (int(state.current), int(state.num_models), int(state.since)) == (2, 3, 1)
    np.testing.assert_array_equal(state.scores, jnp.zeros(4))
    blocks = state.memory.rollouts.blocks
    np.testing.assert_array_equal(blocks.owner[:2], [0, 2])
    np.testing.assert_array_equal(blocks.first[:2], [0, 3])
    np.testing.assert_array_equal(blocks.size[:2], [T - (CONFIG.forget - 3), T - 3])


def test_a_new_policy_is_new_unless_it_inherits() -> None:
    """With the fault, weights and optimisers are copies; the rest starts afresh either way."""
    state, batch = fresh(), random_batch(SPEC, jax.random.key(1))
    used = jax.tree.map(lambda x: x + jnp.ones_like(x), state.learner)
    state = state._replace(
        learner=jax.tree.map(lambda a, b: a.at[0].set(b[0]), state.learner, used)
    )
    change = changed(2, 3, True)
    own = enter(CONFIG, SPEC, state, batch, change).learner
    jax.tree.map(np.testing.assert_array_equal, own, state.learner)
    config = dataclasses.replace(CONFIG, faults=(mbcd.INHERITS_POLICY,))
    copied = enter(config, SPEC, state, batch, change).learner
    for part in sac.ActorCritics._fields:
        mine, first = (
            [np.asarray(leaf[i]) for leaf in jax.tree.leaves(getattr(copied, part))] for i in (2, 0)
        )
        same = all(np.array_equal(a, b) for a, b in zip(mine, first, strict=True))
        assert same == (part not in ("entropy", "target_stats")), part
    back = enter(config, SPEC, state, batch, changed(1, 3, False)).learner
    jax.tree.map(np.testing.assert_array_equal, back, state.learner)


def test_back_in_a_context_its_model_learns_from_its_own() -> None:
    """With the fault, from all since the last new context: the one just left among them."""
    state, batch = fresh(num_models=jnp.int32(1)), random_batch(SPEC, jax.random.key(1))
    for change in (STAYS, changed(1, 0, True), changed(0, 0, False)):
        state = enter(CONFIG, SPEC, state, batch, change)
    np.testing.assert_array_equal(mbcd.model_blocks(CONFIG, state)[:3], [True, False, True])
    config = dataclasses.replace(CONFIG, faults=(mbcd.MEMORY_STAYS,))
    np.testing.assert_array_equal(mbcd.model_blocks(config, state)[:3], [False, True, True])


def test_trainings_become_rare() -> None:
    """Every 10 interactions at first and every 2000 at last; never more than `max_trainings`."""
    config = dataclasses.replace(CONFIG, rollout_length=200, max_trainings=50)

    def due(before: int, change: mbcd.Change = STAYS, **values: Any) -> int:
        old = fresh(steps=EVERY * 0 + before)
        new = old._replace(steps=old.steps + 200)
        chosen = dataclasses.replace(config, **values)
        return int(mbcd.num_due(chosen, SPEC, old, new, change))

    assert [due(n) for n in (0, 200, 400, 4900, 5000, 39_900, 50_000)] == [20, 6, 2, 1, 0, 1, 0]
    assert [due(n) for n in (59_800, 60_000, 61_800)] == [1, 0, 1]
    assert due(0, max_trainings=2) == 2
    assert due(60_000, changed(0, 3, False)) == 1  # after a change at least one
    assert due(60_000, train_every=(7, 50), train_until=(60_000,)) == 4
    assert due(60_000, train_every=(50,), train_until=()) == 4


@pytest.mark.parametrize(("every", "until"), [((10,), (5,)), ((10, 20), ()), ((1, 2, 3), (20, 10))])
def test_a_schedule_of_trainings_needs_a_period_for_each_stage(
    every: tuple[int, ...], until: tuple[int, ...]
) -> None:
    config = dataclasses.replace(CONFIG, train_every=every, train_until=until)
    with pytest.raises(InputError, match="one more entry in train_every"):
        mbcd.check(config, SPEC)


@pytest.mark.learn
def test_no_policy_learns_in_a_rollout_with_a_change_and_entropy_is_tuned_once() -> None:
    state = enter(CONFIG, SPEC, fresh(), random_batch(SPEC, jax.random.key(1)), STAYS)
    train = jax.jit(mbcd.train_policy, static_argnums=1)
    skip, go = (
        train(CONFIG, SPEC, state, jnp.bool_(flag), jax.random.key(2))[0] for flag in (True, False)
    )
    jax.tree.map(np.testing.assert_array_equal, skip, state.learner)
    moved = [
        not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (go, skip)), strict=True)
    ]
    assert any(moved)
    jax.tree.map(  # those of other contexts stay as they are
        lambda a, b: np.testing.assert_array_equal(a[1:], b[1:]), go, skip
    )
    twice = dataclasses.replace(CONFIG, faults=(mbcd.ENTROPY_TWICE,))
    counts = [
        int(
            train(config, SPEC, state, jnp.bool_(False), jax.random.key(2))[0].entropy.opt_state[2][
                0
            ][0]
        )
        for config in (CONFIG, twice)
    ]
    assert counts == [1, 2]
