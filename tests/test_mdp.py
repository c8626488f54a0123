"""Problems refuse what is not a problem, and keep what they are given."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from emphatic import _validation, MDP, oracle, Problem, problems as built_in, Sample
from emphatic._markov import as_dense
from emphatic.mdp import policy_matrix

from .strategies import as_sparse, build, problems, problems_and_targets, SHAPES

KERNEL = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
UNIFORM = np.full((2, 2), 0.5)


def kernel(**entries):
    """The small kernel with some entries changed, named like `p010`."""
    changed = KERNEL.copy()
    for name, value in entries.items():
        changed[tuple(int(i) for i in name[1:])] = value
    return changed


def mdp(transition: Any = KERNEL, reward: Any = 0.0, discount: Any = 0.9) -> MDP:
    return MDP(transition, reward, discount)


def problem(process: MDP | None = None, **changes: Any) -> Problem:
    arguments: dict[str, Any] = {"behavior": UNIFORM, "interest": 1.0, "x": np.eye(2)} | changes
    return Problem(mdp() if process is None else process, **arguments)


def rows(transition=KERNEL):
    return sparse.csr_array(np.reshape(transition, (-1, np.shape(transition)[-1])))


def refuses(build, *parts):
    """The error of a build says all parts, in this order, the argument first."""
    with pytest.raises(ValueError, match="(?s)^" + ".*".join(re.escape(part) for part in parts)):
        build()


# What an MDP refuses.

BAD_MDPS = {
    "nan in the transition": (
        lambda: mdp(kernel(p010=np.nan)),
        ("transition: entry (0, 1, 0) is nan", "must be finite"),
    ),
    "infinity in the transition": (
        lambda: mdp(kernel(p101=np.inf)),
        ("transition: entry (1, 0, 1) is inf", "must be finite"),
    ),
    "a negative probability": (
        lambda: mdp(kernel(p110=-0.25, p111=1.25)),
        ("transition: entry (1, 1, 0) is -0.25", "negative"),
    ),
    "a row that sums to 1.5": (
        lambda: mdp(kernel(p011=1.5)),
        ("transition: the row of (state 0, action 1) sums to 1.5;", "must sum to 1"),
    ),
    "a row that misses by 1e-7": (
        lambda: mdp(kernel(p111=0.75 - 1e-7)),
        ("transition: the row of (state 1, action 1) sums to 0.9999999;", "must sum to 1"),
    ),
    "a matrix as the transition": (
        lambda: mdp(np.eye(2)),
        ("transition: got shape (2, 2);", "(states, actions, states)"),
    ),
    "an oblong transition": (
        lambda: mdp(np.ones((2, 2, 3)) / 3.0),
        ("transition: got shape (2, 2, 3);", "(states, actions, states)"),
    ),
    "no action": (
        lambda: mdp(np.ones((2, 0, 2))),
        ("transition: got shape (2, 0, 2);", "must not be empty"),
    ),
    "words": (lambda: mdp([["up", "down"]]), ("transition: got list;", "numbers")),
    "a ragged reward": (lambda: mdp(reward=[[1.0], [1.0, 2.0]]), ("reward: got list;", "numbers")),
    "nan in the reward": (
        lambda: mdp(reward=[[0.0, np.nan], [0.0, 0.0]]),
        ("reward: entry (0, 1) is nan", "must be finite"),
    ),
    "a reward of the wrong shape": (
        lambda: mdp(reward=np.zeros(3)),
        ("reward: got shape (3,);", "a number, (2, 2) or (2, 2, 2) is required"),
    ),
    "a discount of the wrong shape": (
        lambda: mdp(discount=np.zeros((2, 3))),
        ("discount: got shape (2, 3);", "a number, (2, 2) or (2, 2, 2) is required"),
    ),
    "a constant discount of 1": (
        lambda: mdp(discount=1.0),
        ("discount: got 1;", "must lie in [0, 1)"),
    ),
    "a negative constant discount": (
        lambda: mdp(discount=-0.1),
        ("discount: got -0.1;", "must lie in [0, 1)"),
    ),
    "a nan discount": (lambda: mdp(discount=np.nan), ("discount:", "nan", "finite")),
    "a varying discount of 1.5": (
        lambda: mdp(discount=[[0.5, 1.5], [1.0, 0.0]]),
        ("discount: entry (0, 1) is 1.5;", "must lie in [0, 1]"),
    ),
    "a varying discount of -0.1": (
        lambda: mdp(discount=[[0.5, 1.0], [-0.1, 0.0]]),
        ("discount: entry (1, 0) is -0.1;", "must lie in [0, 1]"),
    ),
    "a discount per outcome of 1.5": (
        lambda: mdp(discount=np.full((2, 2, 2), 1.5)),
        ("discount: entry (0, 0, 0) is 1.5;", "must lie in [0, 1]"),
    ),
    "a sparse row that sums to 1.25": (
        lambda: mdp(rows(kernel(p100=1.25))),
        ("transition: the row of (state 1, action 0) sums to 1.25;", "must sum to 1"),
    ),
    "a sparse negative probability": (
        lambda: mdp(rows(kernel(p000=1.5, p001=-0.5))),
        ("transition.data: entry (1,) is -0.5;", "negative"),
    ),
    "a sparse nan": (
        lambda: mdp(rows(kernel(p111=np.nan))),
        ("transition.data: entry (5,) is nan", "must be finite"),
    ),
    "sparse rows that are no multiple of the states": (
        lambda: mdp(sparse.csr_array(np.eye(3)[:, :2])),
        ("transition: got shape (3, 2);", "(states * actions, states)"),
    ),
    "a sparse reward of the wrong length": (
        lambda: mdp(rows(), reward=np.zeros(7)),
        ("reward: got shape (7,);", "a number, (2, 2) or (6,) is required"),
    ),
    "an outcome reward for a sparse transition": (
        lambda: mdp(rows(), reward=np.zeros((2, 2, 2))),
        ("reward: got shape (2, 2, 2);", "(6,) is required"),
    ),
    "a reward aligned with a coo transition": (
        lambda: mdp(sparse.coo_array(rows()), reward=np.zeros(6)),
        ("transition: got the sparse format 'coo';", "csr is required"),
    ),
    "a discount aligned with a csc transition": (
        lambda: mdp(sparse.csc_array(rows()), discount=np.zeros(6)),
        ("transition: got the sparse format 'csc';", "csr is required"),
    ),
    "a sparse vector": (lambda: mdp(sparse.coo_array(np.ones(2))), ("transition:", "(2,)")),
}


@pytest.mark.parametrize("case", BAD_MDPS)
def test_an_mdp_refuses_and_says_why(case):
    build, parts = BAD_MDPS[case]
    refuses(build, *parts)


def test_a_csr_index_out_of_range_is_refused_before_it_is_followed():
    """SciPy does not check this: a product would write beyond its arrays and end the process."""
    script = """
