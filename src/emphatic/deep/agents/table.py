"""All agents, by the names that a person types."""

from collections.abc import Callable

from .actor_critic import ace, cof_pac, off_pac
from .agent import Agent
from .geoff_pac import geoff_pac
from .td3 import td3

NAMED: dict[str, Callable[..., Agent]] = {
    "cof-pac": cof_pac,
    "ace": ace,
    "off-pac": off_pac,
    "geoff-pac": geoff_pac,
    "td3": td3,
}
"""From a policy, and settings of its own, to an agent."""
