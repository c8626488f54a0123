"""Experiments in TOML: what is written is what runs, and every slip has a line."""

import copy
import dataclasses
import os
import sys

import numpy as np
import pytest

from emphatic import learners, problems
from emphatic.experiments import run, Selection, toml
from emphatic.problems import digest, save

TEXT = """\
name = "critics"
steps = 2e3
runs = 4
measures = ["rmsve"]

[problems.baird]
features = ["one-hot", "aliased"]
solid = 0.1
[problems.boyan]
[problems.walk]
name = "random_walk"
features = "dependent"

[learners]
gtd2 = "gtd2(step_size)"
etd = "etd(followon(), 2^-9)"

[grid]
step_size = "2^[-6:-4]"

[selection]
by = "final"
runs = 2
"""


def without(*prefixes: str) -> str:
    return "\n".join(line for line in TEXT.splitlines() if not line.startswith(prefixes))


def test_a_file_says_all_that_an_experiment_is():
    experiment = toml.parse(TEXT)
    assert (experiment.name, experiment.seed) == ("critics", 0)
    assert (experiment.num_steps, experiment.num_runs) == (2000, 6)
    assert (experiment.measures, experiment.record_every) == (("rmsve",), 1000)
    assert experiment.dtype == "float32"
    labels = ("baird features=one-hot", "baird features=aliased", "boyan", "walk")
    assert experiment.cases == {"problem": labels}
    built = [digest(experiment.build(**point)) for point in experiment.points()]
    expected = [
        problems.baird("one-hot", 0.1),
        problems.baird("aliased", 0.1),
        problems.boyan(),
        problems.random_walk("dependent"),
    ]
    assert built == [digest(problem) for problem in expected]
    assert experiment.grid == {"step_size": [2.0**-6, 2.0**-5, 2.0**-4]}
    assert experiment.definitions == {"gtd2": "gtd2(step_size)", "etd": "etd(followon(), 2^-9)"}
    assert experiment.selection == Selection("rmsve", "final", 2)
    assert (experiment.metadata["text"], experiment.metadata["runs"]) == (TEXT, 4)


def test_what_is_written_is_what_runs():
    dataset = run(toml.parse(TEXT)).sel(problem="walk", learner="gtd2")
    from emphatic import engine

    direct = engine.run(
        problems.random_walk("dependent"),
        {"gtd2": learners.gtd2},
        {"step_size": [2.0**-6, 2.0**-5, 2.0**-4]},
        num_steps=2000,
        seeds=6,
        measures=["rmsve"],
    )
    np.testing.assert_array_equal(
        dataset["rmsve"], direct["rmsve"].squeeze("learner").astype(np.float32)
    )


def test_every_problem_is_built_once_and_sent_with_its_units_alone(monkeypatch):
    """Checking the file, planning it with other runs, and running it share what was built."""
    built = []

    def garnet(seed: int):
        built.append(seed)
        return problems.garnet(200, 2, 2, seed=seed)

    monkeypatch.setattr(toml, "builder", lambda name: garnet)
    text = without("[problems", "features", "solid", "name").replace(
        "[learners]", '[problem]\nname = "garnet"\nseed = [1, 2, 3]\n[learners]'
    )
    whole = toml.parse(text)
    units = dataclasses.replace(whole, num_runs=12, num_steps=10).units
    assert len(units) == 3 * 2 * 2
    assert built == [1, 2, 3]
    assert whole.units is whole.units
    sent = copy.copy(whole.units[0].experiment)  # as pickle does it
    assert "units" not in vars(sent)
    assert copy.copy(sent.build)(seed=1) is not whole.build(seed=1)


def test_lists_of_a_single_problem_are_axes_of_their_own():
    text = without("[problems", "features", "solid", 'name = "random').replace(
        "[learners]",
        '[problem]\nname = "baird"\nfeatures = ["original"]\nsolid = [0.1, 0.3]\n[learners]',
    )
    experiment = toml.parse(text)
    assert experiment.cases == {"features": ("original",), "solid": (0.1, 0.3)}
    assert digest(experiment.build(features="original", solid=0.3)) == digest(
        problems.baird("original", 0.3)
    )
    plain = toml.parse(text.replace("[0.1, 0.3]", "0.3").replace('["original"]', '"original"'))
    assert plain.cases == {"problem": ("baird",)}
    assert digest(plain.build(problem="baird")) == digest(problems.baird("original", 0.3))


