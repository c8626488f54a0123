"""A sweep over step sizes on Baird's counterexample: GEM and its semi-gradient counterpart."""

import numpy as np

from emphatic import oracle, problems, statistics
from emphatic.engine import run
from emphatic.learners import gem, reverse_td

problem = problems.baird(features="zero-hot", solid=0.3)
learners = {"gem": gem, "reverse_td": reverse_td}
dataset = run(
    problem,
    learners,
    {"step_size": 0.1 * 2.0 ** np.arange(-7, 2)},
    num_steps=200_000,
    seeds=10,
    measures=["emphasis_error"],
)
error = statistics.final(dataset, "emphasis_error").median("seed")  # infinite where it diverged
diverged = statistics.diverged(dataset).sum("seed")

print("median emphasis error of the last 1000 steps (runs of 10 that diverged)")
print(f"{'step size':>12}" + "".join(f"{name:>20}" for name in learners))
for size in dataset["step_size"].values:
    print(f"{size:12.4g}", end="")
    for name in learners:
        here = {"learner": name, "step_size": size}
        print(f"{float(error.sel(here)):15.2f} ({int(diverged.sel(here)):>2})", end="")
    print()

# Here the semi-gradient is stable, and faster. On problems.two_state() its mean matrix is -0.47.
for name, system in (
    ("gem", oracle.gem_system(problem)),
    ("reverse_td", oracle.reverse_td_system(problem)),
):
    slowest = np.linalg.eigvals(system.matrix).real.min()
    print(f"{name}: smallest real part of an eigenvalue of its mean matrix: {slowest:.2g}")
print("engines:", *dataset["engine"].values)
