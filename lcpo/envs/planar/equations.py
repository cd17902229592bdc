"""The equations of motion: accelerations and forces of limits in a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from lcpo.envs.planar.limits import limit_forces
from lcpo.envs.planar.mechanism import Mechanism
from lcpo.envs.planar.scalars import (
    Scalar,
    Vector,
    across,
    add,
    advance,
    back_substitute,
    dot,
    factorize,
    minus,
    plus,
    scale,
    subtract,
    times,
)


class Pose(NamedTuple):
    """Positions of all joints, and the directions (cosine, sine) of the links that turn."""

    q: list[Scalar]
    turned: list[Vector]


def pose_of(mechanism: Mechanism, q: Sequence[Scalar]) -> Pose:
    """The pose at positions q."""
    angles: list[Scalar] = []
    for link, position in zip(mechanism.links, q, strict=True):
        above = 0.0 if link.parent < 0 else angles[link.parent]
        angles.append(plus(above, position) if link.axis is None else above)
    turning = [x for x, link in zip(angles, mechanism.links, strict=True) if link.axis is None]
    return Pose(list(q), [(jnp.cos(angle), jnp.sin(angle)) for angle in turning])


def solve(
    mechanism: Mechanism, pose: Pose, v: Sequence[Scalar], force: Sequence[Scalar]
) -> tuple[list[Scalar], list[Scalar]]:
    """Accelerations and limit forces of all joints in a state, under forces on the joints."""
    links, frames = mechanism.links, _place_links(mechanism, pose)
    columns = _jacobians(mechanism, frames)
    bias = _bias(mechanism, frames, columns, v)
    applied = [
        minus(minus(tau, times(link.damping, speed)), c)
        for link, tau, speed, c in zip(links, force, v, bias, strict=True)
    ]
    factor = factorize(_mass_matrix(mechanism, columns))
    acceleration = back_substitute(factor, applied)
    response = {
        i: back_substitute(factor, [float(i == j) for j in range(len(links))])
        for i, link in enumerate(links)
        if link.limit is not None
    }
    pushes = limit_forces(mechanism, pose.q, v, acceleration, response)
    for i, push in pushes.items():
        acceleration = advance(acceleration, response[i], push)
    return acceleration, [pushes.get(i, jnp.zeros_like(q)) for i, q in enumerate(pose.q)]


class Frame(NamedTuple):
    """Where a link is, relative to its parent."""

    arm: Vector
    """From the parent's origin to its own, in the world's directions."""
    cos: Scalar
    sin: Scalar
    axis: Vector | None = None
    """The direction in which it slides in the world, if it does."""

    def turn(self, vector: Vector) -> Vector:
        """A vector of the link, in the world."""
        (u, v), cos, sin = vector, self.cos, self.sin
        return minus(times(cos, u), times(sin, v)), plus(times(sin, u), times(cos, v))


_WORLD = Frame((0.0, 0.0), 1.0, 0.0)


def _place_links(mechanism: Mechanism, pose: Pose) -> list[Frame]:
    frames: list[Frame] = []
    turned = iter(pose.turned)
    for link, position in zip(mechanism.links, pose.q, strict=True):
        base = _WORLD if link.parent < 0 else frames[link.parent]
        arm = base.turn(link.origin)
        if link.axis is None:
            frames.append(Frame(arm, *next(turned)))
        else:
            axis = base.turn(link.axis)
            arm = add(arm, scale(position, axis))
            frames.append(Frame(arm, base.cos, base.sin, axis))
    return frames


def place_point(mechanism: Mechanism, pose: Pose, index: int, point: Vector) -> Vector:
    """A point of a link, in the world."""
    frames = _place_links(mechanism, pose)
    place = frames[index].turn(point)
    for i in _ancestors(mechanism, index):
        place = add(place, frames[i].arm)
    return place


Columns = list[dict[int, Vector]]
"""Per link: how its center of mass moves with each joint above it, per unit of speed."""


def _jacobians(mechanism: Mechanism, frames: Sequence[Frame]) -> Columns:
    columns: Columns = []
    for i, link in enumerate(mechanism.links):
        column: dict[int, Vector] = {}
        arm = frames[i].turn(link.center)  # from the origin of link j to the center
        for j in _ancestors(mechanism, i):
            column[j] = frames[j].axis or across(arm)
            arm = add(arm, frames[j].arm)
        columns.append(column)
    return columns


def _mass_matrix(mechanism: Mechanism, columns: Columns) -> list[list[Scalar]]:
    """The lower triangle of the symmetric matrix M."""
    links = mechanism.links
    rows: list[list[Scalar]] = []
    for j in range(len(links)):
        row: list[Scalar] = []
        for k in range(j + 1):
            entry = links[j].armature if j == k else 0.0
            for link, column in zip(links, columns, strict=True):
                if j in column and k in column:
                    entry = plus(entry, times(link.mass, dot(column[j], column[k])))
                    if links[j].axis is None and links[k].axis is None:
                        entry = plus(entry, link.inertia)
            row.append(entry)
        rows.append(row)
    return rows


def _bias(
    mechanism: Mechanism, frames: Sequence[Frame], columns: Columns, v: Sequence[Scalar]
) -> list[Scalar]:
    """Forces c that it takes to keep all speeds constant, against gravity."""
    links = mechanism.links
    bias: list[Scalar] = [0.0] * len(links)
    turns: list[Scalar] = []  # angular speed of each link
    pulls: list[Vector] = []  # acceleration of each origin, at constant speeds
    for i, (link, frame) in enumerate(zip(links, frames, strict=True)):
        turn = 0.0 if link.parent < 0 else turns[link.parent]
        pull = (0.0, 0.0) if link.parent < 0 else pulls[link.parent]
        pull = subtract(pull, scale(times(turn, turn), frame.arm))
        if frame.axis is None:
            turn = plus(turn, v[i])
        else:
            twist = times(2.0, times(turn, v[i]))
            pull = add(pull, scale(twist, across(frame.axis)))
        turns.append(turn)
        pulls.append(pull)
        inward = scale(times(turn, turn), frame.turn(link.center))
        needed = subtract(subtract(pull, inward), mechanism.gravity)
        for j, column in columns[i].items():
            bias[j] = plus(bias[j], times(link.mass, dot(column, needed)))
    return bias


def _ancestors(mechanism: Mechanism, index: int) -> list[int]:
    """A link and all on which it hangs."""
    found = []
    while index >= 0:
        found.append(index)
        index = mechanism.links[index].parent
    return found
