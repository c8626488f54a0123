"""All exact quantities at once: each is that of the oracle, at the target that was given."""

import dataclasses
import inspect

import numpy as np
import pytest

from emphatic import learners, oracle, problems
from emphatic._files import to_jsonable
from emphatic.cli import tables
from emphatic.oracle import solve, systems

from ..strategies import build

TRUTH = {
    "gem_system": "emphasis",
    "gq2_system": "action_values",
    "gtd2_system": "values",
    "tdc_system": "values",
    "tdrc_system": "values",
    "htd_system": "values",
    "vtrace_system": "values",
    "tree_backup_system": "values",
    "abtd_system": "values",
    "etd_system": "values",
    "td_system": "values",
    "reverse_td_system": "emphasis",
    "tdec_system": "emphasis",
    "tderc_system": "emphasis",
    "expected_trace_system": "emphasis",
    "cop_td_system": "ratio",
    "gradient_cop_td_system": "ratio",
    "gradient_dice_system": "ratio",
}


ONE_STEP_SIZE = {
    f"{name}_system": getattr(learners, name)
    for name in ("gem", "gq2", "gtd2", "reverse_td", "tdec", "tderc", "td", "tdc")
} | {f"{name}_system": getattr(learners, name) for name in ("tdrc", "htd", "vtrace", "tree_backup")}


def test_each_system_estimates_what_its_learner_estimates():
    """Each says so itself; neither knows the other."""
    problem = problems.two_state()
    assert set(systems.SYSTEMS) == {name for name in vars(oracle) if name.endswith("_system")}
    made = {name: build(0.1) for name, build in ONE_STEP_SIZE.items()}
    made["abtd_system"] = learners.abtd(0.1, 0.5)
    made["etd_system"] = learners.etd(learners.followon(), 0.1)
    made["expected_trace_system"] = learners.expected_trace(0.1, 5)
    for name in ("cop_td", "gradient_cop_td", "gradient_dice"):
        made[f"{name}_system"] = getattr(learners, name)(0.1, 0.9)
    assert set(made) == set(systems.SYSTEMS) == set(TRUTH)
    for name, system_of in systems.SYSTEMS.items():
        system = system_of(problem)
        assert system.estimates == made[name].estimates == TRUTH[name]
        assert system.label


def _other_target(seed=3):
    problem, target = build((5, 3, 2, 4), seed, False)
    return dataclasses.replace(problem, target=problem.behavior), target


def test_every_quantity_is_that_of_the_target_given():
    problem, target = _other_target()
    exact, _ = solve(problem, target, ridge=0.3)
    for name, value in exact.items():
        if name in TRUTH:
            continue
        answer = getattr(oracle, name)
        expected = answer(problem) if name == "stationary" else answer(problem, target)
        if name == "contraction":
            expected, value = expected.modulus, value.modulus
            assert expected != oracle.contraction(problem).modulus
        np.testing.assert_array_equal(value, expected)
    assert {"followon_radius", "truncation_length"} < set(exact)


def test_truncation_length_is_that_of_the_target_given():
    problem = problems.two_state()
    on_policy = dataclasses.replace(problem, target=problem.behavior)
    found = solve(on_policy, problem.target)[0]["truncation_length"]
    assert found == oracle.truncation_length(problem) != oracle.truncation_length(on_policy)


@pytest.mark.parametrize("name", TRUTH)
def test_each_learner_is_measured_against_what_it_learns(name):
    problem, target = _other_target()
    build_system = getattr(oracle, name)
    given = {"ridge": 0.3, "discount": 0.8}
    options = {key: given[key] for key in inspect.signature(build_system).parameters & given.keys()}
    point = solve(problem, target, ridge=0.3, ratio_discount=0.8)[0][name]
    system = build_system(problem, target, **options)
    np.testing.assert_allclose(point.solution, system.solution())
    if TRUTH[name] == "ratio":
        truth = oracle.density_ratio(problem, target, 0.8)
    else:
        truth = getattr(oracle, TRUTH[name])(problem, target)
    features = problem.xa if truth.ndim == 2 else problem.x
    d = problem.stationary
    weight = d[:, None] * problem.behavior if truth.ndim == 2 else d
    residual = features @ point.solution[-features.shape[-1] :] - truth
    np.testing.assert_allclose(point.error, np.sqrt((weight * residual**2).sum()))
    np.testing.assert_allclose(point.slowest, np.linalg.eigvals(system.matrix).real.min())
    assert point.unique


