"""Tables that commands print."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from .._files import as_json as as_json
from .._work import describe_duration
from ..certify.bias import TOLERANCE
from ..certify.certificate import Certificate
from ..experiments.compute import Estimate
from ..experiments.experiment import Experiment
from ..experiments.store import Status
from ..mdp import Problem
from ..oracle.solution import FixedPoint, scalar_rows, state_columns
from .output import console, styled

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..deep.plan import TrainingStatus

Json = Mapping[str, Any]
"""What a command prints as JSON, before it is formatted."""
Row = Sequence[str]
NEGLIGIBLE = 1e-3  # an improvement, relative, that is none
COLORS = {"holds": "green", "fails": "red", "cannot be decided": "yellow"}
COLORS |= {"does not hold": "red", "not decided": "yellow"}


def format_number(value: float | None) -> str:
    """Formats a number to six significant digits; a dash stands for a missing one."""
    return "-" if value is None or np.isnan(value) else f"{value:.6g}"


def new_table(title: str, columns: Row, rows: Iterable[Row] = (), num_left: int = 1) -> "Table":
    """Returns a table with its first `num_left` columns aligned to the left."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < num_left else "right", no_wrap=True)
    table.show_header = any(columns)
    for row in rows:
        table.add_row(*row)
    return table


def _print_columns(out: "Console", labels: list[str], columns: dict[str, list[str]]) -> None:
    """Prints columns, in as many tables as a narrow terminal needs to show every digit."""
    label_width = max(map(len, labels)) + 2
    groups, width = [{}], label_width
    for name, column in columns.items():
        column_width = 3 + max(map(len, [name, *column]))
        if groups[-1] and width + column_width > out.width:
            groups.append({})
            width = label_width
        groups[-1][name] = column
        width += column_width
    for group in groups:
        rows = zip(labels[1:], *group.values(), strict=True)
        out.print(new_table("", [labels[0], *group], rows))


def show_solution(title: str, problem: Problem, exact: Json, notes: list[str]) -> None:
    """Prints the exact quantities of a problem."""
    out = console()
    out.print(styled((title, "bold"), f": {problem}"))
    labels, columns = state_columns(problem, exact)
    cells = {name: list(map(format_number, column)) for name, column in columns.items()}
    _print_columns(out, labels, cells)

    facts = new_table("", ("", ""), num_left=2)
    for column in facts.columns:
        column.no_wrap = False
    for label, value, remark in scalar_rows(exact):
        text = format_number(value) if value is not None else remark
        facts.add_row(label, f"{text} ({remark})" if value is not None and remark else text)
    out.print(facts)

    points = [point for point in exact.values() if isinstance(point, FixedPoint)]
    rows = [point.row for point in points]
    labels, symbols, errors, modes, remarks = map(list, zip(*rows, strict=True))
    cells = {"learns": symbols, "error of limit": [*map(format_number, errors)]}
    cells["slowest mode"] = [*map(format_number, modes)]
    if any(point.variance is not None for point in points):
        cells["variance / step size"] = [format_number(point.variance) for point in points]
    if any(remarks):
        cells["remark"] = remarks
    _print_columns(out, ["learner", *labels], cells)
    for note in notes:
        out.print(styled(("note", "yellow"), f": {note}"))


