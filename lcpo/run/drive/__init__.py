"""How runs advance: drivers (`base.Driver`) for compiled and for host environments.

`execute.run_jobs` runs jobs in this process, `group` those that advance together, phase by phase.
"""
