"""Figure 4: parts, what runs mean, each claim both ways, the drawing; training from one call."""

import dataclasses
import json
import sys
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from PIL import Image

from emphatic import cli
from emphatic.cli import progress
from emphatic.deep import agents, evaluation, replay, task, trained_policies, training
from emphatic.deep.agents.agent import Agent
from emphatic.deep.environments import gymnasium as gym
from emphatic.deep.environments.environment import Environment
from emphatic.deep.environments.reacher import fingertip, LINK, TIP
from emphatic.deep.loop import Training
from emphatic.deep.policies import Gaussian, Softmax, TruncatedGaussian
from emphatic.figures import reproduce
from emphatic.figures.control.figure import draw
from emphatic.figures.control.film import joints, write_film
from emphatic.figures.control.summary import resting_objective, summarise, table
from emphatic.figures.control.training import training_parts, VARIANTS, VARIED

ROW = ["algorithm", "variant", "runs", "J_10000", "J_10000_std", "J_20000", "J_20000_std"]
ROW += ["J_50000", "J_50000_std", "auc", "auc_std", "steps_to_-6", "diverged_runs"]
RUNS, STEPS = 10, np.arange(0, 50_001, 1000)


# What is run


@pytest.fixture
def asked(monkeypatch):
    """What parts would train, without training it."""
    found = []

    def train_on_task(where, agent, experience, seeds, steps, **options):
        found.append(
            SimpleNamespace(task=where, agent=agent.definition, seeds=list(seeds), steps=steps)
        )
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train_on_task", train_on_task)

    def ask(folder, *arguments, **options):
        parts = training_parts(*arguments, **options)
        for part in parts:
            with pytest.raises(KeyboardInterrupt):
                part.run(folder, lambda *_: None)
        return [part.name for part in parts], [part.num_updates for part in parts], found

    return ask


def test_all_algorithms_have_the_same_streams_and_the_slow_ones_fewer_runs(asked, tmp_path):
    names, updates, found = asked(tmp_path, 30, 0, None, False)
    assert names == ["cof-pac", "ace", "off-pac", "geoff-pac", "td3"]
    assert updates == [runs * 50_000 for runs in (30, 30, 30, 10, 6)]
    assert [each.seeds for each in found] == [list(range(runs)) for runs in (30, 30, 30, 10, 6)]
    assert {each.task.environment.name for each in found} == {"Reacher-v4"}
    emphases = [each.agent.get("emphasis") for each in found]
    assert emphases == ["learned", "followed", "uncorrected", None, None]
    assert [each.agent["algorithm"] for each in found[3:]] == ["geoff_pac", "td3"]


def test_full_is_as_many_runs_of_everything(asked, tmp_path):
    _, updates, found = asked(tmp_path, 12, 3, 4000, False, ["td3", "ace", "td3"], full=True)
    assert updates == [12 * 4000] * 2
    assert [each.agent["algorithm"] for each in found] == ["td3", "actor_critic"]
    assert found[0].seeds == list(range(3 * 2**16, 3 * 2**16 + 12))  # shares none with seed 0


