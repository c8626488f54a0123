"""Commands that answer exactly, without simulation: problems, solve and certify."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal, TYPE_CHECKING

from .._schema import show
from ..agents import linear, NetworkSoftmax, over_states, Softmax, tabular
from ..mdp import Problem
from ..oracle.solution import FixedPoint
from .output import console, styled
from .parsing import load_array, load_target, parse_problem, problem_options, summary_line

if TYPE_CHECKING:
    from ..certify.certificate import Certificate
    from .progress import OnStage


@dataclasses.dataclass
class TargetOptions:
    """Options of every command about one problem and a target policy."""

    target: str | None = None
    """uniform, behavior, or a file of (state, action) probabilities; else the problem's own."""


@dataclasses.dataclass
class SolveOptions(TargetOptions):
    """Print the exact quantities of a problem and the limits of linear learners.

    A target policy in a file is an .npy array, or .csv or plain text with one row per state."""

    ridge: float = 0.0
    """The ridge eta of GEM, GQ2 and the learners of density ratios."""
    trace_decay: float = 0.0
    """The decay lambda of the traces of TD, ETD and other learners of values; ABTD's zeta."""
    ratio_discount: float | None = None
    """The discount of density ratios; else the problem's own, and 0.9 where that varies."""
    learners: tuple[str, ...] = ()
    """Also the limits of these learners as their step sizes go to 0: names or expressions as in
    predict, such as "etd(exact(emphasis), step_size)"."""
    json: bool = False
    """Print JSON, keyed by the names of the functions in emphatic.oracle."""
    plot: Path | None = None
    """Plot the emphasis, the values and the distribution over states to this file."""


@dataclasses.dataclass
class CertifyOptions(TargetOptions):
    """Check the paper's assumptions and say which convergence theorem applies.

    The exit status is 0 if a theorem applies, else 1.

    Without --policy the target is fixed. With it an actor changes the target:

    softmax: linear in the state-action features, or in --actor-features

    tabular: a softmax with one parameter for each state and action

    network: a softmax with 16 hidden units, on the state features or on --actor-features"""

    policy: Literal["fixed", "softmax", "tabular", "network"] = "fixed"
    """The policy that the actor changes; fixed: there is no actor."""
    actor_features: Path | None = None
    """A file (.npy, .csv or text) with the actor's state features, one row per state."""
    theta: Path | None = None
    """A file with the actor's initial parameters; else 0, or random weights for a network."""
    theta_end: Path | None = None
    """A file with its final parameters; else COF-PAC's limit, for a softmax on a small problem."""
    ridge: float | None = None
    """The ridge eta of both critics."""
    step_size: str | None = None
    """The critics' step sizes: 0.1 is constant; 0.1/t^0.7 and 0.1/(1+t/1e4)^0.7 decay."""
    actor_step_size: str | None = None
    """The actor's step sizes, in the same notation."""
    damping: float | None = None
    """The constant C_0 of the paper's damping Gamma; inf: no damping."""
    tolerance: float | None = None
    """Also find the largest ridge whose cost is within this tolerance."""
    json: bool = False
    """Print JSON."""


def problems_command(arguments: list[str]) -> None:
    """List the named problems and their options."""
    from ..problems import NAMED

    if arguments and arguments[0] not in ("-h", "--help"):
        raise ValueError(f"problems: got {arguments[0]!r}; this command takes no arguments")
    out = console()
    for name, build in NAMED.items():
        summary = summary_line(inspect.getdoc(build) or "")
        out.print(styled((name, "bold cyan"), f"  {summary}"))
        for option, (annotation, default, text) in problem_options(build).items():
            flag = f"--{option.replace('_', '-')}"
            usage = f"{flag} {default}" if annotation is not bool else flag
            values = getattr(annotation, "__args__", ())
            choice = f" ({', '.join(map(str, values))})" if values else ""
            if default is True:
                usage, choice = f"{flag}, --no-{option}", f" (default: {flag})"
            out.print(styled(f"    {usage}  ", (text + choice, "dim")))