def show_certificate(title: str, certificate: Certificate) -> None:
    """Prints a certificate."""
    out = console()
    out.print(styled((title, "bold")))
    table = new_table("", ("assumption", "says that", "verdict", "because"), num_left=4)
    for column in table.columns[1::2]:
        column.no_wrap, column.overflow = False, "fold"
    for row in certificate.rows:
        reason = styled(row.evidence, (f" -> {row.remedy}" if row.remedy else "", "dim"))
        verdict = styled((row.verdict, COLORS[row.verdict]))
        table.add_row(row.source, row.statement, verdict, reason)
    out.print(table)
    for theorem in certificate.theorems:
        if theorem.covers:
            out.print(styled(("covers", "green"), f"   {theorem.name}: {theorem.claim}"))
        else:
            missing = ", ".join(certificate[key].statement for key in theorem.missing)
            out.print(styled(("does not", "red"), f" {theorem.name}: needs that {missing}"))
    cost = certificate.ridge_cost
    if cost is None:
        out.print(f"ridge: {certificate.ridge_note}", soft_wrap=not out.is_terminal)
    else:
        out.print(
            f"ridge {cost.ridge:g} costs: |w*(eta) - w*(0)| = "
            f"{format_number(cost.emphasis_distance)} of {format_number(cost.emphasis_norm)}, "
            f"|u*(eta) - u*(0)| = {format_number(cost.value_distance)} of "
            f"{format_number(cost.value_norm)}, bias of the policy gradient "
            f"{format_number(cost.gradient_bias)} of {format_number(cost.gradient_norm)}"
        )
        if cost.tolerance is not None:
            emphasis = format_number(cost.largest_emphasis_ridge)
            critics = f"emphasis {emphasis}, values {format_number(cost.largest_value_ridge)}"
            gradient = f"gradient {format_number(cost.largest_gradient_ridge)}"
            largest = format_number(cost.largest_ridge)
            out.print(f"largest ridge within {cost.tolerance:g}: {largest} ({critics}, {gradient})")
    for line in _describe_ends(certificate):
        out.print(line, soft_wrap=not out.is_terminal)
    covering = [t.name for t in certificate.theorems if t.covers and t.converges]
    verdict = f"covered by {', '.join(covering)}" if covering else certificate.advice
    out.print(styled(("verdict", "bold"), f": {verdict}"), soft_wrap=not out.is_terminal)


def _describe_ends(certificate: Certificate) -> list[str]:
    """Returns lines on the gradient and its bias at the start and the end of a changing policy."""
    start, end, note = certificate.start, certificate.end, certificate.end_note
    lines = []
    for label, bias in (("at the start", start), (note, end)):
        if bias is not None:
            norms = f"{format_number(bias.gradient_norm)} and |b| = {format_number(bias.bias_norm)}"
            lines.append(f"{label} |grad J| = {norms}, with J = {format_number(bias.objective)}")
    if end is None:
        return [*lines, f"b(theta): {note}"] if note else lines
    inside = "in" if certificate.reached else "not in"
    lines[-1] += f": {inside} {{|grad J| <= |b|}} up to {TOLERANCE:g} of |grad J| at the start"
    return lines


def show_prediction(title: str, step_size: float | None, prediction: Json) -> None:
    """Prints the exact curve, its limit and the stable step sizes."""
    out = console()
    name = next(key for key in prediction if key.endswith("_rmse"))
    out.print(styled((title, "bold")))
    steps, errors = prediction["steps"], prediction[name]
    indices = {n for n, step in enumerate(steps) if step in (0, steps[-1])}
    indices |= {int(np.abs(steps - 10**power).argmin()) for power in range(len(str(steps[-1])))}
    rows = [(f"{steps[n]:,}", format_number(errors[n])) for n in sorted(indices)]
    rows.append(("limit", format_number(prediction["limit"])))
    columns = ("steps", f"{name.removesuffix('_rmse')} error, root mean square")
    out.print(new_table("", columns, rows))
    facts = new_table("", ("", "", ""), num_left=3)
    suffix = "" if step_size is None else f" at {step_size:g}"
    for sense, key in (("mean", "stable_in_mean"), ("mean square", "stable_in_mean_square")):
        if f"is_{key}" in prediction:
            verdict = f"{'stable' if prediction[f'is_{key}'] else 'not stable'}{suffix}"
            sizes = describe_intervals(prediction[key]) if key in prediction else ""
            facts.add_row(f"stable in {sense}", sizes, verdict)
    if "lyapunov" in prediction:
        lyapunov, verdict = prediction["lyapunov"], "undecided"
        verdict = "stable" if lyapunov.high < 0 else "not stable" if lyapunov.low > 0 else verdict
        interval = f"{lyapunov.estimate:.3g}"
        if lyapunov.low < lyapunov.high:
            interval += f" ({lyapunov.low:.3g} to {lyapunov.high:.3g})"
        exponent = f"estimated Lyapunov exponent {interval}"
        facts.add_row("stable almost surely", exponent, f"{verdict}{suffix}")
    if prediction["best_step_size"] is not None:
        best, error = prediction["best_step_size"], prediction["best_rmse"]
        if error > (1.0 - NEGLIGIBLE) * errors[0]:
            facts.add_row("best step size", "none lowers the error of the start", "")
        else:
            facts.add_row("best step size", f"{best:.3g}", f"error {format_number(error)}")
    if facts.row_count:
        out.print(facts)