def test_the_authors_variants_stand_beside_ours(asked, tmp_path):
    names, _, found = asked(tmp_path, 2, 0, 1000, True, ["cof-pac", "ace", "off-pac"])
    ends = ("", "-authors", "-masked", "-unclipped")
    assert names == [*(f"{name}{end}" for name in ("cof-pac", "ace") for end in ends), "off-pac"]
    for ours, authors, masked, unclipped in (found[:4], found[4:8]):
        assert (ours.agent["trace"], authors.agent["trace"]) == ("restarting", "leaking")
        assert authors.agent["emphasis_loss"] == "masked_emphasis_loss"
        theirs = authors.task.environment
        assert theirs.name == "Reacher-v4, goals in the square, actions clipped"
        assert ours.task.environment is masked.task.environment is unclipped.task.environment
        assert ours.task.environment.name == "Reacher-v4"
        assert masked.agent == ours.agent | {"emphasis_loss": "masked_emphasis_loss"}
        clips = [(a.agent["value_clip"], a.agent["actor_clip"]) for a in (ours, authors, unclipped)]
        assert clips == [(1.0, 2.0), (1.0, 2.0), (np.inf, np.inf)]
        assert unclipped.agent == ours.agent | {"value_clip": np.inf, "actor_clip": np.inf}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 1500}, "steps: got 1500; a multiple of 1000 is required"),
        ({"runs": 2**16 + 1}, "runs: got 65537; at most 65536"),
        ({"seed": 2**16}, "seed: got 65536; at most 65535"),
        ({"algorithms": []}, "algorithms: got none"),
        ({"algorithms": ["ac"]}, "algorithms: unknown name 'ac'; did you mean 'ace'"),
        ({"env": "Nothing-v0"}, "environment: Gymnasium has no 'Nothing-v0'"),
        ({"env": "CartPole-v1"}, "policy: TD3 needs a box of actions"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        reproduce("control", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# What is said


def made_up(curves, environment="reacher"):
    """Datasets with the curves of J that a dict has, by algorithm or by (algorithm, variant)."""
    datasets = []
    for name, J in curves.items():
        algorithm, variant = name if isinstance(name, tuple) else (name, "ours")
        J = np.broadcast_to(np.asarray(J, float), (len(J), len(STEPS)))
        bad = ~np.isfinite(J)
        first = np.where(bad.any(1), STEPS[bad.argmax(1)], -1)
        recorded = Training(tuple(range(len(J))), STEPS, {"J": J}, None, first)
        named = {"variant": variant, "environment": environment}
        datasets.append(training.to_dataset(recorded, algorithm, **named))
    return datasets


def rising(reached, end=-4.2, runs=RUNS, wobble=0.1):
    """From -20 in a straight line to the end, wobbling; each run a little above the last."""
    line = -20 + (end + 20) * np.minimum(STEPS / reached, 1.0)
    noise = wobble * (-1.0) ** np.arange(len(STEPS))
    return line + noise + 0.01 * np.arange(runs)[:, None]


GOOD = {
    "cof-pac": rising(10_000, end=-3.5),
    "ace": rising(20_000),
    "off-pac": rising(15_000),
    "td3": rising(5000, runs=8, wobble=1.0),
}


def verdicts(curves, environment="reacher"):
    claims = summarise(made_up(curves, environment))["claims"]
    return [claim["holds"] for claim in claims]


def test_every_claim_can_hold():
    assert verdicts(GOOD) == [True, True, True, True]
    other = GOOD | {"cof-pac": GOOD["off-pac"], "off-pac": GOOD["cof-pac"]}
    assert verdicts(other) == [True, True, False, False]
    sentence = summarise(made_up(other))["claims"][2]
    assert sentence["claim"] == "COF-PAC solves the task faster than Off-PAC"
    assert sentence["verdict"] == "does not hold"  # its opposite is no statement of its own


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ace": rising(5000)}, [False, True, True, True]),
        ({"td3": rising(5000, wobble=0.01)}, [True, False, True, True]),
        ({"off-pac": rising(10_000, end=-3.5)}, [True, True, False, True]),
        ({"cof-pac": rising(10_000, end=-4.5)}, [True, True, True, False]),
    ],
)
def test_every_claim_can_fail(change, expected):
    assert verdicts(GOOD | change) == expected


def test_faster_needs_the_area_and_the_steps():
    late = np.where(STEPS < 15_000, -6.5, -3.5) + np.zeros((RUNS, 1))  # a large area, but later
    claims = summarise(made_up({"cof-pac": late, "ace": rising(14_000)}))["claims"]
    area, steps = claims[0]["evidence"]["cases"]
    assert not claims[0]["holds"]
    assert (area["measure"], area["holds"]) == ("area under the curve", True)
    assert (steps["measure"], steps["holds"]) == ("steps to J > -6", False)
    assert steps["medians"] == {"cof-pac": 15_000, "ace": 13_000}
    assert steps["p_value_of_the_opposite"] < 0.01
    assert area["medians"]["cof-pac"] == pytest.approx(late.mean())


