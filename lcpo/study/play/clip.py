"""What a frozen policy does, step by step, with pictures where the environment has some."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo.envs.base import AnyEnv, max_input_of, obs_layout
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.mujoco.base import MujocoTask
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError, RunError, message
from lcpo.gym import frames
from lcpo.gym.from_gym import GymnasiumEnv
from lcpo.run.plan.job import Setup
from lcpo.types import Tree

Draw = Callable[[Any, np.ndarray], np.ndarray | None]
"""(worlds, context) -> a picture [height, width, 3] of the first world."""


class Shot(NamedTuple):
    """One step of the first world."""

    step: int
    context: np.ndarray  # [channels], as the observation after the step shows it
    action: str
    reward: float
    total: float
    """Of the episode so far."""
    ended: bool
    picture: np.ndarray | None


def play(setup: Setup, agent: Tree, seed: int, start: int, steps: int) -> Iterator[Shot]:
    """Steps of a frozen policy, from row `start` of its trace on."""
    env, draw = find_artist(setup.env)
    spec, layout = setup.spec, obs_layout(setup.spec, env.advance)
    rows, key = setup.trace(), jax.random.key(seed)
    act = jax.jit(lambda state, obs, key: setup.agent.act(setup.config, spec, state, obs, key)[0])
    worlds = open_worlds(env, [seed + i for i in range(spec.num_worlds)], threads=1)
    cursor, total = np.full(spec.num_worlds, start), 0.0

    def observe(features: np.ndarray) -> np.ndarray:
        return layout.join(np.asarray(features, np.float32), layout.history_at(rows, cursor))

    try:
        obs = observe(worlds.reset(np.ones(spec.num_worlds, bool)))
        for t in range(steps):
            action = np.asarray(act(agent, obs, jax.random.fold_in(key, t)))
            cursor = cursor + (env.advance == "step")
            step = worlds.step(action, rows[cursor % len(rows)])
            ended = np.asarray(step.terminated | step.truncated)
            total, obs = total + float(step.reward[0]), observe(np.asarray(step.obs))
            context = np.asarray(spec.context.newest(obs[0]))  # pyright: ignore[reportArgumentType]
            text = action_text(env, action[0] if step.action is None else step.action[0])
            picture = draw(worlds, context)
            yield Shot(t + 1, context, text, float(step.reward[0]), total, bool(ended[0]), picture)
            if ended.any():
                total = 0.0 if ended[0] else total
                cursor = cursor + ended * (env.advance == "episode")
                obs = observe(worlds.reset(ended))
    except RuntimeError as error:  # of a world that is broken
        raise RunError(f"{setup.job.name}: {error}") from error
    finally:
        worlds.close()


def action_text(env: AnyEnv, action: Any) -> str:
    """The indices of an action, as motor inputs where they are such."""
    high, indices = max_input_of(env), [int(index) for index in action]
    if high is None:
        return " ".join(map(str, indices))
    counts = env.spec.num_actions
    inputs = [2 * high * i / (n - 1) - high for i, n in zip(indices, counts, strict=True)]
    return " ".join(f"{value:+.2f}" for value in inputs)


def find_artist(env: AnyEnv) -> tuple[AnyEnv, Draw]:
    """The environment, made so that it can be drawn, and what draws it (or returns None)."""
    if isinstance(env, Pendulum):
        return env, lambda worlds, context: frames.pendulum(
            float(worlds.state.angle[0]), context if len(context) else np.zeros(2)
        )
    if isinstance(env, GridWorld):
        return env, _draw_grid
    if isinstance(env, MujocoTask):
        return env, _MujocoArtist()
    if isinstance(env, GymnasiumEnv):
        return _with_pictures(env)
    return env, lambda worlds, context: None


def _draw_grid(worlds: Any, context: np.ndarray) -> np.ndarray:
    state = worlds.state
    walker = int(state.row[0]), int(state.col[0]), bool(state.caught[0])
    return frames.grid_world(*walker, trap=bool(context[1] > 0.5))


class _MujocoArtist:
    """Draws with MuJoCo's own renderer."""

    renderer: Any = None

    def __call__(self, worlds: Any, context: np.ndarray) -> np.ndarray:
        from lcpo.gym.to_gym import make_renderer

        if self.renderer is None:
            self.renderer = make_renderer(worlds.model)
        self.renderer.update_scene(worlds.data_of(0))
        picture = np.array(self.renderer.render())
        frames.add_wind(picture, context)
        return picture


def _with_pictures(env: GymnasiumEnv) -> tuple[AnyEnv, Draw]:
    """A Gymnasium environment that says it can draw is asked to."""
    made = env.make()
    modes = made.metadata.get("render_modes", ())
    made.close()
    if "rgb_array" not in modes:
        return env, lambda worlds, context: None
    arguments = {**json.loads(env.arguments), "render_mode": "rgb_array"}
    drawn = dataclasses.replace(env, arguments=json.dumps(arguments))

    def draw(worlds: Any, context: np.ndarray) -> np.ndarray | None:
        try:
            picture = worlds.environments[0].env.render()
        except Exception as error:  # of the user's code, or of a package that it lacks
            raise InputError(f"{env.target} cannot draw itself: {message(error)}") from error
        return picture[0] if isinstance(picture, (list, tuple)) else picture

    return drawn, draw
