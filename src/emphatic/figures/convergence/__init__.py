"""The figure on convergence: Theorem 3 along the paths of agents."""
