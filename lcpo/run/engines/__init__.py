"""Where jobs are run. `base` has the protocol, its events, and `run_plan`; `local` this machine."""
