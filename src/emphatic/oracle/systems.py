"""The mean field of every learner, by name."""

from collections.abc import Callable

from .emphasis_systems import gem_system, reverse_td_system
from .linear import LinearSystem
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
        *(reverse_td_system,),
    )
}
"""Every learner's mean field, by the name of its function."""
