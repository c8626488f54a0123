"""Agents: COF-PAC, ACE, Off-PAC, Geoff-PAC and TD3."""

from .actor_critic import (
    ace as ace,
    actor_critic as actor_critic,
    ActorCriticState as ActorCriticState,
    AUTHORS as AUTHORS,
    certain as certain,
    cof_pac as cof_pac,
    Emphasis as Emphasis,
    EmphasisLoss as EmphasisLoss,
    followed as followed,
    leaking as leaking,
    learned as learned,
    off_pac as off_pac,
    PAPER as PAPER,
    restarting as restarting,
    uncorrected as uncorrected,
)
from .agent import (
    Act as Act,
    Agent as Agent,
    AgentState as AgentState,
    describe as describe,
    Diagnostics as Diagnostics,
    mean_loss as mean_loss,
    Networks as Networks,
    rmsprop as rmsprop,
    Setting as Setting,
    Trace as Trace,
)
from .geoff_pac import geoff_pac as geoff_pac, GeoffPACState as GeoffPACState
from .table import AGENTS as AGENTS, make_agent as make_agent
from .td3 import td3 as td3, TD3State as TD3State