def test_problems_and_targets_may_be_files_beside_it(tmp_path):
    save(problems.boyan(), tmp_path / "chain.npz")
    policy = np.full((13, 2), 0.5)
    np.save(tmp_path / "even.npy", policy)
    text = TEXT.replace("[problems.boyan]", '[problems.mine]\nname = "chain.npz"')
    text = (
        text.replace("[problems.baird]", "[problems.boyan]")
        .replace("features = [", "#")
        .replace("solid", "#")
    )
    text = (
        text.replace("[problems.walk]", "")
        .replace('name = "random_walk"', "")
        .replace('features = "dep', "#")
    )
    (tmp_path / "mine.toml").write_text('target = ["own", "uniform", "even.npy"]\n' + text)
    experiment = toml.read(tmp_path / "mine.toml")
    assert experiment.targets is not None
    boyan, mine = (experiment.build(problem=name) for name in ("boyan", "mine"))
    assert digest(boyan) == digest(mine)
    np.testing.assert_array_equal(experiment.targets["even.npy"](mine), policy)
    np.testing.assert_array_equal(experiment.targets["uniform"](mine), policy)
    np.testing.assert_array_equal(experiment.targets["own"](mine), mine.target)
    dataset = run(experiment)
    assert dataset["target"].values.tolist() == ["own", "uniform", "even.npy"]
    one, two = (dataset["rmsve"].sel(problem="mine", target=t) for t in ("uniform", "even.npy"))
    np.testing.assert_array_equal(one, two)
    assert (one != dataset["rmsve"].sel(problem="mine", target="own")).any()


AGENTS = """\
steps = 600
runs = 2
measures = ["objective", "gradient_norm", "bias_norm"]
record_every = 200
problem = "counterexample"
[learners]
cof-pac = 'actor_critic(tabular(), gem(0.1, ridge), gq2(0.1, ridge), "0.01/t^0.9")'
[grid]
ridge = [1e-3, 1e-2]
"""


