"""The parts of a search: the space, the levels, what is drawn, and that all of it is repeatable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from each import for_each

from lcpo import config as configs
from lcpo.agents import AGENTS, find_agent
from lcpo.errors import InputError
from lcpo.run.store.record import lifelong_return
from lcpo.study.advice.suggest import plus
from lcpo.study.tune import history as histories
from lcpo.study.tune import ladder, sampler, search, space
from lcpo.study.tune.history import Entry, History, Round, Scores, Trial
from lcpo.study.tune.ladder import Level
from lcpo.study.tune.space import Choices, Range

A2C = find_agent("a2c")
SEARCHED = ("lcpo-plus", "lcpo-uniform", "lcpo", "a2c", "ppo", "sac", "ddqn", "clear")


def history(*rounds: Mapping[tuple[int, int], float | None]) -> History:
    """Rounds of scores by (trial, level); a trial is new on level 0, and the first is the default.

    Each trial has one run.
    """
    made = []
    for one in rounds:
        new = [Trial(n, 0, {"gamma": 0.9} if n else {}) for n, level in one if level == 0]
        scores: tuple[Scores, ...] = tuple((value,) for value in one.values())
        made.append(Round(tuple(new), tuple(Entry(*key) for key in one), scores, 10, 1.0))
    return History(tuple(made))


# The space.


@for_each("name", SEARCHED)
def test_agents_have_a_space_that_their_configs_accept(name: str) -> None:
    agent = find_agent(name)
    found = space.space_of(agent, {}, {}, 100_000)
    # PPO cuts a rollout into ten minibatches.
    lengths = (50, 100, 200) if name == "ppo" else (25, 50, 100, 200)
    assert found["rollout_length"] == Choices(lengths)
    assert len(found) > 5
    for field, dimension in found.items():
        ends = dimension if isinstance(dimension, Range) else dimension.values
        for end in ends:
            agent.config(**{field: end})


def test_every_field_of_the_table_belongs_to_an_agent() -> None:
    """A renamed field would silently no longer be searched."""
    known = {name for agent in AGENTS.values() for name in agent.Config.__dataclass_fields__}
    assert set(space.RANGES) <= known
    for name, fields in space.FIELDS.items():
        assert set(fields) <= set(find_agent(name).Config.__dataclass_fields__), name


@for_each("name", ("lcpo", "lcpo-plus", "lcpo-plus-ood", "sac", "ddqn", "clear"))
def test_the_defaults_are_inside_the_space(name: str) -> None:
    """Otherwise the search does not learn from them, and cannot find them again."""
    agent, steps = find_agent(name), 100_000
    made = configs.resolve(configs.make(agent.Config, agent.presets), steps)
    for field, dimension in space.space_of(agent, {}, {}, steps).items():
        value = getattr(made, field)
        if isinstance(dimension, Range):
            assert dimension.low <= value <= dimension.high, field
        else:
            assert value in dimension.values, field


def test_the_search_can_find_what_lcpo_suggest_names() -> None:
    """Of the settings that made a difference on small tasks."""
    found = space.space_of(find_agent("lcpo-plus"), {}, {}, 30_000)
    config = plus(0.95).config
    rest = {"value_steps", "cg_iterations", "buffer_size"}
    for field in config.keys() - rest:
        dimension = found[field]
        if isinstance(dimension, Range):
            assert dimension.low <= config[field] <= dimension.high, field
        else:
            assert config[field] in dimension.values, field


def test_what_an_environment_brings_is_inside_the_space() -> None:
    """PPO's minibatches must divide a rollout, whoever chose them."""
    brought = {"rollout_length": 4608, "minibatches": 9, "learning_rate": 1e-5, "gamma": 0.97}

    def found(steps: int, **more: Any) -> space.Space:
        return space.space_of(find_agent("ppo"), {}, {}, steps, {**brought, **more})

    assert found(1_000_000)["rollout_length"] == Choices((4608,))
    assert found(10_000)["rollout_length"] == Choices((4608,)), "no other has minibatches"
    some = Choices((25, 50, 100, 200, 400))
    assert found(20_000, rollout_length=400, minibatches=1)["rollout_length"] == some
    short = found(19_999, rollout_length=400, minibatches=1)["rollout_length"]
    assert short == Choices((25, 50, 100, 200)), "400: fewer than 50 updates"
    assert found(20_000)["learning_rate"] == Range(1e-5, 1e-2)
    assert found(20_000, learning_rate=0.1)["learning_rate"] == Range(1e-4, 0.1)
    assert found(20_000)["gamma"] == Choices((0.9, 0.95, 0.97, 0.98, 0.99, 0.995))
    assert found(20_000)["entropy_coef"] == Range(1e-3, 0.3), "0 is not on a log scale"
    mine = space.space_of(A2C, {}, space.read_search("gamma=0.9|0.95"), 20_000, {"gamma": 0.97})
    assert mine["gamma"] == Choices((0.9, 0.95)), "as the user wants it"
    random = space.space_of(find_agent("ddqn"), {}, {}, 10_000, {"random_steps": 128_000})
    assert random["random_steps"] == Choices((100, 500)), "a share of this run"


