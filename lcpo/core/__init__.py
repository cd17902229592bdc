"""Mathematics on arrays. Knows no config, no agent, no environment."""