def describe_intervals(intervals: Iterable[tuple[float, float]]) -> str:
    """Returns intervals of step sizes as a person says them."""
    texts = []
    for low, high in intervals:
        if low == 0.0:
            texts.append(f"step sizes below {high:.4g}" if np.isfinite(high) else "all step sizes")
        else:
            text = f"from {low:.4g} to {high:.4g}" if np.isfinite(high) else f"above {low:.4g}"
            texts.append(text if texts else f"no small step size, only those {text}")
    return " and ".join(texts) or "no step size"


def show_figure(name: str, summary: Json, folder: Path) -> None:
    """Prints the table of a figure, its claims, and the files written."""
    from ..figures import FIGURES, verdicts

    out = console()
    columns, rows = FIGURES[name].table(summary["rows"])
    out.print(new_table(f"{name}: {FIGURES[name].caption}", columns, rows, num_left=2))
    for source, claims in verdicts.by_source(summary["claims"]).items():
        if claims:
            out.print(styled((verdicts.HEADINGS[source], "bold")))
        for claim in claims:
            _show_claim(out, claim)
    for note in verdicts.notes(summary):
        out.print(styled((f"({note})", "dim")), soft_wrap=not out.is_terminal)
    runs = (f"{name} by {' and '.join(engines)}" for name, engines in summary["engines"].items())
    devices = describe_devices(summary["provenance"])
    out.print(styled((f"run: {', '.join(runs)}{devices}", "dim")))
    out.print(f"written to {folder}: {list_names(folder)}")


def describe_devices(provenance: Sequence[Mapping[str, object]]) -> str:
    """Describes what computed results, as far as it is known."""
    devices = dict.fromkeys(str(entry["device"]) for entry in provenance if "device" in entry)
    return f" on {' and '.join(devices)}" if devices else ""


def _show_claim(out: "Console", claim: Json) -> None:
    """Prints the verdict on a claim and a claim, with what supports it."""
    from ..figures import verdicts

    verdict, evidence = verdicts.verdict(claim), claim["evidence"]
    support = [verdicts.describe(evidence)]
    if again := verdicts.describe_independent(evidence):
        support.append(f"on independent runs: {again}")
    color, wrap = COLORS[verdict], not out.is_terminal
    out.print(styled("  ", (f"{verdict:13}", color), f"  {claim['claim']}"), soft_wrap=wrap)
    out.print(styled(f"{'':17}", ("; ".join(support), "dim")), soft_wrap=wrap)


