"""The summary of the figure on convergence: rows, Theorem 3 run by run, and comparisons."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ... import statistics
from ...experiments.tracking import TRACKED
from ..figure import Curves, Datasets, Number, Runs, Summary, Table
from ..summary import format_mean, format_number, select
from ..verdicts import assess_all, compare_signs, conclude, medians, Statement
from .agents import ALGORITHMS, CONTINUING, EPISODIC, GARNETS, LONGER, Setting, SETTINGS, WARNINGS
from .levels import ascent, conditioning, covered_by_theorem_3, levels, track_start

if TYPE_CHECKING:
    import xarray

LATE = 0.1  # the share of a run that stands for its end
SMALL = 0.05  # the share of the initial gradient norm that counts as 0
CLEAR = 0.01  # the share of the exact gradient's gain that counts as more
BOTH = ("cof-pac", "off-pac")
THEOREM_3 = Statement(
    "Theorem 3: the smallest |grad J| - |b| of COF-PAC over the last tenth is below a twentieth of "
    "the first |grad J|, in every run"
)
STATEMENTS = {
    "counterexample": Statement(
        "COF-PAC ends above Off-PAC on the counterexample in every run", "beyond"
    ),
    "tabular": Statement(
        "COF-PAC ends clearly above Off-PAC on most of ten Garnets with tabular critics and an "
        "aliased actor",
        "beyond",
    ),
    "aliased": Statement("So it does with an emphasis critic as aliased as the actor", "beyond"),
    "patience": Statement(
        "From theta = 0 COF-PAC ends higher if its actor waits for the critics, as with two "
        "timescales",
        "beyond",
    ),
}


class Row(TypedDict):
    """What [table] needs of a row."""

    problem: str
    features: str
    ridge: float
    algorithm: str
    objective_mean: Number
    objective_std: Number
    gradient_norm: Number
    bias_norm: Number


_NAMED_SETTINGS = {f"{setting.problem}-{setting.features}": setting for setting in SETTINGS}
_NAMED_SETTINGS |= {f"longer-{LONGER.problem}-{LONGER.features}": LONGER}
_NAMED_SETTINGS |= {f"warning-{index}": setting for index, setting in enumerate(WARNINGS.values())}
EXPERIMENTS = tuple(setting.experiment(name) for name, setting in _NAMED_SETTINGS.items())


def select_runs(
    datasets: Datasets, setting: Setting, algorithm: str, ridge: float
) -> "xarray.Dataset":
    """Selects the runs of an algorithm in a setting."""
    dataset = datasets[list(_NAMED_SETTINGS.values()).index(setting)]
    point = {"problem": setting.problem, "features": setting.features, "ridge": ridge}
    return select([dataset], algorithm, **point)


def tracked_curves(runs: "xarray.Dataset") -> dict[str, Curves]:
    """Returns the objective and the norms along the paths of runs."""
    return {name: runs[name].transpose("run", "time").values for name in TRACKED[:3]}


def _ends(objective: Curves) -> Runs:
    """Returns J at the end of each run, and minus infinity for a run that diverged."""
    return np.where(np.isfinite(objective[:, -1]), objective[:, -1], -np.inf)


def _smallest_differences(curves: Mapping[str, Curves]) -> Runs:
    r"""Returns the smallest late $\|\nabla J\| - \|b\|$ of each run; infinite if diverged."""
    difference = curves["gradient_norm"] - curves["bias_norm"]
    late = difference[:, int((1.0 - LATE) * difference.shape[1]) :]
    return np.where(np.isfinite(late), late, np.inf).min(axis=1)


def _point(setting: Setting, algorithm: str, ridge: float) -> Summary:
    point = {"problem": setting.problem, "features": setting.features}
    return {**point, "algorithm": algorithm, "ridge": ridge}


def _row(point: Summary, steps: int, curves: Mapping[str, Curves], diverged: int) -> Summary:
    ends = _ends(curves["objective"])
    return {
        **point,
        "steps": steps,
        "runs": len(ends),
        "objective_mean": float(ends.mean()),
        "objective_std": float(statistics.spread(ends)),
        "objective_min": float(ends.min()),
        "gradient_norm": float(curves["gradient_norm"][:, -1].mean()),
        "bias_norm": float(curves["bias_norm"][:, -1].mean()),
        "smallest_difference_last_tenth": float(_smallest_differences(curves).max()),
        "diverged_runs": diverged,
    }


def _rows(datasets: Datasets, setting: Setting, ridge: float) -> list[Summary]:
    """Returns a row for each algorithm, and one for exact gradient ascent at the same times."""
    rows, steps, records = [], 0, 0
    for name in setting.algorithms:
        runs = select_runs(datasets, setting, name, ridge)
        steps, records = int(runs["time"][-1]), runs.sizes["time"]
        diverged = int(statistics.diverged(runs).sum())
        rows.append(_row(_point(setting, name, ridge), steps, tracked_curves(runs), diverged))
    path = ascent(setting, ridge, steps, records)
    curves = {name: path[name][None, 1:] for name in TRACKED[:3]}
    return [*rows, _row(_point(setting, "exact-gradient", ridge), steps, curves, 0)]


def summarise(datasets: Datasets) -> Summary:
    """Computes the rows of the figure, Theorem 3 and other claims, exact levels, and warnings."""
    points = [(setting, ridge) for setting in SETTINGS for ridge in setting.ridges]
    return {
        "rows": [row for point in points for row in _rows(datasets, *point)],
        "claims": [_theorem_3(datasets), *_comparisons(datasets)],
        "exact": [
            {
                **_point(setting, "", ridge),
                "levels": levels(setting, ridge),
                **{f"first_{name}": value for name, value in track_start(setting, ridge).items()},
                **conditioning(setting, ridge),
            }
            for setting, ridge in points
        ],
        "warnings": [
            {
                "variant": name,
                **_rows(datasets, setting, ridge)[0],
                "levels": levels(setting, ridge),
            }
            for name, setting in WARNINGS.items()
            for ridge in setting.ridges
        ],
    }


def _theorem_3(datasets: Datasets) -> Summary:
    """Tests Theorem 3 in each run: whether the gradient falls into the band of the bias."""
    cases, earlier = [], []
    points = [(setting, ridge) for setting in (*SETTINGS, LONGER) for ridge in setting.ridges]
    for setting, ridge in points:
        runs = select_runs(datasets, setting, "cof-pac", ridge)
        differences = _smallest_differences(tracked_curves(runs))
        start = track_start(setting, ridge)
        limit = SMALL * start["gradient_norm"]
        covered, missing = covered_by_theorem_3(setting, ridge)
        case = {
            **_point(setting, "cof-pac", ridge),
            "steps": int(runs["time"][-1]),
            "first_gradient_norm": start["gradient_norm"],
            "first_bias_norm": start["bias_norm"],
            "limit": limit,
            "largest": float(differences.max()),
            "runs": len(differences),
            "runs_below": int((differences < limit).sum()),
            "covered": covered,
            "missing": missing,
            "holds": bool((differences < limit).all()),  # a longer run may decide what does not
        }
        runs_longer = setting is CONTINUING and ridge in LONGER.ridges
        (earlier if runs_longer else cases).append(case)
    num_held = sum(case["holds"] for case in cases)
    verdict = "holds" if num_held == len(cases) else "not decided"
    counts = {"verdict": verdict, "held": num_held, "against": 0, "needed": len(cases)}
    evidence = {"test": "every run", "cases": cases, "earlier": earlier}
    return conclude(THEOREM_3, counts, evidence)


def _compare(better: Runs, worse: Runs, names: Sequence[str] = BOTH, margin: float = 0) -> Summary:
    """Tests whether the first ends above the second by a margin."""
    test = compare_signs(-(better - margin), -worse)
    return {"medians": medians(names, better, worse), **test}


def _compare_with_margin(ours: Runs, theirs: Runs, setting: Setting, other: Setting) -> Summary:
    """Tests COF-PAC above Off-PAC by a share of the exact gradient's gain; and the opposite."""
    ridge = setting.ridges[0]
    exact, other_exact = levels(setting, ridge), levels(other, ridge)
    gain = exact["exact-gradient"] - track_start(setting, ridge)["objective"]
    return {
        **_point(setting, "", ridge),
        **_compare(ours, theirs, margin=CLEAR * gain),
        "p_value_of_the_opposite": _compare(theirs, ours, margin=CLEAR * gain)["p_value"],
        "gain": gain,
        "levels": {"cof-pac": exact["cof-pac"], "off-pac": other_exact["off-pac"]},
    }


