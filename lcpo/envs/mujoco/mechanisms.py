"""Gymnasium's models without contacts, as planar mechanisms: what MuJoCo makes of its files.

Each has the joints, motors and numbers of the compiled `MjModel`, those of the wind's motors
included (tests/envs/test_planar.py compares them). The pendulums move in the plane of z and x, up
and along the rail; the reacher in that of x and y, without gravity. The reacher's target is not a
part: nothing moves it.
"""

from __future__ import annotations

from lcpo.envs.planar import Limit, Link, Mechanism, Motor

_CART_MASS, _CART_INERTIA = 10.47197551196598, 0.12671090369478838
_RAIL = (0.0, 1.0)

INVERTED_PENDULUM = Mechanism(
    links=(
        Link(
            parent=-1, origin=(0.0, 0.0), axis=_RAIL,
            mass=_CART_MASS, center=(0.0, 0.0), inertia=_CART_INERTIA,
            damping=1.0, limit=Limit(-1.0, 1.0, inverse_weight=0.08367433805859587),
        ),
        Link(
            parent=0, origin=(0.0, 0.0), axis=None,
            mass=5.018591641363306, center=(0.3, 0.0005), inertia=0.1887497668730885,
            damping=1.0,
            limit=Limit(-1.5707963267948966, 1.5707963267948966, inverse_weight=2.023912919848819),
        ),
    ),
    motors=(Motor(0, gear=100.0, range=3.0), Motor(1, gear=100.0, range=10.0)),
    gravity=(-9.81, 0.0),
    timestep=0.02,
)  # fmt: skip

_POLE_MASS, _POLE_INERTIA = 4.1987385815227585, 0.15497066975016235

INVERTED_DOUBLE_PENDULUM = Mechanism(
    links=(
        Link(
            parent=-1, origin=(0.0, 0.0), axis=_RAIL,
            mass=_CART_MASS, center=(0.0, 0.0), inertia=_CART_INERTIA,
            damping=0.05,
            limit=Limit(-1.0, 1.0, inverse_weight=0.08467261918769675, margin=0.01),
        ),
        Link(
            parent=0, origin=(0.0, 0.0), axis=None,
            mass=_POLE_MASS, center=(0.3, 0.0), inertia=_POLE_INERTIA, damping=0.05,
        ),
        Link(
            parent=1, origin=(0.6, 0.0), axis=None,
            mass=_POLE_MASS, center=(0.3, 0.0), inertia=_POLE_INERTIA, damping=0.05,
        ),
    ),
    motors=(
        Motor(0, gear=500.0, range=1.0),
        Motor(1, gear=100.0, range=10.0),
        Motor(2, gear=100.0, range=10.0),
    ),
    gravity=(-9.81, 1e-5),
    timestep=0.01,
)  # fmt: skip

# The upper link carries the fingertip, a body of its own that cannot move against it.
REACHER = Mechanism(
    links=(
        Link(
            parent=-1, origin=(0.0, 0.0), axis=None,
            mass=0.03560471674068432, center=(0.05, 0.0), inertia=3.9175660390264734e-05,
            damping=1.0, armature=1.0,
        ),
        Link(
            parent=0, origin=(0.1, 0.0), axis=None,
            mass=0.039793506945470715, center=(0.05631578947368421, 0.0),
            inertia=5.283552571071551e-05,
            damping=1.0, armature=1.0, limit=Limit(-3.0, 3.0, inverse_weight=0.9998211549602818),
        ),
    ),
    motors=(Motor(0, gear=200.0, range=1.0), Motor(1, gear=200.0, range=1.0)),
    gravity=(0.0, 0.0),
    timestep=0.01,
)  # fmt: skip
