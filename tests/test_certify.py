"""Certificates say what the paper says, and claim no more than was decided."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from emphatic import (
    _quantifiers,
    _settings,
    _show,
    certify,
    MDP,
    oracle,
    Problem,
    problems,
    schedules,
    Softmax,
)

from .plainly import plainly
from .strategies import problems_and_targets, random_softmax, SEEDS

DECAY, SLOWER = schedules.polynomial(1.0, 0.6), schedules.polynomial(1.0, 0.9)
FULL = {
    "ridge": 1e-3,
    "step_size": DECAY,
    "actor_step_size": SLOWER,
    "damping": 10.0,
}


def verdicts(certificate):
    return {row.key: row.verdict for row in certificate.rows}


def covering(certificate):
    return [theorem.name for theorem in certificate.theorems if theorem.covers]


# What the paper says of Baird's four feature sets


@pytest.mark.parametrize(
    ("features", "independent", "expresses_m"),
    [
        ("original", False, True),
        ("one-hot", True, True),
        ("zero-hot", True, True),
        ("aliased", True, False),
    ],
)
def test_baird_feature_sets_are_as_the_paper_says(features, independent, expresses_m):
    """The original C is singular; only the aliased features cannot express the emphasis."""
    certificate = certify(problems.baird(features), ridge=1e-6, step_size=DECAY)
    found = verdicts(certificate)
    assert found["2.C"] == found["2.C~"] == ("holds" if independent else "fails")
    assert found["span.m"] == ("holds" if expresses_m else "fails")
    assert found["span.q"] == "holds"
    assert found["4a.F"] == found["4a.F~"] == "fails"  # on all of these variants
    assert certificate.covered == independent
    if not independent:
        assert certificate["2.C"].figure == "singular: rank 7 of 8"
        assert "least_norm_solution()" in certificate["2.C"].remedy
        assert "drop 1" in certificate.advice


@pytest.mark.parametrize("solid", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("features", ["original", "one-hot", "zero-hot", "aliased"])
def test_closeness_fails_on_every_variant_of_baird(features, solid):
    found = verdicts(certify(problems.baird(features, solid)))
    assert found["4a.F"] == found["4a.F~"] == "fails"


# Theorems


def test_everything_given_and_good_is_covered_by_all_three_theorems():
    problem = problems.baird("one-hot")
    certificate = certify(problem, Softmax(problem.xa), **FULL)
    assert covering(certificate) == ["Theorem 1", "Theorem 2", "Theorem 3"]
    assert certificate.covered
    assert "COF-PAC" in certificate.advice


def test_what_is_not_given_stays_open_and_names_what_would_decide_it():
    problem = problems.baird("one-hot")
    certificate = certify(problem, Softmax(problem.xa))
    assert not certificate.covered
    for key, argument in (
        ("ridge", "ridge"),
        ("alpha", "step_size"),
        ("beta", "actor_step_size"),
        ("timescales", "step_size and actor_step_size"),
        ("damping", "damping"),
        ("5.G", "ridge"),
    ):
        assert certificate[key].verdict == "cannot be decided"
        assert argument in certificate[key].remedy
    assert "give ridge" in certificate.ridge_note
    assert "give ridge" in certificate.advice
    assert verdicts(certify(problem))["3"] == "cannot be decided"
    for only in ("step_size", "actor_step_size"):  # one of the two decides nothing
        row = certify(problem, Softmax(problem.xa), **{only: FULL[only]})["timescales"]
        assert (row.verdict, row.figure) == ("cannot be decided", "not given")


@pytest.mark.parametrize("missing", sorted(FULL))
def test_a_theorem_needs_every_argument(missing):
    problem = problems.baird("one-hot")
    given_ = {key: value for key, value in FULL.items() if key != missing}
    names = covering(certify(problem, Softmax(problem.xa), **given_))
    assert "Theorem 3" not in names


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"step_size": 0.1}, "alpha"),
        ({"step_size": schedules.polynomial(1.0, 0.5)}, "alpha"),
        ({"step_size": schedules.polynomial(1.0, 1.01)}, "alpha"),
        ({"actor_step_size": schedules.polynomial(1.0, 1.2)}, "beta"),
        ({"actor_step_size": schedules.polynomial(5.0, 0.6)}, "timescales"),
        ({"damping": np.inf}, "damping"),
    ],
)
def test_each_broken_condition_breaks_theorem_3_and_its_row(change, row):
    problem = problems.baird("one-hot")
    certificate = certify(problem, Softmax(problem.xa), **{**FULL, **change})
    assert certificate[row].verdict == "fails"
    assert "Theorem 3" not in covering(certificate)
    theorem = next(t for t in certificate.theorems if t.name == "Theorem 3")
    assert row in theorem.missing
    if row in ("beta", "timescales", "damping"):
        assert certificate["condition"].verdict == "fails"


@pytest.mark.parametrize(("power", "holds"), [(0.5, False), (0.500001, True), (1.0, True)])
def test_step_sizes_are_decided_exactly_at_the_border(power, holds):
    certificate = certify(problems.baird("one-hot"), step_size=schedules.polynomial(2.0, power))
    assert (certificate["alpha"].verdict == "holds") == holds


def test_schedules_that_are_not_polynomial_stay_open():
    problem = problems.baird("one-hot")
    certificate = certify(
        problem,
        Softmax(problem.xa),
        ridge=0.1,
        step_size=lambda t: 1.0,
        actor_step_size=SLOWER,
        damping=lambda d: 1.0,
    )
    for key in ("alpha", "timescales", "damping", "condition"):
        assert certificate[key].verdict == "cannot be decided"


def test_a_fixed_target_without_a_ridge_is_covered_by_the_cited_result():
    certificate = certify(problems.baird("one-hot"), ridge=0.0, step_size=DECAY)
    assert covering(certificate) == ["Yu (2017), as cited in Section 3"]
    changing = certify(
        problems.baird("one-hot"), Softmax(problems.baird("one-hot").xa), **{**FULL, "ridge": 0.0}
    )
    assert not changing.covered
    assert "open problem" in changing["ridge"].remedy


def test_the_cited_result_needs_a_nonsingular_matrix():
    """At gamma = 5/6 the matrix A of the two states is 0."""
    problem = problems.two_state(discount=5.0 / 6.0)
    certificate = certify(problem, ridge=0.0, step_size=DECAY)
    assert certificate["4b.A"].verdict == "fails"
    assert not certificate.covered
    assert "A is singular" in certificate.ridge_note


def test_a_period_is_not_an_error():
    certificate = certify(problems.counterexample(continuing=True))
    assert certificate["1.ergodic"].verdict == "holds"
    assert certificate["1.ergodic"].figure.startswith("irreducible, period 2")


def test_a_varying_discount_is_outside_the_statement():
    certificate = certify(problems.random_walk(), ridge=0.1, step_size=DECAY)
    assert certificate["discount"].verdict == "fails"
    assert "outside the paper's statement" in certificate["discount"].figure
    assert not certificate.covered


def test_a_behaviour_that_skips_an_action_breaks_assumption_1():
    problem = problems.collision()
    certificate = certify(problem)
    assert certificate["1.positive"].verdict == "fails"
    assert "state 0, action 1" in certificate["1.positive"].figure
    with pytest.raises(ValueError, match="the behavior never does"):
        certify(problem, Softmax(problem.xa))


def test_a_target_whose_chain_falls_apart_breaks_assumption_4c():
    assert certify(problems.two_state())["4c"].verdict == "fails"


# Policies


def test_softmax_bound_holds_for_every_theta():
    """C_0 of Assumption 3 bounds psi and its derivative at random thetas."""
    problem = problems.garnet(6, 3, 2, 3)
    policy, _ = random_softmax(problem, 0)
    bound = float(certify(problem, policy)["3"].figure.split("C_0 = ")[1].split()[0])
    mu = problem.behavior[..., None]
    largest = 0.0
    for seed in range(50):
        theta = np.random.default_rng(seed).normal(size=4) * 3
        psi = np.asarray(jax.jacrev(policy)(theta)) / mu
        slope = np.asarray(jax.jacfwd(jax.jacrev(policy))(theta)) / mu[..., None]
        norms = np.linalg.norm(psi, axis=-1).max(), np.linalg.norm(slope, 2, axis=(-2, -1)).max()
        largest = max(largest, *norms)
    assert 0.05 * bound < largest <= bound * 1.001


def test_other_policies_are_checked_at_one_theta_only():
    problem = problems.baird("one-hot")
    theta = np.zeros((7, 2))
    certificate = certify(problem, lambda t: jax.nn.softmax(t, axis=1), theta=theta, **FULL)
    for key in ("3", "4b.A", "4b.A~", "4c"):
        assert certificate[key].verdict == "cannot be decided"
        assert "checked at this theta" in certificate[key].figure
    assert certificate["4a.F"].verdict == "fails"  # one theta refutes
    # psi = grad pi / mu: at theta = 0, |grad pi| = sqrt(2)/4 and mu(solid) = 1/7
    assert certificate["3"].figure.endswith(f"{np.sqrt(2) / 4 * 7:.4g}")
    assert covering(certificate) == []


def test_conditions_for_every_theta_are_decided_by_the_deterministic_policies():
    problem = problems.baird("one-hot")
    certificate = certify(problem, Softmax(problem.xa), **FULL)
    for key in ("4b.A", "4b.A~"):
        assert certificate[key].verdict == "holds"
        assert "for every theta" in certificate[key].figure


def test_a_determinant_that_changes_sign_between_policies_vanishes_for_some_theta():
    r"""A = (5 - 6 gamma)/2 for one policy of the two states, positive for the other."""
    problem = problems.two_state()
    certificate = certify(problem, Softmax(problem.xa))
    row = certificate["4b.A"]
    assert row.verdict == "fails"
    assert "another theta" in row.figure


def test_a_condition_on_policies_out_of_reach_stays_open():
    """A policy that can only lean one way cannot approach the policies that refute."""
    problem = problems.two_state(discount=0.84)
    tiny = np.zeros((2, 2, 1))
    row = certify(problem, Softmax(tiny))["4b.A"]
    assert row.verdict == "cannot be decided"


def test_a_condition_with_too_many_deterministic_policies_stays_open():
    problem = problems.garnet(30, 3, 3, 2, discount=0.3)
    row = certify(problem, Softmax(problem.xa))["4b.A"]
    assert row.verdict == "cannot be decided"
    assert "too many" in row.remedy


@given(problems_and_targets(), SEEDS)
def test_deterministic_policies_bound_every_policy(pair, seed):
    """The determinant is affine in each row of the policy, the smallest eigenvalue concave."""
    problem, target = pair
    vertices = _quantifiers.deterministic(problem)
    assert vertices is not None
    build = _quantifiers._builders(problem)
    rng = np.random.default_rng(seed)
    policies = rng.dirichlet(np.ones(target.shape[1]), (20, target.shape[0]))
    for name in ("A", "A~"):
        extreme, inside = (np.linalg.det(build[name](pi)) for pi in (vertices, policies))
        slack = 1e-9 * np.abs(extreme).max()
        assert extreme.min() - slack <= inside.min()
        assert inside.max() <= extreme.max() + slack
        row = rng.integers(target.shape[0])  # affine along one row
        ends = np.stack([policies[0], policies[0]])
        ends[1, row] = policies[1, row]
        middle = ends.mean(0)
        three = np.linalg.det(build[name](np.stack([*ends, middle])))
        np.testing.assert_allclose(three[2], (three[0] + three[1]) / 2, atol=slack)
    for name in ("F", "F~"):
        extreme, inside = (np.linalg.eigvalsh(build[name](pi)) for pi in (vertices, policies))
        assert extreme[:, 0].min() - 1e-9 <= inside[:, 0].min()


@given(problems_and_targets())
def test_matrices_are_those_of_the_paper(pair):
    """At one target, and built for many at once."""
    problem, target = pair
    is_ = plainly(problem, target)
    eye = np.eye(len(is_.d))
    C, C_actions = is_.x.T @ is_.D @ is_.x, is_.xa.T @ is_.D_actions @ is_.xa
    cross = is_.x.T @ is_.P.T @ is_.D @ is_.x
    cross_actions = is_.xa.T @ is_.D_actions @ is_.P_actions @ is_.xa
    expected = {
        "A": is_.x.T @ (eye - is_.gP.T) @ is_.D @ is_.x,
        "A~": is_.xa.T @ is_.D_actions @ (np.eye(len(is_.xa)) - is_.gP_actions) @ is_.xa,
        "F": np.block([[C, cross], [cross.T, C]]),
        "F~": np.block([[C_actions, cross_actions], [cross_actions.T, C_actions]]),
    }
    here, build = _quantifiers.matrices(problem, target), _quantifiers._builders(problem)
    for name, matrix in expected.items():
        np.testing.assert_allclose(here[name], matrix, atol=1e-10)
        np.testing.assert_allclose(build[name](target[None])[0], matrix, atol=1e-10)


@given(problems_and_targets(varying=False))
def test_on_policy_the_matrices_of_assumption_4_are_semidefinite(pair):
    """F is positive semidefinite when the target is the behaviour."""
    problem, _ = pair
    found = verdicts(certify(problem, problem.behavior))
    assert found["4a.F"] == found["4a.F~"] == "holds"


# Figures behind the verdicts


@given(problems_and_targets(varying=False), st.floats(1e-3, 1.0))
def test_figures_are_the_exact_quantities(pair, ridge):
    problem, target = pair
    certificate = certify(problem, target, ridge=ridge)
    is_ = plainly(problem, target)
    C = is_.x.T @ is_.D @ is_.x
    smallest = np.linalg.eigvalsh(C)[0]
    assert certificate["2.C"].figure == f"smallest eigenvalue {smallest:.4g}"
    G = oracle.gem_system(problem, target, ridge).matrix
    assert f"d'Gd >= {min(smallest, ridge):.4g} |d|^2" in certificate["5.G"].figure
    slowest = np.linalg.eigvals(G).real.min()
    assert f"Re(lambda) = {slowest:.4g}" in certificate["5.G"].figure
    second = np.sort(np.abs(np.linalg.eigvals(is_.P_mu)))[-2]
    assume(second > 1e-6)
    assert f"second eigenvalue modulus {second:.4g}" in certificate["1.ergodic"].figure


def test_ridge_cost_is_part_of_the_certificate():
    problem = problems.baird("one-hot")
    certificate = certify(problem, ridge=1e-3, tolerance=1.0)
    assert certificate.ridge_cost == oracle.ridge_cost(problem, ridge=1e-3, tolerance=1.0)
    original = certify(problems.baird("original"), ridge=1e-3)
    assert original.ridge_cost is None
    assert "C is singular" in original.ridge_note


def test_large_problems_are_certified_too():
    """Sparse features stay sparse; what would need a dense matrix stays open."""
    problem = problems.gymnasium("Taxi-v4")
    certificate = certify(problem, ridge=1e-3, step_size=DECAY)
    assert certificate["2.C~"].verdict == "holds"
    smallest = (problem.stationary[:, None] * problem.behavior).min()
    assert certificate["2.C~"].figure == f"smallest eigenvalue {smallest:.4g}"
    assert certificate["4b.A"].verdict == "cannot be decided"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ridge": -1.0}, "ridge: got -1"),
        ({"ridge": 1.0, "tolerance": -1.0}, "tolerance: got -1"),
        ({"target": lambda theta: theta}, "theta: not given"),
        ({"target": Softmax(np.zeros((3, 2, 1)))}, r"features have shape \(3, 2, 1\)"),
        ({"target": Softmax(np.zeros((7, 2, 1))), "damping": 0.0}, "damping: got 0"),
        ({"step_size": -0.1}, "scale: got -0.1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(problems.baird("one-hot"), **arguments)


# What each result needs, as the paper lists it


def test_each_result_needs_what_the_paper_lists():
    problem = problems.baird("one-hot")
    first = ("discount", "1.ergodic", "1.positive")
    fixed = certify(problem, ridge=0.0).theorems
    actor = certify(problem, Softmax(problem.xa), ridge=0.0).theorems
    needs = {theorem.name: set(theorem.needs) for theorem in (*fixed, *actor)}
    assert needs == {
        "Theorem 1": {*first, "2.C", "ridge", "alpha", "condition"},
        "Theorem 2": {*first, "2.C~", "ridge", "alpha", "condition"},
        "Yu (2017), as cited in Section 3": {*first, "2.C", "4b.A", "alpha", "condition"},
        "Theorem 3": {
            *first,
            *("2.C", "2.C~", "3", "ridge", "alpha", "beta", "timescales", "damping"),
        },
        "Proposition 3": {
            *first,
            *("2.C", "2.C~", "3", "4a.F", "4a.F~", "4b.A", "4b.A~", "4c"),
        },
    }
    assert [t.name for t in actor if not t.converges] == ["Proposition 3"]
    assert "Yu (2017), as cited in Section 3" not in {t.name for t in actor}


def test_a_bound_on_the_bias_alone_covers_no_set_up(capsys):
    """On a problem whose matrices are the same for every policy, Proposition 3 holds alone."""
    p = np.full((2, 2, 2), 0.5)
    problem = Problem(
        MDP(p, 1.0, 0.5), np.full((2, 2), 0.5), 1.0, np.ones((2, 1)), np.ones((2, 2, 1))
    )
    certificate = certify(problem, Softmax(np.eye(4).reshape(2, 2, 4)))
    assert covering(certificate) == ["Proposition 3"]
    assert not certificate.covered
    _show.show_certificate("", certificate)
    assert "no theorem covers this set-up" in capsys.readouterr().out


def test_a_singular_gram_matrix_is_not_uniformly_positive_definite():
    found = verdicts(certify(problems.baird("original"), ridge=1e-3))
    assert found["5.G"] == found["5.G~"] == "fails"


def test_a_fixed_target_that_is_ergodic_satisfies_assumption_4c():
    row = certify(problems.baird("one-hot"))["4c"]
    assert (row.verdict, row.figure) == ("holds", "irreducible, period 1")


def test_figures_of_step_sizes_and_damping():
    problem = problems.baird("one-hot")
    certificate = certify(problem, Softmax(problem.xa), **FULL)
    assert "any d > 3.33" in certificate["timescales"].figure
    assert "sup Gamma(d)|d| = 11" in certificate["damping"].figure
    constant = certify(problem, step_size=schedules.polynomial(1.0, 0.3))["alpha"]
    assert "the squares do not sum" in constant.figure
    assert (
        "the sum is finite" in certify(problem, step_size=schedules.parse("1/t^2"))["alpha"].figure
    )


@given(problems_and_targets(varying=False))
def test_what_the_features_cannot_express_is_relative(pair):
    problem, target = pair
    certificate, is_ = certify(problem, target), plainly(problem, target)
    for key, D, x, y in (
        ("span.m", is_.D, is_.x, oracle.emphasis(problem, target)),
        ("span.q", is_.D_actions, is_.xa, oracle.action_values(problem, target).ravel()),
    ):
        root = np.sqrt(D)
        rest = root @ y - root @ x @ np.linalg.lstsq(root @ x, root @ y, rcond=None)[0]
        relative = np.linalg.norm(rest) / np.linalg.norm(root @ y)
        assume(not 1e-11 < relative < 1e-7)
        words = f"relative distance {relative:.4g}" if relative > 1e-9 else "relative distance 0"
        assert certificate[key].figure == words


def test_a_matrix_that_is_barely_indefinite_is_not_semidefinite():
    """F has the eigenvalues 1 +- 1.0005 times C."""
    family = _quantifiers.Family(
        np.array([[[1.0, 1.0005], [1.0005, 1.0]]]), np.zeros((0, 2, 2)), None, np.ones(2), 1.0
    )
    assert not family.holds_here(_quantifiers.are_semidefinite)


def test_deterministic_policies_refute_where_random_thetas_do_not():
    problem = problems.garnet(5, 3, 2, 2, discount=0.95, seed=8)
    free = Softmax(np.eye(15).reshape(5, 3, 15))
    assert certify(problem, free)["4b.A"].verdict == "fails"


# Verdicts do not depend on units, and refuse what they cannot know


def test_small_features_and_rare_states_are_not_dependent():
    p = np.zeros((8, 1, 8))
    for s in range(8):
        p[s, 0, min(s + 1, 7)] += 1e-3
        p[s, 0, max(s - 1, 0)] += 1.0 - 1e-3
    one = np.ones((8, 1))
    rare = Problem(MDP(p, np.arange(8.0)[:, None], 0.9), one, 1.0, np.eye(8), target=one)
    assert rare.stationary.min() < 1e-20
    tiny = dataclasses.replace(
        problems.baird("one-hot"), x=np.diag(10.0 ** -np.arange(0, 14, 2)), xa=None
    )
    for problem in (rare, tiny):
        found = verdicts(certify(problem, ridge=1e-30, step_size=DECAY))
        for key in ("2.C", "2.C~", "4b.A", "4b.A~", "5.G", "5.G~", "span.m", "span.q"):
            assert found[key] == "holds", key
        w = np.split(oracle.gem_system(problem).solution(), 2)[1]
        np.testing.assert_allclose(problem.x @ w, oracle.emphasis(problem), rtol=1e-9)
        assert oracle.truncation_length(problem) is not None


def _ring_of(num_states, x):
    rows = np.repeat(np.arange(num_states), 2)
    columns = (rows + np.tile([1, -1], num_states)) % num_states
    kernel = sparse.csr_array((np.tile([0.75, 0.25], num_states), (rows, columns)))
    one = np.ones((num_states, 1))
    return Problem(MDP(kernel, 1.0, 0.9), one, 1.0, sparse.csr_array(x), target=one)


def test_the_smallest_eigenvalue_of_a_sparse_gram_matrix_is_no_pivot():
    n = 1100
    x = sparse.diags_array([np.ones(n), np.full(n - 1, 0.999)], offsets=[0, 1])
    problem = _ring_of(n, x)
    smallest = np.linalg.eigvalsh((x.T @ x).toarray() / n)[0]
    certificate = certify(problem, ridge=1.0)
    assert certificate["2.C"].figure == f"smallest eigenvalue {smallest:.4g}"
    assert certificate["5.G"].figure == f"d'Gd >= {smallest:.4g} |d|^2"


def test_dependent_sparse_features_are_certified_not_crashed_on():
    x = sparse.eye_array(1100).tolil()
    x[5, 5] = 0.0
    certificate = certify(_ring_of(1100, x.tocsr()), ridge=1.0)
    assert certificate["2.C"].verdict == certificate["5.G"].verdict == "fails"
    assert certificate["2.C"].figure == "singular"
    assert certificate["span.m"].verdict == "cannot be decided"


def test_a_constant_discount_may_be_an_array():
    problem = problems.baird("one-hot")
    mdp = dataclasses.replace(problem.mdp, discount=np.full((7, 2), 0.99))
    same = dataclasses.replace(problem, mdp=mdp)
    certificate = certify(same, ridge=1e-3, step_size=DECAY)
    assert certificate["discount"].figure == "gamma = 0.99"
    assert certificate.covered
    assert oracle.bias_terms(same) == oracle.bias_terms(problem)
    always = dataclasses.replace(problems.random_walk().mdp, discount=np.ones((5, 2, 5)))
    assert always.constant_discount is None


def test_what_all_actions_share_changes_no_verdict():
    problem = problems.baird("one-hot")
    eye = np.eye(14).reshape(7, 2, 14)
    shared = np.random.default_rng(0).normal(size=(7, 1, 14)) * 1e6
    first, second = (verdicts(certify(problem, Softmax(phi))) for phi in (eye, eye + shared))
    assert first == second
    assert first["4b.A"] == "holds"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"damping": -1.0}, "damping: got -1"),
        (
            {"target": Softmax(np.zeros((7, 2, 3))), "theta": np.zeros(2)},
            r"theta: got shape \(2,\)",
        ),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        certify(problems.baird("one-hot"), **arguments)


def test_numbers_of_any_kind_are_step_sizes_and_lists_are_thetas():
    problem = problems.baird("one-hot")
    assert isinstance(_settings.schedule("step_size", np.float32(0.1)), schedules.Polynomial)
    with pytest.raises(ValueError, match=r"^actor_step_size: got '0\.1/t'"):
        _settings.schedule("actor_step_size", "0.1/t")
    policy = Softmax(np.ones((7, 2, 3)))
    lists, arrays = (oracle.ridge_cost(problem, policy, 1e-3, t) for t in ([0, 0, 0], np.zeros(3)))
    assert lists == arrays


def test_the_printed_ridge_cost_is_that_of_the_certificate(capsys):
    certificate = certify(problems.baird("zero-hot", 0.3), ridge=1e-4, tolerance=0.1)
    _show.show_certificate("", certificate)
    out, cost = " ".join(capsys.readouterr().out.split()), certificate.ridge_cost
    assert cost is not None
    n = _show.number
    for words in (
        f"|w*(eta) - w*(0)| = {n(cost.emphasis_distance)} of {n(cost.emphasis_norm)}",
        f"|u*(eta) - u*(0)| = {n(cost.value_distance)} of {n(cost.value_norm)}",
        f"bias of the policy gradient {n(cost.gradient_bias)} of {n(cost.gradient_norm)}",
        f"largest ridge within 0.1: {n(cost.largest_ridge)} (emphasis "
        f"{n(cost.largest_emphasis_ridge)}, values {n(cost.largest_value_ridge)}, gradient "
        f"{n(cost.largest_gradient_ridge)})",
    ):
        assert words in out
