"""Tree backup: a trace that no ratio enters."""

import equinox as eqx
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class TreeBackupState(eqx.Module):
    r"""The weights, and $\pi(A_t|S_t)\gamma_{t+1}z_t$ if there is a trace; the value estimate is
    $x^\top\nu$."""

    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def tree_backup(
    step_size: StepSize, trace_decay: Number = 0.0
) -> Learner[TreeBackupState, Transition]:
    r"""Tree backup($\lambda$) for state values: estimates $v_\pi$ by $X\nu$, and may diverge.

    The trace of Precup, Sutton and Singh (2000), who have it for action values, in the form of
    Ghiassian and Sutton (2021):

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \lambda\gamma_t\pi(A_{t-1}|S_{t-1})z_{t-1} + x_t, \qquad z_{-1} = 0, \\
    \nu_{t+1} &= \nu_t + \alpha_t\rho_t\delta_tz_t.
    \end{aligned}
    $$

    The limit, where it converges, is the solution of [tree_backup_system]. It starts from a
    standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    """
    traces.require_decay(trace_decay)
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> TreeBackupState:
        return TreeBackupState(standard_normal(key, "nu", y.x), traces.start(trace_decay, y.x))

    def step(state: TreeBackupState, y: Transition) -> TreeBackupState:
        nu, alpha = state.nu, alpha_of(y.time)
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        z = traces.add(y.x, trace_decay, state.trace)
        return TreeBackupState(
            nu=nu + alpha * y.rho * delta * z, trace=traces.carry(state.trace, y.discount * y.pi, z)
        )

    def predict(state: TreeBackupState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="tree_backup", estimates="values")
