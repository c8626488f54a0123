"""Reacher, a planar arm of two links, in closed form: MuJoCo's mechanics without MuJoCo."""

from math import pi

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from ..._validation import unknown
from ...types import Array, Key, Number, Scalar
from ..experience import Action, Observation
from .environment import Environment, Outcome

VERSIONS, GOALS = ("v4", "v5"), ("disc", "square")

# The model, in metres, kilograms, seconds and radians. The fingertip is TIP from joint 1.
LINK, TIP, RADIUS, DENSITY = 0.1, 0.11, 0.01, 1000.0
ARMATURE, DAMPING, GEAR = 1.0, 1.0, 200.0
TIMESTEP, FRAME_SKIP, HORIZON = 0.01, 2, 50

# Joint 1 stays within +-LIMIT by a soft constraint, whose impedance rises over WIDTH.
LIMIT, SOFT, HARD, WIDTH, TIME_CONSTANT = 3.0, 0.9, 0.95, 0.001, 0.02
RELAXATION, STIFFNESS = 2 / (HARD * TIME_CONSTANT), 1 / (HARD * TIME_CONSTANT) ** 2

# Each link is a capsule: a tube with half a ball at either end. The fingertip is a ball.
TUBE, BALL = DENSITY * pi * RADIUS**2 * LINK, DENSITY * 4 / 3 * pi * RADIUS**3
CAPSULE = TUBE * (RADIUS**2 / 4 + LINK**2 / 12) + BALL * (
    2 / 5 * RADIUS**2 + 3 / 8 * RADIUS * LINK + LINK**2 / 4
)
# Moments: of a link about its joint, of the outer link with the fingertip, of both about joint 0.
INNER = CAPSULE + (TUBE + BALL) * (LINK / 2) ** 2
OUTER = INNER + BALL * (2 / 5 * RADIUS**2 + TIP**2)
BOTH = INNER + OUTER + (TUBE + 2 * BALL) * LINK**2
COUPLING = LINK * ((TUBE + BALL) * LINK / 2 + BALL * TIP)
# How joint 1 of the straight arm gives way to a force, the last entry of the inverse mass matrix.
STRAIGHT = BOTH + 2 * COUPLING + ARMATURE
MOBILITY = STRAIGHT / (STRAIGHT * (OUTER + ARMATURE) - (OUTER + COUPLING) ** 2)


class ReacherState(eqx.Module):
    """Angles, their velocities, the goal, the observed fingertip, and the time."""

    q: Float[Array, "*batch 2"]
    v: Float[Array, "*batch 2"]
    goal: Float[Array, "*batch 2"]
    tip: Float[Array, "*batch 2"]
    time: Integer[Array, "*batch"]


def mass_matrix(q1: Number) -> tuple[Scalar, Scalar, Number]:
    r"""The entries $M_{00}, M_{01}, M_{11}$ of the mass matrix at an angle of joint 1.

    $$
    M(q) = \begin{pmatrix} a + 2b\cos q_1 & c + b\cos q_1 \\ c + b\cos q_1 & c \end{pmatrix} + I,
    $$

    where $c$ is the moment of the outer link, $a$ that of the straight arm without its coupling
    $b$, and the identity is the armature of the joints.
    """
    coupled = COUPLING * jnp.cos(q1)
    return BOTH + 2 * coupled + ARMATURE, OUTER + coupled, OUTER + ARMATURE


def limit_force(q1: Number, v1: Number, acceleration: Number, mobility: Number) -> Scalar:
    r"""The force of MuJoCo's soft constraint on joint 1, which is 0 for $|q_1| \le 3$.

    With the gap $r = 3 - |q_1| < 0$ and its derivative $J = -\operatorname{sign} q_1$, the force is

    $$
    J \max\Big(0, \frac{-\beta J v_1 - \kappa d r - J\dot v_1}{A + A_0(1 - d)/d}\Big),
    $$

    from the acceleration $\dot v_1$ without it and the mobility $A = (M^{-1})_{11}$, which is
    $A_0$ for the straight arm. The impedance $d$ rises from 0.9 to 0.95 within a milliradian.
    """
    gap, outward = LIMIT - jnp.abs(q1), jnp.sign(q1)
    depth = jnp.minimum(-gap / WIDTH, 1.0)
    rise = jnp.where(depth < 0.5, 2 * depth**2, 1 - 2 * (1 - depth) ** 2)
    impedance = SOFT + (HARD - SOFT) * rise
    softness = MOBILITY * (1 - impedance) / impedance
    reference = RELAXATION * outward * v1 - STIFFNESS * impedance * gap
    force = jnp.maximum(0.0, (reference + outward * acceleration) / (mobility + softness))
    return jnp.where(gap < 0, -outward * force, 0.0)


