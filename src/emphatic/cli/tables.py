"""How answers look: tables for people, JSON for machines, a picture."""

from pathlib import Path
from typing import Any

import numpy as np

from ._ends import CLOSE
from ._json import as_json as as_json
from .certify import Certificate
from .mdp import Problem
from .solve import FixedPoint, LEARNERS

MOST_ROWS = 64  # states that are listed one by one
LETTERS = {"emphasis": "m", "values": "v", "action_values": "q"}
COLORS = {"holds": "green", "fails": "red", "cannot be decided": "yellow"}


def number(value: float | None) -> str:
    """Six significant digits; a dash for what is not known."""
    return "-" if value is None or np.isnan(value) else f"{value:.6g}"


def console():
    """A console that does not fold tables when the output is a file."""
    from rich.console import Console

    out = Console(highlight=False)
    if not out.is_terminal:
        out = Console(highlight=False, width=160)
    out.on_broken_pipe = _pipe_closed  # Rich would exit with status 1, which here means something
    return out


def _pipe_closed() -> None:
    raise BrokenPipeError


def new_table(title: str, *columns: str, left: int = 1):
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k < left else "right", no_wrap=True)
    return table


def _print_columns(out, left: list[str], cells: dict[str, list[str]]) -> None:
    """Prints columns, in as many tables as a narrow terminal needs to show every digit."""
    margin = max(map(len, left)) + 2
    parts, used = [{}], margin
    for name, column in cells.items():
        size = 3 + max(map(len, [name, *column]))
        if parts[-1] and used + size > out.width:
            parts.append({})
            used = margin
        parts[-1][name] = column
        used += size
    for part in parts:
        table = new_table("", left[0], *part)
        for row in zip(left[1:], *part.values(), strict=True):
            table.add_row(*row)
        out.print(table)


def show_solution(title: str, problem: Problem, exact: dict[str, Any], notes: list[str]) -> None:
    """Prints what `solve` found."""
    out, mdp = console(), problem.mdp
    discount = f"{mdp.discount:g}" if isinstance(mdp.discount, float) else "varies"
    size = f"{mdp.num_states} states, {mdp.num_actions} actions, {problem.x.shape[1]} features"
    out.print(f"[bold]{title}[/bold]: {size}, discount {discount}")
    deviation = np.sqrt(exact["followon_variance"])
    columns = {
        "d": exact["stationary"],
        "m": exact["emphasis"],
        "sd of trace": deviation,
        "ratio": exact["density_ratio"],
        "v": exact["values"],
    }
    if mdp.num_actions <= 6:
        columns |= {f"q({a})": exact["action_values"][:, a] for a in range(mdp.num_actions)}
    if mdp.num_states <= MOST_ROWS:
        left = ["state", *map(str, problem.labels)]
        cells = {name: list(map(number, column)) for name, column in columns.items()}
    else:
        d = exact["stationary"]
        summaries = {
            "smallest": np.nanmin,
            "mean under d": lambda y: d[~np.isnan(y)] @ y[~np.isnan(y)],
            "largest": np.nanmax,
        }
        left = ["over states", *summaries]
        cells = {
            name: [number(of(column)) for of in summaries.values()]
            for name, column in columns.items()
        }
    _print_columns(out, left, cells)

    facts = new_table("", "", "", left=2)
    facts.show_header = False
    for column in facts.columns:
        column.no_wrap = False
    contraction = exact["contraction"].modulus
    facts.add_row("objective J", number(exact["objective"]))
    if "followon_radius" in exact:
        radius = exact["followon_radius"]
        infinite = np.isinf(exact["followon_variance"]).any()  # NaN is what is too rare to show
        verdict = "infinite variance" if infinite else "finite variance"
        facts.add_row("radius of the trace's second moment", f"{number(radius)} ({verdict})")
    facts.add_row("contraction modulus (Proposition 1)", number(contraction))
    if "truncation_length" in exact:
        length = exact["truncation_length"]
        words = (
            "none is stable" if length is None else f"{length} ratio{'s' * (length != 1)} and more"
        )
        facts.add_row("truncated emphasis stable from", words)
    out.print(facts)

    left = ["learner"]
    cells = {"learns": [], "error of limit": [], "slowest mode": [], "remark": []}
    for name, (learner, truth) in LEARNERS.items():
        if name in exact:
            point: FixedPoint = exact[name]
            remark = "" if point.unique else "singular: least norm"
            if point.slowest is not None and point.slowest < 0:
                remark = "diverges" + (f"; {remark}" if remark else "")
            left.append(learner)
            row = (LETTERS[truth], number(_tidy(point.error)), number(point.slowest), remark)
            for column, cell in zip(cells.values(), row, strict=True):
                column.append(cell)
    if not any(cells["remark"]):
        del cells["remark"]
    _print_columns(out, left, cells)
    for note in notes:
        out.print(f"[yellow]note[/yellow]: {note}", markup=True)


