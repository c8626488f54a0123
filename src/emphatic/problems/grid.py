"""Grid worlds of any size."""

import numpy as np
from scipy import sparse

from .. import _validation as checks
from ..mdp import MDP, Problem

MOVES = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # right, down, left, up


def grid(
    width: int = 10,
    height: int = 10,
    goal: bool = True,
    slip: float = 0.1,
    discount: float = 0.99,
    tiles: int = 8,
) -> Problem:
    r"""A walk on width x height cells, sparse, of any size.

    The actions are right, down, left and up; a wall keeps the agent in place. The goal, in the
    lower right corner, pays 1 for any action and ends the episode: discount 0, straight to the
    start in the upper left. The behaviour is uniform and the target prefers right and down, (0.4,
    0.4, 0.1, 0.1). Without a goal the walk is doubly stochastic, so that $d_\mu$ is uniform.
    Cell (column, row) is state `row * width + column`.

    **Arguments:**

    - `width`: The number of columns.
    - `height`: The number of rows.
    - `goal`: Whether there is a goal.
    - `slip`: The probability that a move is replaced by a uniformly random one.
    - `discount`: The discount $\gamma$ inside an episode.
    - `tiles`: The features are the indicators of tiles x tiles blocks of cells (of single cells
      where the grid has no more).
    """
    for name, value in (("width", width), ("height", height), ("tiles", tiles)):
        checks.count(name, value)
    if width * height < 2:
        raise ValueError("width: got 1, with height 1; a grid needs at least 2 cells")
    checks.probability("slip", slip)
    states = width * height
    column, row = np.arange(states) % width, np.arange(states) // width
    columns = np.clip(column[:, None] + MOVES[:, 0], 0, width - 1)
    reached = np.clip(row[:, None] + MOVES[:, 1], 0, height - 1) * width + columns
    p = (1.0 - slip) * np.eye(4) + slip / 4.0
    data = np.broadcast_to(p, (states, 4, 4)).ravel()
    indices, pointers = (
        np.repeat(reached[:, None], 4, axis=1).ravel(),
        np.arange(4 * states + 1) * 4,
    )
    transition = sparse.csr_array((data, indices, pointers), shape=(4 * states, states))
    transition.sum_duplicates()
    reward, gamma = np.zeros((states, 4)), discount
    if goal:
        # Every action of the goal, the last state, leads to the start.
        restart = sparse.csr_array((np.ones(4), np.zeros(4, int), np.arange(5)), shape=(4, states))
        transition = sparse.vstack([transition[:-4], restart], format="csr")
        reward[-1] = 1.0
        gamma = np.full((states, 4), float(discount))
        gamma[-1] = 0.0
    across, down = min(tiles, width), min(tiles, height)
    block = (row * down // height) * across + column * across // width
    one_hot, shape = (np.ones(states), block, np.arange(states + 1)), (states, across * down)
    x = sparse.csr_array(one_hot, shape=shape)
    behavior, target = np.full((states, 4), 0.25), np.tile([0.4, 0.4, 0.1, 0.1], (states, 1))
    start = np.eye(1, states)[0]
    return Problem(MDP(transition, reward, gamma), behavior, 1.0, x, start=start, target=target)
