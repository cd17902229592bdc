"""A GIF of a frozen policy: a picture where the environment has one, and below it a strip for each
channel of the context, the state, the action and the reward.

`lcpo watch` writes it, with Pillow: no other program is needed.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lcpo import values
from lcpo.envs.base import AnyEnv, max_input_of, obs_layout
from lcpo.envs.compiled_worlds import open_worlds
from lcpo.envs.entries import context_names_of, feature_names_of
from lcpo.envs.gridworld import GridWorld
from lcpo.envs.mujoco.compiled import MUJOCO, CompiledTask
from lcpo.envs.mujoco.task import MujocoTask
from lcpo.envs.pendulum import Pendulum
from lcpo.errors import InputError, MissingPackage, RunError, message
from lcpo.gym import frames
from lcpo.gym.from_gym import GymnasiumEnv
from lcpo.policy import find_runs
from lcpo.run.drive import frozen
from lcpo.run.plan.job import Setup, check_trust
from lcpo.run.store import outputs
from lcpo.study.play.strips import HEIGHT, MARGIN, WIDTH, Strip, draw_strip
from lcpo.study.report.output import write_bytes
from lcpo.types import Tree

COMMAND = "lcpo watch"
MOST_STEPS = 2000
MOST_CHANNELS = 8
"""Of the context that have a strip; further ones are counted."""
TOP = 300
"""Pixels above the strips."""
Draw = Callable[[Any, np.ndarray], np.ndarray | None]
"""(worlds, context) -> a picture [height, width, 3] of the first world."""


class Shot(NamedTuple):
    """One step of the first world."""

    step: int
    context: np.ndarray  # [channels], as the observation after the step shows it
    state: np.ndarray  # [features], the rest of that observation
    action: np.ndarray  # motor inputs where actions are such, else indices
    reward: float
    total: float
    """Of the episode so far."""
    ended: bool
    picture: np.ndarray | None


def watch(
    source: str | Path,
    out: str | Path,
    run: str | None = None,
    *,
    trace: str | os.PathLike[str] | None = None,
    scale: float | None = None,
    seed: int = 0,
    start: int = 0,
    steps: int = 200,
    fps: int = 20,
    trust: bool = False,
) -> Path:
    """Write a GIF of the frozen policy of a run.

    Args:
      source, run, trust: as in `lcpo.study.play.evaluate.evaluate`; of several runs, the first.
      out: the file.
      trace, scale: default: what the run had.
      seed: of the worlds and of the actions.
      start: the row of the trace to begin at, to see it where it changes.
      steps: how many; fps: how many of them a second has.
    """
    path = values.path("out", out)
    if path.suffix.lower() != ".gif":
        raise InputError(f"{path}: cannot write {path.suffix!r}: use .gif")
    outputs.check_file(path, COMMAND, outputs.is_marked(COMMAND))
    steps, fps = values.whole("steps", steps, 1, MOST_STEPS), values.whole("fps", fps, 1, 50)
    start, seed = values.whole("start", start, 0), values.whole("seed", seed, 0)
    result = find_runs(values.path("source", source), run)[0]
    check_trust([result.job], values.flag("trust", trust), str(source))
    setup, agent = frozen.load_agent(result)
    there = frozen.elsewhere(setup, trace, scale, start + steps)
    if there.env.advance == "own" and start:
        raise InputError(f"start = {start}: {result.job.env!r} makes its own context: leave it out")
    if there.env.advance != "own" and start >= len(there.trace()):
        raise InputError(f"start = {start:,}: the trace has {len(there.trace()):,} rows")
    shots = list(play(there, agent, seed, start, steps))
    write_bytes(path, to_gif(result.job.agent, shots, strips_of(there, shots), fps))
    return path


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
            state = np.asarray(spec.context.remove(obs[0]))  # pyright: ignore[reportArgumentType]
            taken = as_inputs(env, action[0] if step.action is None else step.action[0])
            reward, picture = float(step.reward[0]), draw(worlds, context)
            yield Shot(t + 1, context, state, taken, reward, total, bool(ended[0]), picture)
            if ended.any():
                total = 0.0 if ended[0] else total
                cursor = cursor + ended * (env.advance == "episode")
                obs = observe(worlds.reset(ended))
    except RuntimeError as error:  # of a world that is broken
        raise RunError(f"{setup.job.name}: {error}") from error
    finally:
        worlds.close()


def as_inputs(env: AnyEnv, action: Any) -> np.ndarray:
    """The indices of an action, as motor inputs where they are such."""
    high, indices = max_input_of(env), np.asarray(action, np.float64)
    if high is None:
        return indices
    return 2 * high * indices / (np.array(env.spec.num_actions) - 1) - high


def find_artist(env: AnyEnv) -> tuple[AnyEnv, Draw]:
    """The environment, made so that it can be drawn, and what draws it (or returns None)."""
    if isinstance(env, Pendulum):
        return env, lambda worlds, context: frames.pendulum(
            float(worlds.state.angle[0]), context if len(context) else np.zeros(2)
        )
    if isinstance(env, GridWorld):
        return env, _draw_grid
    if isinstance(env, MujocoTask):
        drawn = dataclasses.replace(env, physics=MUJOCO) if isinstance(env, CompiledTask) else env
        return drawn, frames.MujocoArtist()
    if isinstance(env, GymnasiumEnv):
        return _with_pictures(env)
    return env, lambda worlds, context: None


def _draw_grid(worlds: Any, context: np.ndarray) -> np.ndarray:
    state = worlds.state
    walker = int(state.row[0]), int(state.col[0]), bool(state.caught[0])
    return frames.grid_world(*walker, trap=bool(context[1] > 0.5))


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
            raise InputError(f"{env.target} cannot render: {message(error)}") from error
        return picture[0] if isinstance(picture, (list, tuple)) else picture

    return drawn, draw


def to_gif(title: str, shots: Sequence[Shot], strips: Sequence[Strip], fps: int) -> bytes:
    """All shots as the content of a GIF file."""
    palette, file = _pillow().Image.Palette.ADAPTIVE, io.BytesIO()
    first, *others = (
        frame.convert("P", palette=palette, colors=64)
        for frame in make_frames(title, shots, strips)
    )
    how = {"save_all": True, "duration": 1000 // fps, "loop": 0, "comment": outputs.mark(COMMAND)}
    first.save(file, format="GIF", append_images=others, **how)
    return file.getvalue()


def make_frames(title: str, shots: Sequence[Shot], strips: Sequence[Strip]) -> Iterator[Any]:
    """A `PIL.Image.Image` per shot: picture, numbers, and below both what has been so far."""
    pillow = _pillow()
    font = pillow.ImageFont.load_default(15)
    for i, shot in enumerate(shots):
        frame = pillow.Image.new("RGB", (WIDTH, TOP + HEIGHT * len(strips)), (255, 255, 255))
        brush = pillow.ImageDraw.Draw(frame)
        left = MARGIN
        if shot.picture is not None:
            picture = pillow.Image.fromarray(shot.picture)
            picture.thumbnail((TOP + MARGIN, TOP))
            frame.paste(picture, (0, (TOP - picture.height) // 2))
            left = picture.width + 2 * MARGIN
        for line, text in enumerate(_texts(title, shot)):
            brush.text((left, 20 + 24 * line), text, fill=(0, 0, 0), font=font)
        for place, strip in enumerate(strips):
            draw_strip(brush, font, TOP + HEIGHT * place, strip, i)
        yield frame


def strips_of(setup: Setup, shots: Sequence[Shot]) -> list[Strip]:
    """What the GIF shows below the picture."""
    trace, env = setup.job.trace, setup.env
    contexts, states, actions = (
        np.stack([getattr(shot, name) for shot in shots]) for name in ("context", "state", "action")
    )
    named = trace.describe().names if trace else ()
    channels = named or context_names_of(env)
    found = [
        Strip(name if name.startswith("context") else f"context: {name}", (), contexts[:, [c]])
        for c, name in enumerate(channels[:MOST_CHANNELS])
    ]
    found.append(Strip("state", feature_names_of(env), states))
    inputs = [f"[{i}]" for i in range(actions.shape[1])] if actions.shape[1] > 1 else ()
    found.append(Strip("action", inputs, actions))
    found.append(Strip("reward", (), np.array([[shot.reward] for shot in shots])))
    return [strip for strip in found if strip.lines.size]


def _texts(title: str, shot: Shot) -> list[str]:
    more = len(shot.context) - MOST_CHANNELS
    return [
        f"{title}, frozen",
        f"step {shot.step:,}",
        f"return so far  {shot.total:+.1f}",
        *([f"{more} more channels"] if more > 0 else []),
        *(["the episode ends"] if shot.ended else []),
    ]


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise MissingPackage("videos need Pillow: pip install pillow") from error
    return PIL
