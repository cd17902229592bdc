"""A mechanism in a plane: a tree of links, each on a joint that slides or turns.

Its state is one position and one speed per joint. Coordinates (u, v) are such that a positive angle
turns u toward v. Frames of links coincide with the world's where all positions are 0.
"""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """The range of a joint, with MuJoCo's numbers for how soft its ends are."""

    low: float
    high: float
    inverse_weight: float
    """MuJoCo's `dof_invweight0`: the diagonal of the inverse mass matrix at position 0."""
    margin: float = 0.0
    solref: tuple[float, float] = (0.02, 1.0)
    solimp: tuple[float, float, float, float, float] = (0.9, 0.95, 0.001, 0.5, 2.0)


class Link(NamedTuple):
    """A body and the joint on which it moves."""

    parent: int
    """Index of the link on which it hangs, lower than its own; -1: the world."""
    origin: tuple[float, float]
    """Of its joint at position 0, in the parent's frame."""
    axis: tuple[float, float] | None
    """The unit vector along which it slides, in the parent's frame; None: it turns."""
    mass: float
    center: tuple[float, float]
    """Its center of mass, in its own frame."""
    inertia: float
    """About its center of mass."""
    damping: float
    armature: float = 0.0
    limit: Limit | None = None


class Motor(NamedTuple):
    """Its force on a joint is `gear` times an input, which is clipped to [-range, range]."""

    joint: int
    gear: float
    range: float


class Mechanism(NamedTuple):
    """Links, motors and how time passes. At most two joints may have limits."""

    links: tuple[Link, ...]
    motors: tuple[Motor, ...]
    gravity: tuple[float, float]
    timestep: float
