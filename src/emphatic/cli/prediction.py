"""The command that computes exact learning curves: predict."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal, TYPE_CHECKING

from .. import _work as work
from ..mdp import Problem
from ..types import LearnerFactory
from .output import report_error
from .parsing import load_array, load_target, parse_problem
from .theory import TargetOptions

if TYPE_CHECKING:
    from ..predict.cost import Cost
    from ..predict.summary import OnProgress

DEFAULT_STEP_SIZE = 0.025
LONG = 10.0  # seconds, from which on the cost is announced
COMPOSED = {
    "etd": "etd(followon(), step_size)",
    "etd-exact": "etd(exact(emphasis), step_size)",
    "gem-etd": "etd(gem(0.025, ridge), step_size)",
    "lms": "lms(followon(), step_size)",
}
"""Learners that need a source of emphasis, with the source that `predict` gives them."""


@dataclasses.dataclass
class PredictOptions(TargetOptions):
    """Compute exact learning curves and stable step sizes, without simulation."""

    learner: str = "gem"
    """gem, reverse-td or lms (emphasis); gq2, gtd2, tdc, td or etd-exact (values); or an
    expression as in compare and in sweeps, such as "gem(0.025)" or "followon()"."""
    step_size: float | None = None
    """The constant step size alpha, by default 0.025; an expression can have its own."""
    ridge: float = 0.0
    """The ridge eta of gem and gq2."""
    measure: Literal["emphasis", "value", "ratio"] | None = None
    """What the error is measured against, if the learner does not say what it estimates."""
    steps: int = 1_000_000
    """The last step of the curve; 1e9 steps cost hardly more than 1e3."""
    initial: Path | None = None
    """A file (.npy, .csv or text) with the initial weights; else the learner's own."""
    stability: bool | None = None
    """Whether to find the stable step sizes, which takes longest; else for up to 100 000 unknowns.
    """
    best: bool = False
    """Also find the step size with the smallest error after that many steps."""
    by: Literal["final", "area"] = "final"
    """Choose the best step size by the final error, or by the mean square over all steps."""
    json: bool = False
    """Print JSON: steps, errors, limit, intervals of stable step sizes, Lyapunov exponent."""
    plot: Path | None = None
    """Plot the curve to this file."""
    runs: int = 0
    """Also simulate this many runs, and plot their errors as dots."""
    yes: bool = False
    """Begin even what takes more than a day."""


def predict_command(arguments: list[str]) -> int:
    """Prints the exact learning curve of a learner and its stable step sizes."""
    problem, options, title = parse_problem("predict", PredictOptions, arguments)
    from ..predict.summary import simulate, summarize
    from . import plots, tables
    from .progress import run_in_stages

    if options.plot is not None:
        plots.require_plot_file(options.plot)
    if options.runs < 0 or (options.runs and options.plot is None):
        raise ValueError(f"runs: got {options.runs}; a number >= 0, and --plot for the dots")
    if options.runs and options.initial is not None:
        raise ValueError("runs: simulated runs start as the learner does; leave out --initial")
    policy = problem.require_target(load_target(problem, options.target))
    problem = dataclasses.replace(problem, target=policy)
    factory, step_size = parse_learner_options(problem, options)
    if options.best and step_size is None:
        raise ValueError(f"best: {options.learner} has no step size")
    initial, measure = load_array("initial", options.initial, 1), options.measure

    def predict(on_progress: "OnProgress") -> dict[str, object]:
        return summarize(
            problem,
            factory,
            step_size,
            options.steps,
            measure=measure,
            initial=initial,
            best_by=options.by if options.best else None,
            stability=options.stability,
            on_start=lambda cost: _announce(cost, options),
            on_progress=on_progress,
        )

    summary = run_in_stages(predict)
    caption = f"{title}, {describe_learner(options.learner, step_size)}"
    if options.plot is not None:
        dots = None
        if options.runs:
            learner = factory(DEFAULT_STEP_SIZE if step_size is None else step_size)
            dots = simulate(problem, learner, options.steps, options.runs, measure=measure)
        plots.draw_prediction(options.plot, caption, summary, dots)
    if options.json:
        print(tables.as_json(summary))
    else:
        tables.show_prediction(caption, step_size, summary)
    return 0