def test_agents_are_measured_by_what_their_paths_mean():
    from emphatic import oracle
    from emphatic.agents import tabular

    experiment = toml.parse(AGENTS)
    dataset = run(experiment).squeeze()
    problem, theta = problems.counterexample(), dataset["theta"].values
    policy = tabular(problem)
    for index in np.ndindex(theta.shape[:2]):
        gradient = oracle.policy_gradient(problem, policy, theta[index])
        last = dataset["gradient_norm"].values[(*index, -1)]
        np.testing.assert_allclose(last, np.linalg.norm(gradient), rtol=1e-5)
        ridge = float(dataset["ridge"][index[0]])
        bias = oracle.bias(problem, policy, theta[index], ridge=ridge)
        np.testing.assert_allclose(
            dataset["bias_norm"].values[(*index, -1)], np.linalg.norm(bias), rtol=1e-4
        )
    plain = AGENTS.replace("gq2(0.1, ridge)", "gq2(0.2, ridge)")
    assert experiment.units[0].address != toml.parse(plain).units[0].address


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("runs = 4", "rns = 4", r"line 3, rns: key: unknown name 'rns'; did you mean 'runs'"),
        ("steps = 2e3", "", "line 1: it lacks the key 'steps'"),
        ("steps = 2e3", "steps = 0.5", "line 2, steps: got 0.5; a whole number"),
        ("steps = 2e3", "steps = 0", "line 2, steps: got 0; a whole number from 1 to 10"),
        ("runs = 4", 'runs = 4\ndtype = "float16"', "line 4, dtype: got 'float16'; 'float32' or"),
        ("runs = 4", 'runs = 4\nproblem = "boyan"', "one table"),
        ("steps = 2e3", "steps = ", r"Invalid value.*line 2"),
        ("solid = 0.1", "solid = 1.5", "line 6, problems.baird: solid: got 1.5; a probability"),
        ("solid = 0.1", "sold = 1.5", "line 8, problems.baird.sold: .*did you mean 'solid'"),
        ("solid = 0.1", "solid = []", r"line 8, problems.baird.solid: got \[\]; distinct"),
        (
            '"random_walk"',
            '"randm_walk"',
            "line 11, problems.walk.name: .*did you mean 'random_walk'",
        ),
        ('"gtd2(', '"gtd3(', "line 15, learners.gtd2: function: .*did you mean 'gtd2'"),
        (
            "gtd2(step_size)",
            "gtd2(step)",
            "line 15, learners.gtd2: name: .*did you mean 'step_size'",
        ),
        ('"gtd2(step_size)"', "3", "line 15, learners.gtd2: got 3; a text is required"),
        ('step_size = "2^[-6:-4]"', "step_size = []", "line 19, grid.step_size: it is empty"),
        (
            'step_size = "2^[-6:-4]"',
            'step_size = "2^^3"',
            "line 19, grid.step_size: .*cannot be read",
        ),
        ('step_size = "2^[-6:-4]"', "step_sise = [1]", "did you mean|needs|unknown name"),
        ('["rmsve"]', '["rmsv"]', "line 4, measures: .*did you mean 'rmsve'"),
        ('["rmsve"]', '["rmsve", "objective"]', "line 4, measures: .*are of agents"),
        ('by = "final"', 'by = "finel"', "line 22, selection.by: got 'finel'; 'final' or 'area'"),
        ("runs = 2\n", "runs = -2\n", "line 23, selection.runs: got -2"),
        ("[problems.boyan]", '[problem]\nname = "boyan"', r"one table \[problem\], or tables"),
        (
            "[problems.boyan]",
            '[problems."baird features=aliased"]\nname = "baird"',
            "line 9, problems.baird features=aliased: 'baird features=aliased' is there twice",
        ),
        ("[problems.boyan]", '[problems."b=0.1"]', "line 9, problems.b=0.1.name: .*unknown name"),
        (
            '"gtd2(step_size)"',
            '"td(0.1)"',
            "line 19, grid.step_size: axis: unknown name 'step_size'; none is known",
        ),
        ('"etd(followon(), 2^-9)"', '"td(0.1, 0.5, 2)"', "line 16, learners.etd: td: too many"),
        ('["rmsve"]', '["emphasis_error"]', "'emphasis_error' is an error of emphasis; 'gtd2'"),
        ('"gtd2(step_size)"', '"gem(step_size)"', "'rmsve' is an error of values; 'gtd2' est"),
        (
            '"etd(followon(), 2^-9)"',
            '"lms(0.01)"',
            "line 16, learners.etd: lms: missing a required",
        ),
        ("[learners]", 'learners = "gem"\n[others]', "line 15, others: .*unknown name"),
    ],
)
def test_every_slip_is_named_with_its_line(before, after, message):
    assert before in TEXT
    with pytest.raises(ValueError, match=message) as error:
        toml.parse(TEXT.replace(before, after, 1), "critics.toml")
    assert str(error.value).count("critics.toml") == 1


def test_an_axis_of_the_grid_is_no_argument_of_the_problem_at_the_same_time():
    """They would be one axis of the results, where each point is of both."""
    text = """\
steps = 100
problem = { name = "two_state", discount = [0.5, 0.9] }
[learners]
td = "td(discount)"
[grid]
discount = [0.5, 0.1]
"""
    with pytest.raises(ValueError, match="line 5, grid: 'discount' is an argument of the problem"):
        toml.parse(text)


@pytest.mark.parametrize(
    ("learner", "measure"), [("gem", "emphasis_error"), ("td", "rmsve"), ("gq2", "rmsqe")]
)
def test_what_is_measured_by_default_is_the_error_of_what_the_learners_estimate(learner, measure):
    text = without("measures").replace("gtd2(step_size)", f"{learner}(step_size)")
    text = text.replace("etd(followon(), 2^-9)", "constant(1)")
    experiment = toml.parse(text)
    assert (experiment.measures, experiment.metadata["measures"]) == ((measure,), [measure])
    assert experiment.selection is not None
    assert experiment.selection.measure == measure


def test_nothing_is_measured_by_default_where_the_learners_estimate_different_things():
    text = without("measures")
    with pytest.raises(ValueError, match="'gtd2' estimates values, 'etd' estimates emphasis; no"):
        toml.parse(text.replace("etd(followon(), 2^-9)", "gem(step_size)"))
    agents = AGENTS.replace('measures = ["objective", "gradient_norm", "bias_norm"]\n', "")
    assert toml.parse(agents).metadata["measures"] == ["objective"]
    constants = text.replace("etd(followon(), 2^-9)", "constant(1)")
    with pytest.raises(ValueError, match=r"'gtd2' does not say what it estimates; give one"):
        toml.parse(constants.replace("gtd2(step_size)", "constant(step_size)"))


