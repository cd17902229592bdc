"""Soft joint limits, as in MuJoCo's chapter "Computation".

solref and solimp give each limit a reference acceleration and a compliance R. The forces f of the
limits solve a linear complementarity problem, in closed form for up to two of them:

    f >= 0,   J a - reference + R f >= 0,   one of the two is 0
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from lcpo.envs.planar.mechanism import Limit, Mechanism
from lcpo.envs.planar.scalars import Scalar, select


def limit_forces(
    mechanism: Mechanism,
    q: Sequence[Scalar],
    v: Sequence[Scalar],
    free: Sequence[Scalar],
    response: dict[int, list[Scalar]],
) -> dict[int, Scalar]:
    """Forces of the limits on their joints; `response`: columns of the inverse mass matrix."""
    sides: dict[int, Scalar] = {}  # 1: the lower end acts, -1: the upper one, 0: neither
    gaps: dict[int, Scalar] = {}  # acceleration above the reference's; negative: a force is needed
    yields: dict[int, Scalar] = {}  # acceleration per unit of force, with the compliance
    for i, column in response.items():
        limit = mechanism.links[i].limit
        assert limit is not None
        side, active, reference, compliance = _soften(limit, mechanism.timestep, q[i], v[i])
        sides[i] = select(active, side, 0.0)
        gaps[i] = select(active, side * free[i] - reference, 1.0)
        yields[i] = column[i] + compliance
    if len(response) < 2:
        return {i: sides[i] * _push(gap, yields[i]) for i, gap in gaps.items()}
    i, j = response
    coupling = sides[i] * sides[j] * response[i][j]
    first, second = _push_two(gaps[i], gaps[j], yields[i], yields[j], coupling)
    return {i: sides[i] * first, j: sides[j] * second}


def _soften(
    limit: Limit, timestep: float, q: Scalar, v: Scalar
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Of the nearer end: its side (1 below, -1 above), whether it acts, the reference acceleration
    and the compliance, as MuJoCo makes them of solref and solimp."""
    at_high = limit.high - q < q - limit.low
    side = select(at_high, -1.0, 1.0)
    depth = select(at_high, limit.high - q, q - limit.low) - limit.margin
    (time, ratio), (low, high, width, middle, power) = limit.solref, limit.solimp
    time = max(time, 2.0 * timestep)
    x = jnp.minimum(jnp.abs(depth) / width, 1.0)
    rise = x**power / middle ** (power - 1.0)
    fall = 1.0 - (1.0 - x) ** power / (1.0 - middle) ** (power - 1.0)
    impedance = low + select(x <= middle, rise, fall) * (high - low)
    spring = 1.0 / (high * time * ratio) ** 2
    damper = 2.0 / (high * time)
    reference = -damper * side * v - spring * impedance * depth
    compliance = limit.inverse_weight * (1.0 - impedance) / impedance
    return side, depth < 0.0, reference, compliance


def _push(gap: Scalar, yields: Scalar) -> Scalar:
    """The force f >= 0 with gap + yields f >= 0, one of them 0."""
    return jnp.maximum(-gap / yields, 0.0)


def _push_two(
    gap: Scalar, gap2: Scalar, yields: Scalar, yields2: Scalar, coupling: Scalar
) -> tuple[Scalar, Scalar]:
    """As `_push`, of two forces that change each other's gaps: both act, or one, or none."""
    determinant = yields * yields2 - coupling * coupling
    first = (coupling * gap2 - yields2 * gap) / determinant
    second = (coupling * gap - yields * gap2) / determinant
    both = (first > 0.0) & (second > 0.0)
    alone, alone2 = _push(gap, yields), _push(gap2, yields2)
    is_first = gap2 + coupling * alone >= 0.0
    return (
        select(both, first, select(is_first, alone, 0.0)),
        select(both, second, select(is_first, 0.0, alone2)),
    )
