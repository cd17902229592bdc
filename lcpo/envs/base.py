"""The environment protocols, and the layout of observations.

There are two kinds of environments. Both are frozen configs (`lcpo.config.config`):

    CompiledEnv   pure JAX functions of one world; the driver runs many of them in one program
    HostEnv       a simulator outside XLA; `open` makes HostWorlds, N worlds that step in NumPy

An observation is [features, history]: the environment's own features, then the newest `lags`
values of each channel of the context (`ObsLayout`). The context is a row of a trace. The
environment receives the newest row as an argument and never sees the history, which the driver
appends. An environment that makes its own context declares `advance = "own"`: it receives no
context and writes those entries into its features itself.

Optional members, each read through one function here: `landmarks`, `notes`, `max_input`,
`open_anywhere`, `action_form`, `is_host`; in `lcpo.envs.entries`: `feature_names`, `context_names`;
and of the class `defaults` (`lcpo.defaults`), `earlier` (`lcpo.run.plan.job`) and `measures`
(`lcpo.study.measure.measures`), for reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from lcpo.plain import ActionForm
from lcpo.types import Array, ArrayT, Spec, Step

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Advance = Literal["step", "episode", "own"]
"""What advances the trace by one row: every step, or every episode. "own": there is no trace."""

EnvState = TypeVar("EnvState")  # the state of a compiled environment: any pytree of arrays


class CompiledEnv(Protocol[EnvState]):
    """A compiled environment: pure JAX functions of one world.

    It has no batch axis (the driver vmaps it), no auto-reset (the driver resets), and does not know
    where its context comes from. To build one, write a frozen config with these four members, as in
    examples/own_environment.py. Fields that are `traced` may differ between runs of one program.
    Every run checks it first (lcpo.run.plan.check), and `lcpo check-env` plays with it.
    """

    @property
    def spec(self) -> Spec:
        """What an agent may know. `obs_size` counts the context's entries, which come last."""
        ...

    @property
    def advance(self) -> Advance: ...

    def reset(self, key: Array) -> tuple[EnvState, Array]:
        """A fresh episode: its state and features [F]. All randomness comes from `key`."""
        ...

    def step(
        self, state: EnvState, action: Array, context: Array, key: Array
    ) -> tuple[EnvState, Step]:
        """One step with action [A] (indices) in the context [channels]. Never resets.

        The state keeps its tree, shapes and dtypes. `Step.obs` are the features after the step,
        also at the end of an episode; the flags are bool. An episode that is cut off by a limit is
        truncated; one that ends where no reward can follow is terminated.
        """
        ...


class HostEnv(Protocol):
    """A host environment: a simulator outside XLA, recognized by its `open`.

    To build one, write a frozen config with static fields only, and a class with the members of
    `HostWorlds`, which `open` returns. Examples: `lcpo.envs.mujoco`, and `lcpo.gym.from_gym` for
    Gymnasium's environments.
    """

    @property
    def spec(self) -> Spec:
        """As in `CompiledEnv`. `num_worlds`: worlds that one agent learns from."""
        ...

    @property
    def advance(self) -> Advance: ...

    def open(self, num_worlds: int, seeds: Sequence[int], threads: int | None = None) -> HostWorlds:
        """Make `num_worlds` worlds, world i with its own random stream from seeds[i].

        A world depends on its seed and inputs only, not on other worlds. `threads`: how
        many the simulator may use; None: one per core.
        """
        ...


class HostWorlds(Protocol):
    """N worlds that step together in NumPy. The driver appends the context history.

    After each step the driver resets the worlds whose episodes have ended. A world that cannot
    continue raises `WorldError`, which stops its run with that cause. Arrays that are returned must
    not be changed by later calls.
    """

    def reset(self, mask: np.ndarray) -> np.ndarray:
        """Begin an episode where `mask` [N] is set; features [N, F] float32 of all worlds."""
        ...

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """One step with actions [N, A] int, contexts [N, channels]: arrays [N, ...]. No resets."""
        ...

    def get_state(self) -> dict[str, np.ndarray] | None:
        """Copies of everything needed to continue exactly, leaves [N, ...]; None: not supported."""
        ...

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned, in these worlds or in others of the same env."""
        ...

    def close(self) -> None:
        """Release the simulator's resources; the worlds cannot be used afterwards."""
        ...


AnyEnv = CompiledEnv[Any] | HostEnv  # an environment of either kind


class WorldError(RuntimeError):
    """A world of a host environment cannot continue; `worlds` has causes by index."""

    def __init__(self, worlds: Mapping[int, str]) -> None:
        self.worlds = dict(worlds)
        super().__init__("; ".join(f"world {i}: {cause}" for i, cause in self.worlds.items()))


