"""The command line. No science: it parses, calls, and shows."""

import contextlib
import dataclasses
import inspect
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints, Literal

import numpy as np

from ._names import unknown

HELP = """\
[bold]emphatic[/bold]: off-policy learning, exactly and at the speed of the hardware

[bold]usage[/bold]: emphatic COMMAND [PROBLEM, FIGURE or FOLDER] [OPTIONS]

[bold]commands[/bold]
  [cyan]problems[/cyan]   list the named problems and their options
  [cyan]solve[/cyan]      print the exact quantities: distribution, values, emphasis, limits
  [cyan]certify[/cyan]    check the assumptions; exit status 0 if a theorem applies, else 1
  [cyan]predict[/cyan]    exact learning curves, stable and best step sizes, without simulation
  [cyan]export[/cyan]     write a problem to a .npz file
  [cyan]reproduce[/cyan]  run the experiments behind a figure of the paper, and draw it
  [cyan]train[/cyan]      train networks on Reacher or on a Gymnasium environment
  [cyan]evaluate[/cyan]   play episodes with a policy that was trained

A PROBLEM is a name from [cyan]emphatic problems[/cyan] or the path of a .npz file.
Its options follow it; [cyan]emphatic COMMAND PROBLEM --help[/cyan] lists them.

[bold]examples[/bold]
  emphatic solve baird --features aliased --solid 0.1
  emphatic solve grid --width 100 --height 100 --json
  emphatic certify baird --features one-hot --ridge 1e-6 --step-size 1/t^0.8
  emphatic predict baird --learner gem --step-size 0.025 --steps 1e6 --best
  emphatic export gymnasium --env Taxi-v4 --out taxi.npz
  emphatic reproduce emphasis --out results
  emphatic train --env Pendulum-v1 --algorithm cof-pac --out pendulum
  emphatic evaluate pendulum --episodes 20

Errors are one line on standard error, with exit status 2.
"""


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


@dataclasses.dataclass
class Reproduce:
    """Runs the experiments behind a figure of the paper; writes data, summary and drawing."""

    runs: int = 30
    """How many runs, each on a stream of experience of its own."""
    seed: int = 0
    """Chooses the streams; different seeds share none."""
    steps: int | None = None
    """Steps of each run; by default as many as in the paper."""
    out: Path = Path("results")
    """The folder for results: DIR/FIGURE/data, figure.png, figure.svg and summary.json."""
    authors: bool = False
    """Follow the authors' code where it differs from the paper."""


@dataclasses.dataclass
class Sweep(Reproduce):
    """Runs the experiments behind a figure of the paper; writes data, summary and drawing.

    The figure `control` has no engine but options of its own; see reproduce control --help."""

    engine: Literal["auto", "fused", "scan"] = "auto"
    """What runs the learners: vector code (fused), JAX (scan), or the former where possible."""


@dataclasses.dataclass
class Control(Reproduce):
    """Trains networks on Reacher; writes data, policies, summary, drawing and a film.

    Geoff-PAC has at most 10 runs and TD3 at most 5, unless all are asked for. After Ctrl-C the same
    command goes on where it was. With --authors their variants of COF-PAC and ACE are added."""

    algorithms: tuple[str, ...] | None = None
    """Which of cof-pac, ace, off-pac, geoff-pac and td3; by default all."""
    env: str = "reacher"
    """Reacher, or the id of a Gymnasium environment; experience is then recorded and kept."""
    full: bool = False
    """As many runs of Geoff-PAC and TD3 as of the others."""


@dataclasses.dataclass
class Train:
    """Trains networks from random or recorded behaviour; writes a policy, curves and experience.

    After Ctrl-C the same command goes on where it was."""

    env: str = "reacher"
    """Reacher, or the id of a Gymnasium environment with Box or Discrete actions."""
    algorithm: str = "cof-pac"
    """One of cof-pac, ace, off-pac, geoff-pac and td3; the last one needs a Box."""
    steps: int = 50_000
    """Environment steps of a run."""
    seeds: int = 1
    """How many runs, side by side."""
    seed: int = 0
    """The first seed; each further run has the next one."""
    out: Path = Path("trained")
    """The folder to write: policy.safetensors, curves.nc and, for Gymnasium, experience."""
    experience: Path | None = None
    """A recording to learn from, in place of uniformly random actions."""
    policy: Literal["gaussian", "truncated", "softmax"] | None = None
    """The kind of policy; by default gaussian for a Box and softmax for Discrete actions."""
    discount: float = 0.99
    """The discount gamma."""
    evaluate_every: int = 1000
    """Steps between evaluations."""
    limit_ends: bool = False
    """Treat a limit of time as the end of the task, as in the paper's experiment."""
    max_steps: int | None = None
    """The longest episode in an evaluation, if the environment has no limit of its own."""
    tensorboard: bool = False
    """Also log to TensorBoard, in the same folder."""


