"""The choice among hyper-parameters on some runs, and its evaluation on others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .runs import final, mean, Rule, subtract

if TYPE_CHECKING:
    import xarray


def best_index(errors: Float[np.ndarray, "grid run"]) -> int:
    """The index of the smallest mean over runs; if all are infinite, of the fewest such runs."""
    finite = np.isfinite(errors)
    if not finite.all(axis=1).any():
        return int((~finite).sum(axis=1).argmin())
    return int(np.where(finite, errors, np.inf).mean(axis=1).argmin())


def sensitivity(errors: Float[np.ndarray, "grid run"], factor: float = 2.0) -> float:
    r"""The share of the grid that is nearly as good as its best point.

    $$
    \frac{|\{g\in G: \bar e(g) \le c\min_{h\in G}\bar e(h)\}|}{|G|}
    $$

    with the mean $\bar e(g)$ over runs and a factor $c$. It is 0 if runs diverge at every point: 1
    is a learner that needs no tuning, and $1/|G|$ one that has to be hit exactly.
    """
    if not factor >= 1.0:
        raise ValueError(f"factor: got {factor:g}; at least 1 is required")
    if (errors < 0).any():
        raise ValueError(f"errors: the smallest is {errors.min():g}; none may be negative")
    means = np.where(np.isfinite(errors), errors, np.inf).mean(axis=1)
    return float((np.isfinite(means) & (means <= factor * means.min())).mean())


@dataclass(frozen=True)
class Selection:
    """Hyper-parameters chosen on some runs, and the results of other runs at them."""

    points: "xarray.Dataset"
    """The chosen values, for each learner and along every other dimension of the results."""
    selection_errors: "xarray.DataArray"
    """The errors at these points of the runs on which the choice was made."""
    errors: "xarray.DataArray"
    """The errors at these points of the independent runs, which are the ones to report."""
    dataset: "xarray.Dataset"
    """The results of the independent runs at these points."""

    @property
    def selection_bias(self) -> Float[np.ndarray, "..."]:
        r"""The mean error of the independent runs minus that of the runs that made the choice.

        The smallest of many means is too small on average, $\mathbb E\min_g\bar e(g) \le \min_g
        \mathbb E\,\bar e(g)$, and the more so the more points there are and the noisier they are.
        """
        both = self.errors, self.selection_errors
        return subtract(*(mean(errors.transpose(..., "run").values) for errors in both))


def split(
    dataset: "xarray.Dataset", share: float = 0.5
) -> tuple["xarray.Dataset", "xarray.Dataset"]:
    """Splits runs into a share of them to choose on, the first ones, and the others to report."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"share: got {share:g}; a number between 0 and 1 is required")
    count = dataset.sizes["run"]
    if count < 2:
        raise ValueError(f"dataset: got {count} run; at least 2 are required, one for each set")
    first = min(max(1, round(share * count)), count - 1)
    return dataset.isel(run=slice(first)), dataset.isel(run=slice(first, None))


def select(
    selecting: "xarray.Dataset",
    independent: "xarray.Dataset",
    measure: str,
    axes: Sequence[str],
    rule: Rule = final,
) -> Selection:
    """Chooses hyper-parameters on some runs, and reports them on others.

    The choice is that of [best_index], made separately for each learner, case and other dimension.
    Pass the two parts of [split], or the results of two seeds.

    **Arguments:**

    - `selecting`, `independent`: The results to choose on and to report, on the same grid.
    - `measure`, `axes`: The variable that is the error; the dimensions over which to choose.
    - `rule`: How each run is reduced to one number.
    """
    import xarray

    for axis in axes:
        if not np.array_equal(selecting[axis].values, independent[axis].values):
            raise ValueError(f"axes: the two sets of runs have different values of {axis}")
    errors = rule(selecting, measure)
    sizes = [selecting.sizes[axis] for axis in axes]
    rest = [name for name in errors.dims if name not in (*axes, "run")]
    values = errors.transpose(*rest, *axes, "run").values
    blocks = values.reshape(-1, int(np.prod(sizes)), values.shape[-1])
    flat = np.array([*map(best_index, blocks)], int).reshape(values.shape[: len(rest)])
    indices = {
        axis: xarray.DataArray(index, dims=rest)
        for axis, index in zip(axes, np.unravel_index(flat, sizes) if sizes else (), strict=True)
    }
    chosen = independent.isel(indices)
    return Selection(
        points=xarray.Dataset({axis: chosen[axis] for axis in axes}).reset_coords(),
        selection_errors=errors.isel(indices),
        errors=rule(chosen, measure),
        dataset=chosen,
    )