def test_sigma_is_searched_only_where_it_acts() -> None:
    assert "sigma" in space.space_of(find_agent("lcpo"), {}, {}, 10_000)
    assert "sigma" not in space.space_of(find_agent("lcpo-uniform"), {}, {}, 10_000)
    assert "sigma" in space.space_of(find_agent("lcpo-uniform"), {"detector": "l2"}, {}, 10_000)


def test_short_runs_have_short_rollouts_and_shares_of_steps() -> None:
    short = space.space_of(find_agent("ddqn"), {}, {}, 3_000)
    assert short["rollout_length"] == Choices((25, 50))
    assert short["epsilon_steps"] == Choices((60, 300, 750))


def test_what_the_user_gives_narrows_and_adds() -> None:
    chosen = space.read_search("learning_rate=1e-3..2e-3, hidden=[8,8]|[16],gamma=0.9")
    assert chosen == {
        "learning_rate": Range(1e-3, 2e-3), "hidden": Choices(((8, 8), (16,))),
        "gamma": Choices((0.9,)),
    }  # fmt: skip
    found = space.space_of(A2C, {"lam": 0.5}, chosen, 100_000)
    assert {name: found[name] for name in chosen} == chosen
    assert "lam" not in found, "it is set"
    assert found["entropy_coef"] == space.RANGES["entropy_coef"]
    given = {"learning_rate": "1e-3..2e-3", "hidden": [[8, 8], [16]], "gamma": 0.9}
    assert space.read_search(given) == chosen
    assert space.read_search(None) == {}


def test_a_log_scale_where_the_range_spans_a_decade() -> None:
    assert Range(1e-5, 1e-2).log
    assert not Range(0.8, 0.99).log
    assert not Range(0.0, 1.0).log


BAD = [
    ("learning_rate", "LOW..HIGH"),
    ("=1..2", "LOW..HIGH"),
    ("gamma=0.9..", "two numbers"),
    ("gamma=0.99..0.9", "a lower and a higher"),
    ("gamma=0.9..inf", "a lower and a higher"),
    ("gamma=0.9..1.5", "at most 1"),
    ("gamma=-1|0.9", "at least 0"),
    ("gamma=0.9|0.90", "choices that differ"),
    ("gamma=0.9,gamma=0.8..0.9", "searched twice"),
    ("hidden=8..16", "choices, as in"),
    ("rollout_length=1.2..1.3", "two whole numbers"),
    ("lam=0.5..0.9", "both set and searched"),
]


@for_each("text, message", BAD)
def test_bad_dimensions_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        space.space_of(A2C, {"lam": 0.5}, space.read_search(text), 100_000)


def test_a_field_that_no_agent_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown setting to search .c_ancor..*c_anchor"):
        space.check_chosen([A2C, find_agent("lcpo")], {"c_ancor": Range(1.0, 2.0)})
    space.check_chosen([A2C, find_agent("lcpo")], {"c_anchor": Range(1.0, 2.0)})


def test_nothing_left_to_search_is_refused() -> None:
    fixed = dict.fromkeys(space.FIELDS["a2c"], 1)
    with pytest.raises(InputError, match="no settings to search"):
        space.space_of(A2C, fixed, {}, 100_000)


def test_rules_are_refused_and_agents_that_learn_are_not() -> None:
    for name, agent in AGENTS.items():
        if name in ("random", "constant", "never-hedge") or name.startswith("hedge-"):
            with pytest.raises(InputError, match="no settings to search"):
                space.space_of(agent, {}, {}, 100_000)
        else:
            assert space.space_of(agent, {}, {}, 100_000)


