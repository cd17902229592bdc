"""MuJoCo tasks in a wind, as host environments and compiled (docs/envs/mujoco.md).

    task         MujocoTask: what a task is
    tasks        the paper's four: InvertedPendulum, InvertedDoublePendulum, Reacher, Hopper
    batch        MujocoWorlds: N worlds of a task that step together in MuJoCo
    compiled     CompiledTask: a task without contacts, whose physics is in JAX
    mechanisms   constants of the three tasks without contacts

Importing these needs no MuJoCo; opening worlds does.
"""
