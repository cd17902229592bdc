"""What to run."""
