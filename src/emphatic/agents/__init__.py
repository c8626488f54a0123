"""Policies, and agents that improve them."""

from .actor_critic import (
    ActionValue as ActionValue,
    actor_critic as actor_critic,
    AgentState as AgentState,
    Critic as Critic,
    CriticState as CriticState,
    ExactCritic as ExactCritic,
    Features as Features,
)
from .compatible import compatible as compatible
from .damping import (
    Damping as Damping,
    Konda as Konda,
    undamped as undamped,
    violation as violation,
)
from .exact_critics import (
    exact_action_values as exact_action_values,
    exact_emphasis as exact_emphasis,
)
from .policies import (
    Index as Index,
    linear as linear,
    NetworkSoftmax as NetworkSoftmax,
    over_states as over_states,
    Policy as Policy,
    Softmax as Softmax,
    tabular as tabular,
    Theta as Theta,
)
