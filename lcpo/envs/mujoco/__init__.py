"""MuJoCo tasks in a wind, as host environments (docs/envs/mujoco.md).

    tasks    the paper's four: InvertedPendulum, InvertedDoublePendulum, Reacher, Hopper
    base     MujocoTask, what a task is, and Sim, the arrays that its functions see
    worlds   MujocoWorlds: N worlds of a task that step together
    starts   the initial states of the worlds, from their seeds
    model    Gymnasium's models, with motors for the wind; the import of MuJoCo

Importing these needs no MuJoCo; opening worlds does.
"""
