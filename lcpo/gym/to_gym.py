"""Our environments as Gymnasium's: `gymnasium.make("lcpo:lcpo/WindyPendulum-v0", trace="3")`.

`import lcpo` registers them, and so does `lcpo:` before the id. The trace advances by step or by
episode as it does in our own runs: `reset()` continues it, `reset(seed=...)` rewinds it, and it
restarts after its last row. An observation ends with the history of the context; `info["context"]`
is its newest row. Many worlds at once: `lcpo.gym.vector`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lcpo import config as configs
from lcpo import contexts, defaults
from lcpo.contexts import TraceRef, paper
from lcpo.core import pendulum
from lcpo.envs import ENVS
from lcpo.envs.base import AnyEnv, is_host, max_input_of, obs_layout, trace_rows
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.envs.gridworld import MOVES, SIZE, TRAP_PENALTY, GridWorld
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError
from lcpo.gym import frames
from lcpo.types import Step

Result = tuple[Sequence[float] | np.ndarray, float, bool, bool]
"""(features, reward, terminated, truncated) of one step of one world."""
ROWS = 1_000_000  # length of a trace that can have any


def make_spaces(env: AnyEnv, continuous: bool) -> tuple[spaces.Space, spaces.Space]:
    """Spaces of observations and actions of one world; `continuous` as in `ContextEnv`."""
    spec, largest = env.spec, np.finfo(np.float32).max
    obs: spaces.Space = spaces.Box(-largest, largest, (spec.obs_size,), np.float32)
    if spec.obs_levels is not None:
        obs = spaces.MultiDiscrete(list(spec.obs_levels))
    if continuous:
        high = max_input_of(env)
        if high is None:
            raise InputError(
                f"{type(env).__name__} has no continuous actions: leave out continuous=True"
            )
        return obs, spaces.Box(-high, high, (spec.action_size,), np.float32)
    if spec.action_size == 1:
        return obs, spaces.Discrete(spec.num_actions[0])
    return obs, spaces.MultiDiscrete(list(spec.num_actions))


def load_rows(env: str, trace: Any, scale: float | None, channels: int) -> np.ndarray:
    """The trace [rows, channels], read-only, scaled as in our own runs."""
    trace = (defaults.of(env).trace or "revisit") if trace is None else trace
    if isinstance(trace, (str, TraceRef)):
        named = TraceRef.parse(trace)
        factor = paper.default_scale(env, named) if scale is None else scale
        rows = named.load(ROWS if named.any_length else None, factor)
    else:
        rows = contexts.check(np.asarray(trace), "given")
        rows = rows if scale is None else rows * np.float32(scale)
    if rows.shape[1] != channels:
        raise InputError(f"the trace has {rows.shape[1]} columns, {env!r} needs {channels}")
    return rows


class ContextEnv(gymnasium.Env):
    """One world of an lcpo environment, driven by a trace."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as gymnasium.Env has it

    def __init__(
        self,
        env: str,
        trace: str | np.ndarray | None = None,
        *,
        scale: float | None = None,
        continuous: bool = False,
        render_mode: str | None = None,
        **env_config: Any,
    ) -> None:
        """`env`: its name. `trace`: a name, a file or rows [rows, channels], times `scale`.

        `continuous`: actions are motor inputs as real numbers instead of indices into a grid.
        """
        self.env: AnyEnv = configs.make(ENVS[env], env_config)
        self.layout = obs_layout(self.env.spec, self.env.advance)
        self.world: Any = WORLDS.get(type(self.env), _OnlyWorld)(self.env)
        self.rows = load_rows(env, trace, scale, self.env.spec.context.channels)
        self.continuous, self.render_mode = continuous, render_mode
        self.observation_space, self.action_space = make_spaces(self.env, continuous)
        self.by_step, self.by_episode = (self.env.advance == by for by in ("step", "episode"))
        self.cursor = -1  # before the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; with a seed, at the first row of the trace."""
        super().reset(seed=seed)
        if seed is not None or self.cursor < 0:
            self.cursor = 0
            self.world.open(self.np_random)
        return self._observe(self.world.reset(self.np_random))

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step in the context of the next row, or in the episode's."""
        self.cursor += self.by_step
        advance = self.world.step_inputs if self.continuous else self.world.step
        features, reward, terminated, truncated = advance(action, self._context())
        obs, info = self._observe(features)
        if self.by_episode:
            self.cursor += terminated or truncated
        return obs, reward, terminated, truncated, info

    def _context(self) -> np.ndarray:
        return self.rows[self.cursor % len(self.rows)]

    def _observe(self, features: Any) -> tuple[np.ndarray, dict[str, Any]]:
        layout, row = self.layout, self.cursor % len(self.rows)
        obs = np.empty(layout.num_features + layout.context_size, self.observation_space.dtype)
        obs[layout.features] = features
        window = self.rows[row - layout.lags + 1 : row + 1][::-1]
        if row < layout.lags - 1:  # it reaches back over the first row
            window = self.rows[trace_rows(self.cursor - np.arange(layout.lags), len(self.rows))]
        obs[layout.history].reshape(layout.channels, layout.lags)[...] = window.T
        return obs, {"context": self._context().copy()}

    def render(self) -> np.ndarray | None:
        """[height, width, 3] in the mode "rgb_array"."""
        return self._picture() if self.render_mode == "rgb_array" else None

    def _picture(self) -> np.ndarray | None:
        return None

    def close(self) -> None:
        self.world.close()


