"""What is to be run: a job (`job`), many of them (`plan`), in which phases, and whether it can."""
