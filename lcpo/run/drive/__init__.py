"""How runs advance: `execute.run_jobs` runs jobs in this process, with drivers (`base.Driver`)."""
