"""A custom problem: an episodic task, the limits of learners on it, and the theorems that apply."""

import numpy as np

from emphatic import MDP, oracle, Problem, schedules
from emphatic.certify import certify

# A corridor of six rooms. Forward may slip; the last room pays 1 and ends the episode: its
# discount is 0 and it leads straight back to the first room.
rooms = np.arange(6)
transition = np.zeros((6, 2, 6))
transition[rooms[:-1], 0, rooms[:-1] + 1] = 0.9  # action 0: forward
transition[rooms[:-1], 0, rooms[:-1]] = 0.1
transition[rooms[:-1], 1, np.maximum(rooms[:-1] - 1, 0)] = 1.0  # action 1: back
transition[5, :, 0] = 1.0
reward, discount = np.zeros((6, 2)), np.full((6, 2), 0.95)
reward[5], discount[5] = 1.0, 0.0

problem = Problem(
    MDP(transition, reward, discount),
    behavior=np.full((6, 2), 0.5),
    interest=np.eye(6)[0],  # only the start matters
    x=np.stack([np.ones(6), rooms / 5], axis=1),
    target=np.tile([0.9, 0.1], (6, 1)),
)
print("values  ", oracle.values(problem).round(4))
print("emphasis", oracle.emphasis(problem).round(4))
for name in ("td_system", "etd_system"):
    limit = problem.x @ getattr(oracle, name)(problem).solution()
    print(f"limit of {name[:-7]:<4}", limit.round(4))

certificate = certify(problem, ridge=1e-4, step_size=schedules.polynomial(1.0, 0.8))
print(certificate.advice)
