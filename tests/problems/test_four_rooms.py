"""The four rooms: a plan drawn by hand, breadth-first search, and values counted in steps."""

import inspect
import json
from collections import deque
from functools import cache

import numpy as np
import pytest

from emphatic import oracle, problems
from emphatic.experiments import toml

from ..cli.command import run, solve_json

PLAN = [  # from above; row 0 is the last
    ".....#.....",
    ".....#.....",
    "...........",
    ".....#.....",
    ".....#.....",
    "#.####.....",
    ".....###.##",
    ".....#.....",
    ".....#.....",
    "...........",
    ".....#.....",
][::-1]
CELLS = [(x, y) for y in range(11) for x in range(11) if PLAN[y][x] == "."]
MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]
SOUTH_WEST, NORTH_WEST, NORTH_EAST, SOUTH_EAST = (
    {(x, y) for x, y in CELLS if x in columns and y in rows}
    for columns, rows in (
        (range(5), range(5)),
        (range(5), range(6, 11)),
        (range(6, 11), range(5, 11)),
        (range(6, 11), range(4)),
    )
)
GOALS = [  # the room, the goal and the room's other hallway
    (SOUTH_WEST, (5, 1), (1, 5)),
    (SOUTH_WEST, (1, 5), (5, 1)),
    (NORTH_WEST, (1, 5), (5, 8)),
    (NORTH_WEST, (5, 8), (1, 5)),
    (NORTH_EAST, (5, 8), (8, 4)),
    (NORTH_EAST, (8, 4), (5, 8)),
    (SOUTH_EAST, (8, 4), (5, 1)),
    (SOUTH_EAST, (5, 1), (8, 4)),
]


@cache
def make(goal, **arguments):
    return problems.four_rooms(goal, **arguments)


def step(cell, move):
    """Where a move leads."""
    x, y = cell[0] + move[0], cell[1] + move[1]
    return (x, y) if 0 <= x < 11 and 0 <= y < 11 and PLAN[y][x] == "." else cell


def steps_to(goal, cells):
    """The number of steps from each of the cells to the goal, by breadth-first search."""
    steps, queue = {goal: 0}, deque([goal])
    while queue:
        cell = queue.popleft()
        for move in MOVES:
            near = step(cell, move)
            if near in cells and near not in steps:
                steps[near] = steps[cell] + 1
                queue.append(near)
    return steps


def test_the_plan_has_104_open_cells_in_four_rooms():
    sizes = [len(room) for room, *_ in GOALS[::2]]
    assert sizes == [25, 25, 30, 20]
    assert len(CELLS) == sum(sizes) + 4 == make(0).mdp.num_states
    np.testing.assert_array_equal(make(0).labels, [11 * y + x for x, y in CELLS])
    assert make(0).start[CELLS.index((0, 0))] == 1.0


def test_every_move_leads_where_the_plan_says():
    kernel = make(0).mdp.kernel.reshape(104, 4, 104)
    for s, cell in enumerate(CELLS):
        for a, move in enumerate(MOVES):
            np.testing.assert_array_equal(kernel[s, a], np.eye(104)[CELLS.index(step(cell, move))])
    for goal in range(1, 8):
        np.testing.assert_array_equal(make(goal).mdp.kernel, make(0).mdp.kernel)


