"""Networks on Reacher: environment steps per second, beside PyTorch and beside MuJoCo.

    python benchmarks/deep.py [--quick] [--only PART ...] [--seeds COUNT ...]

Parts: `ours` (COF-PAC by the number of seeds and of devices), `torch` (a straightforward loop in
PyTorch), `reacher` (a policy in the loop, beside `mujoco.rollout`) and `figure` (the command that
makes Figure 4). Each number of host devices has a process of its own, because JAX reads it once.
Rounds of the peers alternate, and the best round of each counts. On a machine with a GPU `--only
ours` needs neither PyTorch nor MuJoCo. The exit status is 1 if a limit is missed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

WORKERS, SEGMENT = 10, 100  # an iteration is a step of each worker; evaluations are a segment apart
CAPACITY = 5000  # the replay of Figure 4
PARTS = ("ours", "torch", "reacher", "figure")
SEEDS = (1, 2, 5, 10, 30, 100)
DEVICES = (1, 2)
BATCHES = (256, 1024, 4096)  # arms side by side
LIMITS = {1: 12.0, 2: 20.0}  # times PyTorch, at 30 seeds, by the number of devices
ARMS, MINUTES = 10.0, 3.0


def process(devices: int) -> ProcessPoolExecutor:
    """A process in which JAX has this many host devices."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    return ProcessPoolExecutor(1, get_context("spawn"), _set, (flags,))


def _set(flags: str) -> None:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"


# What the processes do


def device() -> tuple[str, str]:
    import jax

    return jax.default_backend(), jax.devices()[0].device_kind


@cache
def _agent_and_environment() -> Any:
    from emphatic.deep.agents import make_agent
    from emphatic.deep.task import make_policy, make_task

    arm = make_task("reacher")
    return make_agent("cof-pac", make_policy(arm)), arm.environment


def ours(seeds: int, segments: int) -> float:
    """Seconds of COF-PAC for one segment of all seeds, after the warm-up and one segment more."""
    from emphatic.deep.loop import train_agent

    agent, environment = _agent_and_environment()
    times = []

    def on_evaluation(steps: int, values: Any, theta: Any) -> None:
        times.append(time.perf_counter())

    total = SEGMENT * (2 + segments)
    train_agent(
        agent, environment, range(seeds), total, capacity=CAPACITY, on_evaluation=on_evaluation
    )
    return (times[-1] - times[2]) / segments


@cache
def _recorded(num: int) -> tuple[Any, dict[str, Any]]:
    """Parameters, and experience of our Reacher as arrays (iteration, worker), for PyTorch."""
    import jax
    import numpy as np

    from emphatic.deep.environments.environment import uniform_steps
    from emphatic.deep.transition import transitions

    agent, environment = _agent_and_environment()
    init, advance = uniform_steps(environment, WORKERS)
    key = jax.random.key(0)
    workers, steps = jax.lax.scan(advance, init(key), jax.random.split(key, num))
    y = transitions(steps, 0.25, jax.vmap(environment.observe)(workers.state))
    example = jax.tree.map(lambda leaf: leaf[0], y)
    params = jax.tree.map(np.asarray, agent.init(key, example, 1).params)
    return params, {k: np.asarray(leaf) for k, leaf in vars(y).items() if k != "start"}


def in_torch(num: int, threads: int, foreach: bool) -> float:
    """Seconds of so many iterations of the loop in PyTorch."""
    import deep_torch

    return deep_torch.seconds(*_recorded(num + 200), num, threads, foreach)


def agreement(num: int = 12) -> float:
    """The largest difference of a parameter between PyTorch's and ours, after some iterations.

    In float64 and from the same experience, parameters and draws; PyTorch divides by norms to
    which it adds 1e-6. The agents copy targets twice and learn from the third iteration on.
    """
    import deep_torch
    import jax
    import jax.numpy as jnp
    import numpy as np

    from emphatic.deep.agents import make_agent
    from emphatic.deep.task import make_policy, make_task
    from emphatic.deep.transition import Transition

    settings: dict[str, Any] = {"warm_up": 2, "target_every": 5, "num_sampled": 3}
    with jax.enable_x64(True):
        y = _recorded(200)[1]
        double = {k: np.asarray(leaf, np.float64) for k, leaf in y.items()}
        same = make_agent("cof-pac", make_policy(make_task("reacher")), **settings)
        whole = jax.tree.map(jnp.asarray, Transition(**double, start=np.zeros(y["reward"].shape)))
        batches = [jax.tree.map(lambda leaf, t=t: leaf[t], whole) for t in range(num)]
        state = same.init(jax.random.key(0), batches[0], num)
        first, draws = jax.tree.map(np.asarray, state.params), []
        for t, batch in enumerate(batches):
            key = jax.random.fold_in(jax.random.key(1), t)
            draws.append(jax.random.randint(key, (settings["num_sampled"],), 0, t + 1))
            state, _ = same.update(state, batch, t, key)
        expected = jax.tree.leaves(state.params)
        theirs = deep_torch.learn(first, double, draws, **settings)
        before = jax.tree.leaves(first)
        moved = max(np.abs(a - b).max() for a, b in zip(before, theirs, strict=True))
        assert moved > 0.01
        return float(max(np.abs(a - b).max() for a, b in zip(expected, theirs, strict=True)))


