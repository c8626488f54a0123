"""Grid worlds of any size."""

import numpy as np
from scipy import sparse

from .. import _validation as checks
from .._work import require_memory
from ..mdp import MDP, Problem

CELL_BYTES = 2000  # of memory that a cell takes while the grid is made
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
    num_states = width * height
    advice = "reduce width or height"
    require_memory(f"grid: {num_states:,} cells", CELL_BYTES * num_states, advice)
    column, row = np.arange(num_states) % width, np.arange(num_states) // width
    columns = np.clip(column[:, None] + MOVES[:, 0], 0, width - 1)
    successors = np.clip(row[:, None] + MOVES[:, 1], 0, height - 1) * width + columns
    p = (1.0 - slip) * np.eye(4) + slip / 4.0
    data = np.broadcast_to(p, (num_states, 4, 4)).ravel()
    indices, indptr = np.repeat(successors, 4, axis=0).ravel(), np.arange(4 * num_states + 1) * 4
    transition = sparse.csr_array((data, indices, indptr), shape=(4 * num_states, num_states))
    transition.sum_duplicates()
    reward, gamma = np.zeros((num_states, 4)), discount
    if goal:
        # Every action of the goal, the last state, leads to the start.
        entries, shape = (np.ones(4), np.zeros(4, int), np.arange(5)), (4, num_states)
        restart = sparse.csr_array(entries, shape=shape)
        transition = sparse.vstack([transition[:-4], restart], format="csr")
        reward[-1] = 1.0
        gamma = np.full((num_states, 4), float(discount))
        gamma[-1] = 0.0
    num_across, num_down = min(tiles, width), min(tiles, height)
    tile = (row * num_down // height) * num_across + column * num_across // width
    entries = np.ones(num_states), tile, np.arange(num_states + 1)
    x = sparse.csr_array(entries, shape=(num_states, num_across * num_down))
    behavior, start = np.full((num_states, 4), 0.25), np.eye(1, num_states)[0]
    target = np.tile([0.4, 0.4, 0.1, 0.1], (num_states, 1))
    return Problem(MDP(transition, reward, gamma), behavior, 1.0, x, start=start, target=target)