def solve_command(arguments: list[str]) -> None:
    """Prints the exact quantities of a problem."""
    problem, options, title = parse_problem("solve", SolveOptions, arguments)
    from ..oracle.solution import solve
    from . import plots, tables
    from .progress import run_in_stages

    if options.plot is not None:
        plots.require_plot_file(options.plot)
    policy = problem.require_target(load_target(problem, options.target))
    problem = dataclasses.replace(problem, target=policy)

    def compute(on_stage: "OnStage") -> tuple[dict[str, object], list[str]]:
        on_stage("exact quantities")
        settings = {
            name: getattr(options, name) for name in ("ridge", "trace_decay", "ratio_discount")
        }
        exact, notes = solve(problem, **settings)
        for text in options.learners:
            on_stage(f"limit of {text}")
            exact[text] = _limit(problem, text, options.ridge)
        return exact, notes

    exact, notes = run_in_stages(compute)
    if options.plot is not None:
        plots.draw_solution(options.plot, title, problem, exact)
    if options.json:
        labels = {"problem": title, "labels": problem.labels}
        print(tables.as_json({**labels, **exact, "notes": notes}))
    else:
        tables.show_solution(title, problem, exact, notes)


def _limit(problem: Problem, text: str, ridge: float) -> FixedPoint:
    """Returns where a learner settles as its step size goes to 0."""
    from ..predict import fixed_point
    from .prediction import bind_learner

    try:
        build, _ = bind_learner(problem, text)
        names = inspect.signature(build).parameters
        ridges = {"ridge": ridge} if "ridge" in names else {}
        if "step_size" not in names:
            build(**ridges)  # which may have an error of its own
            raise ValueError("a step size that can go to 0 is required, as in td(step_size)")
        point = fixed_point(problem, lambda step_size: build(step_size=step_size, **ridges))
    except ValueError as error:
        reason = str(error).removeprefix("learner: ")
        raise ValueError(f"learners: {show(text)}: {reason}") from None
    return dataclasses.replace(point, label=text)


def certify_command(arguments: list[str]) -> int:
    """Prints a certificate of a setting; the exit status is 0 if a theorem covers it, else 1."""
    problem, options, title = parse_problem("certify", CertifyOptions, arguments)
    _require_actor(options)
    from .. import schedules
    from ..certify.certificate import certify
    from . import tables
    from .progress import run_in_stages

    def parse_schedule(flag: str, text: str | None) -> schedules.Polynomial | None:
        try:
            return None if text is None else schedules.parse(text)
        except ValueError as error:
            raise ValueError(f"{flag}: {error}") from None

    is_fixed = options.policy == "fixed"

    def compute(on_stage: "OnStage") -> "Certificate":
        on_stage("assumptions and theorems")
        return certify(
            problem,
            load_target(problem, options.target) if is_fixed else _actor_policy(problem, options),
            ridge=options.ridge,
            step_size=parse_schedule("--step-size", options.step_size),
            actor_step_size=parse_schedule("--actor-step-size", options.actor_step_size),
            damping=options.damping,
            theta=load_array("theta", options.theta, 1),
            tolerance=options.tolerance,
            theta_end=load_array("theta_end", options.theta_end, 1),
        )

    certificate = run_in_stages(compute)
    if options.json:
        verdict = {name: getattr(certificate, name) for name in ("covered", "advice", "reached")}
        print(tables.as_json({"problem": title, **verdict, **vars(certificate)}))
    else:
        tables.show_certificate(title, certificate)
    return 0 if certificate.covered else 1


def _require_actor(options: CertifyOptions) -> None:
    """Raises a `ValueError` if an option does not apply to the policy."""
    policy = options.policy
    names = {name for name, value in vars(options).items() if value is not None}
    if policy == "fixed":
        for name in ("actor_features", "theta", "theta_end", "actor_step_size", "damping"):
            if name in names:
                raise ValueError(f"{name}: a fixed target has no actor; give --policy softmax")
    elif "target" in names:
        raise ValueError(f"target: a {policy} policy has none; give --theta, or --policy fixed")
    elif policy == "tabular" and "actor_features" in names:
        raise ValueError("actor_features: a tabular policy has none; give --policy softmax")


def _actor_policy(problem: Problem, options: CertifyOptions) -> Softmax | NetworkSoftmax:
    """Returns the policy that the actor changes."""
    from .. import _validation as checks

    num_states, num_actions = problem.behavior.shape
    x = load_array("actor_features", options.actor_features, 2)
    if x is not None:
        x = checks.finite("actor_features", x)
        if x.ndim != 2 or len(x) != num_states:
            required = f"({num_states}, k) is required, a row per state"
            raise ValueError(f"actor_features: got shape {x.shape}; {required}")
    if options.policy == "network":
        return NetworkSoftmax(problem.dense_features[0] if x is None else x, num_actions)
    if options.policy == "tabular":
        return tabular(problem)
    return linear(problem) if x is None else over_states(x, num_actions)
