"""Compatible features for COF-PAC: those in which critics leave the gradient without a bias."""

import dataclasses

import jax
import jax.numpy as jnp

from ..mdp import Problem
from ..types import Sample, Transition
from .actor_critic import ActionValue, Features
from .policies import Index, Policy, Theta


def compatible(problem: Problem, policy: Policy) -> Features:
    r"""The compatible features of the current policy, for [actor_critic] (Section 4).

    $$
    \phi_2^\theta(s,a) = \psi_\theta(s,a) = \frac{\nabla\pi_\theta(a|s)}{\mu(a|s)}, \qquad
    \phi_1^\theta(s) = \sum_a\mu(a|s)\,\psi_\theta(s,a)\,\hat q_\theta(s,a),
    $$

    where $\hat q_\theta$ is what the critic predicts: $\phi_1$ are the state features, of the
    emphasis, and $\phi_2$ the state-action features, of the action values. Critics that project
    $m_\pi$ and $q_\pi$ on them in the right norms leave no bias ([compatible_critics]): [lms] and
    [etq], both with [followon]. The features change with $\theta$ and $u$ at every step: the
    theorems do not cover such an agent, and it runs by scan.
    """

    def features(theta: Theta, q: ActionValue, sample: Sample, y: Transition) -> Transition:
        mu = jnp.asarray(problem.behavior, theta.dtype)

        def phi_2(s: Index, a: Index) -> Theta:
            return policy.probabilities(theta, s)[a] / mu[s, a] * policy.score(theta, s, a)

        def phi_1(s: Index) -> Theta:
            def term(a: Index) -> Theta:
                psi = phi_2(s, a)
                return mu[s, a] * psi * q(s, a, psi)

            return jax.vmap(term)(jnp.arange(mu.shape[1])).sum(0)

        return dataclasses.replace(
            y,
            x=phi_1(sample.state),
            x_next=phi_1(sample.state_next),
            xa=phi_2(sample.state, sample.action),
            xa_next=phi_2(sample.state_next, sample.action_next),
        )

    return features
