"""Commands with exact answers: problems, solve, certify, predict, export."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal

from .parsing import array, options_of, parse, readable, target


@dataclasses.dataclass
class Target:
    """Options of every command."""

    target: str | None = None
    """The target policy: uniform, behavior, or a file (.npy, or text with one row per state)
    with its (state, action) probabilities; by default the problem's own."""


@dataclasses.dataclass
class Solve(Target):
    """Prints the exact quantities of a problem."""

    ridge: float = 0.0
    """The ridge eta of GEM and GQ2."""
    json: bool = False
    """Print JSON, keyed by the names of the oracle's functions."""
    plot: Path | None = None
    """Draw emphasis, values and distribution over states into this file."""


@dataclasses.dataclass
class Certify(Target):
    """Checks the paper's assumptions, and says which theorem covers the set-up."""

    policy: Literal["fixed", "softmax", "tabular", "network"] = "fixed"
    """A fixed target, or what an actor changes: a softmax that is linear in the state-action
    features or in --actor-features, a softmax with a parameter for each state and action, or the
    softmax of a network with 16 hidden units on the state features or on --actor-features."""
    actor_features: Path | None = None
    """A file (.npy, .csv or text) with the state features of the actor, one row per state."""
    theta: Path | None = None
    """A file with the actor's first parameters, where the assumptions are checked; by default 0,
    the uniform policy, or random hidden weights of a network."""
    theta_end: Path | None = None
    """A file with its last parameters, to compare |grad J| and |b| there; by default where the mean
    field of COF-PAC leads a softmax on a small problem."""
    ridge: float | None = None
    """The ridge eta of both critics."""
    step_size: str | None = None
    """The critics' step sizes: 0.1 is constant; 0.1/t^0.7 and 0.1/(1+t/1e4)^0.7 decay."""
    actor_step_size: str | None = None
    """The actor's step sizes, written likewise."""
    damping: float | None = None
    """The C_0 of the paper's damping Gamma; inf is none."""
    tolerance: float | None = None
    """Also find the largest ridge that costs no more than this."""
    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class Predict(Target):
    """Prints the exact learning curve of a learner, where it settles, and what is stable."""

    learner: str = "gem"
    """One of gem, reverse-td, lms (emphasis), gq2, gtd2, tdc, td and etd-exact (values)."""
    step_size: float = 0.025
    """The fixed step size alpha."""
    ridge: float = 0.0
    """The ridge eta of gem and gq2."""
    steps: int = 1_000_000
    """The last of the log-spaced times; 1e9 is as cheap as 1e3."""
    initial: Path | None = None
    """A file (.npy, .csv or text) with the first weights; by default the learner's own, standard
    normal but for the auxiliary kappa, which is 0."""
    best: bool = False
    """Also find the step size with the least error for this many steps."""
    by: Literal["final", "area"] = "final"
    """What is least at the best step size: the last error, or the mean square over all steps."""
    json: bool = False
    """Print JSON: steps, emphasis_rmse or value_rmse, limit, thresholds, lyapunov,
    best_step_size."""
    plot: Path | None = None
    """Draw the curve into this file."""
    runs: int = 0
    """Simulate that many runs as well, and draw their errors as dots into the picture."""


@dataclasses.dataclass
class Export(Target):
    """Writes a problem to a .npz file, which every command accepts as a problem."""

    out: Path = Path("problem.npz")
    """The file to write."""


def problems_command(arguments: list[str]) -> int:
    """Lists the named problems and their options."""
    from rich.markup import escape

    from .._show import console
    from ..problems import NAMED

    if arguments and arguments[0] not in ("-h", "--help"):
        raise ValueError(f"problems: got {arguments[0]!r}; this command takes no arguments")
    out = console()
    for name, build in NAMED.items():
        summary = escape(readable(inspect.getdoc(build) or ""))
        out.print(f"[bold cyan]{name}[/bold cyan]  {summary}")
        for option, (kind, default, words) in options_of(build).items():
            flag = f"--{option.replace('_', '-')}"
            # A truth is switched by its flag alone: show the one that changes the default.
            usage = f"{flag} {default}" if kind is not bool else flag
            usage = f"--no-{option}" if default is True else usage
            values = getattr(kind, "__args__", ())
            choice = f" ({', '.join(map(str, values))})" if values else ""
            out.print(f"    {usage}  [dim]{escape(words + choice)}[/dim]")
    return 0


