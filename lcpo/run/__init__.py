"""Drivers, workers, records and checkpoints."""