def test_a_space_survives_json() -> None:
    found = space.space_of(A2C, {}, space.read_search("hidden=[8,8]|[16]"), 100_000)
    assert space.from_json(json.loads(json.dumps(space.to_json(found)))) == found


def test_drawn_numbers_have_few_digits_and_stay_inside() -> None:
    assert space.tidy(A2C, "gamma", Range(0.1, 0.98765), 0.9876499) == 0.98765
    assert space.tidy(A2C, "learning_rate", Range(1e-5, 1.0), 1.23456e-4) == 1.23e-4
    assert space.tidy(A2C, "rollout_length", Range(1, 99_999), 12_345) == 12_345


# The levels.


def test_levels_are_short_then_whole_then_on_all_data() -> None:
    assert ladder.levels(4000, 4, 200) == (Level(2000, 2), Level(4000, 2), Level(4000, 4))
    assert ladder.levels(3999, 4, 200) == (Level(3999, 2), Level(3999, 4)), "too short a half"
    assert ladder.levels(4000, 3, 200)[-2:] == (Level(4000, 2), Level(4000, 3))
    assert ladder.levels(4000, 1, 200) == (Level(2000, 1), Level(4000, 1))


def test_the_best_third_goes_up_and_the_defaults_do() -> None:
    first = {(n, 0): float(n) for n in range(6)}
    assert ladder.promotions(history(first), 3) == [Entry(0, 1), Entry(4, 1), Entry(5, 1)]
    second = {(0, 1): 0.0, (4, 1): 1.0, (5, 1): None, **{(n, 0): 9.0 for n in range(6, 9)}}
    found = ladder.promotions(history(first, second), 3)
    assert found == [Entry(0, 2), Entry(4, 2), Entry(6, 1), Entry(7, 1), Entry(8, 1)]


def test_failed_trials_never_go_up_and_are_last() -> None:
    found = history({(0, 0): None, (1, 0): -5.0, (2, 0): None})
    assert ladder.promotions(found, 2) == [Entry(1, 1)]
    assert ladder.ranking(found, 2) == [1, 0, 2]
    assert histories.mean((1.0, None)) is None
    assert histories.mean((1.0, 2.0)) == 1.5


def test_trials_that_fail_on_a_higher_level_are_last() -> None:
    found = history({(1, 0): 9.0, (2, 0): 1.0}, {(1, 1): None})
    assert found.failed == {1}
    assert ladder.ranking(found, 2) == [2, 1]


def test_one_of_two_trials_goes_up() -> None:
    assert ladder.promotions(history({(1, 0): 1.0, (2, 0): 2.0}), 2) == [Entry(2, 1)]


def test_the_ranking_begins_with_the_highest_level() -> None:
    found = history({(1, 0): 9.0, (2, 0): 1.0, (3, 0): 0.0}, {(2, 1): -7.0, (3, 1): -3.0})
    assert ladder.ranking(found, 3) == [3, 2, 1]
    assert found.reached(3) == 1
    assert found.reached(4) == -1


def test_where_a_trial_stands_depends_on_all_trials() -> None:
    first = {(n, 0): float(n) for n in range(3)}
    before = history(first, {(0, 1): 5.0, (2, 1): 5.0})
    assert ladder.standings(before, 2) == {0: 0, 1: 0, 2: 1}, "the defaults went up undeserved"
    better = {(n, 0): 9.0 for n in range(3, 6)}
    after = history(first, {(0, 1): 5.0, (2, 1): 5.0, **better}, {(3, 1): 0.0, (4, 1): 0.0})
    assert ladder.standings(after, 2) == {0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 0}


# What is drawn.


def searched(name: str = "a2c") -> sampler.Searched:
    agent = find_agent(name)
    found = space.space_of(agent, {}, {}, 100_000)
    return sampler.Searched(agent, found, vars(agent.config()))


def drawn(found: History, count: int = 6, seed: int = 0) -> list[Trial]:
    return sampler.ask([searched()], found, 2, count, seed)


def played(rounds: int, seed: int = 0) -> History:
    """A search whose return is highest for a learning rate of 1e-3."""
    found = History()
    for _ in range(rounds):
        new = drawn(found, 8, seed)
        rates = [t.settings.get("learning_rate", 4e-4) for t in new]
        scores = tuple((-abs(rate - 1e-3),) for rate in rates)
        entries = tuple(Entry(t.number, 0) for t in new)
        found = found._replace(rounds=(*found.rounds, Round(tuple(new), entries, scores)))
    return found


