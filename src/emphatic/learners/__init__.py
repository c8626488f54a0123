"""Learners: each is written once, as the paper prints its update."""

from .constant import constant as constant
from .etd import etd as etd
from .etd import ETDState as ETDState
from .etq import etq as etq
from .etq import ETQState as ETQState
from .exact import exact as exact
from .followon import followon as followon
from .followon import FollowonState as FollowonState
from .gem import gem as gem
from .gem import GEMState as GEMState
from .gq2 import gq2 as gq2
from .gq2 import GQ2State as GQ2State
from .gtd2 import gtd2 as gtd2
from .gtd2 import GTD2State as GTD2State
from .lms import lms as lms
from .lms import LMSState as LMSState
from .reverse_td import reverse_td as reverse_td
from .reverse_td import ReverseTDState as ReverseTDState
from .td import td as td
from .tdc import tdc as tdc
from .tdc import TDCState as TDCState