def arms(batch: int, episodes: int) -> float:
    """Seconds of an episode of our Reacher with a policy in the loop, for so many arms."""
    run, theta, keys = _arms(batch)
    begun = time.perf_counter()
    for _ in range(episodes):
        run(theta, keys).block_until_ready()
    return (time.perf_counter() - begun) / episodes


@cache
def _arms(batch: int) -> Any:
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from emphatic.deep.evaluation import rollout

    agent, environment = _agent_and_environment()

    def run(theta: Any, keys: Any) -> Any:
        def returned(key: Any) -> Any:
            return rollout(environment, agent.act, theta, key)[1].sum()

        return jax.vmap(returned)(keys)

    spread = NamedSharding(Mesh(np.array(jax.devices()), ("arm",)), PartitionSpec("arm"))
    keys = jax.device_put(jax.random.split(jax.random.key(0), batch), spread)
    theta, compiled = _recorded(1)[0]["policy"], jax.jit(run, out_shardings=spread)
    compiled(theta, keys).block_until_ready()
    return compiled, theta, keys


def in_mujoco(batch: int, episodes: int, threads: int) -> float:
    """Seconds of an episode of MuJoCo's Reacher with a jitted policy between steps."""
    return _rollouts(batch, threads)(episodes)


@cache
def _rollouts(batch: int, threads: int) -> Any:
    import gymnasium
    import jax
    import jax.numpy as jnp
    import mujoco
    import numpy as np
    from mujoco.rollout import Rollout

    from emphatic.deep.environments.reacher import fingertip, FRAME_SKIP, HORIZON, ReacherState

    agent, environment = _agent_and_environment()
    theta = _recorded(1)[0]["policy"]
    unwrapped: Any = gymnasium.make("Reacher-v5").unwrapped
    model = unwrapped.model
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)

    @jax.jit
    def choose(physics: Any, key: Any) -> tuple[Any, Any]:
        """Actions for all arms, twice because a step is two of MuJoCo's, and the rewards."""

        def one(physics: Any, key: Any) -> tuple[Any, Any]:
            q, goal, v = physics[1:3], physics[3:5], physics[5:7]
            state = ReacherState(q, v, goal, fingertip(q), jnp.int32(0))
            action = agent.act(theta, environment.observe(state), key)
            return action, -jnp.linalg.norm(state.tip - goal) - jnp.sum(action**2)

        action, reward = jax.vmap(one)(physics, jax.random.split(key, batch))
        return jnp.repeat(action[:, None], FRAME_SKIP, 1), reward

    roll = Rollout(nthread=threads)
    data = [mujoco.MjData(model) for _ in range(max(1, threads))]
    rng = np.random.default_rng(0)
    keys = list(jax.random.split(jax.random.key(0), HORIZON))

    def go(episodes: int) -> float:
        begun = time.perf_counter()
        for _ in range(episodes):
            physics, total = np.zeros((batch, size)), np.zeros(batch)
            physics[:, 1:3] = rng.uniform(-0.1, 0.1, (batch, 2))
            physics[:, 3:5] = rng.uniform(-0.1, 0.1, (batch, 2))
            for key in keys:
                action, reward = choose(physics.astype(np.float32), key)
                total += reward
                after, _ = roll.rollout(model, data, physics, np.asarray(action, np.float64))
                physics = after[:, -1]
        return (time.perf_counter() - begun) / episodes

    go(1)
    return go


def figure(algorithms: list[str], runs: int, steps: int) -> float:
    """Seconds of the command that makes Figure 4 with these algorithms."""
    with tempfile.TemporaryDirectory() as folder:
        main = "import sys; from emphatic.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", main, "reproduce", "control", "--full", "--out", folder]
        command += ["--runs", str(runs), "--steps", str(steps), "--algorithms", *algorithms]
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begun


