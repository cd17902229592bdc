"""Trained policies at work: a table, a clip, a video."""
