"""The worlds of `lcpo.gym.from_gym`: Gymnasium environments that step together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from lcpo.envs.base import WorldError
from lcpo.errors import InputError
from lcpo.types import Step

if TYPE_CHECKING:
    from lcpo.gym.from_gym import Layout

Result = tuple[int, Any, float, bool, bool, Any]
"""(world, obs, reward, terminated, truncated, info)"""


class GymnasiumWorlds:
    """N worlds in environments of one layout, as in lcpo.envs.base.HostWorlds."""

    def __init__(
        self, made: list[Any], layout: Layout, history: bool, seeds: Sequence[int]
    ) -> None:
        """`history`: the environments give all lags of the context themselves."""
        self.layout, self.given = layout, history
        self.blocks: list[Any] = [_Vector(env) if is_vector(env) else _Single(env) for env in made]
        self.size = layout.spec.num_worlds  # of a block
        if len(seeds) != len(made) * self.size:
            raise InputError(
                f"{len(seeds)} seeds for {len(made)} environments of {self.size} world(s) each"
            )
        self.seeds: list[int | None] = [int(seed) for seed in seeds]  # None: it has been used
        self.obs = np.zeros((len(seeds), layout.spec.obs_size), np.float32)

    def reset(self, mask: np.ndarray) -> np.ndarray:
        """Begin an episode where `mask` [N] is set; a reset takes no time: no context is added."""
        for first, block in self._blocks():
            rows = slice(first, first + self.size)
            if not mask[rows].any():
                continue
            try:
                begun = list(block.reset(mask[rows], self.seeds[rows]))
            except Exception as error:
                raise _told(first, "reset raised", error) from error
            for i, obs, info in begun:
                features, context = self._read(first + i, obs, info)
                self._write(first + i, features, context, "reset")
                self.seeds[first + i] = None
        return self.obs.copy()

    def step(self, action: np.ndarray, context: np.ndarray) -> Step:
        """One step with actions [N, A]. The environments make their own context."""
        del context
        reward = np.zeros(len(self.obs), np.float32)
        terminated, truncated = np.zeros((2, len(self.obs)), bool)
        decode = self.layout.decode
        for first, block in self._blocks():
            chosen = [decode(row) for row in action[first : first + self.size]]
            try:
                results = list(block.step(chosen))
            except Exception as error:
                raise _told(first, "step raised", error) from error
            for i, obs, *rest, info in results:
                world = first + i
                reward[world], terminated[world], truncated[world] = _checked(world, *rest)
                self._write(world, *self._read(world, obs, info), "step")
        return Step(self.obs.copy(), reward, terminated, truncated)  # pyright: ignore

    def get_state(self) -> dict[str, np.ndarray] | None:
        """None unless every environment can be saved, through all of its wrappers."""
        states = [block.get_state() for block in self.blocks]
        if any(state is None for state in states):
            return None
        leaves = {k: np.stack([s[k] for s in states if s]) for k in states[0] or {}}
        return {**leaves, "obs": self.obs.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from what `get_state` returned."""
        self.obs = np.array(state["obs"], np.float32)
        for i, block in enumerate(self.blocks):
            block.set_state({k: v[i] for k, v in state.items() if k != "obs"})
        self.seeds = [None] * len(self.seeds)

    def close(self) -> None:
        """Close the environments."""
        for block in self.blocks:
            block.env.close()

    def _blocks(self) -> Iterator[tuple[int, Any]]:
        return ((i * self.size, block) for i, block in enumerate(self.blocks))

    def _read(self, world: int, obs: Any, info: Any) -> tuple[np.ndarray, np.ndarray]:
        try:
            return self.layout.read(obs, info)
        except (ValueError, TypeError, KeyError) as error:
            raise WorldError({world: f"the observation {error}"}) from error

    def _write(self, world: int, features: np.ndarray, context: np.ndarray, event: str) -> None:
        """The observation of a world, with the newest context at the head of its history."""
        start, channels, lags = self.layout.spec.context
        row = self.obs[world]
        history = row[start:].reshape(channels, lags)
        expected = history.size if self.given else channels
        if features.size != start or context.size != expected:
            raise WorldError(
                {world: f"{features.size} features and {context.size} context entries: there were "
                 f"{start} and {expected} at the start"}
            )  # fmt: skip
        row[:start] = features
        if self.given:
            history[:] = context.reshape(channels, lags)
            return
        if event == "step":
            history[:, 1:] = history[:, :-1].copy()
        elif self.seeds[world] is not None:
            history[:] = context[:, None]  # before the first value the history repeats it
        history[:, 0] = context


class _Single:
    """One environment, one world."""

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
        self.env.reset()  # wrappers want to have seen one
        env: Any = self.env
        while isinstance(env, gymnasium.Wrapper):
            if isinstance(env, wrappers.TimeLimit):
                env._elapsed_steps = int(state["elapsed"])
            env = env.env
        own = {k.removeprefix("env."): v for k, v in state.items() if k.startswith("env.")}
        env.set_state(own)
        _set_random_state(env, state["random"])


class _Vector:
    """A vector environment: the worlds of one run."""

    def __init__(self, env: gymnasium.vector.VectorEnv) -> None:
        self.env = env

    def reset(self, mask: np.ndarray, seeds: Sequence[int | None]) -> Iterator[tuple]:
        options = {"reset_mask": mask.copy()}
        obs, info = self.env.reset(seed=list(seeds), options=options)  # pyright: ignore
        for i, one in self._each(obs):
            if mask[i]:
                yield i, one, _of(info, i)

    def step(self, actions: list[Any]) -> Iterator[tuple]:
        space = self.env.single_action_space
        empty = gymnasium.vector.utils.create_empty_array(space, len(actions))
        together = gymnasium.vector.utils.concatenate(space, actions, empty)
        obs, reward, terminated, truncated, info = self.env.step(together)
        for i, one in self._each(obs):
            yield i, one, reward[i], terminated[i], truncated[i], _of(info, i)

    def get_state(self) -> None:
        return None

    def _each(self, obs: Any) -> Iterator[tuple[int, Any]]:
        return enumerate(gymnasium.vector.utils.iterate(self.env.observation_space, obs))


def is_vector(made: Any) -> bool:
    """Whether an environment has many worlds."""
    return isinstance(made, gymnasium.vector.VectorEnv)


def check_vector(made: Any) -> None:
    """Raise ValueError if a vector environment resets by itself."""
    mode = made.metadata.get("autoreset_mode")
    if mode != gymnasium.vector.AutoresetMode.DISABLED:
        raise InputError(
            f"a vector environment that resets by itself ({mode}) hides the last observation of an "
            "episode: make it with autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED"
        )


def _of(info: Any, i: int) -> Any:
    return {"context": info["context"][i]} if "context" in info else {}


def _checked(world: int, reward: Any, terminated: Any, truncated: Any) -> tuple[float, bool, bool]:
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, (bool, np.bool_)):
            raise WorldError({world: f"{name} is {flag!r}: needs True or False"})
    if np.ndim(reward) != 0:
        raise WorldError({world: f"the reward has shape {list(np.shape(reward))}: needs a number"})
    return float(reward), bool(terminated), bool(truncated)


def _told(world: int, what: str, error: Exception) -> WorldError:
    return WorldError({world: f"{what} {type(error).__name__}: {error}"})


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