@pytest.mark.parametrize("goal", range(8))
def test_values_count_the_steps_of_the_shortest_way_to_the_goal(goal):
    problem, (room, hallway, other) = make(goal), GOALS[goal]
    steps = steps_to(hallway, room | {other})
    assert len(steps) == len(room) + 2
    del steps[hallway]
    expected = np.array([0.9 ** (steps[cell] - 1) if cell in steps else 0.0 for cell in CELLS])
    np.testing.assert_allclose(oracle.values(problem), expected, rtol=1e-12)
    assert sorted(expected)[-1] == 1.0
    assert max(steps.values()) <= 12
    np.testing.assert_array_equal(problem.interest, expected > 0)
    # The values are those of an optimal policy where the target is defined.
    q = oracle.action_values(problem)
    np.testing.assert_allclose(q.max(1), expected, rtol=1e-12)
    # Two shortest moves have 1/2 each, where there are two; elsewhere the behaviour decides.
    best = np.isclose(q, q.max(1, keepdims=True)) & (expected > 0)[:, None]
    shares = np.where(best.any(1), best.sum(1), 4)
    np.testing.assert_allclose(problem.target.max(1), 1 / shares)
    assert (problem.target[best] > 0).all()
    assert set(shares[expected > 0]) == {1, 2}
    np.testing.assert_array_equal(problem.target[expected == 0], 0.25)


def test_the_walk_goes_on_from_the_goal_but_not_the_return():
    """From the cell (4, 1) the goal 0 is entered to the right; its far side is (6, 1)."""
    problem = make(0)
    near, hallway, far = (CELLS.index((x, 1)) for x in (4, 5, 6))
    kernel, discounted = problem.mdp.kernel.reshape(104, 4, 104), problem.mdp.dense_discounted()
    assert kernel[near, 2, hallway] == kernel[hallway, 2, far] == 1.0
    assert problem.mdp.mean_reward[near, 2] == 1.0
    assert problem.mdp.mean_reward.sum() == 1.0
    assert discounted[near, 2].sum() == 0.0
    np.testing.assert_allclose(discounted[near, [0, 1, 3]].sum(1), 0.9)
    np.testing.assert_array_equal(discounted[[hallway, far]], 0.0)
    # The other hallway is one of the states, and leaving the room by it is no end.
    other = CELLS.index((1, 5))
    np.testing.assert_allclose(discounted[other].sum(1), 0.9)


@pytest.mark.parametrize("goal", [0, 5])
def test_a_uniform_walk_visits_all_cells_alike(goal):
    np.testing.assert_allclose(make(goal).stationary, 1 / 104, rtol=1e-11)


def test_high_variance_makes_four_cells_one_sided():
    problem = make(0, variance="high")
    left, right = [0.01, 0.01, 0.01, 0.97], [0.01, 0.01, 0.97, 0.01]
    biased = {(1, 1): left, (1, 8): left, (8, 1): right, (8, 8): right}
    expected = [biased.get(cell, [0.25] * 4) for cell in CELLS]
    np.testing.assert_allclose(problem.behavior, expected)
    ratio = problem.target / problem.behavior
    assert ratio.max() == pytest.approx(100.0)  # to the right in (1, 1)
    np.testing.assert_allclose(oracle.values(problem), oracle.values(make(0)), rtol=1e-12)
    outside = problem.interest == 0
    np.testing.assert_array_equal(problem.target[outside], problem.behavior[outside])


@pytest.mark.parametrize("goal", [0, 3, 6])
def test_nothing_is_learned_where_the_target_is_not_defined(goal):
    """No emphasis, no features, no error: all that counts is in the room."""
    problem = make(goal)
    outside = problem.interest == 0
    assert outside[[CELLS.index(GOALS[goal][1])]]
    np.testing.assert_array_equal(oracle.emphasis(problem)[outside], 0.0)
    np.testing.assert_array_equal(problem.x[outside], 0.0)
    np.testing.assert_array_equal(oracle.action_values(problem)[outside], 0.0)
    # Within 13 steps the trace of a room is 0 or cut at the goal, so that it has all moments.
    assert oracle.followon_radius(problem) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("tilings", "tiles"), [(4, 2), (1, 4), (11, 3)])
