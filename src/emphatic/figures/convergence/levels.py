"""The theory of the figure on convergence: where exact fields lead, and what Theorem 3 covers."""

import dataclasses
from functools import cache

import numpy as np

from ... import oracle
from ...certify.certificate import Certificate, certify
from ...mdp import Problem
from ...oracle.mean_field import follow, track
from .agents import Setting, SETTINGS

FOREVER = 1e6  # the time after which a mean field is where it leads
STILL = 1e-12  # of the largest eigenvalue: what counts as 0


@cache
def levels(setting: Setting, ridge: float) -> dict[str, float]:
    r"""$J$ where the mean fields lead from the first parameters."""
    problem = setting.build()
    objectives = {}
    for field in ("exact-gradient", "cof-pac", "off-pac"):
        theta = follow(problem, setting.policy, setting.start, field, [FOREVER], ridge)
        objectives[field] = float(track(problem, setting.policy, theta, ridge)["objective"][0])
    return objectives


@cache
def ascent(
    setting: Setting, ridge: float, num_steps: int, num_records: int
) -> dict[str, np.ndarray]:
    r"""Exact gradient ascent with the actor's step sizes, at the start and at the records."""
    problem, times = setting.build(), np.linspace(0, num_steps, num_records + 1).astype(int)
    clock = setting.clock(times)
    theta = follow(problem, setting.policy, setting.start, "exact-gradient", clock)
    return {"time": times, **track(problem, setting.policy, theta, ridge)}


def at_start(setting: Setting, ridge: float) -> dict[str, float]:
    """The objective, and the norms of its gradient and of the bias, at the first parameters."""
    path = track(setting.build(), setting.policy, setting.start[None], ridge)
    return {name: float(values[0]) for name, values in path.items()}


def conditioning(setting: Setting, ridge: float) -> dict[str, float]:
    r"""The relative bias $\|b\|/\|\nabla J\|$ at the first parameters, and the time of the critics.

    The time is $1/\min\mathrm{Re}\,\lambda$ over the eigenvalues of the mean matrices of GEM and
    GQ2: the $\sum_t\alpha_t$ that the slowest mode needs.
    """
    problem, start = setting.build(), at_start(setting, ridge)
    target = oracle.probabilities(setting.policy, setting.start)
    systems = (system(problem, target, ridge) for system in (oracle.gem_system, oracle.gq2_system))
    modes = np.concatenate([np.linalg.eigvals(system.matrix).real for system in systems])
    slowest = modes[modes > STILL * modes.max()].min()  # a mode that does not move is not slow
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
    """The problems, with the first policy as their target, and the certificates of COF-PAC."""
    problems = {}
    for setting in SETTINGS:
        target = oracle.probabilities(setting.policy, setting.start)
        problem = dataclasses.replace(setting.build(), target=target)
        label = f"{setting.problem}, {setting.features}"
        problems[label] = problem, _certificate(setting, setting.ridges[0])
    return problems


@cache
def covered_by_theorem_3(setting: Setting, ridge: float) -> tuple[bool, list[str]]:
    """Whether Theorem 3 covers a setting, and otherwise the assumptions that fail."""
    certificate = _certificate(setting, ridge)
    (theorem,) = (theorem for theorem in certificate.theorems if theorem.name == "Theorem 3")
    return theorem.covers, [certificate[key].statement for key in theorem.missing]
