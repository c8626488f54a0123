"""The theory of the figure on convergence: where exact fields lead, and what Theorem 3 covers."""

import dataclasses
from functools import cache

import numpy as np

from ... import oracle
from ...certify.certificate import Certificate, certify
from ...mdp import Problem
from ...oracle.mean_field import follow, track
from .agents import Setting, SETTINGS

LONG_TIME = 1e6  # after which a mean field has reached its limit
NEGLIGIBLE = 1e-12  # relative to the largest eigenvalue


@cache
def levels(setting: Setting, ridge: float) -> dict[str, float]:
    r"""Computes $J$ where the mean fields lead from the initial parameters."""
    problem = setting.build()
    objectives = {}
    for field in ("exact-gradient", "cof-pac", "off-pac"):
        theta = follow(problem, setting.policy, setting.start, field, [LONG_TIME], ridge)
        objectives[field] = float(track(problem, setting.policy, theta, ridge)["objective"][0])
    return objectives


@cache
def ascent(
    setting: Setting, ridge: float, num_steps: int, num_records: int
) -> dict[str, np.ndarray]:
    r"""Tracks exact gradient ascent with the actor's step sizes, at the start and the records."""
    problem, times = setting.build(), np.linspace(0, num_steps, num_records + 1).astype(int)
    clock = setting.clock(times)
    theta = follow(problem, setting.policy, setting.start, "exact-gradient", clock)
    return {"time": times, **track(problem, setting.policy, theta, ridge)}


def track_start(setting: Setting, ridge: float) -> dict[str, float]:
    """Computes the objective and the norms of its gradient and bias at the initial parameters."""
    tracked = track(setting.build(), setting.policy, setting.start[None], ridge)
    return {name: float(values[0]) for name, values in tracked.items()}


def conditioning(setting: Setting, ridge: float) -> dict[str, float]:
    r"""Computes the initial relative bias $\|b\|/\|\nabla J\|$ and the time of the critics.

    The time is $1/\min\mathrm{Re}\,\lambda$ over the eigenvalues of the mean matrices of GEM and
    GQ2: the $\sum_t\alpha_t$ that the slowest mode needs.
    """
    problem, start = setting.build(), track_start(setting, ridge)
    target = oracle.probabilities(setting.policy, setting.start)
    systems = (system(problem, target, ridge) for system in (oracle.gem_system, oracle.gq2_system))
    modes = np.concatenate([np.linalg.eigvals(system.matrix).real for system in systems])
    slowest = modes[modes > NEGLIGIBLE * modes.max()].min()  # a mode that never moves is not slow
    return {
        "relative_bias": start["bias_norm"] / start["gradient_norm"],
        "critic_time": 1.0 / float(slowest),
    }


@cache
def _certificate(setting: Setting, ridge: float) -> Certificate:
    problem = setting.build()
    agent = setting.agent(problem, "cof-pac", ridge)
    return certify(problem, agent, theta_end=setting.start)  # the ends are in the rows


def certified_problems() -> dict[str, tuple[Problem, Certificate]]:
    """Returns the problems, with initial policies as targets, and the certificates of COF-PAC."""
    problems = {}
    for setting in SETTINGS:
        target = oracle.probabilities(setting.policy, setting.start)
        problem = dataclasses.replace(setting.build(), target=target)
        label = f"{setting.problem}, {setting.features}"
        problems[label] = problem, _certificate(setting, setting.ridges[0])
    return problems


@cache
def covered_by_theorem_3(setting: Setting, ridge: float) -> tuple[bool, list[str]]:
    """Returns whether Theorem 3 covers a setting, and the assumptions that fail."""
    certificate = _certificate(setting, ridge)
    (theorem,) = (theorem for theorem in certificate.theorems if theorem.name == "Theorem 3")
    return theorem.covers, [certificate[key].statement for key in theorem.missing]
