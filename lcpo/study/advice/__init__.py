"""What to do next: settings for a problem, faults of an environment."""