def _tidy(error: float) -> float:
    return 0.0 if error < 1e-9 else error


def show_certificate(title: str, certificate: Certificate) -> None:
    """Prints a certificate."""
    from rich.markup import escape

    out = console()
    out.print(f"[bold]{title}[/bold]")
    table = new_table("", "assumption", "says that", "verdict", "because", left=4)
    for column in table.columns[1::2]:
        column.no_wrap, column.overflow = False, "fold"
    for row in certificate.rows:
        words = escape(row.figure)
        if row.remedy:
            words += f" [dim]-> {escape(row.remedy)}[/dim]"
        color = COLORS[row.verdict]
        table.add_row(row.source, row.statement, f"[{color}]{row.verdict}[/{color}]", words)
    out.print(table)
    for theorem in certificate.theorems:
        if theorem.covers:
            out.print(f"[green]covers[/green]   {theorem.name}: {escape(theorem.claim)}")
        else:
            missing = ", ".join(certificate[key].statement for key in theorem.missing)
            out.print(f"[red]does not[/red] {theorem.name}: needs that {escape(missing)}")
    cost = certificate.ridge_cost
    if cost is None:
        out.print(f"ridge: {escape(certificate.ridge_note)}", soft_wrap=not out.is_terminal)
    else:
        out.print(
            f"ridge {cost.ridge:g} costs: |w*(eta) - w*(0)| = {number(cost.emphasis_distance)} of "
            f"{number(cost.emphasis_norm)}, |u*(eta) - u*(0)| = {number(cost.value_distance)} of "
            f"{number(cost.value_norm)}, bias of the policy gradient {number(cost.gradient_bias)} "
            f"of {number(cost.gradient_norm)}"
        )
        if cost.tolerance is not None:
            out.print(
                f"largest ridge within {cost.tolerance:g}: {number(cost.largest_ridge)} "
                f"(emphasis {number(cost.largest_emphasis_ridge)}, values "
                f"{number(cost.largest_value_ridge)}, gradient "
                f"{number(cost.largest_gradient_ridge)})"
            )
    for words in _of_ends(certificate):
        out.print(escape(words), soft_wrap=not out.is_terminal)
    covering = [t.name for t in certificate.theorems if t.covers and t.converges]
    verdict = f"covered by {', '.join(covering)}" if covering else escape(certificate.advice)
    out.print(f"[bold]verdict[/bold]: {verdict}", soft_wrap=not out.is_terminal)


def _of_ends(certificate: Certificate) -> list[str]:
    """The bias at both ends of a policy that changes, a line for each."""
    start, end, note = certificate.start, certificate.end, certificate.end_note
    lines = []
    for where, bias in (("at the start", start), (note, end)):
        if bias is not None:
            norms = f"{number(bias.gradient_norm)} and |b| = {number(bias.bias_norm)}"
            lines.append(f"{where} |grad J| = {norms}, with J = {number(bias.objective)}")
    if end is None:
        return [*lines, f"b(theta): {note}"] if note else lines
    inside = "in" if certificate.reached else "not in"
    lines[-1] += f": {inside} {{|grad J| <= |b|}} up to {CLOSE:g} of |grad J| at the start"
    return lines


