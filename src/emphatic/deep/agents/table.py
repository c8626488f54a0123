"""The table of agents, by the names that a person types."""

from collections.abc import Callable

from ..._validation import unknown
from ..policies import Policy
from .actor_critic import ace, cof_pac, off_pac
from .agent import Agent, Setting
from .geoff_pac import geoff_pac
from .td3 import td3

AGENTS: dict[str, Callable[..., Agent]] = {
    "cof-pac": cof_pac,
    "ace": ace,
    "off-pac": off_pac,
    "geoff-pac": geoff_pac,
    "td3": td3,
}
"""All agents by name: functions of a policy, and of settings of their own."""


def make_agent(algorithm: str, policy: Policy, **settings: Setting) -> Agent:
    """Makes an agent by the name of its algorithm in [AGENTS], with settings of the algorithm."""
    if algorithm not in AGENTS:
        raise unknown("algorithm", algorithm, AGENTS)
    return AGENTS[algorithm](policy, **settings)
