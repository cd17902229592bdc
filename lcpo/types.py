"""The records that all layers exchange.

Words, always in this order: obs, context, action, reward, next_obs, terminated, truncated, key,
config, spec, state, batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lcpo import config as configs
from lcpo.distributions import Categorical, Distribution
from lcpo.errors import InputError

Array = jax.Array
ArrayT = TypeVar("ArrayT", Array, np.ndarray)
"""Functions of NumPy or JAX arrays return the kind that they are given."""
Tree = Any
"""A pytree of arrays whose structure only its owner knows: an agent's state, parameters, ..."""
Metrics = dict[str, Array]
"""Scalars of one update. A value that is not finite stops the run."""


class ContextSlice(NamedTuple):
    """Where the context history is in an observation: `channels` blocks of `lags` entries.

    Each block runs from the newest value to the oldest. The methods read observations [..., D].
    """

    start: int
    channels: int
    lags: int

    @property
    def size(self) -> int:
        return self.channels * self.lags

    @property
    def end(self) -> int:
        return self.start + self.size

    def entries(self, obs: ArrayT) -> ArrayT:
        """The context history as it stands in `obs`: [..., channels * lags]."""
        return obs[..., self.start : self.end]

    def history(self, obs: ArrayT) -> ArrayT:
        """The context history by channel and lag, the newest first: [..., channels, lags]."""
        return self.entries(obs).reshape(*obs.shape[:-1], self.channels, self.lags)

    def newest(self, obs: ArrayT) -> ArrayT:
        """The newest context: [..., channels]."""
        return self.entries(obs)[..., :: max(self.lags, 1)]

    def remove(self, obs: Array) -> Array:
        """Everything except the context history: [..., D - channels * lags]."""
        return jnp.concatenate([obs[..., : self.start], obs[..., self.end :]], axis=-1)

    def insert(self, rest: Array, history: Array) -> Array:
        """The observation with this rest [..., D - size] and history [..., channels, lags]."""
        entries = history.reshape(*history.shape[:-2], self.size)
        return jnp.concatenate([rest[..., : self.start], entries, rest[..., self.start :]], axis=-1)


class Guard(NamedTuple):
    """A rule of the environment that overrides the agent's action. Such steps have weight 0."""

    entry: int
    """Index of the observation entry that is 1 if the rule applies to the next step, else 0."""
    action: tuple[int, ...]
    """The action that is executed then."""

    def holds(self, obs: Array) -> Array:
        """Whether the rule applies to the next step: obs [..., D], observed or predicted."""
        return obs[..., self.entry] > 0.5


class Spec(NamedTuple):
    """What an agent knows about its environment. Hashable: it is static under jit."""

    obs_size: int
    context: ContextSlice
    num_actions: tuple[int, ...] = ()
    """Number of discrete actions per dimension: short for `distribution=Categorical(...)`."""
    obs_levels: tuple[int, ...] | None = None
    """Number of levels of each observation entry, if the space is finite (tabular agents)."""
    elements: tuple[int, int] | None = None
    """(number, size) of exchangeable elements at the head of the observation (deep sets)."""
    num_worlds: int = 1
    """Worlds that one agent learns from: the N of every batch."""
    contiguous_contexts: bool = False
    """A promise, for replay: each world's context moves on by one row per step, across resets too,
    so that histories need not be stored."""
    unit_steps: bool = False
    """A promise: every step has elapsed = 1 and weight = 1."""
    guard: Guard | None = None
    """The rule that overrides actions, if there is one."""
    readings: tuple[str, ...] = ()
    """Names of `Step.readings`, which rules for this environment may use; the record of a run has
    their sums, as "total_NAME"."""
    distribution: Distribution | None = None
    """The action distribution, if actions are not discrete."""

    @property
    def actions(self) -> Distribution:
        """The action distribution."""
        return self.distribution or Categorical(self.num_actions)

    @property
    def discrete(self) -> Categorical:
        """`actions`, if they are discrete; InputError otherwise."""
        actions = self.actions
        if not isinstance(actions, Categorical):
            raise InputError(
                f"the environment has {actions}: this needs discrete actions, as in "
                "Spec(..., num_actions=(5,)); use an agent such as lcpo or a2c"
            )
        return actions

    @property
    def action_size(self) -> int:
        """A: the number of action dimensions."""
        return self.actions.size


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
    extra: Any  # what `act` returned besides the action
    readings: Any = ()  # [T, N, len(spec.readings)], or nothing where there are none
    running: Any = ()  # [T, N], the discounted return of the episode so far, where streams share a
    # batch; nothing where each world is one stream, and the agent follows its return itself


