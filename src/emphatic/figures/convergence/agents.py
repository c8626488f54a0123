"""The agents of the figure on convergence, with their settings as data."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from ..._files import checksum
from ...agents.actor_critic import actor_critic
from ...agents.policies import over_states, Softmax, tabular
from ...experiments.experiment import Experiment
from ...experiments.tracking import track_agents
from ...learners import followon, gem, gq2
from ...mdp import Problem
from ...problems.baird import baird, Features
from ...problems.counterexample import ACTOR_FEATURES, counterexample
from ...problems.garnet import garnet
from ...schedules import Polynomial, polynomial
from ...types import Agent, Learner, Number, State, Transition

NUM_RECORDS = 200
ALGORITHMS = ("cof-pac", "ace", "off-pac")


@dataclass(frozen=True)
class Setting:
    """A problem, an actor and its critics' settings; the first ridge is the one drawn."""

    problem: str
    features: str
    build: Callable[[], Problem]
    policy: Softmax
    critics: Polynomial
    actor: Polynomial
    ridges: tuple[float, ...]
    num_steps: int
    theta: tuple[float, ...] | None = None
    delay: int = 0
    algorithms: tuple[str, ...] = ALGORITHMS
    off_pac_speed: float = 1.0

    @property
    def name(self) -> str:
        """The title of its panel."""
        return self.problem if self.problem != "baird" else f"Baird, {self.features}"

    @property
    def start(self) -> Float[np.ndarray, " p"]:
        """The initial parameters."""
        zeros = np.zeros(self.policy.num_parameters)
        return zeros if self.theta is None else np.asarray(self.theta, np.float64)

    def clock(self, times: Integer[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
        r"""$\sum_{k<t}\beta_k$, the time along which a mean field is followed, at times $t$."""
        sums = np.concatenate([[0.0], np.cumsum(self.actor(np.arange(float(times.max()))))])
        return sums[times]

    def agent(self, problem: Problem, algorithm: str, ridge: Number) -> Agent:
        """Returns Algorithm 1, or the same with the trace or the interest in place of GEM."""
        speed = self.off_pac_speed if algorithm == "off-pac" else 1.0
        sources = {"cof-pac": gem(self.critics, ridge), "ace": followon(), "off-pac": followon(0)}
        return actor_critic(
            problem,
            self.policy,
            _start_at_zero(sources[algorithm]),
            _start_at_zero(gq2(self.critics, ridge)),
            replace(self.actor, scale=speed * self.actor.scale),
            delay=self.delay,
            theta=self.start,
        )

    def experiment(self, name: str) -> Experiment:
        """Returns the experiment of all algorithms at all ridges."""

        def learners(problem: Problem) -> dict[str, Callable[..., Agent]]:
            return {
                algorithm: lambda ridge, algorithm=algorithm: self.agent(problem, algorithm, ridge)
                for algorithm in self.algorithms
            }

        return Experiment(
            name,
            lambda problem, features: self.build(),
            {"problem": (self.problem,), "features": (self.features,)},
            learners,
            ("weights",),
            self.num_steps,
            {"ridge": np.array(self.ridges)},
            num_records=NUM_RECORDS,
            derive=lambda problem, dataset: track_agents(problem, learners(problem), dataset),
            definitions={name: f"paths({self.definition(name)})" for name in self.algorithms},
        )

    def definition(self, algorithm: str) -> str:
        """Describes all that an agent depends on besides its problem and its ridge."""
        policy = checksum("policy", {"features": np.asarray(self.policy.features)})[:16]
        speed = self.off_pac_speed if algorithm == "off-pac" else 1.0
        rates = f"critics={self.critics}, actor={speed:g}*{self.actor}, delay={self.delay}"
        start = [float(value) for value in self.start]
        return f"{algorithm}, {rates}, from zero, policy={policy}, theta={start}"


def _start_at_zero(learner: Learner[State, Transition]) -> Learner[State, Transition]:
    """Returns the same learner with weights that start at 0."""
    return replace(learner, init=lambda key, y: jax.tree.map(jnp.zeros_like, learner.init(key, y)))


# The counterexample: tabular critics, an actor that cannot tell two states apart

ALIASED = over_states(ACTOR_FEATURES, 2)
NINE_TO_ONE = tuple(np.log([9.0, 9.0, 1.0, 1.0]))  # pi(a0) = 0.9

EPISODIC = Setting(
    "counterexample",
    "tabular",
    counterexample,
    ALIASED,
    critics=polynomial(0.1, 0.6, 1e4),
    actor=polynomial(0.02, 0.9, 1e4),
    ridges=(1e-3, 1e-5, 1e-1),
    num_steps=200_000,
    theta=NINE_TO_ONE,
)
CONTINUING = replace(
    EPISODIC,
    problem="counterexample-continuing",
    build=lambda: counterexample(continuing=True),
    actor=polynomial(4e-4, 0.9, 1e4),
    ridges=(1e-3, 1e-5),
    num_steps=1_000_000,
)
LONGER = replace(CONTINUING, ridges=(1e-5,), num_steps=3_000_000, algorithms=("cof-pac",))
"""A narrow band of the bias takes longer to reach."""
_COF_PAC = replace(EPISODIC, ridges=(1e-3,), algorithms=("cof-pac",))
WARNINGS = {
    "as above": _COF_PAC,
    "from theta = 0": replace(_COF_PAC, theta=None),
    "from theta = 0, the actor waits": replace(_COF_PAC, theta=None, delay=100_000),
    "a fast actor": replace(_COF_PAC, actor=polynomial(0.5, 0.9, 1e4)),
    "a large ridge": replace(_COF_PAC, ridges=(1e-1,)),
}
"""COF-PAC on the episodic counterexample, with one setting changed in each."""

# Baird's counterexample: one parameter of the actor for each state and action

SCALES: dict[Features, float] = {
    "original": 0.0125,
    "one-hot": 0.1,
    "zero-hot": 0.00625,
    "aliased": 0.025,
}
_TABULAR = tabular(baird())
BAIRD = tuple(
    Setting(
        "baird",
        features,
        lambda features=features: baird(features),
        _TABULAR,
        critics=polynomial(scale, 0.6, 1e5),
        actor=polynomial(1e-2, 0.9, 1e5),
        ridges=(1e-3,),
        num_steps=1_000_000,
    )
    for features, scale in SCALES.items()
)

# Garnets: an actor that cannot tell pairs of states apart, nor perhaps can an emphasis critic

NUM_STATES, NUM_GARNETS, DISCOUNT = 8, 10, 0.9
_PAIRS = np.repeat(np.eye(NUM_STATES // 2), 2, axis=0)
_PAIRWISE = over_states(_PAIRS, 2)


def aliased_garnet(seed: int, features: str) -> Problem:
    """Returns a Garnet with tabular values, its emphasis critic tabular or aliased as the actor."""
    problem = garnet(NUM_STATES, 2, 2, num_features=1, discount=DISCOUNT, greediness=0.5, seed=seed)
    x = np.eye(NUM_STATES) if features == "tabular" else _PAIRS
    xa = np.eye(2 * NUM_STATES).reshape(NUM_STATES, 2, -1)
    return Problem(problem.mdp, problem.behavior, problem.interest, x, xa)


GARNETS = tuple(
    Setting(
        f"garnet-{seed}",
        features,
        lambda seed=seed, features=features: aliased_garnet(seed, features),
        _PAIRWISE,
        critics=polynomial(0.2, 0.6, 1e4),
        actor=polynomial(5e-3, 0.9, 1e4),
        ridges=(1e-4,),
        num_steps=600_000,
        algorithms=ALGORITHMS if features == "tabular" else ("cof-pac",),
        off_pac_speed=1.0 / (1.0 - DISCOUNT),  # the mean emphasis: none wins by larger steps
    )
    for features in ("tabular", "aliased")
    for seed in range(NUM_GARNETS)
)
SETTINGS = (EPISODIC, CONTINUING, *BAIRD, *GARNETS)
