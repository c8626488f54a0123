"""A learning curve without simulation: GEM on Baird's counterexample, and 300 runs to compare."""

import numpy as np

from emphatic import oracle, predict, problems
from emphatic.engine import Measure, run
from emphatic.learners import gem

problem, learner = problems.baird(features="aliased", solid=0.3), gem(0.0125)
times = np.array([0, 10**3, 10**4, 10**5, 10**6, 10**9])
curve = predict.learning_curve(problem, learner, times)
square = Measure(
    lambda m, lane, learner, state, y: (learner.predict(state, y) - m[y.state]) ** 2,
    oracle.emphasis,
)
runs = run(
    problem,
    {"gem": learner},
    num_steps=10**4,
    seeds=300,
    record_every=100,
    measures={"square": square},
)
simulated = runs["square"].sel(learner="gem").mean("seed") ** 0.5

print("     steps   exact error   simulated")
for time, error in zip(times, curve.rmse, strict=True):
    seen = float(simulated.sel(time=time)) if time in runs["time"] else np.nan
    print(f"{time:10d} {error:13.3f} {seen:11.3f}")
print(f"{'limit':>10} {predict.limit(problem, learner).rmse:13.3f}")

stable, exponent = predict.thresholds(problem, gem), predict.lyapunov(problem, gem(0.1))
print(f"stable in mean up to {stable.mean:.4g}, in mean square up to {stable.mean_square:.4g}")
print(f"at 0.1 the Lyapunov exponent is in [{exponent.low:.2g}, {exponent.high:.2g}]: stable there")