def show_prediction(title: str, step_size: float, found: dict[str, Any]) -> None:
    """Prints what `predict` found."""
    out = console()
    name = next(key for key in found if key.endswith("_rmse"))
    out.print(f"[bold]{title}[/bold]")
    steps, errors = found["steps"], found[name]
    table = new_table("", "steps", f"{name.removesuffix('_rmse')} error, root mean square")
    shown = [n for n, step in enumerate(steps) if step in (0, steps[-1])]
    shown += [int(np.abs(steps - 10**power).argmin()) for power in range(len(str(steps[-1])))]
    for n in sorted(set(shown)):
        table.add_row(str(steps[n]), number(errors[n]))
    table.add_row("limit", number(found["limit"]))
    out.print(table)
    facts = new_table("", "", "", "", left=3)
    facts.show_header = False
    for words, key in (("mean", "mean_threshold"), ("mean square", "mean_square_threshold")):
        verdict = "stable" if step_size < found[key] else "not stable"
        facts.add_row(f"stable in {words} up to step size", f"{found[key]:.4g}", verdict)
    lyapunov = found["lyapunov"]
    verdict = "stable" if lyapunov.high < 0 else "not stable" if lyapunov.low > 0 else "undecided"
    interval = f"{lyapunov.estimate:.3g} ({lyapunov.low:.3g} to {lyapunov.high:.3g})"
    facts.add_row("almost surely: Lyapunov exponent (estimated)", interval, verdict)
    if found["best_step_size"] is not None:
        facts.add_row("best step size", f"{found['best_step_size']:.3g}", "")
    out.print(facts)


def require_picture(path: Path) -> None:
    """A `ValueError` unless a picture can be written there; asked before anything is computed."""
    import matplotlib.figure

    known = matplotlib.figure.Figure().canvas.get_supported_filetypes()
    kind = path.suffix.lower().lstrip(".")
    if kind not in known:
        raise ValueError(f"plot: {path} ends in {kind!r}; one of {', '.join(known)} is required")
    if path.is_dir():
        raise ValueError(f"plot: {path} is a directory; a file is required")
    if not path.parent.is_dir():
        raise ValueError(f"plot: the directory {path.parent} does not exist")


def draw(path: Path, title: str, problem: Problem, exact: dict[str, Any]) -> None:
    """A picture of the emphasis, the values and the distribution over states."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(3, sharex=True)
    states, few = problem.labels, len(problem.labels) <= MOST_ROWS
    deviation = np.sqrt(exact["followon_variance"])
    finite, infinite = np.isfinite(deviation), np.isinf(deviation)
    every = -(-len(states) // 24)  # as many labels as fit beside each other
    for ax, name, values, color in zip(
        axes,
        ("emphasis m", "value v", "distribution d"),
        (exact["emphasis"], exact["values"], exact["stationary"]),
        ("tab:red", "tab:blue", "tab:gray"),
        strict=True,
    ):
        if few:
            position = np.arange(len(states))
            ax.bar(position, values, color=color, width=0.7)
            ax.set_xticks(position[::every], [str(label) for label in states[::every]])
        else:
            ax.plot(states, values, ".", color=color, markersize=2, rasterized=True)
        ax.set_ylabel(name)
        ax.spines[["top", "right"]].set_visible(False)
    if few and finite.any():
        spread = deviation[finite]
        axes[0].errorbar(
            np.flatnonzero(finite),
            exact["emphasis"][finite],
            [np.zeros_like(spread), spread],  # the trace is never negative: nothing lies below 0
            fmt="none",
            ecolor="black",
            capsize=3,
            lw=1,
        )
    remarks = ["whiskers: one standard deviation of the followon trace"] if few else []
    if infinite.any():
        where = "" if infinite.all() else f" at {infinite.sum()} of {len(states)} states"
        remarks = [] if infinite.all() else remarks
        remarks.append(f"the followon trace has infinite variance{where}")
    axes[0].set_title("; ".join(remarks), fontsize=9, loc="right")
    axes[-1].set_xlabel("state")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ValueError(f"plot: {path} cannot be written: {error.strerror}") from None