def is_host(env: AnyEnv) -> TypeIs[HostEnv]:
    """Whether an environment steps outside the compiler: it has `open`.

    Optional member `is_host`: an environment of both kinds says which of the two it is used as.
    """
    return getattr(env, "is_host", hasattr(env, "open"))


class Landmark(NamedTuple):
    """A state whose best action is known: runs record how far the policy is from it."""

    obs: tuple[float, ...]
    action: tuple[int, ...]


def landmarks_of(env: AnyEnv) -> Mapping[str, Landmark]:
    """Optional member `landmarks`: by name, each recorded as the metric "tv_NAME"."""
    return getattr(env, "landmarks", {})


def notes_of(env: AnyEnv) -> tuple[str, ...]:
    """Optional member `notes`: what a user should know about the environment before a run."""
    return getattr(env, "notes", ())


def open_anywhere_of(env: HostEnv) -> Callable[..., HostWorlds] | None:
    """Optional member `open_anywhere` of a host environment that makes its own context.

    As `open`, for training from random starts: each episode begins at a place drawn from the
    world's seed, and ends by itself.
    """
    return getattr(env, "open_anywhere", None)


def max_input_of(env: AnyEnv) -> float | None:
    """Optional member `max_input`: actions index an even grid from -max_input to max_input.

    Other inputs are possible, too: a compiled environment takes numbers between two indices, worlds
    of a host one have `step_inputs(inputs, context)` in addition to `step`.
    """
    return getattr(env, "max_input", None)


def action_form_of(env: AnyEnv) -> ActionForm | None:
    """Optional member `action_form`: what the indices [A] of an action stand for; None: nothing."""
    return getattr(env, "action_form", None)


def is_measured(env: AnyEnv) -> bool:
    """Whether steps report more than a reward: records are longer then."""
    return bool(env.spec.readings or landmarks_of(env))


class ObsLayout(NamedTuple):
    """Where features and context history are in an observation; made by `obs_layout`.

    An environment that makes its own context has features only: no channels, no history.
    """

    num_features: int
    channels: int  # of the context that `step` is given
    lags: int

    @property
    def context_size(self) -> int:
        return self.channels * self.lags

    @property
    def features(self) -> slice:
        return slice(0, self.num_features)

    @property
    def history(self) -> slice:
        return slice(self.num_features, self.num_features + self.context_size)

    @staticmethod
    def join(features: ArrayT, history: ArrayT) -> ArrayT:
        """Observations [..., D] of features [..., F] and history [..., H]."""
        if isinstance(features, np.ndarray) and isinstance(history, np.ndarray):
            return np.concatenate([features, history], axis=-1)
        return jnp.concatenate([features, history], axis=-1)

    def split(self, obs: ArrayT) -> tuple[ArrayT, ArrayT]:
        """Features [..., F] and history [..., H] of observations [..., D]."""
        return obs[..., self.features], obs[..., self.history]

    def newest(self, history: ArrayT) -> ArrayT:
        """The context [..., channels] at the head of a history [..., H]."""
        return history[..., :: max(self.lags, 1)]

    def history_at(self, trace: np.ndarray, cursor: np.ndarray) -> np.ndarray:
        """Histories [N, H] at rows `cursor` [N] of a trace [rows, channels]."""
        return entries(trace_windows(trace, cursor, self.lags))


def obs_layout(spec: Spec, advance: Advance) -> ObsLayout:
    """The layout of the observations of an environment with this spec and advance."""
    if advance == "own":
        return ObsLayout(spec.obs_size, 0, 0)
    context = spec.context
    return ObsLayout(spec.obs_size - context.size, context.channels, context.lags)


def trace_rows(index: np.ndarray, num_rows: int) -> np.ndarray:
    """Rows of a trace for any index: before row 0 it repeats row 0, after the last it restarts."""
    return np.maximum(index, 0) % num_rows


def trace_windows(trace: np.ndarray, cursor: np.ndarray, lags: int) -> np.ndarray:
    """The last `lags` rows at rows `cursor` [N] of a trace, newest first: [N, lags, channels]."""
    return trace[trace_rows(cursor[:, None] - np.arange(lags), len(trace))]


def entries(windows: ArrayT) -> ArrayT:
    """Windows [..., lags, channels] as histories [..., H]: channel by channel, newest first."""
    *leading, lags, channels = windows.shape
    return windows.swapaxes(-1, -2).reshape(*leading, channels * lags)


def select(mask: Array | np.ndarray, if_true: Any, if_false: Any) -> Any:
    """Per world: `if_true` where `mask` [N], else `if_false`; trees with leaves [N, ...]."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b)

    return jax.tree.map(pick, if_true, if_false)
