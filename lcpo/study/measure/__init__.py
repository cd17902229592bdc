"""Measurements of runs: statistics over seeds, memory, regret, numbers of a task."""
