"""The records that everything passes around.

Words, always in this order: obs, context, action, reward, next_obs, terminated, truncated, key,
config, spec, state, batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import jax

from lcpo import config as configs

Array = jax.Array
Metrics = dict[str, Array]
"""Scalars of one update. All are finite in a healthy run: one that is not stops the run."""


class ContextSlice(NamedTuple):
    """Where the context history stands in an observation: `channels` blocks of `lags` entries.

    Each block runs from the newest value to the oldest.
    """

    start: int
    channels: int
    lags: int

    @property
    def size(self) -> int:
        return self.channels * self.lags


class Spec(NamedTuple):
    """What an agent knows of its environment. Hashable: it is static under jit."""

    obs_size: int
    context: ContextSlice
    num_actions: tuple[int, ...]
    """One entry per action dimension."""
    obs_levels: tuple[int, ...] | None = None
    """Number of levels of each observation entry, where the space is finite (tabular agents)."""
    elements: tuple[int, int] | None = None
    """(number, size) of exchangeable elements at the head of the observation (deep sets)."""
    num_worlds: int = 1
    """Worlds that one agent learns from: the N of every batch."""

    @property
    def action_size(self) -> int:
        return len(self.num_actions)


class Transition(NamedTuple):
    """A batch of interactions, leaves [T, N, ...]: T steps of N worlds."""

    obs: Array  # [T, N, D]
    action: Array  # [T, N, A], as executed
    reward: Array  # [T, N]
    next_obs: Array  # [T, N, D], the true successor, never the observation after a reset
    terminated: Array  # [T, N] bool
    truncated: Array  # [T, N] bool
    elapsed: Array  # [T, N], the discount of the step is gamma ** elapsed
    weight: Array  # [T, N], 0 where a guard overrode the policy
    extra: Any  # what `act` returned beside the action


class Step(NamedTuple):
    """What an environment returns for one step of one world."""

    obs: Array  # the environment's own features; the context history is appended by the driver
    reward: Array
    terminated: Array
    truncated: Array
    elapsed: Array | float = 1.0
    weight: Array | float = 1.0


class InitFn(Protocol):
    """`init` of an agent."""

    def __call__(self, config: Any, spec: Spec, key: Array) -> Any:
        """Return a fresh state: arrays only, of fixed shapes."""
        ...


class ActFn(Protocol):
    """`act` of an agent."""

    def __call__(
        self, config: Any, spec: Spec, state: Any, obs: Array, key: Array
    ) -> tuple[Array, Any]:
        """Choose actions [N, A] for obs [N, D]. Reads the state, never its `memory`."""
        ...


class UpdateFn(Protocol):
    """`update` of an agent."""

    def __call__(
        self, config: Any, spec: Spec, state: Any, batch: Transition, key: Array
    ) -> tuple[Any, Metrics]:
        """Learn from one batch. The state keeps its tree, shapes and dtypes."""
        ...


class Training(NamedTuple):
    """A plan: train from random starts on the trace, then walk along it once and only act.

    At the end of every episode the trace jumps to a row drawn uniformly, so that the agent learns
    from the whole trace at once, the future included.
    """

    steps: int
    """Interactions to learn from."""
    halve: tuple[str, ...] = ()
    """Traced config fields (learning rates) that are halved on the way."""
    halve_at: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9)
    """When, as shares of the updates."""
    evaluation_length: int = 200
    """Steps per epoch of the evaluation: its returns are averaged as those of an online run."""


class Agent(NamedTuple):
    """An agent is three pure functions and the class of its config.

    If its state has large buffers that only `update` reads, they stand in the field `memory`,
    which is left out when a finished run is saved.
    """

    name: str
    Config: type
    init: InitFn
    act: ActFn
    update: UpdateFn
    preset: Mapping[str, Any] = {}
    """Config values in which a named variant differs from the defaults."""
    check: Callable[[Any, Spec], None] | None = None
    """Raises ValueError where the agent cannot serve this config and spec."""
    probabilities: Callable[[Any, Spec, Any, Array], Array] | None = None
    """`probabilities(config, spec, state, obs)`: those of every action, [N, A, K]."""
    training: Training | None = None
    """How the agent trains before it is judged; None: it is judged while it learns."""

    def config(self, **overrides: Any) -> Any:
        """The agent's config with `overrides`, checked."""
        return configs.make(self.Config, {**self.preset, **overrides})

    def variant(self, name: str, training: Training | None = None, **preset: Any) -> Agent:
        """The same agent under another name, with other default values or a training plan."""
        preset = {**self.preset, **preset}
        return self._replace(name=name, preset=preset, training=training or self.training)