def show_plan(experiment: Experiment, left: Estimate, folder: Path) -> None:
    """Prints what a sweep is about to do, and what the part of it that is left will take."""
    out = console()
    axes = [(name, len(values)) for name, values in experiment.cases.items()]
    axes += [("learner", len({whole.learner for whole in experiment.wholes}))]
    axes += [(name, np.size(values)) for name, values in experiment.grid.items()]
    axes += [("run", experiment.num_runs)]
    sizes = " x ".join(f"{n} {name}" for name, n in axes)
    out.print(styled((experiment.name, "bold"), f": {sizes}"))
    num_cells = sum(whole.num_cells for whole in experiment.wholes)
    cells = f"{num_cells:,} cells of {experiment.num_steps:,} steps"
    units = f"{experiment.num_units:,} units: {experiment.num_updates():.3g} updates"
    out.print(f"{cells} in {units}")
    if left.num_cells < num_cells:
        left_to_do = f"{left.num_cells:,} are left: {left.num_updates:.3g} updates"
        out.print(f"{num_cells - left.num_cells:,} of these cells are done, {left_to_do}")
    if left.num_cells:
        duration = describe_duration(max(1, left.seconds))
        size = _format_bytes(float(left.num_bytes))
        machine = "this machine"
        if experiment.device != "cpu":
            machine += f" ({' and '.join(left.devices)})"
        out.print(f"expected: {duration} on {machine}, {size} in {folder}")


def _format_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def show_status(status: Status, folder: str | Path) -> None:
    """Prints the progress of an experiment: a bar, and what is running, diverged or set aside."""
    out = console()
    _print_bar(out, status.name, status.done / max(1, status.cells), folder)
    finished = f"{status.done:,} of {status.cells:,} cells done in {status.units} units"
    remaining = f"{len(status.running)} units running, {status.left:,} cells left"
    out.print(f"{finished}, {status.diverged:,} of them diverged; {remaining}")
    for name, done, total in status.running:
        out.print(styled((f"running {name}: {100 * done / max(1, total):.0f}%", "dim")))
    for unit in status.aside:
        out.print(styled(("set aside", "red"), f" {unit['unit']}: {unit['reason']}"))


def show_training(status: "TrainingStatus", folder: str | Path) -> None:
    """Prints the progress of a training: a bar, and how many runs diverged."""
    out = console()
    _print_bar(out, status.name, status.done / status.steps, folder)
    size = f"{status.done:,} of {status.steps:,} steps of {status.runs} runs"
    out.print(f"{size} done, {status.diverged:,} runs diverged; {status.left:,} steps left")


def _print_bar(out: "Console", name: str, share: float, folder: str | Path) -> None:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    header = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=1.0, completed=share, width=40)
    header.add_row(styled((name, "bold")), bar, f"{100 * share:.0f}%", str(folder))
    out.print(header)


def show_comparison(title: str, comparison: Json) -> None:
    """Prints learners from the best to the worst, with intervals and paired tests."""
    out = console()
    out.print(styled((title, "bold"), f": {comparison['measure']}"), end=", ")
    out.print(f"{comparison['runs']} runs of {comparison['steps']:,} steps")
    table = new_table("", ("learner", "final error (mean, 95 %)", "area", "diverged"))
    for row in comparison["rows"]:
        final = f"{row['final']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
        diverged = f"{row['diverged_runs']} of {row['runs']}"
        table.add_row(row["learner"], final, f"{row['area']:.4g}", diverged)
    out.print(table)
    for pair in comparison["pairs"]:
        difference = f"{pair['difference']:.3g} ({pair['low']:.3g} to {pair['high']:.3g})"
        wins = f"smaller in {pair['wins']} of {pair['runs']} runs, two-sided"
        names = f"{pair['smaller']} against {pair['larger']}"
        out.print(f"{names}: {difference}; {wins} p = {pair['p_value']:.2g}")


def list_names(folder: Path) -> str:
    """Returns the names of the files in a folder, separated by commas."""
    return ", ".join(sorted(path.name for path in folder.iterdir()))


def show_returns(results: Json) -> None:
    """Prints the returns of policies, a line for each run."""
    out = console()
    caption = f"{results['environment']}, {results['algorithm']} after {results['num_steps']} steps"
    columns = ("seed", "discounted return", "undiscounted return", "steps of an episode")
    table = new_table(f"{caption}: {results['episodes']} episodes", columns)
    for run in results["runs"]:
        cells = (f"{run[name]['mean']:.2f} +- {run[name]['std']:.2f}" for name in list(run)[1:])
        table.add_row(str(run["seed"]), *cells)
    out.print(table)