def acceleration(
    q: Float[Array, " 2"], v: Float[Array, " 2"], torque: Float[Array, " 2"]
) -> Float[Array, " 2"]:
    r"""The acceleration $M^{-1}(\tau - v - h)$, and what the limit of joint 1 adds to it.

    The damping is $v$, and the Coriolis forces are
    $h = b\sin q_1\,(-2v_0v_1 - v_1^2,\; v_0^2)$.
    """
    m00, m01, m11 = mass_matrix(q[1])
    determinant = m00 * m11 - m01**2
    coupled = COUPLING * jnp.sin(q[1])
    f0 = torque[0] - DAMPING * v[0] + coupled * (2 * v[0] * v[1] + v[1] ** 2)
    f1 = torque[1] - DAMPING * v[1] - coupled * v[0] ** 2
    free = (m00 * f1 - m01 * f0) / determinant
    f1 = f1 + limit_force(q[1], v[1], free, m00 / determinant)
    return jnp.stack([m11 * f0 - m01 * f1, m00 * f1 - m01 * f0]) / determinant


def fingertip(q: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """The position of the fingertip, in the plane."""
    along = q[0] + q[1]
    return jnp.stack(
        [LINK * jnp.cos(q[0]) + TIP * jnp.cos(along), LINK * jnp.sin(q[0]) + TIP * jnp.sin(along)]
    )


def simulate(
    q: Float[Array, " 2"], v: Float[Array, " 2"], torque: Float[Array, " 2"]
) -> tuple[Float[Array, " 2"], Float[Array, " 2"], Float[Array, " 2"]]:
    """Takes a Runge-Kutta step of order 4: angles, velocities, and the angles of the last stage.

    MuJoCo leaves the fingertip where the last stage evaluated it, so that stage is returned too.
    """
    h, half = TIMESTEP, TIMESTEP / 2
    v1, a1 = v, acceleration(q, v, torque)
    v2, a2 = v + half * a1, acceleration(q + half * v1, v + half * a1, torque)
    v3, a3 = v + half * a2, acceleration(q + half * v2, v + half * a2, torque)
    last = q + h * v3
    v4, a4 = v + h * a3, acceleration(last, v + h * a3, torque)
    q = q + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
    return q, v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4), last


def reacher(version: str = "v4", goals: str = "disc") -> Environment:
    r"""Makes Gymnasium's Reacher: two motors move a fingertip to a goal within 50 steps.

    The reward is $-\|p - g\| - \|u\|^2$ with the fingertip $p$, the goal $g$ and the action $u$, as
    given: the motors clip it to $[-1, 1]^2$, the cost does not. The observation is
    $(\cos q, \sin q, g, v, p - g)$. The fingertip that is observed and rewarded is that of the last
    stage of the integrator, as in MuJoCo: at the limit it is up to a centimetre away from where
    the new angles would place it.

    **Arguments:**

    - `version`: `v4` (and v2 before it) rewards the distance before the step and appends a height
      that is always 0 to the observation, 11 numbers. `v5` rewards the distance after the step.
    - `goals`: `disc`, where goals are uniform within a radius of 0.2; or `square`, where they are
      uniform on $[-0.2, 0.2]^2$ and 15.5 % of them are out of reach, as in gym 0.10.8.
    """
    if version not in VERSIONS:
        raise unknown("version", version, VERSIONS)
    if goals not in GOALS:
        raise unknown("goals", goals, GOALS)

    def reset(key: Key) -> ReacherState:
        draws = jax.random.uniform(key, (6,), minval=-1.0)
        q, v, goal = 0.1 * draws[:2], 0.005 * draws[2:4], 0.2 * draws[4:]
        if goals == "disc":
            radius, angle = 0.2 * jnp.sqrt((1 + draws[4]) / 2), pi * draws[5]
            goal = radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return ReacherState(q, v, goal, fingertip(q), jnp.int32(0))

    def observe(state: ReacherState) -> Observation:
        q, goal = state.q, state.goal
        height = [jnp.zeros_like(q[:1])] if version == "v4" else []
        parts = [jnp.cos(q), jnp.sin(q), goal, state.v, state.tip - goal, *height]
        return jnp.concatenate(parts)

    def step(state: ReacherState, action: Action, key: Key) -> Outcome:
        q, v, last = state.q, state.v, state.q
        torque = GEAR * jnp.clip(action, -1.0, 1.0)
        for _ in range(FRAME_SKIP):
            q, v, last = simulate(q, v, torque)
        state_next = ReacherState(q, v, state.goal, fingertip(last), state.time + 1)
        rewarded = state if version == "v4" else state_next
        reward = -jnp.linalg.norm(rewarded.tip - rewarded.goal) - jnp.sum(action**2)
        return state_next, reward, jnp.bool_(False), state_next.time >= HORIZON

    bound = np.ones(2, np.float32)
    size = {"v4": 11, "v5": 10}[version]
    name = f"Reacher-{version}" + {"disc": "", "square": ", goals in the square"}[goals]
    return Environment(name, size, -bound, bound, HORIZON, reset, observe, step)
