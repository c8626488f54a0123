"""Learners: each is written once, as the paper prints its update."""

import inspect
from collections.abc import Callable

from ..types import Critic
from .abtd import abtd as abtd, ABTDState as ABTDState
from .constant import constant as constant
from .cop_td import cop_td as cop_td
from .elstd import elstd as elstd, LSTDState as LSTDState
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
from .htd import htd as htd, HTDState as HTDState
from .lms import lms as lms, LMSState as LMSState
from .lsgem import lsgem as lsgem, LSGEMState as LSGEMState
from .lstd import lstd as lstd
from .periodic_etd import periodic_etd as periodic_etd
from .pgtd2 import pgtd2 as pgtd2, PGTD2State as PGTD2State
from .ratio import ratio as ratio
from .restarting import restarting as restarting
from .reverse_td import reverse_td as reverse_td, ReverseTDState as ReverseTDState
from .td import td as td
from .tdc import tdc as tdc, TDCState as TDCState
from .tdec import tdec as tdec
from .tderc import tderc as tderc, TDERCState as TDERCState
from .tdrc import tdrc as tdrc, TDRCState as TDRCState
from .tree_backup import tree_backup as tree_backup, TreeBackupState as TreeBackupState
from .true_online_etd import (
    true_online_etd as true_online_etd,
    TrueOnlineETDState as TrueOnlineETDState,
)
from .vtrace import vtrace as vtrace, VTraceState as VTraceState

LEARNERS: dict[str, Callable[..., Critic]] = {
    name: value for name, value in list(globals().items()) if inspect.isfunction(value)
}
"""Every learner by name: the functions above. Whatever takes a learner's name looks here."""
