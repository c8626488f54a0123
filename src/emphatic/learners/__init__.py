"""Learners: each is written once, as the paper prints its update."""

import inspect
from collections.abc import Callable

from ..types import Critic
from .constant import constant as constant
from .cop_td import cop_td as cop_td
from .etd import etd as etd, ETDState as ETDState
from .etq import etq as etq, ETQState as ETQState
from .exact import exact as exact
from .expected_trace import (
    expected_trace as expected_trace,
    ExpectedTraceState as ExpectedTraceState,
)
from .followon import followon as followon, FollowonState as FollowonState
from .gem import gem as gem, GEMState as GEMState
from .gq2 import gq2 as gq2, GQ2State as GQ2State
from .gradient_cop_td import gradient_cop_td as gradient_cop_td
from .gradient_dice import gradient_dice as gradient_dice, GradientDICEState as GradientDICEState
from .gtd2 import gtd2 as gtd2, GTD2State as GTD2State
from .lms import lms as lms, LMSState as LMSState
from .lsgem import lsgem as lsgem, LSGEMState as LSGEMState
from .periodic_etd import periodic_etd as periodic_etd
from .ratio import ratio as ratio
from .restarting import restarting as restarting
from .reverse_td import reverse_td as reverse_td, ReverseTDState as ReverseTDState
from .td import td as td
from .tdc import tdc as tdc, TDCState as TDCState
from .tdec import tdec as tdec
from .tderc import tderc as tderc, TDERCState as TDERCState

LEARNERS: dict[str, Callable[..., Critic]] = {
    name: value for name, value in list(globals().items()) if inspect.isfunction(value)
}
"""Every learner by name: the functions above. Whatever takes a learner's name looks here."""
