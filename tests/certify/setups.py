"""A hundred set-ups, each decided by hand from the conditions of the theorems.

A row says which results cover it: 1, 2 and 3 are the paper's theorems, Y is the result of Yu that
Section 3 cites. Where one does not, the row names the one assumption that stands in its way, and
whether it fails or stays open. What a row does not set is good: a positive ridge, step sizes that
decay like t^-0.6, an actor whose step sizes decay like t^-0.9, and the paper's damping.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from emphatic import learners, MDP, Problem, problems, schedules, Softmax
from emphatic.agents import (
    actor_critic,
    compatible,
    exact_action_values,
    exact_emphasis,
    Konda,
    NetworkSoftmax,
    over_states,
    tabular,
    undamped,
)
from emphatic.problems import ACTOR_FEATURES

FAILS, OPEN = "fails", "cannot be decided"


@dataclass(frozen=True)
class Setup:
    problem: str
    covers: str
    why: str = ""  # what stands in the way of the result in question, "" if nothing does
    verdict: str = FAILS
    settings: dict[str, Any] = field(default_factory=dict)
    policy: str = "fixed"
    result: str = ""  # by default Theorem 3 of an actor, else the first that does not cover


def fixed(problem, covers, why="", verdict=FAILS, result="", **settings):
    return Setup(problem, covers, why, verdict, settings, "fixed", result)


def actor(problem, policy, covers, why="", verdict=FAILS, **settings):
    return Setup(problem, covers, why, verdict, settings, policy)


def agent(name, covers, why="", verdict=FAILS, problem="counterexample"):
    return Setup(problem, covers, why, verdict, {}, f"agent {name}")


# Problems: two states, action 0 stays and 1 changes the state, unless they say otherwise.

SWAP = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
CYCLE = np.stack([np.roll(np.eye(3), 1, axis=1), np.roll(np.eye(3), -1, axis=1)], axis=1)
ONE_WAY = np.roll(np.eye(4), 1, axis=1)[:, None]  # one action, period 4
HALF = np.full((2, 2), 0.5)


def two(p=SWAP, discount: Any = 0.9, x: Any = None, xa: Any = None, **other: Any):
    uniform = np.full(p.shape[:2], 1.0 / p.shape[1])
    other = {"behavior": uniform, "interest": 1.0, "target": uniform} | other
    reward = other.pop("reward", 1.0)
    return Problem(MDP(p, reward, discount), x=np.eye(len(p)) if x is None else x, xa=xa, **other)


def collinear(difference):
    return two(x=[[1.0, 1.0], [1.0, 1.0 + difference]])


def nearly_apart():
    p = SWAP.copy()
    p[:, 1] = [[1.0 - 1e-12, 1e-12], [1e-12, 1.0 - 1e-12]]
    return two(p)


def drift():
    """Against the drift, ten thousand times less likely than with it, for six states."""
    p = np.zeros((6, 1, 6))
    for s in range(6):
        p[s, 0, min(s + 1, 5)] += 1e-4
        p[s, 0, max(s - 1, 0)] += 1.0 - 1e-4
    return two(p)


def varying_where_nothing_goes():
    return two(discount=np.where(SWAP > 0, 0.9, 0.1))


TWICE = np.repeat(np.eye(4), 2, axis=1).reshape(2, 2, 8)  # each state-action feature twice
FREE = np.eye(4).reshape(2, 2, 4)

PROBLEMS: dict[str, Any] = {
    "swap": two,
    "cycle": lambda: two(CYCLE),
    "one way": lambda: two(ONE_WAY),
    "sparse": lambda: Problem(
        MDP(sparse.csr_array(CYCLE.reshape(6, 3)), 1.0, 0.9),
        np.full((3, 2), 0.5),
        1.0,
        sparse.csr_array(np.eye(3)),
        target=np.full((3, 2), 0.5),
    ),
    "nearly apart": nearly_apart,
    "drift": drift,
    "counterexample": lambda: problems.counterexample(continuing=True),
    "episodes": problems.counterexample,
    "random walk": problems.random_walk,
    "boyan": problems.boyan,
    "grid": lambda: problems.grid(3, 2, goal=False),
    "goal": lambda: problems.grid(3, 2),
    "two state": problems.two_state,
    "two state 0.9": lambda: problems.two_state(discount=0.9),
    "two state 5/6": lambda: problems.two_state(discount=5.0 / 6.0),  # A = (5 - 6 gamma)/2 = 0
    "baird original": lambda: problems.baird("original"),
    "baird one-hot": lambda: problems.baird("one-hot"),
    "baird zero-hot": lambda: problems.baird("zero-hot", 0.3),
    "baird aliased": lambda: problems.baird("aliased", 0.05),
    # Features.
    "same column": lambda: two(x=[[1.0, 1.0], [2.0, 2.0]]),
    "plain columns": lambda: two(x=[[1.0, 2.0], [3.0, 4.0]]),
    "zero column": lambda: two(x=[[1.0, 0.0], [1.0, 0.0]]),
    "zero row": lambda: two(CYCLE, x=[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
    "one feature": lambda: two(CYCLE, x=np.ones((3, 1))),
    "three features": lambda: two(x=[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
    "collinear 1e-6": lambda: collinear(1e-6),
    "collinear 1e-9": lambda: collinear(1e-9),
    "tiny": lambda: two(x=1e-9 * np.eye(2)),
    "huge": lambda: two(x=1e8 * np.eye(2)),
    "mixed": lambda: two(x=np.diag([1.0, 1e-7])),
    "x twice": lambda: two(x=np.eye(2).repeat(2, axis=1), xa=FREE),
    "xa twice": lambda: two(xa=TWICE),
    "xa alike": lambda: two(xa=np.ones((2, 2, 1))),
    "xa of one action": lambda: two(xa=FREE[:, :, [0, 2]]),
    # Discounts.
    "no future": lambda: two(discount=0.0),
    "far-sighted": lambda: two(discount=0.999999),
    "array": lambda: two(discount=np.full((2, 2), 0.9)),
    "impossible": varying_where_nothing_goes,
    "varying": lambda: two(discount=np.array([[0.9, 0.8], [0.9, 0.9]])),
    # Behaviours, targets, interests.
    "skips": lambda: two(
        CYCLE, behavior=[[1.0, 0.0], HALF[0], HALF[0]], target=[[1.0, 0.0], HALF[0], HALF[0]]
    ),
    "hardly": lambda: two(behavior=[[1.0 - 1e-8, 1e-8], [0.5, 0.5]]),
    "on policy": lambda: two(behavior=[[0.9, 0.1], [0.2, 0.8]], target=[[0.9, 0.1], [0.2, 0.8]]),
    "stays": lambda: two(target=[[1.0, 0.0], [1.0, 0.0]]),
    "leaves": lambda: two(target=[[0.0, 1.0], [0.0, 1.0]]),
    "one interest": lambda: two(interest=[0.0, 1.0]),
    "large interest": lambda: two(interest=1e6),
    "no reward": lambda: two(reward=0.0),
}
make_problem = cache(lambda name: PROBLEMS[name]())

# Policies and agents.


def softmax_of(theta):
    return jax.nn.softmax(theta, axis=1)


@cache
def make_policy(name: str, problem_name: str) -> Any:
    problem = make_problem(problem_name)
    states, actions = problem.behavior.shape
    return {
        "softmax": lambda: Softmax(problem.dense_features[1]),
        "tabular": lambda: tabular(problem),
        "aliased": lambda: over_states(ACTOR_FEATURES, 2),
        "constant": lambda: Softmax(np.zeros((states, actions, 1))),
        "steep": lambda: Softmax(1e6 * np.random.default_rng(0).normal(size=(states, actions, 2))),
        "network": lambda: NetworkSoftmax(problem.dense_features[0], actions, (2,)),
        "function": lambda: softmax_of,
    }[name]()


def decay(scale, power):
    return schedules.polynomial(scale, power)


def make_agent(name: str, problem_name: str) -> Any:
    problem = make_problem(problem_name)
    policy: Any = make_policy("network" if name == "network" else "aliased", problem_name)
    alpha, beta, eta = decay(1.0, 0.6), decay(1.0, 0.9), 1e-3
    gem, gq2 = learners.gem(alpha, eta), learners.gq2(alpha, eta)
    emphasis: Any = gem
    critic: Any = gq2
    options: dict[str, Any] = {}
    match name:
        case "ace":
            emphasis = learners.followon()
        case "off-pac":
            emphasis = learners.followon(0)
        case "truncated":
            emphasis = learners.followon(5)
        case "semi-gradient":
            emphasis = learners.reverse_td(alpha)
        case "exact emphasis":
            emphasis = exact_emphasis(problem)
        case "exact values":
            critic = exact_action_values(problem)
        case "compatible":
            options = {"features": compatible(problem, policy)}
        case "delay":
            options = {"delay": 1000}
        case "theta":
            options = {"theta": np.array([1.0, -1.0, 0.5, 2.0])}
        case "undamped":
            options = {"damping": undamped}
        case "half damped":
            options = {"damping": (Konda(2.0), undamped)}
        case "ridge of gem":
            critic = learners.gq2(alpha, 0.0)
        case "ridge of gq2":
            emphasis = learners.gem(alpha, 0.0)
        case "float32":
            emphasis = learners.gem(alpha, np.float32(0.25))
            critic = learners.gq2(alpha, jnp.float32(0.25))
        case "constant steps":
            emphasis, critic = learners.gem(0.1, eta), learners.gq2(0.1, eta)
        case "equal timescales":
            beta = decay(1e-3, 0.6)
        case "two timescales":
            critic = learners.gq2(decay(1.0, 0.8), eta)
        case "between":
            critic, beta = learners.gq2(decay(1.0, 0.8), eta), decay(1.0, 0.7)
    return actor_critic(problem, policy, emphasis, critic, beta, **options)


def norm(d):
    return jnp.sqrt(d @ d)


def some_schedule(t):
    return 1.0 / (1.0 + t)


SETUPS = [
    # A fixed target: ridges of every type and none.
    fixed("swap", "12"),
    fixed("swap", "12", ridge=1e-12, step_size="1/t"),
    fixed("swap", "12", ridge=1000, step_size="100/(1+t/1e4)^0.51"),
    fixed("swap", "12", ridge=np.float32(0.5)),
    fixed("swap", "12", ridge=jnp.asarray(0.5), step_size="1/t^0.99"),
    fixed("swap", "Y", "ridge", ridge=0.0),
    fixed("cycle", "Y", "ridge", ridge=np.int64(0), step_size="1/t"),
    fixed("swap", "", "ridge", OPEN, ridge=None),
    fixed("swap", "", "ridge", OPEN, ridge=some_schedule),
    # Step sizes.
    fixed("swap", "", "alpha", OPEN, step_size=None),
    fixed("swap", "", "alpha", OPEN, step_size=some_schedule),
    fixed("swap", "", "alpha", step_size=0.1),
    fixed("swap", "", "alpha", step_size=np.float32(1e-6)),
    fixed("swap", "", "alpha", step_size=jnp.asarray(0.01)),
    fixed("swap", "", "alpha", step_size=1),
    fixed("swap", "", "alpha", step_size="1/t^0.5"),
    fixed("swap", "12", step_size="1/t^0.500001"),
    fixed("swap", "", "alpha", step_size="1/t^1.000001"),
    fixed("cycle", "", "alpha", step_size="1e-9/t^2"),
    fixed("cycle", "", "alpha", step_size="1/(1+t/1e6)^0.4"),
    fixed("cycle", "12", step_size=decay(np.float64(0.3), np.float32(0.75))),
    fixed("swap", "", "alpha", ridge=0.0, step_size=0.1, result="Y"),
    # Each critic for itself.
    fixed("swap", "1", "ridge~", ridge=(1e-3, 0.0)),
    fixed("swap", "2Y", "ridge", ridge=(0.0, 1e-3)),
    fixed("swap", "2", "ridge", OPEN, ridge=(None, 0.1)),
    fixed("swap", "1", "ridge~", OPEN, ridge=(0.1, some_schedule)),
    fixed("swap", "12", ridge=(0.1, 0.2)),
    fixed("swap", "1", "alpha~", step_size=("1/t^0.7", 0.1)),
    fixed("swap", "2", "alpha", step_size=(0.1, "1/t^0.7")),
    fixed("swap", "1", "alpha~", OPEN, step_size=("1/t^0.7", None)),
    fixed("swap", "12", step_size=("1/t^0.6", "5/t^0.9")),
    # Features.
    fixed("baird original", "", "2.C"),
    fixed("baird one-hot", "12"),
    fixed("baird zero-hot", "12"),
    fixed("baird aliased", "12"),
    fixed("baird one-hot", "Y", "ridge", ridge=0.0),
    fixed("two state", "12"),
    fixed("two state 5/6", "12"),
    fixed("two state 5/6", "", "4b.A", ridge=0.0, result="Y"),
    fixed("two state 0.9", "Y", "ridge", ridge=0.0),
    fixed("same column", "", "2.C"),
    fixed("plain columns", "12"),
    fixed("zero column", "", "2.C"),
    fixed("zero row", "12"),
    fixed("one feature", "12"),
    fixed("three features", "", "2.C"),
    fixed("collinear 1e-6", "12"),
    fixed("collinear 1e-9", "12"),
    fixed("collinear 1e-6", "Y", "ridge", ridge=0.0),
    fixed("tiny", "12"),
    fixed("huge", "12"),
    fixed("mixed", "12"),
    fixed("x twice", "2", "2.C"),
    fixed("xa twice", "1", "2.C~"),
    fixed("xa alike", "12"),
    fixed("xa of one action", "12"),
    # Chains and discounts.
    fixed("one way", "12"),
    fixed("sparse", "12"),
    fixed("nearly apart", "12"),
    fixed("drift", "12"),
    fixed("grid", "12"),
    fixed("goal", "", "discount"),
    fixed("random walk", "", "discount"),
    fixed("boyan", "", "discount"),
    fixed("episodes", "", "discount"),
    fixed("no future", "12"),
    fixed("far-sighted", "12"),
    fixed("array", "12"),
    fixed("impossible", "12"),
    fixed("varying", "", "discount"),
    # Behaviours, targets, interests.
    fixed("skips", "", "1.positive"),
    fixed("hardly", "12"),
    fixed("on policy", "12"),
    fixed("stays", "12"),
    fixed("leaves", "12"),
    fixed("one interest", "12"),
    fixed("large interest", "12"),
    fixed("no reward", "12"),
    # An actor: its policy.
    actor("swap", "softmax", "123"),
    actor("swap", "tabular", "123"),
    actor("counterexample", "aliased", "123"),
    actor("swap", "constant", "123"),
    actor("swap", "steep", "123"),
    actor("swap", "network", "", "3", OPEN),
    actor("swap", "function", "", "3", OPEN),
    # Its problem.
    actor("baird one-hot", "softmax", "123"),
    actor("two state", "softmax", "123"),
    actor("collinear 1e-6", "tabular", "123"),
    actor("x twice", "tabular", "2", "2.C"),
    actor("xa twice", "tabular", "1", "2.C~"),
    actor("varying", "tabular", "", "discount"),
    actor("no future", "tabular", "123"),
    # Ridges and step sizes.
    actor("swap", "tabular", "", "ridge", ridge=0.0),
    actor("swap", "tabular", "", "ridge", OPEN, ridge=None),
    actor("swap", "tabular", "1", "ridge~", ridge=(1e-3, 0.0)),
    actor("swap", "tabular", "2", "ridge", ridge=(0.0, 1e-3)),
    actor("swap", "tabular", "123", ridge=(np.float32(0.25), 0.5)),
    actor("swap", "tabular", "", "alpha", step_size=0.1),
    actor("swap", "tabular", "", "alpha", step_size="1/t^0.5"),
    actor("swap", "tabular", "1", "alpha~", step_size=("1/t^0.6", 0.1)),
    actor("swap", "tabular", "2", "alpha", step_size=(np.float32(0.1), "1/t^0.6")),
    actor("swap", "tabular", "", "beta", actor_step_size="1/t^1.2"),
    actor("swap", "tabular", "", "timescales", actor_step_size="1/t^0.6"),
    actor("swap", "tabular", "", "timescales", actor_step_size="1e-9/t^0.6"),
    actor("swap", "tabular", "", "timescales", step_size="1/t", actor_step_size="1/t"),
    actor(
        "swap", "tabular", "", "timescales", step_size="1/(1+t/1e6)^0.8", actor_step_size="1/t^0.7"
    ),
    actor("swap", "tabular", "123", step_size="1e-6/t^0.51", actor_step_size="1e6/t^0.52"),
    actor("swap", "tabular", "123", step_size="1/t^0.99", actor_step_size="1/t"),
    actor(
        "swap",
        "tabular",
        "1",
        "timescales~",
        step_size=("1/t^0.6", "1/t^0.8"),
        actor_step_size="1/t^0.7",
    ),
    actor(
        "swap",
        "tabular",
        "2",
        "timescales",
        step_size=("1/t^0.8", "1/t^0.6"),
        actor_step_size="1/t^0.7",
    ),
    actor("swap", "tabular", "123", step_size=("1/t^0.8", "1/t^0.6"), actor_step_size="1/t^0.85"),
    # Dampings.
    actor("swap", "tabular", "", "damping", OPEN, damping=None),
    actor("swap", "tabular", "", "damping", damping=np.inf),
    actor("swap", "tabular", "", "damping", damping=undamped),
    actor("swap", "tabular", "123", damping=np.float32(1e-6)),
    actor("swap", "tabular", "123", damping=(1, Konda(1e6))),
    actor("swap", "tabular", "", "damping", damping=(10.0, np.inf)),
    actor("swap", "tabular", "", "damping", OPEN, damping=lambda d: 1.0 / (1.0 + norm(d))),
    actor("swap", "tabular", "", "damping", OPEN, damping=lambda d: jnp.exp(-norm(d))),
    actor("swap", "tabular", "", "damping", damping=lambda d: jnp.exp(norm(d))),
    actor("swap", "tabular", "", "damping", damping=lambda d: jnp.maximum(0.0, 1.0 - norm(d))),
    actor("swap", "tabular", "", "damping", damping=lambda d: 0.5),
    # Agents.
    agent("cof-pac", "123"),
    agent("delay", "123"),
    agent("theta", "123"),
    agent("float32", "123"),
    agent("cof-pac", "", "discount", problem="episodes"),
    agent("ace", "", "critics"),
    agent("off-pac", "", "critics"),
    agent("truncated", "", "critics"),
    agent("semi-gradient", "", "critics"),
    agent("exact emphasis", "", "critics"),
    agent("exact values", "", "critics"),
    agent("compatible", "", "critics"),
    agent("network", "", "3", OPEN),
    agent("undamped", "", "damping"),
    agent("half damped", "", "damping"),
    agent("ridge of gem", "1", "ridge~"),
    agent("ridge of gq2", "2", "ridge"),
    agent("constant steps", "", "alpha"),
    agent("equal timescales", "", "timescales"),
    agent("two timescales", "123"),
    agent("between", "1", "timescales~"),
]
