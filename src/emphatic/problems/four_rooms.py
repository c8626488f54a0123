"""The four rooms of Ghiassian and Sutton, with eight targets."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from .. import _validation as checks
from .._work import require_memory
from ..mdp import MDP, Problem

Variance = Literal["uniform", "high"]
MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])  # up, down, right, left
HALLWAYS = np.array([[5, 1], [1, 5], [5, 8], [8, 4]])  # between rooms 3|0, 0|1, 1|2 and 2|3
SIZE = 11


def four_rooms(
    goal: int = 0,
    variance: Variance = "uniform",
    discount: float = 0.9,
    tilings: int = 4,
    tiles: int = 2,
) -> Problem:
    r"""The four rooms of Ghiassian and Sutton (2021), with one of the eight targets learned there.

    *States and actions.* The states are the 104 open cells (x, y) of a grid of 11 x 11, from (0, 0)
    in the lower left corner; the label of a cell is $11y + x$. Walls are at x = 5, at y = 5 for x <
    5 and at y = 4 for x > 5, with the hallways (5, 1), (1, 5), (5, 8) and (8, 4) in them. The
    actions are up, down, right and left; a wall keeps the agent where it is. The walk starts in
    (0, 0) and is never restarted.

    *Behaviour.* It is uniform, and so is $d_\mu$. With high variance it is biased in four cells: it
    goes left in (1, 1) and (1, 8) and right in (8, 1) and (8, 8) with probability 0.97, and each
    other way with 0.01.

    *Target.* Goals 0 and 1 are the hallways (5, 1) and (1, 5), from the room in the lower left; 2
    and 3 are (1, 5) and (5, 8) from the upper left; 4 and 5 are (5, 8) and (8, 4) from the upper
    right; 6 and 7 are (8, 4) and (5, 1) from the lower right. The target is defined in its room and
    in the room's other hallway, where it takes a shortest way to the goal; of two moves that
    are shortest it takes each with probability 1/2. The interest is 1 in these states.

    *Rewards and discounts.* Entering the goal from these states pays 1 with discount 0. That ends
    the return of this target, but no episode: the walk goes on, for it serves seven others.
    Otherwise the reward is 0 and the discount $\gamma$, so that $v_\pi = \gamma^{n - 1}$ at n steps
    from the goal.

    *Elsewhere* the target is not defined, and the authors set its ratios to 0, so that nothing is
    learned about these states. A policy has to do something, and so it is the behaviour's there,
    with an interest, features, rewards and discounts of 0: their values are 0 and expressed
    exactly, and no learner of values moves when it leaves them, not even one that ignores interest.

    *Features.* Tiles of (x, y), as in the paper: with t tiles across the grid, tile (i, j) of
    tiling k of n, from 0 on, is 1 in the cells with $\lfloor tx/11 + k/n\rfloor = i$ and $\lfloor
    ty/11 + (3k/n \bmod 1)\rfloor = j$. So n features are 1 where the target is defined; tiles in
    which it is defined nowhere are left out. The offsets and the default n = 4 and t = 2 are ours.
    The features of all tilings together are dependent: $C$ is singular for n > 1.

    The error that the paper reports is over the states of interest alone: RMSVE divided by the
    square root of their share of $d_\mu$.

    **Arguments:**

    - `goal`: Which of the eight targets is learned, 0 to 7.
    - `variance`: Whether the behaviour is uniform or makes ratios of up to 100.
    - `discount`: The discount $\gamma$ on the way to the goal, in [0, 1].
    - `tilings`: The number of tilings, and so of features that are 1.
    - `tiles`: How many tiles are as wide as the grid.
    """
    checks.count("goal", goal, least=0)
    if goal > 7:
        raise ValueError(f"goal: got {goal}; one of the targets 0 to 7 is required")
    if variance not in ("uniform", "high"):
        raise ValueError(f"variance: got {variance!r}; one of uniform, high is required")
    cells, successors = _plan()
    x, y = cells.T
    wall = np.where(x < 5, 5, 4)  # the row of the wall on that side
    room = np.where(x < 5, y > wall, 3 - (y > wall))  # clockwise, from the lower left
    way_out, way_in = (HALLWAYS[(goal // 2 + k) % 4] for k in (goal % 2, 1 - goal % 2))
    is_defined = (x != 5) & (y != wall) & (room == goal // 2) | (cells == way_in).all(1)

    behavior = np.full((len(cells), 4), 0.25)
    if variance == "high":
        is_biased = np.isin(x, (1, 8)) & np.isin(y, (1, 8))
        preferred = np.where(x == 1, 3, 2)[is_biased]
        behavior[is_biased] = 0.01
        behavior[is_biased, preferred] = 0.97
    distance = np.abs(cells - way_out).sum(1)  # rooms are convex: walls are never in the way
    is_closer = distance[successors] < distance[:, None]
    num_closer = np.maximum(is_closer.sum(1, keepdims=True), 1)
    target = np.where(is_defined[:, None], is_closer / num_closer, behavior)
    is_entry = is_defined[:, None] & (distance[successors] == 0)
    gamma = np.where(is_defined[:, None] & ~is_entry, float(discount), 0.0)
    return Problem(
        MDP(np.eye(len(cells))[successors], is_entry.astype(float), gamma),
        behavior,
        interest=is_defined.astype(float),
        x=_tile_features(cells, is_defined, tilings, tiles),
        start=np.eye(1, len(cells))[0],
        target=target,
        labels=SIZE * y + x,
    )


def _plan() -> tuple[Int[np.ndarray, "s 2"], Int[np.ndarray, "s a"]]:
    """Returns the open cells (x, y), row by row, and the cell to which each move leads."""
    is_open = np.ones((SIZE, SIZE), bool)  # by y and x
    is_open[:, 5] = is_open[5, :5] = is_open[4, 6:] = False
    is_open[HALLWAYS[:, 1], HALLWAYS[:, 0]] = True
    cells = np.argwhere(is_open)[:, ::-1]
    number = np.zeros((SIZE, SIZE), int)
    number[is_open] = np.arange(len(cells))
    x, y = np.clip(cells[:, None] + MOVES, 0, SIZE - 1).transpose(2, 0, 1)
    return cells, np.where(is_open[y, x], number[y, x], np.arange(len(cells))[:, None])


def _tile_features(
    cells: Int[np.ndarray, "s 2"], is_defined: Bool[np.ndarray, " s"], tilings: int, tiles: int
) -> Float[np.ndarray, "s k"]:
    """Returns the indicators of the tiles in which the target is defined, 0 where it is not."""
    checks.count("tilings", tilings)
    checks.count("tiles", tiles)
    num_columns = tilings * (tiles + 1) ** 2
    num_bytes = 16 * len(cells) * num_columns
    require_memory(f"four_rooms: {num_columns:,} tiles", num_bytes, "reduce tilings or tiles")
    tiling = np.arange(tilings)
    offset = np.stack([tiling, 3 * tiling % tilings])  # in parts of a tile, 1/tilings each
    position = tiles * tilings * cells.T[:, None]  # in the same, but SIZE as many
    column, row = (position + SIZE * offset[:, :, None]) // (SIZE * tilings)
    x = np.zeros((len(cells), num_columns))
    index = (tiling[:, None] * (tiles + 1) + row) * (tiles + 1) + column
    x[np.arange(len(cells)), index] = is_defined
    return x[:, x.any(0)]
