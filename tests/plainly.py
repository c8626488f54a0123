"""The paper's definitions written out on dense arrays, independently of the oracle."""

from types import SimpleNamespace

import numpy as np

from emphatic import Problem


def _everywhere(values, shape) -> np.ndarray:
    """A reward or discount as an (s, a, s') array."""
    return np.broadcast_to(values[..., None] if np.ndim(values) == 2 else values, shape)


def plainly(problem: Problem, target: np.ndarray) -> SimpleNamespace:
    """The matrices of Section 2 for a dense problem, by explicit sums over (s, a, s')."""
    mdp, mu = problem.mdp, problem.behavior
    p = mdp.transition
    shape = p.shape
    r, gamma = (_everywhere(values, shape) for values in (mdp.reward, mdp.discount))
    states, actions, _ = shape
    P = np.einsum("sa,sat->st", target, p)
    gP = np.einsum("sa,sat,sat->st", target, p, gamma)
    P_mu = np.einsum("sa,sat->st", mu, p)
    left = np.concatenate([P_mu.T - np.eye(states), np.ones((1, states))])
    d = np.linalg.lstsq(left, np.eye(states + 1)[-1], rcond=None)[0]
    size = states * actions
    return SimpleNamespace(
        d=d,
        D=np.diag(d),
        D_actions=np.diag((d[:, None] * mu).ravel()),
        P=P,
        gP=gP,
        P_mu=P_mu,
        P_actions=np.einsum("sat,tb->satb", p, target).reshape(size, size),
        gP_actions=np.einsum("sat,sat,tb->satb", p, gamma, target).reshape(size, size),
        r=np.einsum("sa,sat,sat->s", target, p, r),
        r_actions=np.einsum("sat,sat->sa", p, r).ravel(),
        x=problem.x,
        xa=problem.xa.reshape(size, -1),
        i=problem.interest,
        rho=target / mu,
    )


def moment_matrix(problem: Problem, target: np.ndarray, power: int) -> np.ndarray:
    """The matrix by which the trace's moment of this order moves on in one step."""
    p, mu = problem.mdp.transition, problem.behavior
    gamma = _everywhere(problem.mdp.discount, p.shape)
    return np.einsum("sa,sat,sat->st", target**power / mu ** (power - 1), p, gamma**power)