def test_the_tiles_are_those_of_shifted_grids(tilings, tiles):
    """Tiling k is shifted by k/n of a tile to the left and by 3k/n down, of which whole tiles do
    not count: two cells share a feature for each tiling in which they share a tile."""
    problem, (room, _, other) = make(2, tilings=tilings, tiles=tiles), GOALS[2]
    inside = [s for s, cell in enumerate(CELLS) if cell in room | {other}]
    width, epsilon = 11 / tiles, 1e-9
    addresses = {
        s: [
            (
                int(CELLS[s][0] / width + k / tilings + epsilon),
                int(CELLS[s][1] / width + 3 * k / tilings % 1.0 + epsilon),
            )
            for k in range(tilings)
        ]
        for s in inside
    }
    shared = [
        [
            sum(mine == yours for mine, yours in zip(addresses[s], addresses[t], strict=True))
            for t in inside
        ]
        for s in inside
    ]
    np.testing.assert_array_equal(problem.x[inside] @ problem.x[inside].T, shared)
    assert set(np.unique(problem.x)) == {0.0, 1.0}
    assert problem.x.any(0).all()
    np.testing.assert_array_equal(problem.x.sum(1), np.where(problem.interest > 0, tilings, 0))


def test_emphasis_makes_the_limit_better_for_every_goal():
    """As in the paper: ETD ends with a smaller error than TD."""
    for goal in range(8):
        problem = make(goal)
        v = oracle.values(problem)
        errors = [
            np.linalg.norm(problem.x @ system(problem).least_norm_solution() - v)
            for system in (oracle.td_system, oracle.etd_system)
        ]
        best = np.linalg.norm(oracle.projection(problem) @ v - v)
        assert best < errors[1] < 0.6 * errors[0]


def test_tabular_tiles_are_exact():
    problem = make(4, tilings=1, tiles=11)
    v = oracle.values(problem)
    np.testing.assert_allclose(problem.x @ oracle.td_system(problem).solution(), v, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"goal": 8}, "goal: got 8; one of the targets 0 to 7 is required"),
        ({"goal": -1}, "goal: got -1; at least 0 is required"),
        ({"tilings": 0}, "tilings: got 0; at least 1"),
        ({"tiles": 0}, "tiles: got 0; at least 1"),
        ({"tiles": 10**6}, "four_rooms: .* would need .*; reduce tilings or tiles"),
        ({"discount": 1.5}, r"discount: entry .* is 1.5; .*must lie in \[0, 1\]"),
    ],
)
def test_impossible_rooms_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        problems.four_rooms(**arguments)


def test_a_variance_is_one_of_two():
    with pytest.raises(ValueError, match="variance: got 'low'; one of uniform, high is required"):
        inspect.unwrap(problems.four_rooms)(variance="low")


def test_a_goal_is_an_option_of_solve_and_certify(capsys):
    solution = solve_json(capsys, "four_rooms", "--goal", "3")
    assert solution["problem"] == "four_rooms (goal=3)"
    np.testing.assert_allclose(solution["values"], oracle.values(make(3)), rtol=1e-14)
    assert solution["labels"][:2] == [0, 1]
    status, out, _ = run(capsys, "certify", "--goal", "3", "four_rooms", "--json")
    assert status == 1
    assert json.loads(out)["problem"] == "four_rooms (goal=3)"
    message = "goal: got 9; one of the targets 0 to 7"
    assert message in run(capsys, "solve", "four_rooms", "--goal", "9")[2]


def test_goals_are_the_cases_of_an_experiment():
    """Each case has tiles of its own, and all have one behaviour."""
    experiment = toml.parse(
        """\
        steps = 10
        [problem]
        name = "four_rooms"
        goal = [0, 3, 5]
        variance = "high"
        [learners]
        etd = "etd(followon(), step_size)"
        [grid]
        step_size = [0.1]
        """
    )
    assert list(experiment.cases["goal"]) == [0, 3, 5]
    cases = [experiment.build(**point) for point in experiment.points()]
    assert [case.x.shape[1] for case in cases] == [10, 12, 15]
    for case, goal in zip(cases, (0, 3, 5), strict=True):
        assert problems.digest(case) == problems.digest(make(goal, variance="high"))
        np.testing.assert_array_equal(case.behavior, cases[0].behavior)