EXACT = """\
steps = 50
runs = 1
record_every = 50
measures = ["emphasis_error"]
target = ["own", "behavior", "uniform"]
problem = "PROBLEM"
[learners]
exact = "exact(emphasis)"
values = "exact(values)"
[grid]
"""


@pytest.mark.parametrize("problem", ["baird", "random_walk"])
def test_exact_quantities_are_those_of_the_target_of_the_case(problem):
    """With the quantities of the problem's own target the error was 115 on Baird's problem."""
    text = EXACT.replace("PROBLEM", problem)
    experiment = toml.parse(text)
    dataset = run(experiment).sel(learner="exact")
    np.testing.assert_allclose(dataset["emphasis_error"], 0.0, atol=1e-4)
    one = toml.parse(text.replace('["own", "behavior", "uniform"]', '"behavior"'))
    np.testing.assert_allclose(run(one).sel(learner="exact")["emphasis_error"], 0.0, atol=1e-4)
    own = toml.parse(text.replace('["own", "behavior", "uniform"]', '"own"'))
    assert own.definitions["exact"] == "exact(emphasis)"  # what was right is where it was
    assert one.definitions["exact"] != own.definitions["exact"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"^file: .*none.toml does not exist"):
        toml.read(tmp_path / "none.toml")
    (tmp_path / "named.toml").write_text(TEXT.replace('name = "critics"\n', ""))
    assert toml.read(tmp_path / "named.toml").name == "named"


# Values of every type in every place

