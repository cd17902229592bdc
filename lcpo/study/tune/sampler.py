"""Draws the settings of new trials with Optuna, through ask-and-tell.

The study of Optuna is rebuilt from the history for every round, and its random numbers depend on
the seed and the number of trials before. So equal histories draw equal trials.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lcpo.errors import MissingPackage
from lcpo.study.tune import ladder
from lcpo.study.tune.history import History, Trial, order
from lcpo.study.tune.space import Dimension, Range, Space, is_static, is_whole, tidy
from lcpo.types import AnyAgent

SHARING = 4
"""So many trials in a row have the same static settings: they share a compiled program."""


def check_installed() -> None:
    """Raise MissingPackage without Optuna."""
    try:
        import optuna  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise MissingPackage(
            "lcpo tune needs optuna, which is not installed: pip install 'lcpo[tune]'"
        ) from error


FAILED = -1
"""The level of trials that failed, for Optuna: it ranks trials by their level first."""


class Searched(NamedTuple):
    """An agent whose settings are searched."""

    agent: AnyAgent
    space: Space
    defaults: Mapping[str, Any]
    """All its settings, as plain values."""


class Told(NamedTuple):
    """A trial that has ended."""

    settings: Mapping[str, Any]
    level: int
    value: float


def ask(
    agents: Sequence[Searched], history: History, levels: int, count: int, seed: int
) -> list[Trial]:
    """New trials: `SHARING` of each agent in turn. The first ones of a search are the defaults.

    There are `count` of them, or in the first round at least one for each agent. `levels`: how many
    a trial can reach.
    """
    first = len(history.trials)
    trials = [] if first else [Trial(i, i, {}) for i in range(len(agents))]
    count = max(count - len(trials), 0)
    sizes: dict[int, list[int]] = {}
    for at in range(0, count, SHARING):
        agent = (first + at) // SHARING % len(agents)
        sizes.setdefault(agent, []).append(min(SHARING, count - at))
    for agent, blocks in sorted(sizes.items()):
        told = _told(agents[agent], history, agent, levels)
        drawn = _draw(agents[agent], told, blocks, [seed, first, agent])
        start = first + len(trials)
        trials += [Trial(start + i, agent, settings) for i, settings in enumerate(drawn)]
    return trials


def _told(searched: Searched, history: History, agent: int, levels: int) -> list[Told]:
    """The trials of an agent that have ended, with all searched settings."""
    found, standings, failed = [], ladder.standings(history, levels), history.failed
    for trial in history.trials:
        level = standings.get(trial.number)
        if trial.agent == agent and level is not None:
            settings = {name: searched.defaults[name] for name in searched.space}
            value = order(history.values(level)[trial.number])
            if trial.number in failed:
                level, value = FAILED, order(None)
            found.append(Told({**settings, **trial.settings}, level, value))
    return found


def _draw(
    searched: Searched, told: Sequence[Told], blocks: Sequence[int], seed: Sequence[int]
) -> list[dict[str, Any]]:
    """Settings of new trials of one agent; those of a block share static values."""
    import optuna
    from optuna.samplers import PartialFixedSampler, TPESampler

    agent, space = searched.agent, searched.space
    kinds = {name: _distribution(agent, name, found) for name, found in space.items()}
    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    drawn: list[dict[str, Any]] = []
    with _quiet():
        tpe = TPESampler(seed=state, multivariate=True, constant_liar=True)
        study = optuna.create_study(direction="maximize", sampler=tpe)
        for one in told:
            study.add_trials(_ended(kinds, space, one))
        for size in blocks:
            shared: dict[str, Any] = {}
            for _ in range(size):
                study.sampler = PartialFixedSampler(shared, tpe) if shared else tpe
                params = study.ask(kinds).params
                shared = {name: params[name] for name in params if is_static(agent, name)}
                values = {name: _value(found, params[name]) for name, found in space.items()}
                drawn.append(
                    {name: tidy(agent, name, space[name], x) for name, x in values.items()}
                )
    return drawn


def _distribution(agent: AnyAgent, name: str, found: Dimension) -> Any:
    """The distribution of Optuna; choices are texts, for they may be lists."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(found, Range):
        return CategoricalDistribution([json.dumps(x) for x in found.values])
    if is_whole(agent, name):
        return IntDistribution(int(found.low), int(found.high), log=found.log)
    return FloatDistribution(found.low, found.high, log=found.log)


def _value(found: Dimension, param: Any) -> Any:
    """As it is stored: lists, not tuples."""
    return param if isinstance(found, Range) else json.loads(param)


def _ended(kinds: Mapping[str, Any], space: Space, told: Told) -> list[Any]:
    """A trial of Optuna; none if defaults are outside of the space.

    All are pruned: among these, Optuna ranks those of a higher level above those of a lower one,
    whatever their values.
    """
    from optuna.trial import TrialState, create_trial

    params = {
        name: told.settings[name] if isinstance(found, Range) else json.dumps(told.settings[name])
        for name, found in space.items()
    }
    try:
        made = create_trial(
            params=params, distributions=dict(kinds), state=TrialState.PRUNED,
            intermediate_values={told.level: told.value},
        )  # fmt: skip
    except (ValueError, TypeError):
        return []
    return [made]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log lines and its warnings about experimental classes."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
