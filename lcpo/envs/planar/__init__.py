"""Rigid bodies that move in a plane, by MuJoCo's equations, in JAX: no contacts.

    mechanism   what is given: links, joints, motors
    equations   accelerations and forces in a state
    limits      soft joint limits
    rk4         steps in time
    scalars     arithmetic in which zeros leave no operation behind

One step of MuJoCo's RK4 evaluates this four times (`solve`):

    M(q) a + c(q, v) = force - damping v + J^T f       f >= 0: forces of joint limits

All numbers are scalars, so that XLA can fuse a step of many worlds into a few kernels.
"""

from lcpo.envs.planar.equations import Pose, place_point, pose_of, solve
from lcpo.envs.planar.mechanism import Limit, Link, Mechanism, Motor
from lcpo.envs.planar.rk4 import Seen, step

__all__ = [
    "Limit", "Link", "Mechanism", "Motor", "Pose", "Seen",
    "place_point", "pose_of", "solve", "step",
]  # fmt: skip