PLAIN = """\
name = "critics"
steps = 2e3
runs = 4
measures = ["rmsve"]
problem = "boyan"
[learners]
gtd2 = "gtd2(step_size)"
[grid]
step_size = "2^[-6:-4]"
[selection]
by = "final"
"""
NAME, STEPS, RUNS, MEASURES, PROBLEM, _, GTD2, _, GRID, _, BY = PLAIN.splitlines()
WHOLE = "a whole number from 1 to 10^9 is required"
NOT_ONE = "a finite number is required"
VALUES = [
    (NAME, "name = 5", "line 1, name: got 5; a text is required"),
    (STEPS, f"steps = {'9' * 400}", "line 2, steps: got 999999999999999999...9"),
    (STEPS, f"steps = {'9' * 5000}", "line 2: 'steps = 99"),
    (STEPS, f"steps = 0x{'f' * 15000}", "line 2, steps: got a number of thousands of"),
    (STEPS, "steps = inf", f"line 2, steps: got inf; {NOT_ONE}"),
    (STEPS, "steps = nan", f"line 2, steps: got nan; {NOT_ONE}"),
    (STEPS, "steps = true", f"line 2, steps: got True; {NOT_ONE}"),
    (STEPS, "steps = 1e300", f"line 2, steps: got 1e+300; {WHOLE}"),
    (STEPS, f"{STEPS}\n{STEPS}", "Cannot overwrite a value (at line 3"),
    (RUNS, "runs = []", f"line 3, runs: got []; {NOT_ONE}"),
    (RUNS, "seed = -1", "line 3, seed: got -1; a whole number from 0 to 2^31 - 1 is required"),
    (RUNS, "record_every = 0", f"line 3, record_every: got 0; {WHOLE}"),
    (RUNS, "records = 0.5", f"line 3, records: got 0.5; {WHOLE}"),
    (RUNS, "engine = 5", "line 3, engine: got 5; 'auto' or 'fused' or 'scan' is required"),
    (RUNS, "dtype = 07:32:00", "line 3, dtype: got datetime.time(7, 32); 'float32' or"),
    (RUNS, "target = {a=1}", "line 3, target: got {'a': 1}; a text or a list is required"),
    (RUNS, "target = []", "line 3, target: got none; at least one is required"),
    (RUNS, "target = [1]", "line 3, target: got [1]; a text or a list is required"),
    (RUNS, 'target = "none.npy"', "line 3, target: target: none.npy does not exist"),
    (RUNS, 'target = "other"', "line 3, target: target: unknown name 'other'; known: own"),
    (MEASURES, "measures = 5", "line 4, measures: got 5; a text or a list is required"),
    (MEASURES, "measures = [[1]]", "line 4, measures: got [[1]]; a text or a list is required"),
    (PROBLEM, "problem = 5", "line 5, problem: got 5; a text or a table is required"),
    (PROBLEM, "problem = 1979-05-27", "line 5, problem: got datetime.date(1979, 5, 27); a text or"),
    (PROBLEM, 'problem = ""', "line 5, problem.name: problem: unknown name ''"),
    (PROBLEM, r'problem = "a\u0000"', r"line 5, problem.name: problem: unknown name 'a\x00'"),
    (PROBLEM, f'problem = "{"x" * 5000}"', "line 5, problem.name: problem: unknown name 'xxx"),
    (PROBLEM, "problem = {name = 5}", "line 5, problem.name: got 5; a text is required"),
    (PROBLEM, "problem = {}", "line 5, problem: its `name` is missing"),
    (PROBLEM, "[problems]\nx = 5", "line 6, problems.x: got 5; a text or a table is required"),
    (PROBLEM, "problems = []", "line 5, problems: got []; a table is required"),
    ("[learners]", "x = 5", "line 6, x: key: unknown name 'x'"),
    (f"[learners]\n{GTD2}", "learners = []", "line 6, learners: got []; a table is required"),
    (f"[learners]\n{GTD2}", "learners = {}", "line 6, learners: got none; at least one"),
    (GTD2, 'gtd2 = ["gtd2"]', "line 7, learners.gtd2: got ['gtd2']; a text is required"),
    (GTD2, 'gtd2 = "gtd2(1/0)"', "line 7, learners.gtd2: gtd2: step_size: 1 / 0"),
    (GTD2, 'gtd2 = "gtd2(step_size/0)"', "line 7, learners.gtd2: grid: 'gtd2' with step_size = "),
    (GTD2, 'gtd2 = "os:abort()"', "line 7, learners.gtd2: os:abort is code, which a file does not"),
    (GTD2, f'gtd2 = "{"-" * 3000}1"', "line 7, learners.gtd2: '---"),
    (GTD2, f'"{"x" * 5000}" = "gtd2(-1)"', "learners.'xxx"),
    (GTD2, r'"a\n\u001b" = "gtd2(-1)"', r"line 6, learners.'a\n\x1b': gtd2: step_size: got -1"),
    (f"[grid]\n{GRID}", "[grid]\n[grid]", "Cannot declare ('grid',) twice (at line 9"),
    (GRID, 'step_size = "10^400"', "line 9, grid.step_size: 10 ^ 400 is no finite real number"),
    (GRID, 'step_size = "[0:1e12]"', "line 9, grid.step_size: a list has 1,000,000,000,001"),
    (GRID, "step_size = [true]", "line 9, grid.step_size: got [True]; a finite number or"),
    (GRID, "step_size = [nan]", "line 9, grid.step_size: got [nan]; a finite number or a text or"),
    (GRID, "step_size = [[0.1]]", "line 9, grid.step_size: got [[0.1]]; a finite number or a text"),
    (GRID, "step_size = {a = 1}", "line 9, grid.step_size: got {'a': 1}; a finite number or"),
    (GRID, "step_size = [0.1, 0.1]", "step_size is [0.1, 0.1]; distinct numbers are required"),
    (BY, "runs = true", "line 11, selection.runs: got True; a whole number is required"),
    (BY, "runs = 1.5", "line 11, selection.runs: got 1.5; a whole number is required"),
    (BY, "measure = 5", "line 11, selection.measure: got 5; a text is required"),
    (BY, f"by = {'[' * 5000}", "line 11: 'by = [["),
    (BY, "by = " + "[\n" * 3000, "it is nested too deep"),
    (BY, f"x = {{{'a.' * 15000}a = 1}}", "line 11: 'x = {a.a"),
    (BY, "#" * 200_000, "characters; at most 200000 are read"),
    (BY, "\ufeff = 1", "Invalid statement (at line 11"),
]
ARGUMENTS = [
    ('name = "boyan"\ndiscount = "x"', "discount: got 'x'; a finite number is required"),
    ('name = "boyan"\ndiscount = true', "discount: got True; a finite number is required"),
    ('name = "boyan"\ndiscount = inf', "discount: got inf; a finite number is required"),
    ('name = "boyan"\ndiscount = {a = 1}', "discount: got {'a': 1}; a finite number is required"),
    ('name = "boyan"\ndiscount = [[0.5]]', "discount: got [0.5]; a finite number is required"),
    ('name = "boyan"\ndiscount = [0.5, "x"]', "discount: got 'x'; a finite number is required"),
    ('name = "grid"\nwidth = 1e9', "width: got 1000000000.0; a whole number is required"),
    ('name = "grid"\nwidth = 2.5', "width: got 2.5; a whole number is required"),
    ('name = "grid"\ngoal = 1', "goal: got 1; true or false is required"),
    ('name = "baird"\nfeatures = 1979-05-27', "features: got datetime.date(1979, 5, 27); 'orig"),
    ('name = "gymnasium"\nenv = "this:X-v0"', "env: got 'this:X-v0'; 'FrozenLake-v1' or"),
    ('name = "gymnasium"\nenv = ""', "env: got ''; 'FrozenLake-v1' or"),
]


