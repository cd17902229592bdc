"""Conversion to and from Gymnasium.

    to_gym     our environments as Gymnasium's, one world; `vector`: many; `frames`: pictures
    from_gym   Gymnasium's environments as ours; `hosted` steps them, `spaces` translates their
               observations and actions

`from_gymnasium` is the function to call. `import lcpo` imports this package, so nothing else is
imported before it is used: a bare machine has no Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lcpo.gym.from_gym import from_gymnasium

__all__ = ["IDS", "from_gymnasium", "register"]

IDS = {
    "lcpo/GridWorld-v0": ("GridWorldEnv", "grid-world"),
    "lcpo/WindyPendulum-v0": ("PendulumEnv", "pendulum"),
    "lcpo/WindyInvertedPendulum-v0": ("MujocoEnv", "inverted-pendulum"),
    "lcpo/WindyInvertedDoublePendulum-v0": ("MujocoEnv", "inverted-double-pendulum"),
    "lcpo/WindyReacher-v0": ("MujocoEnv", "reacher"),
    "lcpo/WindyHopper-v0": ("MujocoEnv", "hopper"),
}
"""Our environments in Gymnasium's registry: a class of `to_gym`, and our name."""


PLANAR = ("inverted-pendulum", "inverted-double-pendulum", "reacher")
"""Here they run in MuJoCo, which also draws them; `physics="compiled"` is for many worlds."""


def register() -> None:
    """Add our ids to Gymnasium's registry."""
    import gymnasium

    for name, (cls, env) in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point=f"lcpo.gym.to_gym:{cls}",
                vector_entry_point="lcpo.gym.vector:ContextVectorEnv",
                kwargs={"env": env, **({"physics": "mujoco"} if env in PLANAR else {})},
            )


def __getattr__(name: str) -> Any:
    if name == "from_gymnasium":
        from lcpo.gym.from_gym import from_gymnasium

        return from_gymnasium
    raise AttributeError(f"module 'lcpo.gym' has no attribute {name!r}")
