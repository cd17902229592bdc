"""Steps of MuJoCo's RK4, under constant inputs of the motors."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

from lcpo.envs.planar.equations import Pose, pose_of, solve
from lcpo.envs.planar.mechanism import Mechanism
from lcpo.envs.planar.scalars import Scalar, advance, either, plus
from lcpo.types import Array


class Seen(NamedTuple):
    """What the last evaluation of the equations was about, and the forces of limits on joints."""

    pose: Pose
    limit_force: list[Scalar]


class Stage(NamedTuple):
    """A stage of RK4: where it evaluates the equations, and what the stages carry along."""

    pose: Pose
    v: list[Scalar]
    q_start: list[Scalar]
    v_start: list[Scalar]
    q_end: list[Scalar]
    """The end of the step, as far as it has been summed up; as is the next."""
    v_end: list[Scalar]
    seen: Seen
    """Of the stage before."""


def step(
    mechanism: Mechanism, qpos: Array, qvel: Array, inputs: Array, num_steps: int
) -> tuple[list[Array], list[Array], Seen]:
    """State after `num_steps` of MuJoCo's RK4, under inputs [motors] that are not yet clipped.

    What is seen is of the last stage, as MuJoCo leaves it, and not of the returned state.
    """
    q, v, force = list(qpos), list(qvel), motor_forces(mechanism, inputs)
    if jax.default_backend() == "cpu":
        # Straight code takes up to 20 times as long on a CPU: XLA computes much of it many times
        # over, and starts a kernel for each part of the rest. A call with these marks becomes one
        # function; other versions of XLA may ignore them, and compute the same.
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true"):
            stage = _loop(mechanism, q, v, force, num_steps)
    else:
        stage, (weights, shares) = _first_stage(mechanism, q, v), _stages(mechanism)
        for k in num_steps * (0, 1, 2, 3):
            stage = _next_stage(mechanism, stage, force, weights[k], shares[k], k == 3)
    return stage.pose.q, stage.v, stage.seen


@functools.partial(jax.jit, static_argnames=("mechanism", "num_steps"))
def _loop(
    mechanism: Mechanism, q: list[Scalar], v: list[Scalar], force: list[Scalar], num_steps: int
) -> Stage:
    """The stages of all steps as a loop."""
    by_stage = jnp.array(_stages(mechanism), q[0].dtype)

    def body(i: Array, stage: Stage) -> Stage:
        weight, share = by_stage[:, i & 3]
        return _next_stage(mechanism, stage, force, weight, share, i & 3 == 3)

    return jax.lax.fori_loop(0, 4 * num_steps, body, _first_stage(mechanism, q, v))


def _stages(mechanism: Mechanism) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of the four stages: weights of their rates, and the time from the start to the next stage."""
    h = mechanism.timestep
    return (h / 6.0, h / 3.0, h / 3.0, h / 6.0), (0.5 * h, 0.5 * h, h, 0.0)


def _first_stage(mechanism: Mechanism, q: list[Scalar], v: list[Scalar]) -> Stage:
    pose = pose_of(mechanism, q)
    return Stage(pose, v, q, v, q, v, Seen(pose, [jnp.zeros_like(x) for x in q]))


def motor_forces(mechanism: Mechanism, inputs: Array) -> list[Scalar]:
    """The forces of all motors on each joint."""
    force: list[Scalar] = [0.0] * len(mechanism.links)
    for motor, given in zip(mechanism.motors, inputs, strict=True):
        clipped = motor.gear * jnp.minimum(jnp.maximum(given, -motor.range), motor.range)
        force[motor.joint] = plus(force[motor.joint], clipped)
    return force


def _next_stage(
    mechanism: Mechanism,
    stage: Stage,
    force: list[Scalar],
    weight: Scalar,
    share: Scalar,
    is_last: Scalar,
) -> Stage:
    """Evaluate a stage: its rates count with `weight`, and last for `share` until the next one."""
    (pose, v, q_start, v_start, q_end, v_end, _) = stage
    acceleration, limit_force = solve(mechanism, pose, v, force)
    q_end, v_end = advance(q_end, v, weight), advance(v_end, acceleration, weight)
    if is_last is True:
        q_start, v_start = q, v = q_end, v_end
    else:
        q, v = advance(q_start, v, share), advance(v_start, acceleration, share)
    if not isinstance(is_last, bool):
        q, v = either(is_last, q_end, q), either(is_last, v_end, v)
        q_start, v_start = either(is_last, q_end, q_start), either(is_last, v_end, v_start)
    seen = Seen(pose, limit_force)
    return Stage(pose_of(mechanism, q), v, q_start, v_start, q_end, v_end, seen)
