"""Straggler mitigation: when is a request sent a second time? A host environment.

    task      Straggler, the config, and what the published simulator does otherwise
    jobs      where requests come from: sizes and gaps, block by block
    worlds    StragglerWorlds: N clusters that step together
    windows   compiled: one window of 500 ms, what is observed, what is paid
    buckets   compiled: percentiles of latencies by five minutes
    events    compiled: a request arrives, is hedged, a copy finishes

Importing the first two needs no numba; opening worlds does. docs/envs/straggler.md.
"""
