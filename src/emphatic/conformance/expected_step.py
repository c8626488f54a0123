"""The expected step of an implementation, by enumeration, beside the exact one."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..types import named_leaves, Scalar, Transition
from .claim import Claim
from .implementation import (
    advance,
    as_transition,
    begin,
    FaultError,
    Implementation,
    predict,
    tolerant,
    Weights,
)
from .iterates import COMPILER_OPTIONS
from .trials import as_plain, enumerate_transitions, make_trial, Sizes

SIZES: Sizes = (2, 2, 2)
"""Of a problem so small that every pair of transitions is enumerated."""


class ExpectedStep:
    r"""The mean prediction after two independent transitions of the stationary law.

    That is $\sum_{y,y'}p(y)\,p(y')\,\hat v(z)$ after $y$ and $y'$, for a transition $z$ from each
    state. Learners whose expected steps are the same affine function of the state agree in it,
    whatever their noise is; one step alone would not see what begins at 0.
    """

    def __init__(self, claim: Claim, seed: int):
        self.trial = make_trial(seed, 0, 0.8, SIZES)
        self.probability, seen = enumerate_transitions(self.trial)
        self.transitions = [as_plain(seen, n) for n in range(len(self.probability))]
        first = [int((seen["state"] == s).argmax()) for s in range(SIZES[0])]
        self.probes = [self.transitions[n] for n in first]
        self.learner = claim.make(self.trial.problem, claim.numbers)
        self.initial = self.learner.init(jax.random.key(7), as_transition(self.probes[0]))
        self.exact = self._exact()

    @property
    def weights(self) -> Weights:
        """The first state as arrays by name."""
        return {name: np.array(leaf) for name, leaf in named_leaves(self.initial).items()}

    def _exact(self) -> Float[np.ndarray, " probes"]:
        """Returns the mean predictions of our learner."""
        learner, p = self.learner, jnp.asarray(self.probability)
        ys = jax.tree.map(lambda *rows: jnp.stack(rows), *map(as_transition, self.transitions))
        zs = jax.tree.map(lambda *rows: jnp.stack(rows), *map(as_transition, self.probes))

        def prediction(one: Transition, two: Transition, z: Transition) -> Scalar:
            return learner.predict(learner.step(learner.step(self.initial, one), two), z)

        over_z = jax.vmap(prediction, (None, None, 0))
        over_all = jax.vmap(jax.vmap(over_z, (None, 0, None)), (0, None, None))
        every = jax.jit(over_all, compiler_options=COMPILER_OPTIONS)(ys, ys, zs)
        return np.asarray(jnp.einsum("m,n,mnz->z", p, p, every))

    def difference(self, theirs: Implementation) -> float:
        """Returns how far the mean predictions of an implementation are from the exact ones."""
        mean = np.zeros(len(self.probes))
        ys = list(zip(self.probability, self.transitions, strict=True))
        try:
            with tolerant():
                state = begin(theirs, self.trial, self.weights)
                after = [advance(theirs, state, y) for y in self.transitions]
                for (p, one), (q, y) in product(zip(self.probability, after, strict=True), ys):
                    two = advance(theirs, one, y)
                    mean += p * q * np.array([predict(theirs, two, z) for z in self.probes])
        except FaultError:
            return np.inf
        return float(np.abs(mean - self.exact).max() / np.abs(self.exact).max())
