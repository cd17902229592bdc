"""The worlds of `lcpo.gym.from_gym`: Gymnasium environments that step together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from lcpo.envs.base import ObsLayout, WorldError
from lcpo.errors import InputError, message
from lcpo.history import extend
from lcpo.types import Step

if TYPE_CHECKING:
    from lcpo.gym.from_gym import Translation


class GymnasiumWorlds:
    """N worlds in environments of one kind, as in lcpo.envs.base.HostWorlds.

    Each environment holds as many worlds as one agent learns from (`Spec.num_worlds`). They make
    their own contexts, so their histories are kept here.
    """

    def __init__(
        self, made: list[Any], translation: Translation, gives_history: bool, seeds: Sequence[int]
    ) -> None:
        """`gives_history`: the environments give all lags of the context themselves."""
        self.translation, self.gives_history = translation, gives_history
        many = gymnasium.vector.VectorEnv
        self.environments = [_VectorEnv(e) if isinstance(e, many) else _SingleEnv(e) for e in made]
        spec = translation.spec
        self.size, self.layout = spec.num_worlds, ObsLayout(*spec.context)
        if len(seeds) != len(made) * self.size:
            raise InputError(
                f"{len(seeds)} seeds for {len(made)} environments of {self.size} world(s) each"
            )
        self.seeds: list[int | None] = [int(seed) for seed in seeds]  # None: it has been used
        self.obs = np.zeros((len(seeds), spec.obs_size), np.float32)

    def reset(self, mask: np.ndarray) -> np.ndarray:
        for first, environment in self._first_worlds():
            worlds = slice(first, first + self.size)
            if not mask[worlds].any():
                continue
            with _worlds_errors(first, "reset raised"):
                results = list(environment.reset(mask[worlds], self.seeds[worlds]))
            for i, obs, info in results:
                self._write(first + i, obs, info, stepped=False)
                self.seeds[first + i] = None
        return self.obs.copy()

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """As in `HostWorlds`. `context` is empty: the environments make their own."""
        reward = np.zeros(len(self.obs), np.float32)
        terminated, truncated = np.zeros((2, len(self.obs)), bool)
        for first, environment in self._first_worlds():
            chosen = [*map(self.translation.form.decode, action[first : first + self.size])]
            with _worlds_errors(first, "step raised"):
                results = list(environment.step(chosen))
            for i, obs, *outcome, info in results:
                world = first + i
                _check_outcome(world, *outcome)
                reward[world], terminated[world], truncated[world] = outcome
                self._write(world, obs, info, stepped=True)
        return Step(self.obs.copy(), reward, terminated, truncated)  # pyright: ignore

    def get_state(self) -> dict[str, np.ndarray] | None:
        """The states; None unless every environment, through all of its wrappers, can be saved."""
        states = [environment.get_state() for environment in self.environments]
        if any(state is None for state in states):
            return None
        leaves = {k: np.stack([s[k] for s in states if s]) for k in states[0] or {}}
        return {**leaves, "obs": self.obs.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.obs = np.array(state["obs"], np.float32)
        for i, environment in enumerate(self.environments):
            environment.set_state({k: v[i] for k, v in state.items() if k != "obs"})
        self.seeds = [None] * len(self.seeds)

    def close(self) -> None:
        for environment in self.environments:
            environment.env.close()

    def _first_worlds(self) -> Iterator[tuple[int, _SingleEnv | _VectorEnv]]:
        """Each environment, with the index of its first world."""
        return ((i * self.size, environment) for i, environment in enumerate(self.environments))

    def _write(self, world: int, obs: Any, info: Any, stepped: bool) -> None:
        """Store the observation of a world, after a step or a reset."""
        try:
            features, context = self.translation.read(obs, info)
        except (ValueError, TypeError, KeyError) as error:
            raise WorldError({world: f"the observation {error}"}) from error
        layout = self.layout
        expected = layout.context_size if self.gives_history else layout.channels
        if features.size != layout.num_features or context.size != expected:
            cause = (
                f"{features.size} features and {context.size} context entries, but "
                f"{layout.num_features} and {expected} at the start: their number must not change"
            )
            raise WorldError({world: cause})
        if not self.gives_history:
            first = not stepped and self.seeds[world] is not None
            history = None if first else self.obs[world, layout.history]
            context = extend(history, context, layout.lags, moved=stepped)
        self.obs[world] = layout.join(features, context)


class _SingleEnv:
    """One environment, one world. `reset` and `step` yield (world, ...), as in `_VectorEnv`."""

    def __init__(self, env: gymnasium.Env) -> None:
        self.env = env

    def reset(self, mask: np.ndarray, seeds: Sequence[int | None]) -> Iterator[tuple]:
        yield 0, *self.env.reset(seed=seeds[0])

    def step(self, actions: list[Any]) -> Iterator[tuple]:
        yield 0, *self.env.step(actions[0])

    def get_state(self) -> dict[str, np.ndarray] | None:
        env: Any = self.env
        state: dict[str, Any] = {}
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, wrappers.TimeLimit):
                state["elapsed"] = np.int64(env._elapsed_steps or 0)
            elif not isinstance(env, (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)):
                return None  # it may hold anything
            env = env.env
        if not (hasattr(env, "get_state") and hasattr(env, "set_state")):
            return None
        own = env.get_state()
        state |= {f"env.{name}": np.asarray(value) for name, value in own.items()}
        return state | {"random": _random_state(env)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.env.reset()  # wrappers require one
        env: Any = self.env
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, wrappers.TimeLimit):
                env._elapsed_steps = int(state["elapsed"])
            env = env.env
        own = {k.removeprefix("env."): v for k, v in state.items() if k.startswith("env.")}
        env.set_state(own)
        _set_random_state(env, state["random"])


class _VectorEnv:
    """A vector environment: the worlds of one run. It cannot be saved."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        self.env = env

    def reset(self, mask: np.ndarray, seeds: Sequence[int | None]) -> Iterator[tuple]:
        options = {"reset_mask": mask.copy()}
        obs, info = self.env.reset(seed=list(seeds), options=options)  # pyright: ignore
        return (each for each in self._each(obs, info) if mask[each[0]])

    def step(self, actions: list[Any]) -> Iterator[tuple]:
        space = self.env.single_action_space
        empty = gymnasium.vector.utils.create_empty_array(space, len(actions))
        together = gymnasium.vector.utils.concatenate(space, actions, empty)
        obs, reward, terminated, truncated, info = self.env.step(together)
        for i, one, its_info in self._each(obs, info):
            yield i, one, reward[i], terminated[i], truncated[i], its_info

    def get_state(self) -> None:
        return None

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        raise RuntimeError("a vector environment cannot be saved")

    def _each(self, obs: Any, info: Any) -> Iterator[tuple]:
        """(world, obs, info): of the info, only the context is read."""
        for i, one in enumerate(gymnasium.vector.utils.iterate(self.env.observation_space, obs)):
            yield i, one, {"context": info["context"][i]} if "context" in info else {}


