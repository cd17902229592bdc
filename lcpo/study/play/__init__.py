"""Frozen policies: tables and videos."""
