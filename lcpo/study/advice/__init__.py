"""Advice: settings for a problem, faults of an environment, warnings about runs."""