def test_only_runs_of_the_same_seed_are_pairs():
    claims = summarise(made_up({"cof-pac": rising(9000), "td3": rising(9000, runs=3)}))
    (case,) = claims["claims"][0]["evidence"]["cases"]
    assert case["runs"] == 3


def test_stable_is_about_the_last_fifth():
    wild = rising(10_000)
    wild[:, :40] += 3.0 * (-1.0) ** np.arange(40)
    assert verdicts(GOOD | {"cof-pac": wild})[1]
    wild[:, 45] -= 9.0
    assert not verdicts(GOOD | {"cof-pac": wild})[1]


def test_claims_need_their_algorithms_and_their_task():
    assert verdicts({"ace": GOOD["ace"], "td3": GOOD["td3"]}) == []
    both = {name: GOOD[name] for name in ("cof-pac", "ace")}
    assert len(verdicts(both)) == 2
    claims = summarise(made_up(both, "Pendulum-v1"))["claims"]
    assert len(claims) == 1
    assert [case["measure"] for case in claims[0]["evidence"]["cases"]] == ["area under the curve"]


def test_rows_have_what_the_curves_have():
    rows = summarise(made_up(GOOD | {("ace", "authors"): rising(30_000)}))["rows"]
    assert all(list(row) == ROW for row in rows)
    names = [(row["algorithm"], row["variant"], row["runs"]) for row in rows]
    ours = [(name, "ours", len(J)) for name, J in GOOD.items()]
    assert names == [*ours, ("ace", "authors", RUNS)]
    row, J = rows[0], GOOD["cof-pac"]
    for time in (10_000, 20_000, 50_000):
        at = J[:, time // 1000]
        assert row[f"J_{time}"] == pytest.approx(at.mean())
        assert row[f"J_{time}_std"] == pytest.approx(at.std(ddof=1))
    assert row["auc"] == pytest.approx(J.mean())
    assert row["steps_to_-6"] == np.median(STEPS[(J > -6).argmax(1)]) == 9000
    columns, lines = table(rows)
    assert all(len(line) == len(columns) for line in lines)
    assert lines[0][:3] == ["cof-pac", "ours", str(RUNS)]
    assert lines[0][-2:] == ["9000", f"0 of {RUNS}"]


def test_what_most_runs_never_reach_is_null():
    J = np.where(np.arange(RUNS)[:, None] < 6, -7.0, -5.0)
    (row,) = summarise(made_up({"ace": J}))["rows"]
    assert row["steps_to_-6"] is None
    assert table([row])[1][0][-2] == "never"
    (row,) = summarise(made_up({"ace": J[3:]}))["rows"]
    assert row["steps_to_-6"] == 0


def test_short_runs_have_no_numbers_for_later(monkeypatch):
    monkeypatch.setattr("tests.figures.test_control.STEPS", STEPS[:12])
    (row,) = summarise(made_up({"ace": rising(10_000)}))["rows"]
    assert np.isfinite(row["J_10000"])
    assert np.isnan([row["J_20000"], row["J_50000_std"]]).all()
    assert table([row])[1][0][4:6] == ["-", "-"]


def test_a_run_that_diverged_is_minus_infinity_and_never_left_out():
    bad = rising(10_000, end=-3.5)
    bad[2, 30:] = np.nan
    summary = summarise(made_up(GOOD | {"cof-pac": bad}))
    row = summary["rows"][0]
    assert (row["diverged_runs"], row["runs"]) == (1, RUNS)
    assert row["J_20000"] > -5 > row["J_50000"] == row["auc"] == -np.inf
    assert row["J_50000_std"] == np.inf
    cases = [case for claim in summary["claims"] for case in claim["evidence"]["cases"]]
    assert {case["runs"] for case in cases} == {8, RUNS}
    assert cases[0]["losses"] == 1
    assert cases[2]["losses"] == 1  # infinitely unstable


def test_a_still_arm_is_worth_more_than_what_counts_as_solved():
    assert resting_objective() == pytest.approx(-3.98, abs=0.05)


# What is drawn


@pytest.mark.parametrize("authors", [False, True])
def test_the_drawing_has_the_papers_axes(authors):
    variants = {(name, each): rising(9000) for name in VARIED for each in VARIANTS}
    datasets = made_up(GOOD | (variants if authors else {}))
    figure = draw(datasets, authors)
    panels = figure.axes
    assert len(panels) == (6 if authors else 4)
    for panel in (*panels[:2], *panels[4:]):
        assert panel.get_xlim() == (0, 50_000)
        assert panel.get_ylim() == (-20, -3)
    labels = [panel.get_legend_handles_labels()[1] for panel in panels]
    assert labels[0][:3] == ["ACE, 10 runs", "TD3, 8 runs", "COF-PAC, 10 runs"]
    assert labels[1][:2] == ["Off-PAC, 10 runs", "COF-PAC, 10 runs"]
    figure.canvas.draw()
    for panel in panels:  # no legend covers a curve
        if (legend := panel.get_legend()) is not None:
            assert legend.get_window_extent().y1 < panel.get_window_extent().y0
    if authors:
        assert labels[4][:4] == labels[5][:4] == ["ours", *VARIANTS]


def test_a_spread_larger_than_the_axis_is_said_and_not_drawn():
    wild = GOOD["off-pac"] - 100.0 * (np.arange(RUNS)[:, None] == 3)
    panel = draw(made_up(GOOD | {"geoff-pac": wild})).axes[1]
    words = panel.get_legend_handles_labels()[1]
    assert words[0] == "Geoff-PAC, 10 runs (spread off axis)"
    assert len(panel.collections) == 2  # the bands of Off-PAC and COF-PAC
    mean, median = (np.asarray(line.get_ydata(), float) for line in panel.lines[:2])
    np.testing.assert_allclose(mean, wild.mean(0))
    np.testing.assert_allclose(median, np.median(wild, 0))


def test_other_tasks_have_their_own_axes():
    datasets = made_up({"cof-pac": 100 * rising(9000)}, "Pendulum-v1")
    bottom, _ = draw(datasets).axes[0].get_ylim()
    assert bottom < -1900


def test_the_film_shows_the_arm_where_it_is(tmp_path):
    q = np.linspace([0.1, -0.2], [2.0, 1.0], 12)
    write_film(tmp_path, q, np.tile([0.1, 0.05], (12, 1)), (LINK, TIP), "an arm")
    with Image.open(tmp_path / "film.gif") as image:
        assert getattr(image, "n_frames", 0) == 12
    assert (tmp_path / "film.png").read_bytes().startswith(b"\x89PNG")
    places = joints(q, (LINK, TIP))
    np.testing.assert_allclose(places[:, 2], jax.vmap(fingertip)(jnp.asarray(q)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(places[:, 1], axis=1), 0.1)


# Tasks


def test_tasks_know_their_actions():
    ours = task.make_task("reacher")
    assert isinstance(ours.environment, Environment)
    assert (ours.horizon, ours.num_actions) == (50, None)
    assert isinstance(task.make_policy(ours), TruncatedGaussian)
    assert isinstance(task.make_policy(ours, "gaussian"), Gaussian)
    pole = task.make_task("CartPole-v1")
    assert (pole.horizon, pole.num_actions, pole.environment) == (500, 2, None)
    assert isinstance(task.make_policy(pole), Softmax)
    assert task.make_task("CartPole-v1", max_steps=7).horizon == 7


def test_the_figure_keeps_the_gaussian_of_the_paper(monkeypatch):
    policies = []
    monkeypatch.setattr(agents, "make_agent", lambda _, policy, **__: policies.append(policy))
    training_parts(2, 0, None, True)
    assert {type(policy) for policy in policies} == {Gaussian}


def test_reacher_needs_no_gymnasium_and_other_tasks_say_what_to_install(monkeypatch):
    recorded = gym.record("Pendulum-v1", 10)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert len(training_parts(30, 0, None, True)) == 11
    for given in (None, recorded):
        with pytest.raises(ValueError, match=r"Gymnasium is not installed; run pip install .*gym"):
            task.make_task("Pendulum-v1", experience=given)
    with pytest.raises(ValueError, match="it is of 'Pendulum-v1', not of 'reacher'"):
        task.make_task("reacher", experience=recorded)


def test_recordings_are_made_once_and_reused(tmp_path, monkeypatch):
    def experienced(seeds, num_steps):
        found = task.load_or_record(where, seeds, num_steps, tmp_path)
        assert isinstance(found, list)
        return found

    where = task.make_task("Pendulum-v1")
    first, again = experienced([0, 5], 40), experienced([5], 40)
    np.testing.assert_array_equal(first[1].steps.action, again[0].steps.action)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "Pendulum-v1-0.safetensors",
        "Pendulum-v1-5.safetensors",
    ]
    longer = experienced([5], 60)[0]  # begins with what was there
    np.testing.assert_array_equal(longer.steps.action[:4], again[0].steps.action)
    monkeypatch.setattr(gym, "record", None)
    assert experienced([5], 40)[0].num_steps == 60
    (tmp_path / "Pendulum-v1-0.safetensors").replace(tmp_path / "Pendulum-v1-1.safetensors")
    with pytest.raises(ValueError, match=r"Pendulum-v1-1\.safetensors is of 'Pendulum-v1'"):
        experienced([1], 40)


def counting(length: int, horizon: int) -> Environment:
    """Rewards are 1, 2, 3 and so on until the task ends; the action is added to them."""

    def step(time, action, key):
        return time + 1, time + 1.0 + action[0], time + 1 >= length, time + 1 >= horizon

    bound = np.ones(1, np.float32)
    observe = jnp.atleast_1d
    return Environment("c", 1, -bound, bound, horizon, lambda _: jnp.int32(0), observe, step)


@pytest.mark.parametrize(("length", "counted"), [(3, 3), (9, 5)])
def test_returns_discount_from_the_first_step_to_the_end(length, counted):
    ours = task.Task("c", 5, environment=counting(length, 5))
    found = evaluation.play(ours, lambda theta, *_: theta, jnp.array([0.5]), 4, discount=0.9)
    rewards = 1.5 + np.arange(counted)
    np.testing.assert_allclose(found.undiscounted, rewards.sum())
    np.testing.assert_allclose(found.discounted, rewards @ 0.9 ** np.arange(counted))
    assert found.length.tolist() == [counted] * 4


def test_a_run_that_diverged_is_not_played():
    where = task.make_task("Pendulum-v1", max_steps=5)
    agent = agents.make_agent("td3", task.make_policy(where), hidden=(4,))
    layers = (np.ones((2, 3, 4)), np.zeros((2, 4))), (np.ones((2, 4, 1)), np.zeros((2, 1)))
    layers[0][0][1, 0, 0] = np.nan
    found = training._evaluate_runs(where, agent, (0, 1), layers, 0)
    assert np.isfinite(found["J"]).tolist() == np.isfinite(found["return"]).tolist()
    assert np.isfinite(found["J"]).tolist() == [True, False]


# Policies in files


@pytest.fixture(scope="module")
def learned():
    keys = jax.random.split(jax.random.key(0), 2)
    init = Gaussian([-2.0], [2.0]).init
    theta = jax.jit(jax.vmap(lambda key: init(key, 3, jnp.float32)))(keys)
    return trained_policies.TrainedPolicies(
        "ace", "Pendulum-v1", "gaussian", theta, (3, 4), 1000, 0.9, 5
    )


def test_a_policy_acts_as_it_did_before_it_was_saved(learned, tmp_path):
    path = tmp_path / "policy.safetensors"
    trained_policies.save_policies(learned, path)
    for place in (path, tmp_path):
        read = trained_policies.load_policies(place)
        assert jax.tree.structure(read.theta) == jax.tree.structure(learned.theta)
        for ours, theirs in zip(*map(jax.tree.leaves, (learned.theta, read.theta)), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert dataclasses.replace(read, theta=None).__dict__ == {**vars(learned), "theta": None}
    found = trained_policies.evaluate(trained_policies.load_policies(path), 3)
    where, act = trained_policies.restore(learned)
    for run, entry in enumerate(found["runs"]):
        theta = jax.tree.map(lambda leaf, run=run: leaf[run], learned.theta)
        exact = evaluation.play(where, act, theta, 3, discount=0.9)
        assert entry["seed"] == learned.seeds[run]
        assert entry["discounted"]["mean"] == pytest.approx(exact.discounted.mean())
        assert entry["undiscounted"]["std"] == pytest.approx(exact.undiscounted.std(ddof=1))


def test_what_is_no_policy_is_refused(learned, tmp_path):
    path = tmp_path / "policy.safetensors"
    trained_policies.save_policies(learned, path)
    whole = path.read_bytes()
    for content in (whole[:-8], whole[:40], b"", whole.replace(b"policy 1", b"policy 2")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^policy: .*policy.safetensors "):
            trained_policies.load_policies(path)
    with pytest.raises(ValueError, match="does not exist"):
        trained_policies.load_policies(tmp_path / "nowhere")
    trained_policies.save_policies(dataclasses.replace(learned, seeds=(1, 2, 3)), path)
    with pytest.raises(ValueError, match="numbers of 3 runs are required"):
        trained_policies.load_policies(path)
    trained_policies.save_policies(dataclasses.replace(learned, algorithm="acer"), path)
    with pytest.raises(ValueError, match="unknown name 'acer'; did you mean 'ace'"):
        trained_policies.evaluate(trained_policies.load_policies(path))


# In small


def wandering(name, policy, **settings):
    """An agent that compiles in no time: its parameters wander about."""

    def init(key, example, capacity):
        shapes = jax.eval_shape(lambda key: policy.init(key, example.observation.shape[-1]), key)
        theta = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return Wandering({"policy": theta}, replay.empty(example, capacity))

    def update(state, batch, time, key):
        def wander(x):
            return x + 1e-3 * jax.random.normal(key, x.shape, x.dtype)

        params = jax.tree.map(wander, state.params)
        rho, m = batch.behavior, jnp.exp(batch.observation[:, 0])
        seen = {"ratio": rho, "trace": 2 * m, "m": m}
        return Wandering(params, replay.add(state.replay, batch, time)), seen

    def act(theta, observation, key):
        return policy.sample(policy.distribution(theta, observation), key)

    definition = {"algorithm": name, "discount": 0.99, **settings}
    return Agent(init, update, lambda state: state.params["policy"], act, definition)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Wandering:
    params: Any
    replay: Any


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """The figure on another task, interrupted in its second algorithm and asked for again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agents, "make_agent", wandering)
        patch.setattr(task, "_time_limit", lambda name: 5)
        yield _resumed(tmp_path_factory.mktemp("control"))


def _resumed(out):
    options = {"runs": 2, "steps": 2000, "algorithms": ("off-pac", "ace"), "env": "Pendulum-v1"}

    def stop(done: int, total: int) -> None:
        assert total == 8000
        if done == 6000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce("control", out, on_progress=stop, **options)
    folder = out / "control"
    before = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    moved: list[int] = []
    summary = reproduce("control", out, on_progress=lambda done, _: moved.append(done), **options)
    return folder, before, moved, summary


@pytest.mark.slow
def test_an_interrupted_figure_keeps_what_is_finished_and_goes_on(resumed):
    folder, before, moved, summary = resumed
    recordings = {f"experience/Pendulum-v1-{seed}.safetensors" for seed in (0, 1)}
    assert before == recordings | {
        "checkpoints/off-pac.safetensors",
        "checkpoints/ace.safetensors",
        "data/off-pac.nc",
        "policies/off-pac.safetensors",
    }
    assert moved == [0, 4000, 6000, 8000, 8000]  # what was finished is not trained again
    assert sorted(path.name for path in folder.iterdir()) == [
        "data",
        "experience",
        "figure.png",
        "figure.svg",
        "policies",
        "summary.json",
    ]
    assert json.loads((folder / "summary.json").read_text())["rows"][0]["runs"] == 2
    assert [row["algorithm"] for row in summary["rows"]] == ["off-pac", "ace"]
    assert summary["engines"] == {"off-pac": ["scan"], "ace": ["scan"]}


@pytest.mark.slow
def test_data_have_every_measure_at_every_evaluation(resumed):
    for path in (resumed[0] / "data").iterdir():
        data = xarray.load_dataset(path, engine="scipy")
        assert data["steps"].values.tolist() == [0, 1000, 2000]
        measures = ("J", "return", "ratio", "sample_size", "emphasis", "trace", "slope", "diverged")
        for name in measures:
            assert data[name].dims == ("run", "steps")
        assert np.isfinite(data["J"]).all()
        np.testing.assert_allclose(data["ratio"].isel(steps=2), 1 / 4)
        np.testing.assert_allclose(data["slope"].isel(steps=2), 2, rtol=1e-5)
        assert not data["diverged"].any()
        facts = {"algorithm": path.stem, "variant": "ours", "environment": "Pendulum-v1"}
        assert facts.items() <= data.attrs.items()


@pytest.mark.slow
def test_the_policies_of_the_figure_can_be_played(resumed):
    learned = trained_policies.load_policies(resumed[0] / "policies" / "ace.safetensors")
    assert (learned.algorithm, learned.seeds, learned.num_steps) == ("ace", (0, 1), 2000)
    played = trained_policies.evaluate(dataclasses.replace(learned, max_steps=4), 2)
    assert [run["length"]["mean"] for run in played["runs"]] == [4, 4]


@pytest.mark.slow
def test_training_goes_on_after_an_interruption_but_not_as_another_one(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(training, "make_agent", wandering)
    monkeypatch.setenv("XLA_FLAGS", "")
    out = tmp_path / "out"
    arguments = ["train", "--env", "Pendulum-v1", "--max-steps", "5", "--steps", "2000"]
    arguments += ["--out", str(out)]

    def stop(steps, total, values):
        if steps == 2000:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(progress, "show_evaluation", stop)
        assert cli.main(arguments) == 130
    assert sorted(path.name for path in out.iterdir()) == ["checkpoint.safetensors", "experience"]
    kept = (out / "checkpoint.safetensors").read_bytes()
    capsys.readouterr()
    assert cli.main([*arguments, "--discount", "0.5"]) == 2
    printed, err = capsys.readouterr()
    assert (printed, err.count("\n")) == ("", 1)
    assert "belongs to another experiment: discount is 0.99 there and 0.5 here" in err
    assert (out / "checkpoint.safetensors").read_bytes() == kept
    assert cli.main(arguments) == 0
    printed, err = capsys.readouterr()
    assert printed.startswith("2000 of 2000 steps: J ")
    assert sorted(path.name for path in out.iterdir()) == [
        "curves.nc",
        "experience",
        "policy.safetensors",
    ]
