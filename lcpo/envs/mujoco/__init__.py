"""MuJoCo tasks in a wind, as host environments (docs/envs/mujoco.md).

    tasks   MujocoTask, and the paper's four: InvertedPendulum, InvertedDoublePendulum, Reacher,
            Hopper
    batch   MujocoWorlds: N worlds of a task that step together

Importing these needs no MuJoCo; opening worlds does.
"""