def _announce(cost: "Cost", options: PredictOptions) -> None:
    """Prints what a long prediction takes before it begins; refuses what needs confirmation."""
    work.require_time(f"predict: {cost.unknowns:,} unknowns", cost.seconds, options.yes)
    if cost.seconds < LONG:
        return
    size = f"{cost.unknowns:,} unknowns, {work.describe_bytes(cost.num_bytes)}"
    hint = "; --no-stability takes less" if cost.has_stability else ""
    if options.stability is None and not cost.has_stability:
        hint = "; without the stability, which --stability finds"
    duration = f"about {work.describe_duration(cost.seconds)}"
    report_error(f"{size}, {duration} (Ctrl-C stops{hint})")


def describe_learner(text: str, step_size: float | None) -> str:
    """Returns a learner with its step size, unless its expression says that already."""
    return text if "(" in text or step_size is None else f"{text}, step size {step_size:g}"


def learner_expressions() -> dict[str, str]:
    """Returns the expressions of learners that need only a step size, and of those in COMPOSED."""
    from ..learners import LEARNERS

    expressions = {}
    for name, function in LEARNERS.items():
        parameters = inspect.signature(function).parameters
        required = [p.name for p in parameters.values() if p.default is p.empty]
        if not {*required} - {"step_size"}:
            names = [name for name in ("step_size", "ridge") if name in parameters]
            expressions[name.replace("_", "-")] = f"{name}({', '.join(f'{n}={n}' for n in names)})"
    return expressions | COMPOSED


def bind_learner(problem: Problem, text: str) -> tuple[LearnerFactory, float | None]:
    """Returns what makes a learner from those of step_size and ridge that it has, and its own step
    size, which is a number in its expression."""
    from .. import _validation as checks
    from ..engine.expressions import parse_learner, separate_step_size

    if "(" in text or ":" in text:
        expression, step_size = separate_step_size(text)
    else:
        expressions, name = learner_expressions(), text.replace("_", "-")
        if name not in expressions:
            raise checks.unknown("learner", name, expressions)
        expression, step_size = expressions[name], None
    return parse_learner(expression, ("step_size", "ridge"))(problem), step_size


def parse_learner_options(
    problem: Problem, options: PredictOptions
) -> tuple[LearnerFactory, float | None]:
    """Returns what makes the learner from a step size, and the step size; None if it has none."""
    from .. import _validation as checks

    text, step_size, ridge = options.learner, options.step_size, options.ridge
    checks.ridge(ridge)
    build, own = bind_learner(problem, text)
    if own is not None and step_size is not None:
        raise ValueError(
            f"step_size: got {step_size:g}, but {text} has its own; leave out one of them"
        )
    step_size = own if step_size is None else step_size
    names = inspect.signature(build).parameters
    if ridge and "ridge" not in names:
        with_ridge = [name for name, e in learner_expressions().items() if "ridge" in e]
        if "(" in text:
            raise ValueError(f"ridge: got {ridge:g}, but {text} has its own or none; leave it out")
        raise ValueError(f"ridge: {text} has none; only {', '.join(with_ridge)} have")
    if step_size is not None and "step_size" not in names:
        raise ValueError(f"step_size: got {step_size:g}, but {text} has none; leave it out")
    step_size = DEFAULT_STEP_SIZE if step_size is None and "step_size" in names else step_size
    ridges = {"ridge": ridge} if "ridge" in names else {}
    if "step_size" in names:
        return lambda step_size: build(step_size=step_size, **ridges), step_size
    return lambda step_size: build(**ridges), None