def test_the_first_trials_are_the_defaults() -> None:
    both = sampler.ask([searched(), searched("ddqn")], History(), 2, 10, 0)
    assert both[:2] == [Trial(0, 0, {}), Trial(1, 1, {})]
    assert [t.number for t in both] == list(range(10))
    assert [t.agent for t in both[2:]] == [0] * 4 + [1] * 4
    assert all(t.settings for t in both[2:])


def test_agents_take_turns_in_later_rounds() -> None:
    both = [searched(), searched("ddqn")]
    first = sampler.ask(both, History(), 2, 4, 0)
    scores: tuple[Scores, ...] = ((1.0,),) * 4
    one = Round(tuple(first), tuple(Entry(t.number, 0) for t in first), scores)
    later = sampler.ask(both, History((one,)), 2, 4, 0)
    assert {t.agent for t in first[2:]} | {t.agent for t in later} == {0, 1}


def test_trials_in_a_row_share_a_program() -> None:
    found = sampler.ask([searched("ddqn")], History(), 2, 9, 0)[1:]
    static = [name for name in searched("ddqn").space if space.is_static(find_agent("ddqn"), name)]
    assert {"rollout_length", "updates_per_rollout", "epsilon_steps"} <= set(static)
    for block in (found[:4], found[4:]):
        assert len({tuple(t.settings[name] for name in static) for t in block}) == 1
        assert len({t.settings["learning_rate"] for t in block}) == 4


def test_what_is_drawn_depends_on_the_history_and_the_seed_alone() -> None:
    found = played(3)
    again = histories.from_json(json.loads(json.dumps(histories.to_json(found))))
    assert again == found
    assert played(3) == found
    assert drawn(again) == drawn(found)
    assert drawn(found, seed=1) != drawn(found)
    assert drawn(found) != drawn(played(2))
    other = found.rounds[-1]._replace(scores=((0.0,),) * 8)
    assert drawn(found._replace(rounds=(*found.rounds[:-1], other))) != drawn(found)


def test_the_search_learns_from_the_history() -> None:
    late = [t.settings["learning_rate"] for one in played(8).rounds[5:] for t in one.new]
    early = [t.settings["learning_rate"] for t in drawn(History(), 25)[1:]]

    def near(rates: list[Any]) -> float:
        return sum(5e-4 < rate < 2e-3 for rate in rates) / len(rates)

    assert near(late) > near(early) + 0.2


def test_optuna_learns_that_failed_trials_are_the_worst() -> None:
    """On whichever level: it ranks those of a higher level above those of a lower one."""
    told = sampler._told(searched(), history({(1, 0): 9.0, (2, 0): 1.0}, {(1, 1): None}), 0, 2)
    assert [(one.level, one.value) for one in told] == [(sampler.FAILED, -np.inf), (0, 1.0)]
    found = played(3)
    one = found.rounds[-1]
    best = max(range(8), key=lambda n: one.scores[n])
    entry = Entry(one.new[best].number, 1)
    later = [Round((), (entry,), ((value,),)) for value in (9.0, None)]
    well, badly = (found._replace(rounds=(*found.rounds, last)) for last in later)
    assert drawn(well) != drawn(badly)


def test_failed_trials_and_defaults_outside_of_the_space_are_no_obstacle() -> None:
    found = played(1)
    one = found.rounds[0]._replace(scores=((None,),) * 8)
    assert len(drawn(found._replace(rounds=(one,)))) == 6
    assert searched().defaults["entropy_coef"] == 0.0, "outside of the space: not told"


def test_returns_do_not_depend_on_the_rollout_length() -> None:
    """Episodes of 10, 10 and 40 steps, in rollouts of 20 and of 30 steps."""
    short = {"episodes": [2, 0, 1], "episode_return_sum": [2.0, 0.0, 4.0]}
    long = {"episodes": [2, 1], "episode_return_sum": [2.0, 4.0]}
    for size, rows in ((20, short), (30, long)):
        record = {name: np.array(values) for name, values in rows.items()}
        record |= {"step": size * np.arange(1, len(record["episodes"]) + 1)}
        assert lifelong_return(search.by_episode(record)) == pytest.approx(2.0)
