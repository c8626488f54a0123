"""The mean field of every learner, by name."""

from collections.abc import Callable

from .emphasis_systems import (
    expected_trace_system,
    gem_system,
    reverse_td_system,
    tdec_system,
    tderc_system,
)
from .linear import LinearSystem
from .ratio_systems import cop_td_system, gradient_cop_td_system, gradient_dice_system
from .value_systems import (
    abtd_system,
    etd_system,
    gq2_system,
    gtd2_system,
    htd_system,
    td_system,
    tdc_system,
    tdrc_system,
    tree_backup_system,
    vtrace_system,
)

SYSTEMS: dict[str, Callable[..., LinearSystem]] = {
    system.__name__: system
    for system in (
        *(gem_system, gq2_system, gtd2_system, tdc_system, tdrc_system, htd_system),
        *(etd_system, td_system, vtrace_system, tree_backup_system, abtd_system),
        *(reverse_td_system, tdec_system, tderc_system, expected_trace_system),
        *(cop_td_system, gradient_cop_td_system, gradient_dice_system),
    )
}
"""Every learner's mean field, by the name of its function."""
