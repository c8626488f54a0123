"""Deep off-policy actor-critics: environments, experience, networks, agents, training."""
