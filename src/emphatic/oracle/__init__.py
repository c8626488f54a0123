"""What is true of a problem, exactly: nothing here learns, samples or approximates.

Every function takes a `Problem` and, where it matters, a target policy (an (s, a) array; by
default the problem's own), and answers in float64 whatever JAX is set to. $\\gamma P_\\pi$ means
$\\sum_a\\pi(a|s)p(s'|s,a)\\gamma(s,a,s')$ throughout, so that a discount may vary.
"""

from .chain import (
    action_values as action_values,
    Contraction as Contraction,
    contraction as contraction,
    density_ratio as density_ratio,
    emphasis as emphasis,
    objective as objective,
    stationary as stationary,
    values as values,
)
from .compatible import (
    compatible_critics as compatible_critics,
    CompatibleCritics as CompatibleCritics,
)
from .emphasis_systems import (
    expected_trace_system as expected_trace_system,
    gem_system as gem_system,
    reverse_td_system as reverse_td_system,
    tdec_system as tdec_system,
    tderc_system as tderc_system,
)
from .expectation import enumerate_samples as enumerate_samples, expectation as expectation
from .followon import (
    followon_radius as followon_radius,
    followon_variance as followon_variance,
    truncated_emphasis as truncated_emphasis,
    truncation_length as truncation_length,
)
from .gradient import (
    bias as bias,
    bias_terms as bias_terms,
    BiasTerms as BiasTerms,
    limiting_update as limiting_update,
    policy_gradient as policy_gradient,
    PolicyFunction as PolicyFunction,
    probabilities as probabilities,
    weighted_gradient as weighted_gradient,
)
from .linear import LinearSystem as LinearSystem, projection as projection
from .mean_field import follow as follow, track as track
from .ratio_systems import (
    cop_td_system as cop_td_system,
    gradient_cop_td_system as gradient_cop_td_system,
    gradient_dice_system as gradient_dice_system,
)
from .ridge import ridge_cost as ridge_cost, RidgeCost as RidgeCost
from .solution import FixedPoint as FixedPoint, solve as solve
from .value_systems import (
    abtd_system as abtd_system,
    etd_system as etd_system,
    gq2_system as gq2_system,
    gtd2_system as gtd2_system,
    htd_system as htd_system,
    td_system as td_system,
    tdc_system as tdc_system,
    tdrc_system as tdrc_system,
    tree_backup_system as tree_backup_system,
    vtrace_system as vtrace_system,
)