# What is printed


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table in markdown."""
    print(f"\n## {title}\n\n| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def best(peers: dict[Any, tuple[Any, ...]], rounds: int) -> dict[Any, float]:
    """The seconds of the best round of each peer: a process, a function, and its arguments."""
    best_seconds = dict.fromkeys(peers, float("inf"))
    for number in range(rounds + 1):
        for name, (executor, *call) in peers.items():
            seconds = executor.submit(*call).result()
            if number:  # the first round compiles
                best_seconds[name] = min(best_seconds[name], seconds)
    return best_seconds


def training(processes: dict[int, Any], parts: Any, seeds: Any, quick: bool) -> dict[str, bool]:
    """COF-PAC by the number of seeds and devices, and in PyTorch."""
    segments, iterations, rounds = (2, 100, 1) if quick else (10, 1000, 3)
    peers, limits, difference = {}, {}, float("nan")
    if "ours" in parts:
        for devices, executor in processes.items():
            for count in seeds:
                peers[devices, count] = executor, ours, count, segments
    if "torch" in parts:
        executor = next(iter(processes.values()))
        difference = executor.submit(agreement).result()
        limits["PyTorch learns what ours does, to 1e-5"] = difference <= 1e-5
        for threads in range(1, (os.cpu_count() or 1) + 1):
            for foreach in (False, True):
                call = in_torch, iterations, threads, foreach
                peers[threads, foreach, "PyTorch"] = executor, *call
    seconds = best(peers, rounds)
    loops = {key: iterations * WORKERS / s for key, s in seconds.items() if key[-1] == "PyTorch"}
    if loops:
        rows = [
            {"threads": threads, "foreach": foreach, "steps per second": rate}
            for (threads, foreach, _), rate in loops.items()
        ]
        show("COF-PAC in PyTorch, one seed", rows)
        print(f"\nThe largest difference to ours after 12 iterations is {difference:.1g}.")
    rows = []
    for (devices, count), taken in ((k, s) for k, s in seconds.items() if k[-1] != "PyTorch"):
        rate = count * SEGMENT * WORKERS / taken
        row = {"devices": devices, "seeds": count, "steps per second": rate}
        if loops:
            row["/ PyTorch"] = ratio = rate / max(loops.values())
            if count == 30 and devices in LIMITS:
                text = f"{LIMITS[devices]:g} times PyTorch at 30 seeds, devices: {devices}"
                limits[text] = ratio >= LIMITS[devices]
        rows.append(row)
    if rows:
        show("COF-PAC, by the number of seeds", rows)
    return limits


def moving(processes: dict[int, Any], quick: bool) -> dict[str, bool]:
    """A policy in the loop: our Reacher, and MuJoCo's."""
    episodes, rounds = (1, 1) if quick else (5, 3)
    executor, cores = processes[max(processes)], os.cpu_count() or 1
    peers: dict[Any, tuple[Any, ...]] = {}
    for batch in BATCHES:
        for devices, host in processes.items():
            peers[f"ours, devices: {devices}", batch] = host, arms, batch, 4 * episodes
        peers["mujoco.rollout", batch] = executor, in_mujoco, batch, episodes, cores
    seconds = best(peers, rounds)
    names = dict.fromkeys(name for name, _ in peers)
    rate = {key: 50 * key[1] / taken for key, taken in seconds.items()}
    show(
        "Reacher with a policy in the loop: steps per second",
        [{"arms": batch, **{name: rate[name, batch] for name in names}} for batch in BATCHES],
    )
    most = {name: max(rate[name, batch] for batch in BATCHES) for name in names}
    theirs = most.pop("mujoco.rollout")
    print(f"\nThe best of ours is {max(most.values()) / theirs:.3g} times that of MuJoCo.")
    text = f"Reacher is {ARMS:g} times mujoco.rollout with a jitted policy"
    return {text: max(most.values()) >= ARMS * theirs}


def drawing(quick: bool) -> dict[str, bool]:
    """The wall-clock time of Figure 4."""
    steps = 2000 if quick else 50_000
    cases = [
        (["cof-pac", "ace", "off-pac"], 4 if quick else 30),
        (["geoff-pac"], 2 if quick else 10),
        (["td3"], 2),
    ]
    rows = []
    for algorithms, runs in cases:
        taken = figure(algorithms, runs, steps)
        row = {"algorithms": ", ".join(algorithms), "runs": runs, "seconds": taken}
        rows.append({**row, "seconds per run": taken / runs / len(algorithms)})
    show(f"`emphatic reproduce control`, {steps} steps, from start to end", rows)
    text = f"COF-PAC, ACE and Off-PAC, 30 runs, within {MINUTES:g} minutes"
    return {} if quick else {text: rows[0]["seconds"] <= 60 * MINUTES}


def main() -> int:
    parser = argparse.ArgumentParser(description="Networks on Reacher: steps per second.")
    parser.add_argument("--quick", action="store_true", help="small and short; limits as they are")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    options = parser.parse_args()
    processes, limits = {1: process(1)}, {}
    backend, kind = processes[1].submit(device).result()
    if backend == "cpu":
        processes |= {count: process(count) for count in DEVICES[1:]}
    print(f"On {backend} ({kind}), {os.cpu_count()} cores.")
    if {"ours", "torch"} & {*options.only}:
        limits |= training(processes, options.only, options.seeds, options.quick)
    if "reacher" in options.only:
        limits |= moving(processes, options.quick)
    for executor in processes.values():
        executor.shutdown()
    if "figure" in options.only:
        limits |= drawing(options.quick)
    if limits:
        print("\n## Limits\n")
    for text, met in limits.items():
        print(f"- {'met' if met else 'MISSED'}: {text}")
    return 0 if all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
