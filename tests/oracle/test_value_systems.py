"""Mean fields of learners of values with traces: published matrices, and limits in lambda."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emphatic import oracle, problems

from ..plainly import plainly
from ..strategies import as_sparse, build, problems_and_targets

DECAYS = st.sampled_from([0.0, 0.4, 1.0])


def test_the_key_matrices_of_the_two_states_are_those_published():
    r"""At $\gamma = 0.9$, with the emphasis as it is, $\sum_sd(s)m(s) = 10$, and not normalised.

    TD's -0.2 and ETD's 3.4 are those of Sutton, Mahmood and White (2016); $A^\top C^{-1}A$, by
    which TDC moves once its correction has settled, is $0.2^2/2.5$.
    """
    problem = problems.two_state(discount=0.9)
    np.testing.assert_allclose(oracle.td_system(problem).matrix, [[-0.2]])
    G = oracle.tdc_system(problem).matrix
    C, off = G[0, 0], G[1, 0]
    np.testing.assert_allclose(G[1, 1] - off / C * G[0, 1], 0.016)
    np.testing.assert_allclose(oracle.etd_system(problem).matrix, [[3.4]])
    np.testing.assert_allclose(problem.stationary @ oracle.emphasis(problem), 10.0)


def test_tdrc_diverges_where_td_does_if_its_regularization_is_too_large():
    r"""On the two states the determinant of its mean matrix is $A(A + \beta)$ with $A = -0.2$."""
    problem = problems.two_state(discount=0.9)
    for regularization, sign in ((0.0, 1), (0.19, 1), (0.21, -1), (1.0, -1)):
        slowest = oracle.tdrc_system(problem, regularization=regularization).slowest_mode()
        assert slowest is not None
        assert np.sign(slowest) == sign


def eliminated(system):
    """The mean field of the second half of the unknowns, once the first half has settled."""
    size = len(system.vector) // 2
    (P, Q), (R, S) = (np.split(half, 2, axis=1) for half in np.split(system.matrix, 2))
    back = np.linalg.solve(P.T, R.T).T
    return S - back @ Q, system.vector[size:] - back @ system.vector[:size]


@settings(max_examples=10)
@given(problems_and_targets(), DECAYS)
def test_corrections_descend_what_they_say_that_they_descend(pair, decay):
    r"""Once $\kappa$ has settled GTD2 and TDC move by $A^\top C^{-1}(b - A\nu)$, and HTD by
    $A^\top A_\mu^{-\top}(b - A\nu)$; the mean matrix $A$ of TD($\lambda$) is written out here."""
    problem, target = pair
    is_ = plainly(problem, target)
    eye = np.eye(len(is_.d))
    gP_mu = np.einsum(
        "sa,sat,sat->st",
        problem.behavior,
        problem.mdp.transition,
        problem.mdp.outcome(problem.mdp.discount).reshape(problem.mdp.transition.shape),
    )

    def mean(gP, y):
        return is_.x.T @ is_.D @ np.linalg.solve(eye - decay * gP, y)

    A, b = mean(is_.gP, is_.x - is_.gP @ is_.x), mean(is_.gP, is_.r)
    C, A_mu = is_.x.T @ is_.D @ is_.x, mean(gP_mu, is_.x - gP_mu @ is_.x)
    td = oracle.td_system(problem, target, decay)
    np.testing.assert_allclose(td.matrix, A, atol=1e-10)
    np.testing.assert_allclose(td.vector, b, atol=1e-10)
    for name, metric in (("gtd2", C), ("tdc", C), ("htd", A_mu.T)):
        system = getattr(oracle, f"{name}_system")(problem, target, trace_decay=decay)
        back = A.T @ np.linalg.inv(metric)
        matrix, vector = eliminated(system)
        scale = 1.0 + np.abs(back).max()
        np.testing.assert_allclose(matrix / scale, back @ A / scale, atol=1e-8, err_msg=name)
        np.testing.assert_allclose(vector / scale, back @ b / scale, atol=1e-8, err_msg=name)


@settings(max_examples=10)
@given(problems_and_targets(), DECAYS)
def test_tdrc_lies_between_tdc_and_td(pair, decay):
    problem, target = pair
    tdc = oracle.tdc_system(problem, target, decay)
    none = oracle.tdrc_system(problem, target, 0.0, decay)
    np.testing.assert_array_equal(none.matrix, tdc.matrix)
    np.testing.assert_array_equal(none.vector, tdc.vector)
    td = oracle.td_system(problem, target, decay)
    for regularization in (1e6, 1e9):
        matrix, vector = eliminated(oracle.tdrc_system(problem, target, regularization, decay))
        bound = 1e3 / regularization
        np.testing.assert_allclose(
            matrix, td.matrix, atol=bound * (1 + np.abs(td.matrix).max()) ** 2
        )
        np.testing.assert_allclose(
            vector, td.vector, atol=bound * (1 + np.abs(td.matrix).max()) ** 2
        )


@settings(max_examples=10)
@given(problems_and_targets(), DECAYS)
def test_on_policy_htd_and_vtrace_are_td(pair, decay):
    problem, _ = pair
    mu = problem.behavior
    td = oracle.td_system(problem, mu, decay)
    htd = oracle.htd_system(problem, mu, decay)
    size = len(td.vector)
    np.testing.assert_allclose(htd.matrix[size:, :size], 0.0, atol=1e-12)
    np.testing.assert_allclose(htd.matrix[size:, size:], td.matrix, atol=1e-12)
    np.testing.assert_allclose(htd.vector[size:], td.vector, atol=1e-12)
    vtrace = oracle.vtrace_system(problem, mu, decay)
    np.testing.assert_allclose(vtrace.matrix, td.matrix, atol=1e-12)
    np.testing.assert_allclose(vtrace.vector, td.vector, atol=1e-12)


@settings(max_examples=10)
@given(problems_and_targets())
def test_with_lambda_1_the_limit_is_a_projection_of_the_values(pair):
    r"""$\Pi v_\pi$ for TD, TDC and GTD2, off-policy too; for ETD in the norm of $d_\mu i$."""
    problem, target = pair
    v, x = oracle.values(problem, target), problem.x
    nearest = np.linalg.lstsq(
        np.sqrt(problem.stationary)[:, None] * x, np.sqrt(problem.stationary) * v
    )[0]
    for name in ("td", "gtd2", "tdc", "tdrc"):
        system = getattr(oracle, f"{name}_system")(problem, target, trace_decay=1.0)
        found = system.solution()[-x.shape[1] :]
        np.testing.assert_allclose(found, nearest, rtol=1e-7, atol=1e-7, err_msg=name)
    weight = problem.stationary * problem.interest
    residual = x @ oracle.etd_system(problem, target, trace_decay=1.0).least_norm_solution() - v
    np.testing.assert_allclose(x.T @ (weight * residual), 0.0, atol=1e-9 * (1 + np.abs(v).max()))


@settings(max_examples=10)
@given(problems_and_targets(), DECAYS, st.sampled_from([0.5, 1.0, np.inf]))
def test_with_tabular_features_every_limit_is_exact(pair, decay, threshold):
    r"""That of V-trace is $v$ of the policy proportional to $\min(\pi, \bar\rho\mu)$."""
    problem, target = pair
    problem = dataclasses.replace(problem, x=np.eye(len(problem.x)))
    v = oracle.values(problem, target)
    options = {"trace_decay": decay}
    for name in ("td", "gtd2", "tdc", "tdrc", "htd", "tree_backup"):
        system = getattr(oracle, f"{name}_system")(problem, target, **options)
        found = system.solution()[-len(v) :]
        np.testing.assert_allclose(found, v, rtol=1e-6, atol=1e-7, err_msg=name)
    abtd = oracle.abtd_system(problem, target, decay)
    np.testing.assert_allclose(abtd.solution(), v, rtol=1e-6, atol=1e-7)
    ones = np.ones(len(v))
    etd = oracle.etd_system(problem, target, ones, decay) if problem.interest.all() else abtd
    np.testing.assert_allclose(etd.solution(), v, rtol=1e-6, atol=1e-7)
    clipped = target if np.isinf(threshold) else np.minimum(target, threshold * problem.behavior)
    clipped = clipped / clipped.sum(1, keepdims=True)
    vtrace = oracle.vtrace_system(problem, target, decay, 0.7, threshold)
    np.testing.assert_allclose(
        vtrace.solution(), oracle.values(problem, clipped), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("decay", [0.6, 1.0])
def test_sparse_problems_have_the_systems_of_dense_ones(decay):
    problem, target = build((8, 2, 3, 6), 3, varying=True)
    solution, notes = oracle.solve(problem, target, trace_decay=decay)
    stored, _ = oracle.solve(as_sparse(problem), target, trace_decay=decay)
    assert not notes
    for name, point in solution.items():
        if name.endswith("_system"):
            np.testing.assert_allclose(stored[name].solution, point.solution, rtol=1e-8, atol=1e-8)
            assert point.label == stored[name].label


def test_solve_passes_the_decay_on_and_labels_say_it():
    problem, target = build((5, 3, 5, 4), 3, varying=True)
    solution, _ = oracle.solve(problem, target, trace_decay=0.9)
    points = [point for name, point in solution.items() if name.endswith("_system")]
    labels = {point.label for point in points if point.estimates in ("values", "action_values")}
    traced = {f"{name}(0.9)" for name in ("GTD2", "TDC", "TDRC", "HTD", "ETD", "TD", "V-trace")}
    assert labels == traced | {"tree backup(0.9)", "ABTD(0.9)", "GQ2"}
    for name in ("td", "htd", "tree_backup"):
        system = getattr(oracle, f"{name}_system")(problem, target, trace_decay=0.9)
        np.testing.assert_array_equal(solution[f"{name}_system"].solution, system.solution())
    found = solution["abtd_system"].solution
    np.testing.assert_array_equal(found, oracle.abtd_system(problem, target, 0.9).solution())


def test_a_trace_of_thousands_of_features_is_refused():
    problem = problems.grid(40, 40, tiles=40)
    with pytest.raises(ValueError, match=r"trace_decay: got 0\.5 with 1600 features"):
        oracle.td_system(problem, trace_decay=0.5)
