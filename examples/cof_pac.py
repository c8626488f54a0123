"""COF-PAC, ACE and Off-PAC on the aliasing counterexample, with exact diagnostics."""

import numpy as np

from emphatic import problems, schedules
from emphatic.agents import actor_critic, over_states
from emphatic.engine import run
from emphatic.learners import followon, gem, gq2
from emphatic.oracle import follow, track
from emphatic.problems import ACTOR_FEATURES

problem = problems.counterexample()  # tabular critics; the actor aliases two states
policy = over_states(ACTOR_FEATURES, num_actions=2)
theta = np.log([9.0, 9.0, 1.0, 1.0])  # pi(a0) = 0.9
alpha, ridge = schedules.polynomial(0.1, 0.6, onset=1e4), 1e-3
beta = schedules.polynomial(0.02, 0.9, onset=1e4)  # the actor is slower
sources = {"cof-pac": gem(alpha, ridge), "ace": followon(), "off-pac": followon(0)}
agents = {
    name: actor_critic(problem, policy, emphasis, gq2(alpha, ridge), beta, theta=theta)
    for name, emphasis in sources.items()
}
dataset = run(problem, agents, num_steps=50_000, seeds=5, measures=["weights"], record_every=5000)

print(f"{'agent':>8}{'J, worst run':>14}{'|grad J|':>10}{'|b|':>10}{'its field leads to':>20}")
for name in agents:
    names = [f"theta[{n}]" for n in range(policy.num_parameters)]
    last = dataset[f"{name}_weights"].sel({f"{name}_weight": names}).isel(time=-1)
    exact = track(problem, policy, last.values, ridge)
    worst = exact["objective"].argmin()
    limit = follow(problem, policy, theta, name, [1e5], ridge)
    level = track(problem, policy, limit, ridge)["objective"][0]
    numbers = (exact[key][worst] for key in ("objective", "gradient_norm", "bias_norm"))
    print("{:>8}{:14.4f}{:10.2g}{:10.2g}".format(name, *numbers) + f"{level:20.4f}")
