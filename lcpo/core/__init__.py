"""Mathematics on arrays. Independent of configs, agents and environments."""
