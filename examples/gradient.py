"""Ignoring the emphasis leads the actor astray: the counterexample of Imani, Graves and White."""

import numpy as np

from emphatic import oracle, problems, Softmax
from emphatic.problems import ACTOR_FEATURES

problem = problems.counterexample()
# The actor cannot tell states 1 and 2 apart; one preference for each action and feature.
policy = Softmax(np.einsum("sk,ab->sabk", ACTOR_FEATURES, np.eye(2)).reshape(3, 2, 4))
start = np.log([0.9, 0.9, 0.1, 0.1])
d = oracle.stationary(problem)


def with_emphasis(theta):
    return oracle.policy_gradient(problem, policy, theta)


def without_emphasis(theta):  # Off-PAC
    q = oracle.action_values(problem, oracle.probabilities(policy, theta))
    return oracle.weighted_gradient(policy, theta, d[:, None] * q)


for direction in (with_emphasis, without_emphasis):
    theta = start
    for _ in range(300):
        theta = theta + 20.0 * direction(theta)
    value = oracle.objective(problem, oracle.probabilities(policy, theta))
    print(f"{direction.__name__:<17} J = {value:.3f}")