class Step(NamedTuple):
    """What an environment returns for one step of one world."""

    obs: Array  # the environment's own features; the context history is appended by the driver
    reward: Array
    terminated: Array
    truncated: Array
    elapsed: Array | float = 1.0
    weight: Array | float = 1.0
    action: Array | None = None  # as executed, where a guard may override the agent's
    readings: Any = ()  # one number for each name in `Spec.readings`


class Training(NamedTuple):
    """Train from random starts on the whole trace, then evaluate the frozen policy along it once.

    At the end of every training episode the trace jumps to a row drawn uniformly.
    """

    steps: int
    """Interactions to learn from."""
    halve: tuple[str, ...] = ()
    """Traced config fields (learning rates) that are halved during training."""
    halve_at: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8, 0.9)
    """When they are halved, as shares of the updates."""
    evaluation_length: int = 200
    """Steps per epoch of the evaluation."""


ConfigT = TypeVar("ConfigT")
StateT = TypeVar("StateT")


@dataclasses.dataclass(frozen=True, eq=False)
class Agent(Generic[ConfigT, StateT]):
    """An agent is three pure functions and the class of its config.

        init(config, spec, key) -> state          a fresh state: arrays only, of fixed shapes
        act(config, spec, state, obs, key)        actions [N, A] for obs [N, D], and anything
            -> (action, extra)                    that `update` should find in `batch.extra`
        update(config, spec, state, batch, key)   learn from one batch, leaves [T, N, ...]; the
            -> (state, metrics)                   state keeps its tree, shapes and dtypes

    The config is a class with `lcpo.config.config` and a static field `rollout_length`: the driver
    collects that many steps of each world, then calls `update` once. All randomness comes from the
    key. Large buffers that only `update` reads belong in the state's field `memory`, which is left
    out when a finished run is saved. Agents are compared by identity, as keys of compiled programs.
    """

    name: str
    Config: type[ConfigT]
    init: Callable[[ConfigT, Spec, Array], StateT]
    act: Callable[[ConfigT, Spec, StateT, Array, Array], tuple[Array, Any]]
    update: Callable[[ConfigT, Spec, StateT, Transition, Array], tuple[StateT, Metrics]]
    preset: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Config values in which this variant differs from its parent."""
    parent: Agent[ConfigT, StateT] | None = None
    """The agent that this is a variant of."""
    check: Callable[[ConfigT, Spec], None] | None = None
    """Raises InputError if the agent does not support this config and spec."""
    probabilities: Callable[[ConfigT, Spec, StateT, Array], Array] | None = None
    """`probabilities(config, spec, state, obs)`: the probability of every action, [N, A, K]; for
    actions that are not discrete, the parameters of their distribution (`Distribution.summary`)."""
    training: Training | None = None
    """How the agent trains before its evaluation; None: it is evaluated while it learns."""
    raw: bool = False
    """A rule or table in the environment's own units: its observations are never normalised."""

    @property
    def root(self) -> Agent[ConfigT, StateT]:
        """The first ancestor with these functions: all its variants share one compiled program."""
        names = ("init", "act", "update", "probabilities")
        if self.parent and all(getattr(self, n) == getattr(self.parent, n) for n in names):
            return self.parent.root
        return self

    @property
    def presets(self) -> dict[str, Any]:
        """Config values of this variant and its ancestors."""
        return {**(self.parent.presets if self.parent else {}), **self.preset}

    def config(self, **overrides: Any) -> ConfigT:
        """The agent's config with `overrides`, checked."""
        return configs.make(self.Config, {**self.presets, **overrides})

    def variant(
        self, name: str, training: Training | None = None, **preset: Any
    ) -> Agent[ConfigT, StateT]:
        """The same agent under another name, with other default values or a training plan."""
        training = training or self.training
        return dataclasses.replace(self, name=name, preset=preset, parent=self, training=training)


AnyAgent = Agent[Any, Any]
