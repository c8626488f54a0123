"""Figure 4: COF-PAC and others with networks on Reacher, from the experience of random actions."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from .. import statistics, store
from .._json import plain
from .._names import unknown
from ..engine.tasks import Progress
from .part import CHECKPOINTS, Part
from .summary import claim

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "control"
TITLE = "J, mean and one standard deviation over runs"
ALGORITHMS: tuple[str, ...] = ("cof-pac", "ace", "off-pac", "geoff-pac", "td3")
FEW = {"geoff-pac": 10, "td3": 6}  # the most runs of what is slow, unless all are asked for
LABELS: dict[str, str] = dict(
    zip(ALGORITHMS, ("COF-PAC", "ACE", "Off-PAC", "Geoff-PAC", "TD3"), strict=True)
)
VARIED, VARIANTS = ("cof-pac", "ace"), ("authors", "masked", "unclipped")  # besides ours
NUM_STEPS, EVERY = 50_000, 1000
TIMES, SOLVED, AXIS = (10_000, 20_000, 50_000), -6.0, (-20.0, -3.0)
LATE = 0.2  # the part of a run that stands for its end
SEEDS = 2**16  # of each seed, and of those there are as many


def parts(
    runs: int,
    seed: int,
    steps: int | None,
    authors: bool,
    algorithms: Sequence[str] | None = None,
    env: str = "reacher",
    full: bool = False,
) -> list[Part]:
    """A part for each algorithm, and for each variant of the first two with `authors`.

    The authors' variant has their trace, their loss of the emphasis, their goals of Reacher and
    their clipping of actions; `masked` has their loss alone. `unclipped` is what the paper's text
    says of ratios; otherwise they are clipped as in the code.
    """
    from ..deep.task import agent, policy, task

    steps = NUM_STEPS if steps is None else steps
    if steps % EVERY:
        raise ValueError(f"steps: got {steps}; a multiple of {EVERY} is required")
    for name, value, most in (("seed", seed, SEEDS - 1), ("runs", runs, SEEDS)):
        if value > most:
            raise ValueError(f"{name}: got {value}; at most {most} is possible")
    algorithms = ALGORITHMS if algorithms is None else tuple(dict.fromkeys(algorithms))
    if not algorithms:
        raise ValueError(f"algorithms: got none; known: {', '.join(ALGORITHMS)}")
    for name in algorithms:
        if name not in ALGORITHMS:
            raise unknown("algorithms", name, ALGORITHMS)
    ours = task(env)
    theirs = _authors(task(env, goals="square")) if authors else ours
    found = []
    for name in algorithms:
        for variant in ("ours", *VARIANTS) if authors and name in VARIED else ("ours",):
            here = theirs if variant == "authors" else ours
            learner = agent(name, policy(here), **_settings(variant))
            num_runs = runs if full else min(runs, FEW.get(name, runs))
            seeds = range(SEEDS * seed, SEEDS * seed + num_runs)
            found.append(_part(name, variant, here, learner, seeds, steps, not found))
    return found


def _authors(task: Any) -> Any:
    """The task behind a clip, if the environment is one of ours."""
    from ..deep.environment import clipped

    if task.environment is None:
        return task
    return replace(task, environment=clipped(task.environment))


def _settings(variant: str) -> dict[str, Any]:
    from ..deep.actor_critic import AUTHORS, PAPER
    from ..deep.losses import masked_emphasis_loss

    masked = {"emphasis_loss": masked_emphasis_loss}
    return {"ours": {}, "authors": AUTHORS, "masked": masked, "unclipped": PAPER}[variant]


def _part(
    algorithm: str, variant: str, task: Any, agent: Any, seeds: range, steps: int, filmed: bool
) -> Part:
    name = algorithm if variant == "ours" else f"{algorithm}-{variant}"

    def make(folder: Path, progress: Progress) -> "xarray.Dataset":
        from ..deep.policy import Learned, save
        from ..deep.task import experienced, kinds, labelled, learn

        path = folder / "data" / f"{name}.safetensors"
        definition = {
            "agent": plain(agent.definition),
            "task": task.name if task.environment is None else task.environment.name,
            "seeds": [seeds.start, seeds.stop],
            "steps": steps,
        }
        found = store.kept(path, definition)
        if found is not None:
            return found
        for each in (CHECKPOINTS, "policies"):
            (folder / each).mkdir(exist_ok=True)
        total = len(seeds) * steps
        training = learn(
            task,
            agent,
            experienced(task, seeds, steps, folder / "experience"),
            seeds,
            steps,
            evaluate_every=EVERY,
            checkpoint=folder / CHECKPOINTS / f"{name}.safetensors",
            watch=lambda done, _: progress(len(seeds) * done, total),
        )
        words = algorithm, task.name, kinds(task)[0]
        gamma = agent.definition["discount"]
        learned = Learned(*words, training.theta, training.seeds, steps, gamma)
        save(learned, folder / "policies" / f"{name}.safetensors")
        if filmed and task.environment is not None:
            _film(folder, algorithm, task, agent, training)
        found = labelled(training, algorithm, variant=variant, environment=task.name)
        origin = json.dumps([store.provenance("scan")])
        found = found.assign_attrs(provenance=origin)
        store.write(path, found, definition)
        return found

    return Part(name, len(seeds) * steps, make)


def _film(folder: Path, algorithm: str, task: Any, agent: Any, training: Any) -> None:
    """The first run's last policy."""
    import jax

    from ..deep.reacher import LINK, TIP
    from ..deep.task import episode
    from .film import film

    theta = jax.tree.map(lambda leaf: leaf[0], training.theta)
    play = jax.jit(lambda theta, key: episode(task.environment, agent.act, theta, key))
    states, reward, _ = play(theta, jax.random.key(training.seeds[0]))
    after = f"{LABELS[algorithm]} after {training.steps[-1]:,} steps"
    title = f"{after}: an episode that returns {float(reward.sum()):.1f}"
    film(folder, np.asarray(states.q), np.asarray(states.goal), (LINK, TIP), title)


