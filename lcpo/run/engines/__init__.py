"""Where jobs are run. `base` has the protocol and `run_plan`; `choose` finds engines by name."""
