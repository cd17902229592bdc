"""Straggler mitigation: when should a request be sent a second time? A task in its own package.

The environment, a host one:

    task        Straggler, the config, faults of the published simulator, settings of agents
    jobs        where requests come from: sizes and gaps, block by block
    workloads   streams of jobs: the twins of the paper's, files, public data
    worlds      StragglerWorlds: N clusters that step together
    windows     compiled: one window of 500 ms, what is observed, what is paid
    buckets     compiled: percentiles of latencies by five minutes
    events      compiled: a request arrives, is hedged, a copy finishes

The rules that engineers use, as agents, and the reports on runs:

    rules       fixed timeouts, percentiles, budgets, tables by load, plans by the hour
    timeouts    every fixed timeout simulated, to make such tables and plans
    latency     latencies from records, their figure, the columns of every comparison on the task
    study       `lcpo reproduce straggler`; `report` has its tables
    twins       `lcpo reproduce workloads`

Only the registries of environments, agents and studies refer to it, so an outside task can do all
of this, too (docs/add_an_environment.md). The environment and the rules need jax and numpy; opening
worlds needs numba. docs/envs/straggler.md.
"""
