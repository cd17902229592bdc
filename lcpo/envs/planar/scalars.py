"""Scalars, and pairs of them, of which some are known when the program is built.

A known number is a Python float, and stays one until it meets a traced one: what is multiplied by 0
leaves no operation behind, and so the equations of any mechanism can be written out in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Scalar = Any
"""A float that is known when the program is built, or a traced scalar."""
Vector = tuple[Scalar, Scalar]


def select(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """`jnp.where` of scalars, without a function of its own, which would keep XLA from fusing."""
    kind = jnp.result_type(x, y)
    return jax.lax.select(condition, jnp.asarray(x, kind), jnp.asarray(y, kind))


def _is(x: Scalar, value: float) -> bool:
    return isinstance(x, float) and x == value


def plus(x: Scalar, y: Scalar) -> Scalar:
    """Their sum."""
    return y if _is(x, 0.0) else x if _is(y, 0.0) else x + y


def minus(x: Scalar, y: Scalar) -> Scalar:
    """Their difference."""
    return x if _is(y, 0.0) else -y if _is(x, 0.0) else x - y


def times(x: Scalar, y: Scalar) -> Scalar:
    """Their product."""
    if _is(x, 0.0) or _is(y, 0.0):
        return 0.0
    return y if _is(x, 1.0) else x if _is(y, 1.0) else x * y


def add(a: Vector, b: Vector) -> Vector:
    """Their sum."""
    return plus(a[0], b[0]), plus(a[1], b[1])


def subtract(a: Vector, b: Vector) -> Vector:
    """Their difference."""
    return minus(a[0], b[0]), minus(a[1], b[1])


def across(a: Vector) -> Vector:
    """Turned by a right angle."""
    return minus(0.0, a[1]), a[0]


def scale(x: Scalar, a: Vector) -> Vector:
    """The vector x times as long."""
    return times(x, a[0]), times(x, a[1])


def dot(a: Vector, b: Vector) -> Scalar:
    """Their scalar product."""
    return plus(times(a[0], b[0]), times(a[1], b[1]))


def advance(x: list[Scalar], rate: list[Scalar], time: Scalar) -> list[Scalar]:
    """Where each x is after some time at its rate."""
    return [a + time * b for a, b in zip(x, rate, strict=True)]


def either(condition: Scalar, x: list[Scalar], y: list[Scalar]) -> list[Scalar]:
    """All of x, or all of y."""
    return [select(condition, a, b) for a, b in zip(x, y, strict=True)]


class Factor(NamedTuple):
    """M = L D L^T: L without its diagonal of ones, and the inverse of D."""

    lower: list[list[Scalar]]
    inverse: list[Scalar]


def factorize(mass: Sequence[Sequence[Scalar]]) -> Factor:
    """Of a symmetric matrix, given by its lower triangle."""
    lower: list[list[Scalar]] = []
    inverse: list[Scalar] = []
    for i, row in enumerate(mass):
        found: list[Scalar] = []  # entries of row i of L D
        for j in range(i):
            entry = row[j]
            for k in range(j):
                entry = minus(entry, times(found[k], lower[j][k]))
            found.append(entry)
        lower.append([times(x, inverse[j]) for j, x in enumerate(found)])
        pivot = row[i]
        for x, y in zip(found, lower[i], strict=True):
            pivot = minus(pivot, times(x, y))
        inverse.append(1.0 / pivot)
    return Factor(lower, inverse)


def back_substitute(factor: Factor, right: Sequence[Scalar]) -> list[Scalar]:
    """x of M x = right."""
    lower, count = factor.lower, len(right)
    x = list(right)
    for i in range(count):
        for j in range(i):
            x[i] = minus(x[i], times(lower[i][j], x[j]))
    x = [times(value, inverse) for value, inverse in zip(x, factor.inverse, strict=True)]
    for i in reversed(range(count)):
        for j in range(i + 1, count):
            x[i] = minus(x[i], times(lower[j][i], x[j]))
    return x
