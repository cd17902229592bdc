"""A search of settings with Optuna, judged on what the search did not see.

`request` checks what a user asks for, `space` says which settings are searched, `sampler` draws
them, `ladder` decides which trials run longer, `search` holds the request and the history and has
the runs of each round, `judged` compares what was found with the defaults and with baselines, and
`report` shows it. `lcpo.tuning` runs it.
"""
