"""Frozen policies: a table, a clip, a video."""
