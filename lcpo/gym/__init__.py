"""Gymnasium, both ways."""
