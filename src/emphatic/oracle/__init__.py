"""What is true of a problem, exactly: nothing here learns, samples or approximates.

Every function takes a `Problem` and, where it matters, a target policy (an (s, a) array; by
default the problem's own), and answers in float64 whatever JAX is set to. $\\gamma P_\\pi$ means
$\\sum_a\\pi(a|s)p(s'|s,a)\\gamma(s,a,s')$ throughout, so that a discount may vary.
"""

from .chain import action_values as action_values
from .chain import Contraction as Contraction
from .chain import contraction as contraction
from .chain import density_ratio as density_ratio
from .chain import emphasis as emphasis
from .chain import objective as objective
from .chain import stationary as stationary
from .chain import values as values
from .compatible import compatible_critics as compatible_critics
from .compatible import CompatibleCritics as CompatibleCritics
from .expectation import expectation as expectation
from .followon import followon_radius as followon_radius
from .followon import followon_variance as followon_variance
from .followon import truncated_emphasis as truncated_emphasis
from .followon import truncation_length as truncation_length
from .gradient import bias as bias
from .gradient import bias_terms as bias_terms
from .gradient import BiasTerms as BiasTerms
from .gradient import limiting_update as limiting_update
from .gradient import policy_gradient as policy_gradient
from .gradient import probabilities as probabilities
from .gradient import weighted_gradient as weighted_gradient
from .ridge import ridge_cost as ridge_cost
from .ridge import RidgeCost as RidgeCost
from .systems import etd_system as etd_system
from .systems import gem_system as gem_system
from .systems import gq2_system as gq2_system
from .systems import gtd2_system as gtd2_system
from .systems import LinearSystem as LinearSystem
from .systems import projection as projection
from .systems import reverse_td_system as reverse_td_system
from .systems import td_system as td_system
from .systems import tdc_system as tdc_system
