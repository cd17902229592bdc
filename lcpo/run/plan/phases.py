"""The phases of a run. Most runs have one; a prescient run trains, and is then evaluated.

    run           along the trace, learning
    training      from random starts on the trace, learning        its record: training.npz
    evaluation    along the trace, acting only                     its record: record.npz

Updates are counted through all phases: a checkpoint's `update` determines its phase, and no two
updates of a run share a key. (An update of the evaluation is an epoch without learning.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp

from lcpo.run.store import layout
from lcpo.types import Array, Spec, Training

C = TypeVar("C")


class Mode(NamedTuple):
    """What a driver needs to know about a phase. Hashable: it is static under jit."""

    learns: bool = True
    random_starts: bool = False
    """At the end of an episode the trace jumps to a random row."""
    halve: tuple[str, ...] = ()
    halve_at: tuple[int, ...] = ()
    """Updates of the phase at which the fields `halve` are halved."""
    first_update: int = 0
    """Number of updates in the phases before."""


ONLINE = Mode()


class Phase(NamedTuple):
    """A part of a run."""

    name: str
    file: str
    """Name of its record file."""
    num_updates: int
    rollout_length: int
    num_worlds: int
    first_step: int = 0
    """Number of steps in the phases before."""
    mode: Mode = ONLINE

    @property
    def steps_per_update(self) -> int:
        return self.rollout_length * self.num_worlds

    @property
    def steps(self) -> int:
        return self.num_updates * self.steps_per_update

    @property
    def end(self) -> int:
        """Number of updates of the run up to the end of this phase."""
        return self.mode.first_update + self.num_updates

    def step_at(self, update: int) -> int:
        """Number of steps of the run up to its update number `update`, which is in this phase."""
        return self.first_step + (update - self.mode.first_update) * self.steps_per_update


def make_phases(
    steps: int, training: Training | None, rollout_length: int, num_worlds: int
) -> tuple[Phase, ...]:
    """The phases of a run of `steps` steps along the trace; each has whole updates only."""
    if training is None:
        num_updates = steps // (rollout_length * num_worlds)
        return (Phase("run", layout.RECORD, num_updates, rollout_length, num_worlds),)
    num_updates = training.steps // (rollout_length * num_worlds)
    halve_at = tuple(round(share * num_updates) for share in training.halve_at)
    mode = Mode(random_starts=True, halve=training.halve, halve_at=halve_at)
    first = Phase("training", layout.TRAINING, num_updates, rollout_length, num_worlds, 0, mode)
    length, mode = training.evaluation_length, Mode(learns=False, first_update=num_updates)
    num_updates = steps // (length * num_worlds)
    last = Phase("evaluation", layout.RECORD, num_updates, length, num_worlds, first.steps, mode)
    return first, last


def phase_at(phases: Sequence[Phase], update: int) -> Phase:
    """The phase that update number `update` of the run belongs to."""
    return next(phase for phase in phases if update < phase.end)


def config_at(mode: Mode, config: C, update: Array) -> C:
    """The config for an update of a phase, with the fields `halve` halved as scheduled."""
    if not mode.halve:
        return config
    factor = jnp.prod(jnp.where(update >= jnp.array(mode.halve_at), 0.5, 1.0))
    halved = {name: getattr(config, name) * factor for name in mode.halve}
    return dataclasses.replace(config, **halved)  # pyright: ignore[reportArgumentType]


def training_spec(spec: Spec) -> Spec:
    """The spec of an environment whose trace jumps, in both phases of its run."""
    return spec._replace(contiguous_contexts=False)


def to_json(training: Training | None) -> dict[str, Any] | None:
    """Plain values of a plan; `from_json(to_json(training)) == training`."""
    values = training._asdict() if training else {}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()} or None


def from_json(values: dict[str, Any] | None) -> Training | None:
    """The plan that a job holds."""
    given: dict[str, Any] = values or {}
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    return Training(**given) if given else None
