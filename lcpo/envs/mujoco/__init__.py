"""MuJoCo under wind."""
