r"""Statistics over runs, in which divergence is an infinite error and is never left out.

Each run is reduced to one number, by [final], [area] or [time_to]; a statistic of many runs is a
function of an array of such numbers, with runs on its last axis. A run that diverged is the number
$\infty$: a mean over runs is infinite if one of them is, and so is the end of an interval.
"""

from .intervals import (
    divergence_rate as divergence_rate,
    Interval as Interval,
    interval as interval,
    sign_test as sign_test,
    stratified_interval as stratified_interval,
)
from .runs import (
    area as area,
    diverged as diverged,
    final as final,
    iqm as iqm,
    mean as mean,
    median as median,
    Numbers as Numbers,
    Rule as Rule,
    spread as spread,
    Statistic as Statistic,
    time_to as time_to,
)
from .selection import (
    best_index as best_index,
    select as select,
    Selection as Selection,
    sensitivity as sensitivity,
    split as split,
)
