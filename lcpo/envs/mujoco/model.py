"""MuJoCo itself, and Gymnasium's models with motors for the wind."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lcpo.errors import MissingPackage


def load_model(xml: str, wind_joints: Sequence[str]) -> Any:
    """A `mujoco.MjModel` of one of Gymnasium's models, with a motor more on some joints."""
    mujoco = import_mujoco("mujoco")
    found = importlib.util.find_spec("gymnasium")
    if found is None or found.origin is None:
        raise MissingPackage("the MuJoCo tasks use Gymnasium's models: pip install 'lcpo[mujoco]'")
    # Not through gymnasium.envs.mujoco: importing that needs a renderer's packages.
    path = Path(found.origin).parent / "envs" / "mujoco" / "assets" / xml
    spec = mujoco.MjSpec.from_file(str(path))
    for joint in wind_joints:
        motor = spec.add_actuator(name=f"wind-{joint}", target=joint)
        motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
        motor.set_to_motor()
        motor.gear[0] = 100.0
        motor.ctrllimited, motor.ctrlrange = True, [-10.0, 10.0]
    model = spec.compile()
    model.opt.disableflags |= _useless_searches(model)
    return model


def _useless_searches(model: Any) -> int:
    """What MuJoCo would look for at every step and cannot find, as flags that turn it off.

    Contacts, where no two geoms may collide; separate islands of constraints, where all bodies
    hang on one tree. The numbers are the same, bit for bit.
    """
    bits, flags = import_mujoco("mujoco").mjtDisableBit, 0
    collides = model.geom_contype[:, None] & model.geom_conaffinity
    if not collides.any() and model.npair == 0:
        flags |= int(bits.mjDSBL_CONTACT)
    if model.ntree == 1:
        flags |= int(bits.mjDSBL_ISLAND)
    return flags


def import_mujoco(name: str) -> Any:
    """`mujoco`, or a module of it, which not every user has installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"the MuJoCo tasks need {name} (MuJoCo 4 or later): pip install 'lcpo[mujoco]'"
        ) from error