@dataclasses.dataclass
class Evaluate:
    """Plays episodes with a policy that was trained, and prints what they return."""

    episodes: int = 20
    """How many episodes of each run's policy."""
    seed: int = 0
    """What everything random depends on."""
    json: bool = False
    """Print JSON."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0, 1 (not certified) or 2 (bad input)."""
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        return 141  # what a shell reports for SIGPIPE: neither certified nor not
    except (ValueError, OSError) as error:
        print("emphatic: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"emphatic: the problem does not fit in memory: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("emphatic: interrupted", file=sys.stderr)
        return 130


def _run(arguments: list[str]) -> int:
    commands = {
        "problems": _problems,
        "solve": _solve,
        "certify": _certify,
        "predict": _predict,
        "export": _export,
        "reproduce": _reproduce,
        "train": _train,
        "evaluate": _evaluate,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        from ._show import console

        console().print(HELP, end="")
        return 0
    name, *rest = arguments
    if name == "--version":
        from importlib.metadata import version

        print(f"emphatic {version('emphatic')}")
        return 0
    if name not in commands:
        raise unknown("command", name, commands)
    return commands[name](rest)


def _problems(arguments: list[str]) -> int:
    """Lists the named problems and their options."""
    from rich.markup import escape

    from ._show import console
    from .problems import NAMED

    if arguments and arguments[0] not in ("-h", "--help"):
        raise ValueError(f"problems: got {arguments[0]!r}; this command takes no arguments")
    out = console()
    for name, build in NAMED.items():
        summary = escape(_readable(inspect.getdoc(build) or ""))
        out.print(f"[bold cyan]{name}[/bold cyan]  {summary}")
        for option, (kind, default, words) in _options(build).items():
            flag = f"--{option.replace('_', '-')}"
            # A truth is switched by its flag alone: show the one that changes the default.
            usage = f"{flag} {default}" if kind is not bool else flag
            usage = f"--no-{option}" if default is True else usage
            values = getattr(kind, "__args__", ())
            choice = f" ({', '.join(map(str, values))})" if values else ""
            out.print(f"    {usage}  [dim]{escape(words + choice)}[/dim]")
    return 0


def _solve(arguments: list[str]) -> int:
    problem, options, title = _parse("solve", Solve, arguments)
    from . import _show
    from .solve import solve

    if options.plot is not None:
        _show.require_picture(options.plot)
    exact, notes = solve(problem, _target(problem, options.target), options.ridge)
    if options.plot is not None:
        _show.draw(options.plot, title, problem, exact)
    if options.json:
        labels = {"problem": title, "labels": problem.labels}
        print(_show.as_json({**labels, **exact, "notes": notes}))
    else:
        _show.show_solution(title, problem, exact, notes)
    return 0


def _certify(arguments: list[str]) -> int:
    problem, options, title = _parse("certify", Certify, arguments)
    _require_actor(options)
    from . import _show, schedules
    from .certify import certify

    def schedule(name):
        text = getattr(options, name)
        try:
            return None if text is None else schedules.parse(text)
        except ValueError as error:
            raise ValueError(f"--{name.replace('_', '-')}: {error}") from None

    theta, theta_end = (
        None if path is None else _array(name, path, 1)
        for name, path in (("theta", options.theta), ("theta_end", options.theta_end))
    )
    fixed = options.policy == "fixed"
    certificate = certify(
        problem,
        _target(problem, options.target) if fixed else _policy(problem, options),
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
    from . import _checks as checks
    from .agents import linear, NetworkSoftmax, over_states, tabular

    states, actions = problem.behavior.shape
    x = None
    if options.actor_features is not None:
        x = checks.finite("actor_features", _array("actor_features", options.actor_features, 2))
        if x.ndim != 2 or len(x) != states:
            raise ValueError(
                f"actor_features: got shape {x.shape}; ({states}, k) is required, a row per state"
            )
    if options.policy == "network":
        return NetworkSoftmax(problem.dense_features[0] if x is None else x, actions)
    if options.policy == "tabular":
        return tabular(problem)
    return linear(problem) if x is None else over_states(x, actions)


def _predict(arguments: list[str]) -> int:
    problem, options, title = _parse("predict", Predict, arguments)
    from . import _show
    from .prediction import draw, maker, prediction, simulated

    if options.plot is not None:
        _show.require_picture(options.plot)
    if options.runs < 0 or (options.runs and options.plot is None):
        raise ValueError(f"runs: got {options.runs}; a number >= 0, and --plot for the dots")
    if options.runs and options.initial is not None:
        raise ValueError("runs: simulated ones start as the learner does; leave out --initial")
    target = _target(problem, options.target)
    make, measure = maker(problem, target, options.learner, options.ridge)
    initial = None if options.initial is None else _array("initial", options.initial, 1)
    learner = make(options.step_size)
    found = prediction(
        problem,
        make,
        options.step_size,
        options.steps,
        measure=measure,
        target=target,
        initial=initial,
        best=options.by if options.best else None,
    )
    words = f"{title}, {options.learner}, step size {options.step_size:g}"
    if options.plot is not None:
        dots = None
        if options.runs:
            dots = simulated(problem, learner, options.steps, options.runs, measure, target)
        draw(options.plot, words, found, dots)
    if options.json:
        print(_show.as_json(found))
    else:
        _show.show_prediction(words, options.step_size, found)
    return 0


def _export(arguments: list[str]) -> int:
    problem, options, title = _parse("export", Export, arguments)
    from .problems import save

    if options.target is not None:
        problem = dataclasses.replace(problem, target=_target(problem, options.target))
    save(problem, options.out)
    print(f"{title}: written to {options.out}")
    return 0


def _reproduce(arguments: list[str]) -> int:
    program, (name, *rest) = "emphatic reproduce FIGURE", arguments or [""]
    if name in ("-h", "--help"):
        _tyro(Sweep, ["--help"], program)
    from . import _show
    from .figures import FIGURES
    from .figures.reproduce import reproduce

    if name.startswith("-") or not name:
        raise ValueError(f"figure: not given; `{program}` needs one of {', '.join(FIGURES)}")
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    options = _tyro(Control if name == "control" else Sweep, rest, f"emphatic reproduce {name}")
    if name == "control":
        _use_cores(options.runs)
    with _show.progress(name) as progress:
        summary = reproduce(name, progress=progress, **vars(options))
    _show.show_figure(name, summary, options.out / name)
    return 0


def _use_cores(num_runs: int) -> None:
    """Makes every core a device of JAX, which reads this when it first computes."""
    flag, given = "--xla_force_host_platform_device_count", os.environ.get("XLA_FLAGS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if flag not in given:
        os.environ["XLA_FLAGS"] = f"{given} {flag}={max(1, min(cores or 1, num_runs))}".strip()


def _train(arguments: list[str]) -> int:
    options = _tyro(Train, arguments, "emphatic train")
    _use_cores(options.seeds)
    from . import _checks as checks
    from . import _show
    from .deep.policy import trained

    checks.count("steps", options.steps)
    checks.count("seeds", options.seeds)
    checks.seed(options.seed)
    seeds = range(options.seed, options.seed + options.seeds)
    if seeds.stop > 2**32:
        raise ValueError(f"seed: got {seeds.stop - 1}; below 2^32 is required")
    board = _board(options.out / "tensorboard") if options.tensorboard else None

    def watch(steps: int, values: dict[str, np.ndarray]) -> None:
        _show.show_values(steps, options.steps, values)
        if board is not None:
            for name, entries in values.items():
                for seed, value in zip(seeds, entries, strict=True):
                    if np.isfinite(value):  # NaN is what was not measured
                        board.add_scalar(f"{name}/{seed}", float(value), steps)

    others = {**vars(options), "seeds": seeds, "kind": options.policy, "watch": watch}
    try:
        trained(**{k: v for k, v in others.items() if k not in ("seed", "policy", "tensorboard")})
    finally:
        if board is not None:
            board.close()
    print(f"written to {options.out}: {_show.listed(options.out)}")
    return 0


def _board(folder: Path):
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard: tensorboardX is not installed; run pip install 'emphatic[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder))


def _evaluate(arguments: list[str]) -> int:
    program, (path, *rest) = "emphatic evaluate PATH", arguments or [""]
    if path in ("-h", "--help"):
        _tyro(Evaluate, ["--help"], program)
    if path.startswith("-") or not path:
        raise ValueError(f"path: not given; `{program}` needs a folder or a file with a policy")
    options = _tyro(Evaluate, rest, f"emphatic evaluate {path}")
    from . import _checks as checks
    from . import _show
    from .deep.policy import load, played

    checks.count("episodes", options.episodes)
    learned = load(path)
    found = played(learned, options.episodes, options.seed)
    if options.json:
        print(_show.as_json(found))
    else:
        _show.show_returns(found)
    return 0


def _target(problem, name: str | None):
    """The target that an option names; None is the problem's own."""
    if name is None:
        return None
    if name == "behavior":
        return problem.behavior
    if name == "uniform":
        return np.full_like(problem.behavior, 1.0 / problem.behavior.shape[1])
    if not Path(name).exists():
        raise unknown("target", name, ("uniform", "behavior", "a file that exists"))
    return _array("target", Path(name), 2)


def _array(name: str, path: Path, axes: Literal[1, 2]) -> np.ndarray:
    """What a file holds; a text of one row or column has as many axes as are asked for."""
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        with warnings.catch_warnings(action="ignore"):  # an empty file has a wrong shape, too
            comma = "," if path.suffix == ".csv" else None
            return np.loadtxt(path, delimiter=comma, ndmin=axes)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{name}: {path} cannot be read: {error}") from None


def _readable(docstring: str) -> str:
    """The first line of a docstring, its mathematics in plain letters."""
    line = docstring.strip().split("\n")[0]
    line = re.sub(r"\[([A-Za-z_]\w*)\]", r"\1", line)  # a reference; [0, 1] is an interval
    return re.sub(r"[$`{}]|\\(?:mathrm|text)?", "", line)


def _options(build: Callable) -> dict[str, tuple[Any, Any, str]]:
    """The options of a problem's function: type, default and words from its docstring."""
    documented = {}
    for names, words in re.findall(
        r"^- (`\w+`(?:, `\w+`)*): (.*(?:\n  .*)*)", inspect.getdoc(build) or "", flags=re.M
    ):
        for option in re.findall(r"\w+", names):
            documented[option] = _readable(" ".join(words.split()))
    hints = get_type_hints(build)
    return {
        name: (hints[name], parameter.default, documented.get(name, ""))
        for name, parameter in inspect.signature(build).parameters.items()
    }


def _whole(text: list[str]) -> int:
    """A whole number, written 1000000 or 1e6."""
    value = float(text[0])
    if not value.is_integer():
        raise ValueError(f"{text[0]} is not a whole number")
    return int(value)


def _parse(command: str, options: type, arguments: list[str]):
    """The problem, the command's options and a title, from the words after the command."""
    import tyro

    from .problems import builder, NAMED

    if not arguments or arguments[0].startswith("-"):
        if arguments[:1] in (["-h"], ["--help"]):
            _tyro(options, ["--help"], f"emphatic {command} PROBLEM")
        raise ValueError(
            f"problem: not given; `emphatic {command} PROBLEM` needs a .npz file or one of "
            f"{', '.join(NAMED)}"
        )
    name, *rest = arguments
    build = builder(name)
    fields = []
    for option, (kind, default, words) in _options(build).items():
        described = Annotated[kind, tyro.conf.arg(help=words)]
        fields.append((option, described, dataclasses.field(default=default)))
    of_problem = dataclasses.make_dataclass("Problem", fields)
    of_problem.__doc__ = _readable(inspect.getdoc(build) or "")
    both = dataclasses.make_dataclass(
        "Both",
        [
            ("problem", of_problem, dataclasses.field(default_factory=of_problem)),
            (command, options, dataclasses.field(default_factory=options)),
        ],
    )
    both.__doc__ = inspect.getdoc(options)
    parsed = _tyro(both, rest, f"emphatic {command} {name}")
    chosen, default = vars(parsed.problem), vars(of_problem())
    changed = [f"{key}={value}" for key, value in chosen.items() if value != default[key]]
    title = f"{name} ({', '.join(changed)})" if changed else name
    return build(**chosen), getattr(parsed, command), title


def _tyro(kind: type, arguments: list[str], program: str):
    """tyro, with its error boxes turned into one line."""
    import tyro

    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def _(info: tyro.constructors.PrimitiveTypeInfo):
        if info.type is not int:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=_whole,
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [str(value)],
        )

    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(
                kind,
                args=arguments,
                prog=program,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone),
                registry=registry,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        lines = [line.strip("│╭╮╰╯─ ") for line in box.getvalue().splitlines()[1:]]
        words = " ".join(line for line in lines if line.strip("-"))
        words = re.split("Argument helptext|For full helptext", words)[0].strip()
        raise ValueError(f"{words.rstrip('.')} (see {program} --help)") from None