class PendulumEnv(ContextEnv):
    """The pendulum; pictures show the wind."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def _picture(self) -> np.ndarray:
        return frames.pendulum(self.world.angle, self._context())


class GridWorldEnv(ContextEnv):
    """The grid world; in pictures, the trap's cell is red while it is active."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def _picture(self) -> np.ndarray:
        world = self.world
        return frames.grid_world(world.row, world.col, world.caught, self._context()[1] > 0.5)


class MujocoEnv(ContextEnv):
    """A MuJoCo task, drawn by MuJoCo with an arrow for the wind."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not is_host(self.env):
            raise InputError(
                'physics = "compiled": needs "mujoco", which draws the world; for many compiled '
                "worlds use gymnasium.make_vec"
            )
        self.artist = frames.MujocoArtist()
        self.world.open(np.random.default_rng(0))
        worlds = self.world.worlds
        seconds = worlds.model.opt.timestep * worlds.task.frame_skip
        self.metadata = {**self.metadata, "render_fps": round(1.0 / seconds)}

    def _picture(self) -> np.ndarray:
        return self.artist(self.world.worlds, self._context())

    def close(self) -> None:
        super().close()
        self.artist.close()


class _OnlyWorld:
    """One world of an environment that steps many."""

    worlds: Any = None  # HostWorlds, once they are open; MujocoWorlds in a `MujocoEnv`

    def __init__(self, env: AnyEnv) -> None:
        self.env = env

    def open(self, rng: np.random.Generator) -> None:
        self.close()
        self.worlds = open_worlds(self.env, [int(rng.integers(2**31))], threads=1)

    def reset(self, rng: np.random.Generator) -> np.ndarray:
        return self.worlds.reset(np.ones(1, bool))[0]

    def step(self, action: Any, context: np.ndarray) -> Result:
        chosen = np.asarray(action, np.int32).reshape(1, -1)
        return _first_world(self.worlds.step(chosen, context[None]))

    def step_inputs(self, inputs: np.ndarray, context: np.ndarray) -> Result:
        return _first_world(self.worlds.step_inputs(np.asarray(inputs)[None], context[None]))

    def close(self) -> None:
        if self.worlds is not None:
            self.worlds.close()
        self.worlds = None


def _first_world(step: Step) -> Result:
    obs = np.asarray(step.obs)[0]
    return obs, float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0])


class PlainWorld:
    """One world in plain Python numbers, which is faster than calling a compiled function.

    Subclasses repeat the equations of `lcpo.core.pendulum` and `lcpo.envs.gridworld` in double
    precision; a test compares them.
    """

    def open(self, rng: np.random.Generator) -> None:
        pass

    def close(self) -> None:
        pass


class PendulumWorld(PlainWorld):
    """A pendulum in a wind."""

    def __init__(self, env: Pendulum) -> None:
        self.max_steps, high = env.max_steps, pendulum.MAX_TORQUE
        self.torques = np.linspace(-high, high, env.num_bins).tolist()
        self.angle, self.speed, self.time = 0.0, 0.0, 0

    def reset(self, rng: np.random.Generator) -> Sequence[float]:
        """Angle ~ U(-pi, pi), speed ~ U(-1, 1)."""
        self.angle, self.speed = rng.uniform([-math.pi, -1.0], [math.pi, 1.0]).tolist()
        self.time = 0
        return self._features()

    def step(self, action: Any, context: np.ndarray) -> Result:
        return self._advance(self.torques[int(action)], context)

    def step_inputs(self, inputs: np.ndarray, context: np.ndarray) -> Result:
        return self._advance(_clip(float(inputs[0]), pendulum.MAX_TORQUE), context)

    def _advance(self, torque: float, context: np.ndarray) -> Result:
        angle, speed = self.angle, self.speed
        wind_x, wind_y = context.tolist()
        up = math.sin(angle)
        total = _clip(torque + wind_x * math.cos(angle) + wind_y * up, pendulum.MAX_TORQUE)
        reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed = _clip(speed + (15.0 * up + 3.0 * total) * pendulum.DT, pendulum.MAX_SPEED)
        turned = angle + pendulum.DT * speed + math.pi
        self.angle, self.speed = turned % (2.0 * math.pi) - math.pi, speed
        self.time += 1
        return self._features(), reward, False, self.time >= self.max_steps

    def _features(self) -> Sequence[float]:
        return math.cos(self.angle), math.sin(self.angle), self.speed


class GridWalker(PlainWorld):
    """A walker in the grid with a trap."""

    def __init__(self, env: GridWorld) -> None:
        self.env, self.moves = env, MOVES.tolist()
        self.row, self.col, self.caught, self.time = SIZE - 1, SIZE - 1, False, 0

    def reset(self, rng: np.random.Generator) -> Sequence[float]:
        self.row, self.col, self.caught, self.time = SIZE - 1, SIZE - 1, False, 0
        return self.row, self.col

    def step(self, action: Any, context: np.ndarray) -> Result:
        down, right = self.moves[int(action)]
        row = min(max(self.row + down, 0), SIZE - 1)
        col = min(max(self.col + right, 0), SIZE - 1)
        blocked = (row, col) == (1, 2)
        if not self.env.as_described:
            blocked = blocked and self.col == 2 and self.row != 1
        if not blocked:
            self.row, self.col = row, col
        on_exit = (self.row, self.col) == (0, 2)
        trapped = (self.row, self.col) == (1, 1) and context[1] > 0.5 and not self.caught
        self.caught = self.caught or bool(trapped)
        self.time += 1
        reward = (0.0 if on_exit else -1.0) - TRAP_PENALTY * trapped
        over = on_exit and self.env.as_described
        return (self.row, self.col), float(reward), over, self.time >= self.env.max_steps


WORLDS: dict[type, Any] = {Pendulum: PendulumWorld, GridWorld: GridWalker}
"""By the class of the environment."""


def _clip(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)
