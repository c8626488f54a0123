"""Baird's counterexample: the exact values of what GEM and the followon trace estimate."""

import numpy as np

from emphatic import oracle, problems

for solid in (0.05, 0.1, 0.3):
    problem = problems.baird(features="one-hot", solid=solid)
    m, v = oracle.emphasis(problem), oracle.values(problem)
    deviation = np.sqrt(oracle.followon_variance(problem))
    print(f"pi(solid) = {solid:<4}  m = {m[0]:.6g} and {m[6]:.6g}  v = {v[0]:.4g}", end="  ")
    print(f"standard deviation of the trace: {deviation[0]:.4g} and {deviation[6]:.4g}")

    # The two identities that connect values and emphasis.
    d, i = oracle.stationary(problem), problem.interest
    mean_reward = (problem.target * problem.mdp.mean_reward).sum(1)
    assert np.isclose(d @ (i * v), d @ (m * mean_reward))
    assert np.isclose(d @ m, d @ i / (1 - 0.99))
