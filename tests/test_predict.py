"""Exact curves agree with all paths, with closed forms and with simulation."""

import dataclasses
import itertools
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from emphatic import agents, learners, MDP, oracle, predict, Problem, problems, schedules
from emphatic.engine import Measure, run
from emphatic.predict import moments
from emphatic.predict.affine import family

from . import transcriptions
from .plainly import plainly
from .strategies import build
from .test_learners import CONTRACT

ALPHA, ETA = 0.1, 0.3
AFFINE = [name for name in CONTRACT if name not in ("etd", "gem-etd", "etq")]
FEATURES = ("original", "one-hot", "zero-hot", "aliased")


def made(name, problem, target):
    """A learner of the contract table, with the step size and the ridge given there."""
    return CONTRACT[name][0](transcriptions.emphasis(problem, target))


def steps(problem, target, s, a):
    """All that can happen from a state and an action on: its probability, and what is seen."""
    known, actions = transcriptions.outcomes(problem), problem.behavior.shape[1]
    for _, s_next, p, r, gamma in known[s * actions + a]:
        for a_next in range(actions):
            y = SimpleNamespace(t=0, s=s, a=a, r=r, gamma=gamma, s_next=s_next, a_next=a_next)
            yield p * problem.behavior[s_next, a_next], *transcriptions.seen(problem, target, [y])


def squared_error(problem, target, name, measure):
    """The square of the error, a function of the weights and the transition, written out."""
    plain, m = plainly(problem, target), transcriptions.emphasis(problem, target)
    v = np.linalg.solve(np.eye(len(plain.d)) - plain.gP, plain.r)
    q = np.linalg.solve(np.eye(len(plain.r_actions)) - plain.gP_actions, plain.r_actions)
    if measure == "emphasis":
        predicted = transcriptions.LEARNERS[name][2]
        return lambda d, y, p: (predicted(d, y, p) - m[y.s]) ** 2
    if name == "gq2":
        return lambda d, y, p: np.diag(plain.D_actions) @ (plain.xa @ d["u"] - q) ** 2
    return lambda d, y, p: plain.d @ (plain.x @ d["nu"] - v) ** 2


def enumerated(problem, target, name, measure, labels, points, num_steps):
    """Mean, second moments and mean squared error at each time, by a walk along all paths."""
    update, size = transcriptions.LEARNERS[name][1], len(labels)
    error = squared_error(problem, target, name, measure)
    p = SimpleNamespace(
        alpha=ALPHA, eta=ETA, value=100.0, m=transcriptions.emphasis(problem, target)
    )
    first, square = np.zeros((num_steps + 1, size)), np.zeros(num_steps + 1)
    second = np.zeros((num_steps + 1, size, size))
    pairs = itertools.product(*map(range, problem.behavior.shape))
    follow = {(s, a): list(steps(problem, target, s, a)) for s, a in pairs}

    def walk(chance, d, s, a, t):
        now = np.concatenate([np.zeros(0), *d.values()])
        first[t] += chance * now
        second[t] += chance * np.outer(now, now)
        for share, y in follow[s, a]:
            square[t] += chance * share * error(d, y, p)
            if t < num_steps:
                walk(chance * share, update(d, y, p), y.s_next, y.a_next, t + 1)

    for point in points:
        d = {}
        for label, number in zip(labels, point, strict=True):
            d.setdefault(label.split("[")[0], []).append(number)
        d = {full: np.array(numbers) for full, numbers in d.items()}
        for s, a in follow:
            walk(problem.start[s] * problem.behavior[s, a] / len(points), d, s, a, 0)
    return first, second, square


@pytest.mark.parametrize("name", AFFINE)
def test_the_recursion_is_the_enumeration_of_all_paths(name):
    """With a discount that varies, and a start that is not stationary, to 1e-12."""
    problem, target = build((2, 2, 2, 3), 11, varying=True)
    learner, rng = made(name, problem, target), np.random.default_rng(5)
    labels = predict.affine(problem, learner, target).names
    size, num_steps = len(labels), 2
    center, root = rng.normal(size=size), 0.5 * rng.normal(size=(size, size))
    # A law of 2n points that has this mean, and the covariance root root'.
    points = [center + sign * np.sqrt(size) * column for column in root.T for sign in (-1.0, 1.0)]
    measure = "value" if name in ("gq2", "gtd2", "tdc", "td", "etd-exact") else "emphasis"
    first, second, square = enumerated(
        problem, target, name, measure, labels, points or [center], num_steps
    )
    curve = predict.learning_curve(
        problem,
        learner,
        np.arange(num_steps + 1),
        target=target,
        measure=measure,
        initial=(center, root @ root.T),
    )
    covariance = second - first[:, :, None] * first[:, None, :]
    np.testing.assert_allclose(curve.mean, first, atol=1e-12)
    np.testing.assert_allclose(
        curve.covariance, covariance, atol=1e-12 * (1 + np.abs(second).max())
    )
    np.testing.assert_allclose(curve.rmse**2, square, rtol=1e-12, atol=1e-20)