def refusal(text: str) -> str:
    """Returns why a file is refused."""
    with pytest.raises(ValueError, match=r".") as error:
        toml.parse(text, "critics.toml")
    message = str(error.value)
    assert message.startswith("critics.toml")
    assert "\n" not in message
    assert len(message) < 400
    return message


@pytest.mark.parametrize(("before", "after", "message"), VALUES)
def test_a_value_of_any_type_in_any_place_is_named_with_its_line(before, after, message):
    assert before in PLAIN
    assert message in refusal(PLAIN.replace(before, after, 1)).replace("9" * 17 + '"', '99"')


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS)
def test_arguments_of_problems_have_the_types_of_their_functions(arguments, message):
    text = PLAIN.replace("[learners]", f"[problem]\n{arguments}\n[learners]").replace(PROBLEM, "")
    assert f"line 8, problem.{message}" in refusal(text)
    several = text.replace("[problem]", "[problems.mine]")
    assert f"line 8, problems.mine.{message}" in refusal(several)


def test_too_many_combinations_of_arguments_are_refused_before_any_is_built():
    seeds = list(range(200))
    arguments = f'name = "garnet"\nseed = {seeds}\nnum_states = {seeds}'
    text = PLAIN.replace("[learners]", f"[problem]\n{arguments}\n[learners]").replace(PROBLEM, "")
    assert "line 6, problem: 40,000 combinations; at most 10,000" in refusal(text)


def test_a_mark_of_the_byte_order_is_no_part_of_a_file(tmp_path):
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + PLAIN.encode())
    assert toml.read(tmp_path / "marked.toml").name == "critics"


def test_only_a_regular_file_of_text_is_read(tmp_path):
    (tmp_path / "latin.toml").write_bytes(PLAIN.replace("critics", "\xe9").encode("latin-1"))
    with pytest.raises(ValueError, match=r"^file: .*latin.toml cannot be read: it is not UTF-8"):
        toml.read(tmp_path / "latin.toml")
    os.mkfifo(tmp_path / "pipe.toml")
    for name in (tmp_path / "pipe.toml", "/dev/zero"):
        with pytest.raises(ValueError, match=r"^file: .* it is a device or a pipe, not a file"):
            toml.read(name)
    (tmp_path / "large.toml").touch()
    os.truncate(tmp_path / "large.toml", 10**12)
    with pytest.raises(ValueError, match=r"it has 1000000000000 bytes; at most 200000 are read"):
        toml.read(tmp_path / "large.toml")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "objects.toml").write_text(PLAIN.replace(RUNS, 'target = "objects.npy"'))
    with pytest.raises(ValueError, match=r"line 3, target: .* holds object; real numbers required"):
        toml.read(tmp_path / "objects.toml")


def test_a_file_runs_no_code_that_it_names(tmp_path, monkeypatch):
    (tmp_path / "marker.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for text in (
        PLAIN.replace('"gtd2(step_size)"', '"marker:make(step_size)"'),
        PLAIN.replace('"gtd2(step_size)"', '"marker:make"'),
        PLAIN.replace(PROBLEM, 'problem = {name = "gymnasium", env = "marker:FrozenLake-v1"}'),
    ):
        refusal(text)
        assert "marker" not in sys.modules
    assert not (tmp_path / "imported").exists()
