"""Environments: what an environment is, Reacher in closed form, and Gymnasium's."""

from .environment import (
    clip_actions as clip_actions,
    Environment as Environment,
    Outcome as Outcome,
    State as State,
    uniform_density as uniform_density,
    uniform_steps as uniform_steps,
    Workers as Workers,
)
from .gymnasium import (
    Actions as Actions,
    Behavior as Behavior,
    Observations as Observations,
    play as play,
    record as record,
    Returns as Returns,
)
from .reacher import reacher as reacher, ReacherState as ReacherState
