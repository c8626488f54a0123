"""How answers look: tables for people, JSON for machines, a picture."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from .certify import Certificate
from .mdp import Problem
from .solve import FixedPoint

MOST_ROWS = 64  # states that are listed one by one
LEARNERS = {
    "gem_system": ("GEM", "m"),
    "gq2_system": ("GQ2", "q"),
    "gtd2_system": ("GTD2", "v"),
    "tdc_system": ("TDC", "v"),
    "etd_system": ("ETD(0)", "v"),
    "td_system": ("TD(0)", "v"),
    "reverse_td_system": ("reversed TD(0)", "m"),
}
COLORS = {"holds": "green", "fails": "red", "cannot be decided": "yellow"}


def number(value: float | None) -> str:
    """Six significant digits; a dash for what is not known."""
    return "-" if value is None or np.isnan(value) else f"{value:.6g}"


def plain(value: Any) -> Any:
    """A value as JSON can hold it: infinities are strings, NaN is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        if np.isnan(value):
            return None
        if np.isinf(value):
            return "inf" if value > 0 else "-inf"
    return value


def as_json(value: dict[str, Any]) -> str:
    """JSON without NaN or Infinity, one key on a line."""
    lines = [
        f"  {json.dumps(key)}: {json.dumps(entry, allow_nan=False)}"
        for key, entry in plain(value).items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"


def console():
    """A console that does not fold tables when the output is a file."""
    from rich.console import Console

    wide = Console(highlight=False)
    return wide if wide.is_terminal else Console(highlight=False, width=160)


def _table(title: str, *columns: str, left: int = 1):
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k < left else "right", no_wrap=True)
    return table


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
        table = _table("", "state", *columns)
        for s, label in enumerate(problem.labels):
            table.add_row(str(label), *(number(column[s]) for column in columns.values()))
    else:
        table = _table("", "over states", *columns)
        d = exact["stationary"]
        for name, of in (
            ("smallest", np.nanmin),
            ("mean under d", lambda y: d[~np.isnan(y)] @ y[~np.isnan(y)]),
            ("largest", np.nanmax),
        ):
            table.add_row(name, *(number(of(column)) for column in columns.values()))
    out.print(table)

    facts = _table("", "", "", left=2)
    facts.show_header = False
    contraction = exact["contraction"].modulus
    facts.add_row("objective J", number(exact["objective"]))
    if "followon_radius" in exact:
        radius = exact["followon_radius"]
        finite = np.isfinite(exact["followon_variance"]).all()
        verdict = "finite variance" if finite else "infinite variance"
        facts.add_row("radius of the trace's second moment", f"{number(radius)} ({verdict})")
    facts.add_row("contraction modulus (Proposition 1)", number(contraction))
    if "truncation_length" in exact:
        length = exact["truncation_length"]
        words = "none is stable" if length is None else f"{length} ratios and more"
        facts.add_row("truncated emphasis stable from", words)
    out.print(facts)

    table = _table("", "learner", "learns", "error of limit", "slowest mode", "", left=1)
    for name, (learner, letter) in LEARNERS.items():
        if name in exact:
            point: FixedPoint = exact[name]
            remark = "" if point.unique else "singular: least-norm limit"
            if point.slowest is not None and point.slowest < -1e-12:
                remark = "diverges" + (f"; {remark}" if remark else "")
            slowest = point.slowest
            slowest = 0.0 if slowest is not None and abs(slowest) < 1e-12 else slowest
            table.add_row(learner, letter, number(_tidy(point.error)), number(slowest), remark)
    out.print(table)
    for note in notes:
        out.print(f"[yellow]note[/yellow]: {note}", markup=True)


def _tidy(error: float) -> float:
    return 0.0 if error < 1e-9 else error


def show_certificate(title: str, certificate: Certificate) -> None:
    """Prints a certificate."""
    from rich.markup import escape

    out = console()
    out.print(f"[bold]{title}[/bold]")
    table = _table("", "assumption", "says that", "verdict", "because", left=4)
    for column in table.columns[1::2]:
        column.no_wrap, column.overflow = False, "fold"
    for row in certificate.rows:
        words = escape(row.figure)
        if row.remedy:
            words += f" [dim]→ {escape(row.remedy)}[/dim]"
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
        out.print(f"ridge: {escape(certificate.ridge_note)}")
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
    covering = [t.name for t in certificate.theorems if t.covers and t.converges]
    verdict = f"covered by {', '.join(covering)}" if covering else escape(certificate.advice)
    out.print(f"[bold]verdict[/bold]: {verdict}")


def require_picture(path: Path) -> None:
    """A `ValueError` unless a picture can be written there; asked before anything is computed."""
    import matplotlib.figure

    known = matplotlib.figure.Figure().canvas.get_supported_filetypes()
    kind = path.suffix.lower().lstrip(".")
    if kind not in known:
        raise ValueError(f"plot: {path} ends in {kind!r}; one of {', '.join(known)} is required")
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
    finite = np.isfinite(deviation)
    for ax, name, values, color in zip(
        axes,
        ("emphasis m", "value v", "distribution d"),
        (exact["emphasis"], exact["values"], exact["stationary"]),
        ("tab:red", "tab:blue", "tab:gray"),
        strict=True,
    ):
        position = np.arange(len(states))
        if few:
            ax.bar(position, values, color=color, width=0.7)
            ax.set_xticks(position, [str(label) for label in states])
        else:
            ax.plot(position, values, ".", color=color, markersize=2, rasterized=True)
        ax.set_ylabel(name)
        ax.spines[["top", "right"]].set_visible(False)
    if few and finite.any():
        low, spread = exact["emphasis"][finite], deviation[finite]
        axes[0].errorbar(
            np.flatnonzero(finite), low, spread, fmt="none", ecolor="black", capsize=3, lw=1
        )
    what = "bars: one standard deviation of the followon trace" if few else ""
    if not finite.all():
        what = "the followon trace has infinite variance"
        what += " where no bar is drawn" if few and finite.any() else ""
    axes[0].set_title(what, fontsize=9, loc="right")
    axes[-1].set_xlabel("state")
    figure.savefig(path, dpi=150)