def solve_command(arguments: list[str]) -> int:
    problem, options, title = parse("solve", Solve, arguments)
    from .. import _show
    from ..solve import solve

    if options.plot is not None:
        _show.require_picture(options.plot)
    exact, notes = solve(problem, target(problem, options.target), options.ridge)
    if options.plot is not None:
        _show.draw(options.plot, title, problem, exact)
    if options.json:
        labels = {"problem": title, "labels": problem.labels}
        print(_show.as_json({**labels, **exact, "notes": notes}))
    else:
        _show.show_solution(title, problem, exact, notes)
    return 0


def certify_command(arguments: list[str]) -> int:
    problem, options, title = parse("certify", Certify, arguments)
    _require_actor(options)
    from .. import _show, schedules
    from ..certify import certify

    def schedule(name):
        text = getattr(options, name)
        try:
            return None if text is None else schedules.parse(text)
        except ValueError as error:
            raise ValueError(f"--{name.replace('_', '-')}: {error}") from None

    theta, theta_end = (
        None if path is None else array(name, path, 1)
        for name, path in (("theta", options.theta), ("theta_end", options.theta_end))
    )
    fixed = options.policy == "fixed"
    certificate = certify(
        problem,
        target(problem, options.target) if fixed else _policy(problem, options),
        ridge=options.ridge,
        step_size=schedule("step_size"),
        actor_step_size=schedule("actor_step_size"),
        damping=options.damping,
        theta=theta,
        tolerance=options.tolerance,
        theta_end=theta_end,
    )
    if options.json:
        verdict = {name: getattr(certificate, name) for name in ("covered", "advice", "reached")}
        print(_show.as_json({"problem": title, **verdict, **vars(certificate)}))
    else:
        _show.show_certificate(title, certificate)
    return 0 if certificate.covered else 1


def _require_actor(options: Certify) -> None:
    """A `ValueError` if an option is of no use for the policy."""
    kind, given = options.policy, {key for key, value in vars(options).items() if value is not None}
    if kind == "fixed":
        for name in ("actor_features", "theta", "theta_end", "actor_step_size", "damping"):
            if name in given:
                raise ValueError(f"{name}: a fixed target has no actor; give --policy softmax")
    elif "target" in given:
        raise ValueError(f"target: a {kind} policy has none; give --theta, or --policy fixed")
    elif kind == "tabular" and "actor_features" in given:
        raise ValueError("actor_features: a tabular policy has none; give --policy softmax")


def _policy(problem, options: Certify):
    """The policy that an actor changes."""
    from .. import _checks as checks
    from ..agents import linear, NetworkSoftmax, over_states, tabular

    states, actions = problem.behavior.shape
    x = None
    if options.actor_features is not None:
        x = checks.finite("actor_features", array("actor_features", options.actor_features, 2))
        if x.ndim != 2 or len(x) != states:
            raise ValueError(
                f"actor_features: got shape {x.shape}; ({states}, k) is required, a row per state"
            )
    if options.policy == "network":
        return NetworkSoftmax(problem.dense_features[0] if x is None else x, actions)
    if options.policy == "tabular":
        return tabular(problem)
    return linear(problem) if x is None else over_states(x, actions)


def predict_command(arguments: list[str]) -> int:
    problem, options, title = parse("predict", Predict, arguments)
    from .. import _show
    from ..prediction import draw, maker, prediction, simulated

    if options.plot is not None:
        _show.require_picture(options.plot)
    if options.runs < 0 or (options.runs and options.plot is None):
        raise ValueError(f"runs: got {options.runs}; a number >= 0, and --plot for the dots")
    if options.runs and options.initial is not None:
        raise ValueError("runs: simulated ones start as the learner does; leave out --initial")
    policy = target(problem, options.target)
    make, measure = maker(problem, policy, options.learner, options.ridge)
    initial = None if options.initial is None else array("initial", options.initial, 1)
    learner = make(options.step_size)
    found = prediction(
        problem,
        make,
        options.step_size,
        options.steps,
        measure=measure,
        target=policy,
        initial=initial,
        best=options.by if options.best else None,
    )
    words = f"{title}, {options.learner}, step size {options.step_size:g}"
    if options.plot is not None:
        dots = None
        if options.runs:
            dots = simulated(problem, learner, options.steps, options.runs, measure, policy)
        draw(options.plot, words, found, dots)
    if options.json:
        print(_show.as_json(found))
    else:
        _show.show_prediction(words, options.step_size, found)
    return 0


def export_command(arguments: list[str]) -> int:
    problem, options, title = parse("export", Export, arguments)
    from ..problems import save

    if options.target is not None:
        problem = dataclasses.replace(problem, target=target(problem, options.target))
    save(problem, options.out)
    print(f"{title}: written to {options.out}")
    return 0
