"""Planning: a job (`job`), many of them (`plan`), their phases, and checks that they can run."""