import numpy as np
from scipy import sparse
from emphatic import MDP
for index in (2, -1, 2**30):
    p = sparse.csr_array((np.ones(2), np.array([0, index]), np.array([0, 1, 2])), shape=(2, 2))
    try:
        MDP(p, 0.0, 0.9)
    except ValueError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("transition:") for line in lines)


def test_a_csr_matrix_whose_last_pointer_is_negative_is_refused():
    """SciPy's own check overlooks it, and then ends in an error of C++."""
    p = sparse.csr_array(np.eye(3))
    p.indptr = np.array([0, 1, -1, -(2**63)])
    refuses(lambda: mdp(p), "transition: not a sound sparse matrix: ", "its indptr ends in -9223")


# What a problem refuses.

TRANSIENT = np.zeros((3, 1, 3))
TRANSIENT[0, 0, 1] = TRANSIENT[1, 0, 0] = TRANSIENT[2, 0, 0] = 1.0  # nothing leads to state 2
TRAP = np.zeros((3, 1, 3))
TRAP[0, 0] = 0.0, 0.5, 0.5
TRAP[1, 0, 0] = TRAP[2, 0, 2] = 1.0  # state 2 never leaves

BAD_PROBLEMS = {
    "a behaviour of the wrong shape": (
        lambda: problem(behavior=np.full((2, 3), 1 / 3)),
        ("behavior: got shape (2, 3); (2, 2) (states, actions) is required",),
    ),
    "a behaviour row that sums to 0.9": (
        lambda: problem(behavior=[[0.5, 0.5], [0.5, 0.4]]),
        ("behavior: the row of state 1 sums to 0.9;", "must sum to 1"),
    ),
    "a negative behaviour": (
        lambda: problem(behavior=[[1.5, -0.5], [0.5, 0.5]]),
        ("behavior: entry (0, 1) is -0.5;", "negative"),
    ),
    "nan in the behaviour": (
        lambda: problem(behavior=[[0.5, 0.5], [np.nan, 0.5]]),
        ("behavior: entry (1, 0) is nan", "finite"),
    ),
    "an interest of the wrong shape": (
        lambda: problem(interest=np.ones(3)),
        ("interest: got shape (3,); (2,) (states) is required",),
    ),
    "a negative interest": (
        lambda: problem(interest=[1.0, -2.0]),
        ("interest: entry (1,) is -2;", "negative"),
    ),
    "an infinite interest": (lambda: problem(interest=np.inf), ("interest:", "inf", "finite")),
    "no interest": (
        lambda: problem(interest=0.0),
        ("interest: every entry is 0; some state must be of interest",),
    ),
    "features without a state axis": (
        lambda: problem(x=np.ones(2)),
        ("x: got shape (2,);", "(states, features) is required"),
    ),
    "features of the wrong number of states": (
        lambda: problem(x=np.ones((3, 1))),
        ("x: got shape (3, 1);", "(states, features) is required"),
    ),
    "sparse features of the wrong number of states": (
        lambda: problem(x=sparse.csr_array(np.ones((3, 1)))),
        ("x: got shape (3, 1);", "(states, features) is required"),
    ),
    "no features": (lambda: problem(x=np.ones((2, 0))), ("x: got shape (2, 0);", "is required")),
    "nan in the features": (
        lambda: problem(x=[[1.0], [np.nan]]),
        ("x: entry (1, 0) is nan", "finite"),
    ),
    "nan in sparse features": (
        lambda: problem(x=sparse.csr_array([[1.0], [np.nan]])),
        ("x.data: entry (1,) is nan", "finite"),
    ),
    "action features without an action axis": (
        lambda: problem(xa=np.ones((4, 3))),
        ("xa: got shape (4, 3);", "(states, actions, features) is required"),
    ),
    "sparse action features with too few rows": (
        lambda: problem(xa=sparse.csr_array(np.ones((2, 3)))),
        ("xa: got shape (2, 3);", "(states, actions, features) is required"),
    ),
    "too few labels": (
        lambda: problem(labels=[7]),
        ("labels: got int64 of shape (1,); 2 whole numbers are required",),
    ),
    "labels that are not whole": (
        lambda: problem(labels=[0.5, 1.0]),
        ("labels: got float64 of shape (2,); 2 whole numbers are required",),
    ),
    "a start of the wrong shape": (
        lambda: problem(start=[1.0]),
        ("start: got shape (1,); (2,) (states) is required",),
    ),
    "a start that sums to 2": (
        lambda: problem(start=[1.0, 1.0]),
        ("start: the row of the distribution sums to 2;", "must sum to 1"),
    ),
    "a negative start": (
        lambda: problem(start=[1.5, -0.5]),
        ("start: entry (1,) is -0.5;", "negative"),
    ),
    "a target of the wrong shape": (
        lambda: problem(target=np.ones((2, 1))),
        ("target: got shape (2, 1); (2, 2) (states, actions) is required",),
    ),
    "a target row that sums to 1.1": (
        lambda: problem(target=[[0.5, 0.6], [0.5, 0.5]]),
        ("target: the row of state 0 sums to 1.1;", "must sum to 1"),
    ),
    "a negative target": (
        lambda: problem(target=[[0.5, 0.5], [2.0, -1.0]]),
        ("target: entry (1, 1) is -1;", "negative"),
    ),
    "a target that acts where the behaviour never does": (
        lambda: problem(behavior=[[0.5, 0.5], [1.0, 0.0]], target=[[1.0, 0.0], [0.75, 0.25]]),
        ("target: takes action 1 in state 1 with probability 0.25", "requires mu(a|s) > 0"),
    ),
    "a state that is never reached": (
        lambda: problem(mdp(TRANSIENT), behavior=np.ones((3, 1)), x=np.eye(3)),
        ("behavior:", "not irreducible (2 classes): state 2 is never reached from state 0;"),
    ),
    "a state that never leads back": (
        lambda: problem(mdp(TRAP), behavior=np.ones((3, 1)), x=np.eye(3)),
        ("behavior:", "not irreducible (2 classes): state 0 is never reached again from state 2;"),
    ),
    "a sparse state that never leads back": (
        lambda: problem(mdp(rows(TRAP)), behavior=np.ones((3, 1)), x=np.eye(3)),
        ("behavior:", "not irreducible (2 classes): state 0 is never reached again from state 2;"),
    ),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_a_problem_refuses_and_says_why(case):
    build, parts = BAD_PROBLEMS[case]
    refuses(build, *parts)


def test_a_missing_target_is_asked_for():
    refuses(problem().require_target, "target: not given")


def test_the_problems_own_target_is_the_default():
    own = [[0.0, 1.0], [0.5, 0.5]]
    built = problem(target=own)
    np.testing.assert_array_equal(built.require_target(), own)
    assert built.require_target() is built.target
    np.testing.assert_array_equal(built.require_target(UNIFORM), UNIFORM)


@pytest.mark.parametrize("form", [np.asarray, rows], ids=["dense", "sparse"])
@pytest.mark.parametrize("miss", [5e-9, -5e-9, 1e-13])
def test_rows_that_miss_one_by_little_are_divided_by_their_sum(form, miss):
    transition = as_dense(mdp(form(kernel(p111=0.75 + miss))).kernel)
    np.testing.assert_allclose(transition.sum(1), 1.0, rtol=4e-16)
    np.testing.assert_allclose(transition[3], np.array([0.25, 0.75 + miss]) / (1.0 + miss))
    np.testing.assert_array_equal(transition[:3], KERNEL.reshape(4, 2)[:3])
    near = [[0.5, 0.5 + miss], [0.5, 0.5]]
    built = problem(behavior=near, target=near, start=[0.5, 0.5 + miss])
    for law in (built.behavior[0], built.target[0], built.start, built.require_target(near)[0]):
        np.testing.assert_allclose(law, [0.5 / (1 + miss), 1 - 0.5 / (1 + miss)], rtol=1e-15)
        assert not law.flags.writeable
    np.testing.assert_array_equal(built.behavior[1], [0.5, 0.5])


@pytest.mark.parametrize("form", [np.asarray, rows], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [2, 7, 100, 3000])
def test_rows_that_miss_one_by_rounding_keep_their_bits(form, size):
    """Stores know a problem by them."""
    p = np.random.default_rng(size).random((size, 1, size)) if size < 1000 else np.ones((1, 1, 1))
    p = np.broadcast_to(p / p.sum(2, keepdims=True), (len(p), 1, len(p)))
    wide = np.full(size, 1.0) / size  # a sum of many rounded numbers
    built = mdp(form(p), reward=0.0, discount=0.5)
    np.testing.assert_array_equal(as_dense(built.kernel), p.reshape(len(p), len(p)))
    assert _validation.stochastic("start", wide[None], str)[0].tobytes() == wide.tobytes()
    for tenths in (np.full(10, 0.1), np.array([0.1, 0.2, 0.3, 0.4]), np.array([1 / 3] * 3)):
        np.testing.assert_array_equal(_validation.policy("p", [tenths], (1, len(tenths))), [tenths])


@pytest.mark.parametrize("miss", [9e-9, -9e-9, 1e-12])
@pytest.mark.parametrize("gap", [1e-8, 1e-9])
def test_values_are_not_those_of_rows_that_miss_one(miss, gap):
    """With a reward of 1 and an interest of 1 on policy, both are 1/(1 - gamma)."""
    p = np.array([[[0.25, 0.75 + miss], [0.5, 0.5]], [[0.5 + miss, 0.5], [0.3, 0.7]]])
    near = [[0.4, 0.6 + miss], [0.5 + miss, 0.5]]
    built = problem(mdp(p, 1.0, 1.0 - gap), behavior=near, target=near)
    for exact in (oracle.values(built), oracle.emphasis(built)):
        np.testing.assert_allclose(exact * gap, 1.0, rtol=4e-16 / gap)


def test_a_problem_is_shown_in_one_line():
    built = problem()
    assert repr(built) == f"Problem({built})"
    assert str(built) == "2 states, 2 actions, 2 features, discount 0.9"
    assert repr(built.mdp) == "MDP(2 states, 2 actions, discount 0.9)"
    assert repr(built_in.random_walk().mdp) == "MDP(5 states, 2 actions, discount 0 to 1)"
    assert repr(built_in.baird()) == "Problem(7 states, 2 actions, 8 features, discount 0.99)"


# A target whose discounted chain does not lose anything.

RING = np.zeros((4, 2, 4))
RING[range(4), 0, [1, 2, 3, 0]] = 1.0  # action 0 walks round
RING[range(4), 1, [2, 2, 1, 3]] = 1.0  # action 1 goes to and fro between 1 and 2, or stays in 3


def closed_classes(chain):
    """Brute force: the sets of states that reach each other and nothing else."""
    reach = np.linalg.matrix_power(np.eye(len(chain)) + (chain > 0), len(chain)) > 0
    return [
        set(np.flatnonzero(reach[s]))
        for s in range(len(chain))
        if (reach[reach[s]] == reach[s]).all()
    ]


@pytest.mark.parametrize("form", [np.asarray, rows], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("actions", "back_to_start"),
    [
        ([1, 1, 1, 0], 0.0),  # states 3 and 0 only lead to the class {1, 2}
        ([0, 0, 0, 1], 0.0),  # states 0, 1 and 2 only lead to state 3, which stays
        ([0, 0, 0, 0], 1.0),  # one class of all states
    ],
)
def test_a_target_that_never_discounts_is_refused_with_a_state_of_its_closed_class(
    form, actions, back_to_start
):
    target = np.eye(2)[actions]
    discount = np.ones((4, 2))
    discount[3, 0] = back_to_start
    built = problem(mdp(form(RING), discount=discount), behavior=np.full((4, 2), 0.5), x=np.eye(4))
    with pytest.raises(ValueError, match=r"^target: .*discount is always 1.*below 1") as error:
        built.require_target(target)
    named = int(re.findall(r"state (\d+)", str(error.value))[0])
    chain = np.einsum("sa,sat->st", target, RING)
    assert any(named in members for members in closed_classes(chain))


def test_only_the_closed_class_must_discount():
    """A discount of 0 anywhere in the only closed class is enough."""
    discount = np.ones((4, 2))
    discount[2, 1] = 0.0
    built = problem(mdp(RING, discount=discount), behavior=np.full((4, 2), 0.5), x=np.eye(4))
    target = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(built.require_target(target), target)


def test_an_impossible_outcome_does_not_discount():
    """A discount below 1 on an outcome of probability 0 does not save a target."""
    discount = np.ones((2, 2, 2))
    discount[0, 1, 0] = 0.0
    always = [[0.0, 1.0], [0.5, 0.5]]
    refuses(lambda: problem(mdp(discount=discount), target=always), "target:", "always 1")
    discount[0, 0, 0] = 0.0
    problem(mdp(discount=discount), target=UNIFORM)


def test_a_target_is_accepted_exactly_when_its_discounted_chain_has_a_radius_below_one():
    accepted = []
    for seed in range(60):
        built, _ = build(SHAPES[seed % 3], seed, varying=True)
        rng, P = np.random.default_rng(seed), built.mdp.transition
        target = np.eye(P.shape[1])[rng.integers(P.shape[1], size=len(P))]
        discount = np.ones_like(P)
        discount[rng.integers(len(P)), 1] = 0.0  # one action of one state
        radius = np.abs(np.linalg.eigvals(np.einsum("sa,sat,sat->st", target, P, discount))).max()
        varied = dataclasses.replace(built, mdp=MDP(P, 0.0, discount), target=None)
        if radius < 1.0 - 1e-9:
            varied.require_target(target)
        else:
            with pytest.raises(ValueError, match="discount is always 1"):
                varied.require_target(target)
        accepted.append(radius < 1.0 - 1e-9)
    assert 10 < sum(accepted) < 50


# What is kept.


def arrays_of(built: Problem) -> Iterator[Any]:
    process = built.mdp
    values: tuple[Any, ...] = (
        *(process.transition, process.reward, process.discount, built.x, built.xa),
        *(built.behavior, built.interest, built.start, built.target, built.labels),
        built.stationary,
    )
    for value in values:
        if sparse.issparse(value):
            yield from (value.data, value.indices, value.indptr)
        elif np.ndim(value):
            yield value


@given(problems())
def test_the_arrays_are_read_only(built):
    for version in (built, as_sparse(built)):
        arrays = list(arrays_of(version))
        assert len(arrays) >= 9
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_the_inputs_are_not_aliased(form):
    pick = rows if form == "sparse" else np.array
    given_arrays: dict[str, Any] = {
        "transition": pick(KERNEL),
        "reward": np.arange(6.0) if form == "sparse" else np.arange(4.0).reshape(2, 2),
        "discount": np.full(6, 0.5) if form == "sparse" else np.full((2, 2), 0.5),
        "behavior": UNIFORM.copy(),
        "interest": np.array([1.0, 2.0]),
        "x": (sparse.csr_array if form == "sparse" else np.array)([[1.0, 2.0], [3.0, 4.0]]),
        "xa": np.ones((2, 2, 1)),
        "start": np.array([0.5, 0.5]),
        "target": UNIFORM.copy(),
        "labels": np.array([4, 5]),
    }
    rest = dict(given_arrays)
    process = MDP(*(rest.pop(name) for name in ("transition", "reward", "discount")))
    built = Problem(process, **rest)
    before = [array.copy() for array in arrays_of(built)]
    for value in given_arrays.values():
        for array in (value.data, value.indices) if sparse.issparse(value) else (value,):
            array += 1  # it is still the caller's own, and writable
    for array, kept in zip(arrays_of(built), before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_numbers_of_other_types_become_float64():
    built = problem(
        mdp(KERNEL.astype(np.float32), reward=[[1, 2], [3, 4]], discount=0),
        interest=2,
        x=np.eye(2, dtype=int),
        target=np.eye(2, dtype=bool),
    )
    for array in (built.mdp.transition, built.mdp.reward, built.interest, built.x, built.xa):
        assert array.dtype == np.float64
    assert built.target.dtype == built.start.dtype == np.float64
    assert built.mdp.discount == 0.0
    np.testing.assert_array_equal(built.interest, [2.0, 2.0])


# The forms of a transition, a reward and a discount.


@given(problems())
def test_sparse_and_dense_are_the_same_process(built):
    other = as_sparse(built)
    assert other.mdp.is_sparse
    assert not built.mdp.is_sparse
    np.testing.assert_allclose(other.mdp.kernel.toarray(), built.mdp.kernel, atol=0.0)
    np.testing.assert_allclose(other.mdp.mean_reward, built.mdp.mean_reward, atol=1e-15)
    for power in (1, 2):
        expected = built.mdp.transition * built.mdp.discount**power
        np.testing.assert_allclose(
            built.mdp.discounted(power), expected.reshape(-1, built.mdp.num_states), atol=1e-16
        )
        np.testing.assert_allclose(
            other.mdp.discounted(power).toarray(), built.mdp.discounted(power), atol=1e-16
        )
    np.testing.assert_allclose(other.stationary, built.stationary, rtol=1e-12)
    np.testing.assert_array_equal(other.xa_rows.toarray(), built.xa_rows)


@given(problems())
def test_the_mean_reward_is_the_expectation_over_outcomes(built):
    expected = (built.mdp.transition * built.mdp.reward).sum(2)
    np.testing.assert_allclose(built.mdp.mean_reward, expected, atol=1e-15)


def test_rewards_of_all_forms_agree():
    per_action = np.array([[1.0, 2.0], [3.0, 4.0]])
    per_outcome = np.repeat(per_action[:, :, None], 2, axis=2)
    aligned = [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]  # the stored entries of the kernel, row by row
    for process in (
        mdp(reward=per_action),
        mdp(reward=per_outcome),
        mdp(rows(), reward=per_action),
        mdp(rows(), reward=aligned),
        mdp(sparse.coo_array(rows()), reward=per_action),
    ):
        np.testing.assert_allclose(process.mean_reward, per_action)
    np.testing.assert_allclose(mdp(reward=3.0).mean_reward, np.full((2, 2), 3.0))
    np.testing.assert_allclose(mdp(rows(), reward=3.0).mean_reward, np.full((2, 2), 3.0))


def doubled(**outcomes):
    """One action; state 0 leads to itself by two stored entries, and to state 1 by one."""
    transition = sparse.csr_array(
        (np.array([0.25, 0.5, 0.25, 1.0]), np.array([0, 1, 0, 0]), np.array([0, 3, 4])),
        shape=(2, 2),
    )
    return MDP(transition, **({"reward": 0.0, "discount": 0.5} | outcomes))


def test_two_outcomes_may_lead_to_the_same_state():
    """Walking to the start state is not being restarted there."""
    process = doubled(reward=[1.0, 10.0, 100.0, 1000.0], discount=[1.0, 0.5, 0.0, 0.25])
    assert process.transition.nnz == 4
    np.testing.assert_allclose(process.mean_reward, [[0.25 + 5.0 + 25.0], [1000.0]])
    np.testing.assert_allclose(process.kernel.toarray(), [[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(process.discounted().toarray(), [[0.25, 0.25], [0.25, 0.0]])
    np.testing.assert_allclose(process.discounted(2).toarray(), [[0.25, 0.125], [0.0625, 0.0]])
    built = Problem(process, np.ones((2, 1)), 1.0, np.eye(2), target=np.ones((2, 1)))
    np.testing.assert_allclose(built.stationary, [2 / 3, 1 / 3], rtol=1e-14)


def test_outcomes_without_rewards_of_their_own_are_merged():
    process = doubled()
    assert process.transition.nnz == 3
    np.testing.assert_allclose(process.discounted().toarray(), [[0.25, 0.25], [0.5, 0.0]])
    assert doubled(reward=[[1.0], [2.0]]).transition.nnz == 3


def test_outcomes_follow_the_kernel_row_by_row():
    per_action = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(mdp().outcome(per_action), [1, 1, 2, 2, 3, 3, 4, 4])
    np.testing.assert_array_equal(mdp(rows()).outcome(per_action), [1, 1, 2, 3, 4, 4])
    np.testing.assert_array_equal(doubled().outcome([[1.0], [2.0]]), [1, 1, 2])
    np.testing.assert_array_equal(mdp().outcome(0.5), np.full(8, 0.5))
    np.testing.assert_array_equal(mdp(rows()).outcome(np.arange(6)), np.arange(6))
    np.testing.assert_array_equal(mdp().outcome(np.arange(8).reshape(2, 2, 2)), np.arange(8))


@given(problems_and_targets())
def test_the_policy_matrix_averages_over_actions(problem_and_target):
    built, target = problem_and_target
    q = built.mdp.mean_reward
    average = policy_matrix(target)
    assert average.shape == (len(q), q.size)
    np.testing.assert_allclose(average @ q.ravel(), (target * q).sum(1), atol=1e-14)
    np.testing.assert_allclose(
        average @ built.mdp.kernel,
        np.einsum("sa,sat->st", target, built.mdp.transition),
        atol=1e-15,
    )


# Defaults.


@given(problems())
def test_action_features_are_by_default_a_copy_of_the_state_features_for_each_action(built):
    actions = built.mdp.num_actions
    for version in (built, as_sparse(built)):
        default = dataclasses.replace(version, xa=None)
        x, xa = default.dense_features
        assert sparse.issparse(default.xa) == sparse.issparse(version.x)
        for s in range(len(x)):
            for a in range(actions):
                np.testing.assert_array_equal(xa[s, a], np.kron(np.eye(actions)[a], x[s]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_only_possible_outcomes_decide_whether_the_discount_is_constant(form):
    """Each state is left for the other; what staying would discount by does not matter."""
    p, discount = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.5, 0.9], [0.9, 0.5]])
    if form is np.asarray:
        mdp = MDP(p[:, None], 0.0, discount[:, None])
    else:
        stored = sparse.csr_array((p.ravel(), np.tile([0, 1], 2), np.array([0, 2, 4])))
        mdp = MDP(stored, 0.0, discount.ravel())
    assert mdp.constant_discount == 0.9


@given(problems())
def test_the_start_is_by_default_the_stationary_law_of_the_behaviour(built):
    built = dataclasses.replace(built, start=None)
    P = np.einsum("sa,sat->st", built.behavior, built.mdp.transition)
    np.testing.assert_allclose(built.start @ P, built.start, atol=1e-15)
    np.testing.assert_allclose(built.start.sum(), 1.0, rtol=1e-14)
    assert (built.start > 0).all()
    np.testing.assert_array_equal(built.start, built.stationary)


def test_labels_are_by_default_the_numbers_of_the_states():
    np.testing.assert_array_equal(problem().labels, [0, 1])
    np.testing.assert_array_equal(problem(labels=[5, 3]).labels, [5, 3])


@given(problems_and_targets())
def test_replace_changes_one_field_and_checks_it(problem_and_target):
    built, target = problem_and_target
    states = built.mdp.num_states
    other = dataclasses.replace(built, x=np.eye(states), target=target)
    np.testing.assert_array_equal(other.x, np.eye(states))
    np.testing.assert_array_equal(other.target, target)
    np.testing.assert_array_equal(other.behavior, built.behavior)
    assert other.mdp is built.mdp
    process = dataclasses.replace(built.mdp, reward=2.0)
    assert process.num_states == states
    np.testing.assert_allclose(process.mean_reward, np.full(target.shape, 2.0))
    refuses(lambda: dataclasses.replace(built, interest=-np.ones(states)), "interest:", "negative")


def test_the_problem_cannot_be_assigned_to():
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem().x = np.ones((2, 1))  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp().reward = 1.0  # pyright: ignore[reportAttributeAccessIssue]


# What a learner sees.


@given(problems_and_targets())
def test_a_view_holds_the_ratios_and_features_of_both_ends_of_the_step(problem_and_target):
    built, pi = problem_and_target
    states, actions = pi.shape
    every = np.stack(np.meshgrid(*map(np.arange, (states, actions, states, actions))), -1)
    picks = np.random.default_rng(0).permutation(every.reshape(-1, 4))[:6]
    for version in (built, as_sparse(built)):
        for s, a, s_next, a_next in picks.tolist():
            sample = Sample(*map(np.asarray, (7, s, a, -1.5, 0.25, s_next, a_next)))
            y = version.view(pi[s], pi[s_next], sample)
            assert (y.time, y.reward, y.discount) == (7, -1.5, 0.25)
            np.testing.assert_allclose(y.rho * built.behavior[s, a], pi[s, a], rtol=1e-14)
            np.testing.assert_allclose(
                y.rho_next * built.behavior[s_next, a_next], pi[s_next, a_next], rtol=1e-14
            )
            np.testing.assert_array_equal(y.x, built.x[s])
            np.testing.assert_array_equal(y.x_next, built.x[s_next])
            np.testing.assert_array_equal(y.xa, built.xa[s, a])
            np.testing.assert_array_equal(y.xa_next, built.xa[s_next, a_next])
            assert y.interest == built.interest[s]
            assert y.interest_next == built.interest[s_next]


def test_a_view_of_a_sparse_problem_is_dense():
    built = problem(x=sparse.csr_array([[0.0, 2.0], [1.0, 0.0]]))
    sample = Sample(*map(np.asarray, (0, 0, 1, 0.0, 0.9, 1, 0)))
    y = built.view(UNIFORM[0], UNIFORM[1], sample)
    np.testing.assert_array_equal(y.x, [0.0, 2.0])
    np.testing.assert_array_equal(y.xa, [0.0, 0.0, 0.0, 2.0])
    np.testing.assert_array_equal(y.xa_next, [1.0, 0.0, 0.0, 0.0])
    assert y.rho == 1.0


def test_a_discount_is_constant_only_if_every_possible_outcome_has_it():
    assert mdp(discount=0.9).constant_discount == 0.9
    assert mdp(discount=np.full((2, 2), 0.9)).constant_discount == 0.9
    assert mdp(discount=np.array([[0.9, 0.9], [0.9, 0.5]])).constant_discount is None
    assert mdp(discount=np.ones((2, 2))).constant_discount is None


SCALED = {"reward": 1e155, "interest": 1e200, "x": 1e155, "xa": 1e300}


@pytest.mark.parametrize("scale", ["huge", "tiny", "denormal"])
@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_numbers_whose_products_are_none_are_refused_by_name_and_range(name, scale, is_sparse):
    """LAPACK loops on what overflows, and what underflows is taken for 0."""
    size = {"huge": SCALED[name], "tiny": 1e-200, "denormal": 1e-310}[scale]
    problem = built_in.boyan()
    fields = {"reward": problem.mdp.reward, "interest": problem.interest}
    fields |= {"x": problem.x, "xa": problem.xa}
    fields[name] = fields[name] / np.abs(fields[name]).max() * size
    if is_sparse and name in ("x", "xa"):
        fields[name] = sparse.csr_array(fields[name].reshape(-1, fields[name].shape[-1]))
    message = rf"^{name}: the largest entry is .* in size; from 1e-100 to 1e\+100 is accepted"
    with pytest.raises(ValueError, match=message):
        with_fields(problem, **fields)


def with_fields(problem, reward, interest, x, xa):
    mdp = MDP(problem.mdp.transition, reward, problem.mdp.discount)
    return Problem(mdp, problem.behavior, interest, x, xa, target=problem.target)


def test_a_tiny_number_beside_ordinary_ones_is_a_number_like_others():
    """Radial features have such."""
    problem = built_in.baird()
    x = np.where(problem.x == 0, 1e-310, problem.x)
    assert Problem(problem.mdp, problem.behavior, 1.0, x).x.min() == 1e-310
    assert Problem(problem.mdp, problem.behavior, 1.0, 0 * x).x.max() == 0


@pytest.mark.parametrize("power", [-300, 300])
def test_solutions_scale_with_rewards_features_and_interest_in_the_whole_range(power):
    problem = built_in.garnet(6, 2, 2, 3)
    exact, _ = oracle.solve(problem)
    fields = {"reward": problem.mdp.reward, "interest": problem.interest, "x": problem.x}
    scale = 2.0**power
    for name, values in fields.items():
        scaled = with_fields(problem, **{**fields, "xa": None, name: values * scale})
        solution, notes = oracle.solve(scaled)
        assert notes == []
        factor = {"reward": scale, "interest": 1.0, "x": 1.0}[name]
        np.testing.assert_allclose(solution["values"], exact["values"] * factor, rtol=1e-9)
        assert solution["td_system"].unique
        td = exact["td_system"].error * factor
        np.testing.assert_allclose(solution["td_system"].error, td, rtol=1e-6)


def test_a_ratio_beyond_all_numbers_is_refused():
    problem = built_in.two_state()
    tiny = np.array([[1.0, 5e-324], [0.5, 0.5]])
    target = np.array([[0.0, 1.0], [0.5, 0.5]])
    with pytest.raises(ValueError, match=r"behavior does with 4.94e-324; .* a finite ratio$"):
        Problem(problem.mdp, tiny, 1.0, problem.x, target=target)
