"""Online reinforcement learning that does not forget."""