@cache
def still() -> float:
    r"""$J$ of a Reacher that does not move: the mean of many excursions without a torque."""
    import jax
    import jax.numpy as jnp

    from ..deep.evaluation import excursions
    from ..deep.reacher import reacher

    ours = reacher()
    nothing = jnp.zeros(ours.low.shape, ours.low.dtype)
    worth = excursions(ours, lambda *_: nothing, num_excursions=20_000, num_episodes=1)
    return float(jax.jit(worth)(0.0, jax.random.key(0))["J"])


def _J(dataset: "xarray.Dataset") -> np.ndarray:
    """J of each run at each evaluation; minus infinity from where a run has diverged."""
    J, bad = (dataset[name].transpose("run", "steps").values for name in ("J", "diverged"))
    return np.where(np.isfinite(J) & ~bad.astype(bool), J, -np.inf).astype(np.float64)


def areas(dataset: "xarray.Dataset") -> np.ndarray:
    """The area under the curve of each run, as its mean over evaluations."""
    return _J(dataset).mean(axis=1)


def steps_to(dataset: "xarray.Dataset", level: float = SOLVED) -> np.ndarray:
    """The steps of each run at its first evaluation above a level; infinite if there is none."""
    above = _J(dataset) > level
    return np.where(above.any(axis=1), dataset["steps"].values[above.argmax(axis=1)], np.inf)


def _late(dataset: "xarray.Dataset") -> np.ndarray:
    J = _J(dataset)
    return J[:, int((1.0 - LATE) * J.shape[1]) :]


def spreads(dataset: "xarray.Dataset") -> np.ndarray:
    """The standard deviation of J over the last fifth of each run; infinite if it diverged."""
    late = _late(dataset)
    return np.where(np.isfinite(late).all(axis=1), _finite(late).std(axis=1), np.inf)


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, 0.0)


def _row(dataset: "xarray.Dataset") -> dict[str, Any]:
    J, times = _J(dataset), dataset["steps"].values.tolist()
    row = {
        "algorithm": dataset.attrs["algorithm"],
        "variant": dataset.attrs["variant"],
        "runs": len(J),
    }
    for time in TIMES:
        at = J[:, times.index(time)] if time in times else np.full(len(J), np.nan)
        row[f"J_{time}"] = float(at.mean())
        row[f"J_{time}_std"] = float(statistics.spread(at)) if time in times else np.nan
    reached = float(np.median(steps_to(dataset)))
    return {
        **row,
        "auc": float(areas(dataset).mean()),
        "auc_std": float(statistics.spread(areas(dataset))),
        f"steps_to_{SOLVED:g}": reached if np.isfinite(reached) else None,
        "diverged_runs": int(dataset["diverged"].any("steps").sum()),
    }