def test_ratios_are_of_the_problems_own_discount_or_of_a_constant():
    """The limit at 1 is that of GradientDICE alone."""
    baird, walk = problems.baird("aliased"), problems.random_walk()
    assert solve(baird)[0]["cop_td_system"].label == "COP-TD(0.99)"
    assert solve(walk)[0]["cop_td_system"].label == "COP-TD(0.9)"
    exact, notes = solve(walk, ratio_discount=1.0)
    assert exact["gradient_dice_system"].error < 1e-9
    told = [note for note in notes if "cop_td" in note]
    assert len(told) == 2
    assert told[0] == "cop_td_system: discount: got 1.0; a number in [0, 1) is required"
    with pytest.raises(ValueError, match=r"ratio_discount: got 1.5; a number in \[0, 1\]"):
        solve(walk, ratio_discount=1.5)


def test_huge_rewards_do_not_overflow():
    problem = problems.baird("aliased")
    mdp = dataclasses.replace(problem.mdp, reward=1e99 * problem.mdp.reward)
    small, huge = (solve(p)[0] for p in (problem, dataclasses.replace(problem, mdp=mdp)))
    scaled = huge["gq2_system"].solution / 1e99
    np.testing.assert_allclose(scaled, small["gq2_system"].solution, atol=1e-9)
    assert np.isfinite(huge["gtd2_system"].error)


# How it is printed


def test_every_column_of_the_table_is_what_its_title_says(capsys):
    problem, target = build((3, 2, 2, 2), 1, False)
    exact, notes = solve(problem, target)
    exact["followon_variance"] = np.array([4.0, 9.0, np.inf])
    tables.show_solution("a title", problem, exact, notes)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = {line[0]: line[1:] for line in lines if line and line[0] in "012"}
    q = exact["action_values"]
    for s, deviation in enumerate(("2", "3", "inf")):
        expected = [exact["stationary"][s], exact["emphasis"][s], None]
        expected += [exact["density_ratio"][s], exact["values"][s], q[s, 0], q[s, 1]]
        words = [deviation if y is None else tables.format_number(float(y)) for y in expected]
        assert rows[str(s)] == words


def test_summaries_weigh_states_by_the_behaviour(capsys):
    problem = problems.grid(10, 9)
    exact, notes = solve(problem)
    tables.show_solution("grid", problem, exact, notes)
    lines = capsys.readouterr().out.splitlines()
    line = next(x for x in lines if x.strip().startswith("mean under d"))
    mean = problem.stationary @ exact["emphasis"]
    assert line.split()[4] == tables.format_number(float(mean))


def test_only_what_is_rounding_is_printed_as_zero(capsys):
    problem, target = _other_target()
    exact, notes = solve(problem, target)
    exact["td_system"] = dataclasses.replace(exact["td_system"], error=0.05)
    exact["etd_system"] = dataclasses.replace(exact["etd_system"], error=1e-12)
    tables.show_solution("", problem, exact, notes)
    out = capsys.readouterr().out
    learners = {x.split()[0]: x.split() for x in out.splitlines() if x.strip()}
    assert learners["TD(0)"][2] == "0.05"
    assert learners["ETD(0)"][2] == "0"


def test_json_keeps_the_sign_of_infinity():
    assert to_jsonable([np.inf, -np.inf, np.nan, 1.5]) == ["inf", "-inf", None, 1.5]