def _check_outcome(world: int, reward: Any, terminated: Any, truncated: Any) -> None:
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, (bool, np.bool_)):
            raise WorldError({world: f"{name} is {flag!r}: needs True or False"})
    if np.ndim(reward) != 0:
        raise WorldError({world: f"the reward has shape {list(np.shape(reward))}: needs a number"})


@contextlib.contextmanager
def _worlds_errors(world: int, what: str) -> Iterator[None]:
    """Errors of the user's code as errors of a world."""
    try:
        yield
    except Exception as error:
        raise WorldError({world: f"{what} {message(error)}"}) from error


_WORD = 2**64


def _random_state(env: gymnasium.Env) -> np.ndarray:
    """The state of Gymnasium's generator (PCG64), as words."""
    values = env.np_random.bit_generator.state
    state, inc = values["state"]["state"], values["state"]["inc"]
    words = [state % _WORD, state // _WORD, inc % _WORD, inc // _WORD]
    return np.array([*words, values["has_uint32"], values["uinteger"]], np.uint64)


def _set_random_state(env: gymnasium.Env, words: np.ndarray) -> None:
    low, high, inc_low, inc_high, has, held = (int(word) for word in words)
    env.np_random.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": low + high * _WORD, "inc": inc_low + inc_high * _WORD},
        "has_uint32": has,
        "uinteger": held,
    }