def _case(
    measure: str, ours: np.ndarray, theirs: np.ndarray, names: Sequence[str], sign: int = 1
) -> dict[str, Any]:
    """Whether ours are smaller, or larger if the sign is -1, over the runs that both have."""
    both = min(len(ours), len(theirs))
    pair = ours[:both], theirs[:both]
    medians = dict(zip(names, (float(np.median(each)) for each in pair), strict=True))
    signed = [sign * each for each in pair]
    opposite = statistics.sign_test(*reversed(signed))["p_value"]
    case = {"measure": measure, "medians": medians, **statistics.sign_test(*signed)}
    return {**case, "p_value_of_the_opposite": opposite}


def _faster(ours: "xarray.Dataset", theirs: "xarray.Dataset") -> list[dict[str, Any]]:
    names = [each.attrs["algorithm"] for each in (ours, theirs)]
    cases = [_case("area under the curve", areas(ours), areas(theirs), names, -1)]
    if _is_reacher(ours):
        to = f"steps to J > {SOLVED:g}"
        cases.append(_case(to, steps_to(ours), steps_to(theirs), names))
    return cases


def _is_reacher(dataset: "xarray.Dataset") -> bool:
    return dataset.attrs["environment"].lower().startswith("reacher")


def summarise(datasets: Sequence["xarray.Dataset"]) -> dict[str, Any]:
    """The rows of the figure, and statements about it where there are the algorithms for them."""
    of = {each.attrs["algorithm"]: each for each in datasets if each.attrs["variant"] == "ours"}
    claims, ours = [], of.get("cof-pac")
    if ours is not None and "ace" in of:
        text = "COF-PAC solves the task faster than ACE"
        claims.append(claim(text, _faster(ours, of["ace"])))
    if ours is not None and "td3" in of:
        text = "COF-PAC is more stable than TD3 (standard deviation of J over a run's last fifth)"
        pair = spreads(ours), spreads(of["td3"])
        claims.append(claim(text, [_case("spread of J", *pair, ("cof-pac", "td3"))]))
    if ours is not None and "off-pac" in of:
        text = "Beyond the paper: COF-PAC solves the task faster than Off-PAC"
        claims.append(claim(text, _faster(ours, of["off-pac"])))
        text = "Beyond the paper: Off-PAC solves the task faster than COF-PAC"
        claims.append(claim(text, _faster(of["off-pac"], ours)))
    summary = {"rows": [_row(each) for each in datasets], "claims": claims}
    if ours is not None and ours.attrs["environment"] == "reacher":
        level, late = still(), _late(ours).mean(axis=1)
        rest = np.full(len(late), level)
        case = _case("mean J of the last fifth", late, rest, ("cof-pac", "still"), -1)
        text = f"Beyond the paper: COF-PAC ends above an arm that does not move (J = {level:.2f})"
        claims.append(claim(text, [case]))
        summary["exact"] = [{"policy": "no torque", "J": level}]
    return summary


