"""The ids of our environments in Gymnasium. Light: `import lcpo` registers them."""

from __future__ import annotations

import gymnasium

IDS = {
    "lcpo/GridWorld-v0": ("GridWorldEnv", "grid-world"),
    "lcpo/WindyPendulum-v0": ("PendulumEnv", "pendulum"),
    "lcpo/WindyInvertedPendulum-v0": ("MujocoEnv", "inverted-pendulum"),
    "lcpo/WindyInvertedDoublePendulum-v0": ("MujocoEnv", "inverted-double-pendulum"),
    "lcpo/WindyReacher-v0": ("MujocoEnv", "reacher"),
    "lcpo/WindyHopper-v0": ("MujocoEnv", "hopper"),
}


def register() -> None:
    """Make the ids known to Gymnasium."""
    for name, (cls, env) in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"lcpo.gym.to_gym:{cls}",
                vector_entry_point="lcpo.gym.vector:ContextVectorEnv",
                kwargs={"env": env},
            )