def _comparisons(datasets: Datasets) -> list[Summary]:
    """Assesses the claims about which algorithm ends above which, run by run."""

    def ends(setting: Setting, algorithm: str, ridge: float | None = None) -> np.ndarray:
        ridge = setting.ridges[0] if ridge is None else ridge
        return _ends(tracked_curves(select_runs(datasets, setting, algorithm, ridge))["objective"])

    cases: dict[str, list[Summary]] = {name: [] for name in STATEMENTS}
    for setting, ridge in itertools.product((EPISODIC, CONTINUING), CONTINUING.ridges):
        # the third ridge of the first is too large, as a warning
        ours, theirs = (ends(setting, name, ridge) for name in BOTH)
        case = _point(setting, "", ridge) | _compare(ours, theirs)
        is_above = bool((ours > theirs).all())
        cases["counterexample"].append({**case, "condition": is_above, "refuted": not is_above})
    tabular = GARNETS[: len(GARNETS) // 2]  # they come first
    for setting, other in zip(GARNETS, 2 * tabular, strict=True):
        pair = ends(setting, "cof-pac"), ends(other, "off-pac")
        cases[setting.features].append(_compare_with_margin(*pair, setting, other))
    waiting = ends(WARNINGS["from theta = 0, the actor waits"], "cof-pac")
    patience = _compare(waiting, ends(WARNINGS["from theta = 0"], "cof-pac"), ("waits", "does not"))
    cases["patience"].append(_point(EPISODIC, "cof-pac", 1e-3) | patience)
    most = len(tabular) // 2 + 1
    garnets = {name: replace(STATEMENTS[name], num_needed=most) for name in ("tabular", "aliased")}
    return assess_all(STATEMENTS | garnets, cases)


def table(rows: Sequence[Summary]) -> Table:
    """Returns the table of the figure: COF-PAC and the others at the end of each setting."""
    columns = ["problem", "features", "ridge", *ALGORITHMS, "exact gradient", "|grad J|", "|b|"]
    settings: dict[tuple[str, ...], Summary] = {}
    for row in rows:
        point = row["problem"], row["features"], f"{row['ridge']:g}"
        settings.setdefault(point, {})[row["algorithm"]] = row
    lines, missing = [], dict.fromkeys(Row.__annotations__)
    for point, algorithms in settings.items():
        ends = (algorithms.get(name, missing) for name in ALGORITHMS)
        ends = [format_mean(end["objective_mean"], end["objective_std"]) for end in ends]
        ours, exact = (algorithms.get(name, missing) for name in ("cof-pac", "exact-gradient"))
        norms = [format_number(ours[name], ".3g") for name in ("gradient_norm", "bias_norm")]
        limit = format_number(exact["objective_mean"], ".4g")
        lines.append([*point, *ends, limit, *norms])
    return columns, lines
