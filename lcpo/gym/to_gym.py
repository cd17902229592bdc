"""Our environments as Gymnasium's: `gymnasium.make("lcpo/WindyPendulum-v0", trace="3")`.

`import lcpo` registers them. The trace moves on by step or by episode as it does in our own runs:
`reset()` goes on with it, `reset(seed=...)` rewinds it, and after its last row comes the first. An
observation ends with the history of the context; `info["context"]` is its newest row.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from lcpo import config as configs
from lcpo import contexts
from lcpo.contexts import paper
from lcpo.envs import ENVS
from lcpo.envs.base import (
    AnyEnv,
    CompiledEnv,
    HostEnv,
    InputWorlds,
    is_host,
    max_input_of,
    obs_layout,
    trace_rows,
)
from lcpo.errors import InputError
from lcpo.types import Step

ROWS = 1_000_000
"""Length of a trace that can have any."""


class ContextEnv(gymnasium.Env):
    """One world of an environment of ours, driven by a trace."""

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

        `continuous`: motor inputs as real numbers, instead of indices into a grid of them.
        """
        self.env: AnyEnv = configs.make(ENVS[env], env_config)
        self.layout = obs_layout(self.env.spec, self.env.advance)
        self.world = _HostWorld(self.env) if is_host(self.env) else _CompiledWorld(self.env)
        self.rows = _load_rows(env, trace, scale, self.env.spec.context.channels)
        self.continuous, self.render_mode = continuous, render_mode
        self.observation_space, self.action_space = self._make_spaces()
        self.cursor = -1  # before the first reset

    def _make_spaces(self) -> tuple[spaces.Space, spaces.Space]:
        spec, largest = self.env.spec, np.finfo(np.float32).max
        obs: spaces.Space = spaces.Box(-largest, largest, (spec.obs_size,), np.float32)
        action: spaces.Space = spaces.MultiDiscrete(list(spec.num_actions))
        if spec.obs_levels is not None:
            obs = spaces.MultiDiscrete(list(spec.obs_levels))
            action = spaces.Discrete(spec.num_actions[0])
        if self.continuous:
            high = max_input_of(self.env)
            if high is None:
                raise InputError(f"{type(self.env).__name__} has no continuous actions")
            action = spaces.Box(-high, high, (spec.action_size,), np.float32)
        return obs, action

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
        self.cursor += self.env.advance == "step"
        context = self._context()
        if self.continuous:
            result = self.world.step_inputs(np.asarray(action, np.float32), context)
        else:
            result = self.world.step(np.asarray(action, np.int32).reshape(-1), context)
        features, reward, terminated, truncated = result
        obs, info = self._observe(features)
        if self.env.advance == "episode":
            self.cursor += terminated or truncated
        return obs, reward, terminated, truncated, info

    def _context(self) -> np.ndarray:
        """The newest row of the trace."""
        return self.rows[trace_rows(np.asarray(self.cursor), len(self.rows))]

    def _observe(self, features: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """The observation and the info that go with these features."""
        history = self.layout.history_at(self.rows, np.array([self.cursor]))[0]
        obs = self.layout.join(features, history).astype(self.observation_space.dtype)
        return obs, {"context": self._context().copy()}

    def close(self) -> None:
        """Free what a simulator holds."""
        self.world.close()


class PendulumEnv(ContextEnv):
    """The pendulum, which has a picture."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def render(self) -> np.ndarray | None:
        """[200, 200, 3]: the rod from its hinge, upright at angle 0."""
        if self.render_mode != "rgb_array":
            return None
        assert isinstance(self.world, _CompiledWorld)
        angle = float(self.world.state.angle)
        y, x = np.mgrid[1.2:-1.2:200j, -1.2:1.2:200j]
        along = x * -np.sin(angle) + y * np.cos(angle)  # a positive angle leans to the left
        away = np.abs(x * np.cos(angle) + y * np.sin(angle))
        picture = np.full((200, 200, 3), 255, np.uint8)
        picture[(along >= 0.0) & (along <= 1.0) & (away < 0.08)] = (204, 77, 77)
        picture[np.hypot(x, y) < 0.05] = 0
        return picture


class MujocoEnv(ContextEnv):
    """A MuJoCo task, drawn by MuJoCo; without a display set MUJOCO_GL=egl or osmesa."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    renderer: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.world.open(np.random.default_rng(0))
        seconds = self._worlds.model.opt.timestep * self._worlds.task.frame_skip
        self.metadata = {**self.metadata, "render_fps": round(1.0 / seconds)}

    @property
    def _worlds(self) -> Any:
        """The only world, as lcpo.envs.mujoco.worlds.MujocoWorlds."""
        assert isinstance(self.world, _HostWorld)
        return self.world.worlds

    def render(self) -> np.ndarray | None:
        """[240, 320, 3]"""
        import mujoco

        if self.render_mode != "rgb_array":
            return None
        worlds = self._worlds
        if self.renderer is None:
            self.renderer = mujoco.Renderer(worlds.model)
        self.renderer.update_scene(worlds.data_of(0))
        return self.renderer.render()

    def close(self) -> None:
        """Free simulator and renderer."""
        super().close()
        if self.renderer is not None:
            self.renderer.close()
            self.renderer = None


Result = tuple[np.ndarray, float, bool, bool]
"""(features, reward, terminated, truncated) of the only world."""


class _CompiledWorld:
    """One world of a compiled environment, on the CPU."""

    def __init__(self, env: CompiledEnv[Any]) -> None:
        self.env, self.cpu = env, jax.devices("cpu")[0]
        self._reset = jax.jit(lambda seed: env.reset(jax.random.key(seed)))
        self._step = jax.jit(
            lambda state, action, context, seed: env.step(
                state, action, context, jax.random.key(seed)
            )
        )

    def open(self, rng: np.random.Generator) -> None:
        """A compiled environment holds nothing."""
        del rng

    def reset(self, rng: np.random.Generator) -> np.ndarray:
        # A seed on the CPU keeps all that is computed from it there.
        first, self.seed = rng.integers(2**31, size=2).astype(np.uint32)
        self.state, features = self._reset(jax.device_put(first, self.cpu))
        return np.asarray(features)

    def step(self, action: np.ndarray, context: np.ndarray) -> Result:
        self.seed += np.uint32(1)
        self.state, step = self._step(self.state, action, context, self.seed)
        flags = bool(step.terminated), bool(step.truncated)
        return np.asarray(step.obs), float(step.reward), *flags

    def step_inputs(self, inputs: np.ndarray, context: np.ndarray) -> Result:
        """With motor inputs: a place between two indices of the grid."""
        high = max_input_of(self.env)
        assert high is not None  # else the spaces could not have been made
        share = (np.clip(inputs, -high, high) + high) / (2.0 * high)
        index = share * (np.array(self.env.spec.num_actions) - 1)
        return self.step(index.astype(np.float32), context)

    def close(self) -> None:
        pass


class _HostWorld:
    """One world of a host environment."""

    worlds: Any = None
    """HostWorlds, once they are open; MujocoWorlds in a `MujocoEnv`."""

    def __init__(self, env: HostEnv) -> None:
        self.env = env

    def open(self, rng: np.random.Generator) -> None:
        self.close()
        self.worlds = self.env.open(1, [int(rng.integers(2**31))], threads=1)

    def reset(self, rng: np.random.Generator) -> np.ndarray:
        del rng
        return self.worlds.reset(np.ones(1, bool))[0]

    def step(self, action: np.ndarray, context: np.ndarray) -> Result:
        return _first_world(self.worlds.step(action[None], context[None]))

    def step_inputs(self, inputs: np.ndarray, context: np.ndarray) -> Result:
        worlds: InputWorlds = self.worlds
        return _first_world(worlds.step_inputs(inputs[None], context[None]))

    def close(self) -> None:
        if self.worlds is not None:
            self.worlds.close()
        self.worlds = None


def _first_world(step: Step) -> Result:
    obs = np.asarray(step.obs)[0]
    return obs, float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0])


def _load_rows(
    env: str, trace: str | np.ndarray | None, scale: float | None, channels: int
) -> np.ndarray:
    """The trace, scaled as in our own runs."""
    trace = paper.DEFAULT_TRACES.get(env, "revisit") if trace is None else trace
    if isinstance(trace, str):
        factor = paper.default_scale(env, trace) if scale is None else scale
        rows = contexts.get(trace, ROWS if contexts.any_length(trace) else None, factor)
    else:
        rows = contexts.check(np.asarray(trace), "given")
        rows = rows if scale is None else rows * np.float32(scale)
    if rows.shape[1] != channels:
        raise InputError(f"the trace has {rows.shape[1]} columns, {env!r} needs {channels}")
    return rows