def table(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """What a terminal shows: a line for each row."""
    to = f"steps_to_{SOLVED:g}"
    columns = ["algorithm", "variant", "runs", *(f"J at {time:g}" for time in TIMES)]
    columns += ["area", f"steps to {SOLVED:g}", "diverged"]
    lines = []
    for row in rows:
        curve = [f"{row[f'J_{time}']:.2f} +- {row[f'J_{time}_std']:.2f}" for time in TIMES]
        lines.append(
            [
                row["algorithm"],
                row["variant"],
                str(row["runs"]),
                *("-" if "nan" in cell else cell for cell in curve),
                f"{row['auc']:.2f} +- {row['auc_std']:.2f}",
                "never" if row[to] is None else f"{row[to]:g}",
                f"{row['diverged_runs']} of {row['runs']}",
            ]
        )
    return columns, lines


def plot(datasets: Sequence["xarray.Dataset"], authors: bool = False) -> "Figure":
    """J as in the paper, then beyond it; ratios and emphasis; the variants of the authors' code."""
    from . import style

    palette = style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE
    colors: dict[str, str] = dict(zip(ALGORITHMS, palette, strict=True))
    of = {each.attrs["algorithm"]: each for each in datasets if each.attrs["variant"] == "ours"}
    with style.context():
        height = 9.3 if authors else 6.4
        figure, axes = style.panels(2 + authors, 2, figsize=(8.4, height))
        for panel, names, title in (
            (axes[0, 0], ("ace", "td3", "cof-pac"), "as in the paper"),
            (axes[0, 1], ("geoff-pac", "off-pac", "cof-pac"), "beyond the paper (dotted: medians)"),
        ):
            for name in (name for name in names if name in of):
                _runs(panel, of[name], colors[name])
                if "medians" in title:
                    time, curves = _curve(of[name], "J")
                    panel.plot(time, np.median(curves, axis=0), ":", color=colors[name], lw=1)
            _frame(panel, datasets, title)
        for name in ("ace", "off-pac", "cof-pac"):
            if name in of:
                _ratios(axes[1, 0], of[name], colors[name])
                _emphasis(axes[1, 1], of[name], colors[name])
        axes[1, 0].plot([], [], color=style.GREY, label=r"mean ratio $\rho$")
        axes[1, 0].plot([], [], ":", color=style.GREY, label="effective share of the sample")
        axes[1, 0].set(ylim=(0, 1.05), title="ratios", xlim=axes[0, 0].get_xlim())
        axes[1, 1].plot([], [], color=style.GREY, label="learned $m(S_t)$")
        axes[1, 1].plot([], [], ":", color=style.GREY, label="trace $M_t$")
        axes[1, 1].set(yscale="log", title="mean emphasis", xlim=axes[0, 0].get_xlim())
        if authors:
            for panel, name in zip(axes[2], VARIED, strict=True):
                shade = style.BLACK, style.ORANGE, style.SKY
                shades = dict(zip(VARIANTS, shade, strict=True))
                for each in datasets:
                    if each.attrs["algorithm"] == name:
                        variant = each.attrs["variant"]
                        color = shades.get(variant, colors[name])
                        style.band(panel, *_curve(each, "J"), color, label=variant)
                _frame(panel, datasets, f"{LABELS[name]}: ours, the authors' and the paper's")
        for panel in axes.flat:
            panel.set_xlabel("steps")
            if panel.get_legend_handles_labels()[0]:
                panel.legend(loc="best")
        axes[0, 0].set_ylabel(r"$J(\pi)$")
    return figure


def _curve(dataset: "xarray.Dataset", name: str) -> tuple[np.ndarray, np.ndarray]:
    return dataset["steps"].values, dataset[name].transpose("run", "steps").values


def _runs(axes: "Axes", dataset: "xarray.Dataset", color: str) -> None:
    """Mean and one standard deviation, or the mean alone where the axis is too small for both."""
    from . import style

    time, curves = _curve(dataset, "J")
    label = f"{LABELS[dataset.attrs['algorithm']]}, {len(curves)} runs"
    if _is_reacher(dataset) and np.nanmax(curves.std(axis=0)) > AXIS[1] - AXIS[0]:
        label += " (spread beyond the axis)"
        axes.plot(time, curves.mean(axis=0), color=color, lw=1.3, label=label)
    else:
        style.band(axes, time, curves, color, label=label)


def _frame(axes: "Axes", datasets: Sequence["xarray.Dataset"], title: str) -> None:
    """The paper's axes, where it is the paper's task."""
    from . import style

    axes.set(title=title, xlim=(0, int(datasets[0]["steps"][-1])))
    if _is_reacher(datasets[0]):
        axes.set_ylim(*AXIS)
    if datasets[0].attrs["environment"] == "reacher":
        axes.axhline(still(), color=style.BLACK, ls="--", lw=1, label="an arm that does not move")


def _ratios(axes: "Axes", dataset: "xarray.Dataset", color: str) -> None:
    for name, line in (("ratio", "-"), ("sample_size", ":")):
        time, curves = _curve(dataset, name)
        axes.plot(time, curves.mean(axis=0), line, color=color, lw=1.3)


def _emphasis(axes: "Axes", dataset: "xarray.Dataset", color: str) -> None:
    for name, line in (("emphasis", "-"), ("trace", ":")):
        time, curves = _curve(dataset, name)
        axes.plot(time, curves.mean(axis=0), line, color=color, lw=1.3)
