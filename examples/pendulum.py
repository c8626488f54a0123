"""A deep off-policy actor-critic on Pendulum, learning from random actions."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from emphatic.deep import evaluate, load_policies, train

# The same as `emphatic train --env Pendulum-v1 --steps 3000`. Real learning
# takes 10^5 steps and more, and Reacher, which is inside the compiled program, is much faster.
with TemporaryDirectory() as folder:
    out = Path(folder)

    def on_evaluation(steps: int, values: dict[str, np.ndarray]) -> None:
        J, whole = (values[name].mean() for name in ("J", "return"))
        print(f"{steps:5} steps: J = {J:8.1f}, episode return {whole:8.1f}")

    train(
        out,
        "Pendulum-v1",
        "cof-pac",
        steps=3000,
        seeds=(0, 1),
        kind="truncated",  # a policy that stays in the box, so that the mean ratio is 1
        on_evaluation=on_evaluation,
    )
    results = evaluate(load_policies(out), num_episodes=5)

for run in results["runs"]:
    returned = run["undiscounted"]
    print(f"seed {run['seed']}: {returned['mean']:.0f} +- {returned['std']:.0f} in 5 episodes")
