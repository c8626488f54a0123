"""A cluster gives the bits of one process, whatever becomes of its workers."""

import json
import logging
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray
from xarray.testing import assert_identical

from emphatic import learners, problems
from emphatic.experiments import (
    cluster,
    complete,
    compute,
    Experiment,
    provenance,
    slurm,
    store,
    toml,
    workers,
)

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")


def experiment(make=None, **changes) -> Experiment:
    """Returns two learners with three units each; `make` replaces the first."""

    def make_learners(problem):
        return {"gem": make or learners.gem, "td": learners.reverse_td}

    settings = {"num_steps": 300, "num_runs": 25, "record_every": 100, **changes}
    return Experiment(
        "small",
        problems.baird,
        {"features": ("one-hot",)},
        make_learners,
        ("emphasis_error",),
        grid={"step_size": [0.1, 0.2]},
        definitions={"gem": "gem(step_size)", "td": "reverse_td(step_size)"},
        **settings,
    )


def run_on_cluster(*arguments, **options) -> xarray.Dataset:
    """Computes what is missing on a cluster, and loads everything."""
    return store.load_dataset(cluster.complete(*arguments, **options))


def refuse_message(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> xarray.Dataset:
    """What one process computes."""
    return store.load_dataset(complete(experiment(), tmp_path_factory.mktemp("expected") / "store"))


@pytest.fixture(scope="module")
def scheduler():
    """A scheduler's address, with one worker of two threads."""
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        memory_limit=None,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as local_cluster:
        yield local_cluster.scheduler_address


def worker_processes() -> list:
    return [child for child in multiprocessing.active_children() if "Dask" in child.name]


# The same results


def test_a_worker_that_is_killed_changes_nothing(tmp_path, expected):
    """Two workers, one killed when the first unit is kept: every unit is there once."""
    killed, calls, written = [], [], {}

    def on_progress(done, total):
        calls.append((done, total))
        for path in (tmp_path / "store" / "units").glob("*.safetensors"):
            assert written.setdefault(path, path.stat().st_ino) == path.stat().st_ino
        if done and not killed:
            killed.append(worker_processes()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    before, levels = dict(os.environ), logging.getLogger("distributed").level
    dataset = run_on_cluster(
        experiment(),
        tmp_path / "store",
        "local",
        num_workers=2,
        on_progress=on_progress,
        on_message=refuse_message,
    )
    assert killed
    assert_identical(dataset, expected)
    assert len(written) == 6
    assert calls == sorted(calls)
    assert calls[-1] == (dataset.sizes["run"] * 300 * 4,) * 2
    assert store.status(tmp_path / "store").left == 0
    assert list((tmp_path / "store" / "running").iterdir()) == []
    assert worker_processes() == []
    assert dict(os.environ) == before
    assert logging.getLogger("distributed").level == levels


def test_a_scheduler_at_an_address_computes_what_is_missing(tmp_path, expected, scheduler):
    folder = tmp_path / "store"
    whole, calls = experiment(), []
    opened, unit = store.begin(whole, folder), whole.units[2]
    opened.save(unit, compute(unit))
    first = opened.path(unit).stat()
    dataset = run_on_cluster(whole, folder, scheduler, on_progress=lambda *call: calls.append(call))
    assert_identical(dataset, expected)
    assert opened.path(unit).stat() == first
    assert calls[0] == (unit.num_updates, calls[0][1])
    assert_identical(run_on_cluster(whole, folder, scheduler), expected)  # nothing is left


def test_a_unit_that_another_process_has_is_waited_for(tmp_path, expected, scheduler):
    folder = tmp_path / "store"
    whole, reported = experiment(), []
    opened, unit = store.begin(whole, folder), whole.units[0]
    other = opened.claim(unit)
    assert other.__enter__() is not None

    def on_progress(done, total):
        reported.append(done)
        if done == total - unit.num_updates and not opened.path(unit).exists():
            opened.save(unit, compute(unit))
            other.__exit__(None, None, None)

    assert_identical(run_on_cluster(whole, folder, scheduler, on_progress=on_progress), expected)
    assert reported[-1] == whole.num_updates()


def test_every_unit_brings_the_modules_of_all_learners(tmp_path, monkeypatch):
    """A worker that has none of them reads the whole experiment, whichever learner it runs."""
    source = "from emphatic import learners\n\ndef mine(rate):\n    return learners.gem(rate)\n"
    (tmp_path / "learners_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = TEXT.replace("[grid]", 'mine = "learners_of_mine:mine(step_size)"\n[grid]')
    text = text.replace("[learners]", '[learners]\ntd = "reverse_td(step_size)"')
    units = toml.parse(text, imports=["learners_of_mine"]).units
    assert [unit.learner for unit in units] == ["td", "gem", "mine"]
    for unit in units:
        assert cluster._own_modules(unit).keys() == {"learners_of_mine"}


# Other users of the machine

STRANGER = """
import asyncio, http.client, os, sys
from distributed import rpc, Security

OWN = Security.temporary()
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

def ask_http(address, path):
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()

async def ask(address, security):
    arguments = security.get_connection_args("client")
    try:
        async with asyncio.timeout(2), rpc(address, connection_args=arguments, timeout=1) as server:
            return bool(await server.identity())
    except (OSError, TimeoutError, ValueError):
        return False

async def main(*addresses):
    paths = "/", "/status", "/info/main/workers.html", "/json/counts.json", "/metrics", "/health"
    tcp = asyncio.gather(*[ask(f"tcp://{address}", Security()) for address in addresses])
    tls = asyncio.gather(*[ask(f"tls://{address}", OWN) for address in addresses])
    http = [any(ask_http(address, path) for path in paths) for address in addresses]
    for answers in zip(await tcp, await tls, http):
        print(*[kind for kind, answer in zip(("tcp", "tls", "http"), answers) if answer])

asyncio.run(main(*sys.argv[1:]))
"""


def list_listening(pid: int | None = None) -> set[str]:
    """Returns the addresses at which a process, by default this, and its descendants listen."""
    own = psutil.Process(pid)
    family = own, *own.children(recursive=True)
    sockets = [socket for process in family for socket in process.net_connections("tcp")]
    return {f"{s.laddr.ip}:{s.laddr.port}" for s in sockets if s.status == psutil.CONN_LISTEN}


def ask_as_another_user(*addresses: str) -> list[str]:
    """Returns how each address answers another user, who has another certificate."""
    command = [sys.executable, "-c", STRANGER, *addresses]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")


def test_another_user_reaches_an_open_scheduler(scheduler):
    """So that the next test shows something."""
    assert ask_as_another_user(scheduler.removeprefix("tcp://")) == ["tcp", ""]


def test_no_other_user_reaches_a_local_cluster():
    before = list_listening()
    with workers.connect("local", 1, 1, refuse_message) as (client, _):
        assert client.submit(abs, -1).result() == 1
        addresses = list_listening() - before
        assert client.scheduler.address.partition("://")[2] in addresses
        assert len(addresses) >= 5  # scheduler, nanny, worker, and HTTP of two
        assert {address.partition(":")[0] for address in addresses} == {"127.0.0.1"}
        assert ask_as_another_user(*addresses) == [""] * (len(addresses) + 1)
        for worker in psutil.Process().children():
            shown = [*worker.cmdline(), *worker.environ().values()]
            assert not any("PRIVATE KEY" in text for text in shown)


TEXT = """
steps = 1e9
records = 10
runs = 10
measures = ["emphasis_error"]
[problem]
name = "baird"
features = "one-hot"
[learners]
gem = "gem(step_size)"
[grid]
step_size = [0.1]
"""
READ_EVERYTHING = """
import os, sys
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for path in sys.stdin.read().split(chr(0)):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
    except PermissionError:
        continue
    print(path)
"""
WHOLE_SWEEP = """
import os
from emphatic.cli import main

if __name__ == "__main__":
    os.umask(0o077)
    for words in (
        "sweep sweep.toml --cluster local --workers 1 --out sweep",
        "export sweep --csv",
        "export sweep --netcdf",
        "report sweep",
    ):
        assert main(words.split()) == 0
"""


@pytest.fixture
def open_folder():
    """Yields a folder that every user of the machine can enter; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


def test_another_user_reads_nothing_that_is_written_with_umask_077(open_folder):
    """Neither files nor folders of a sweep, and nothing that workers leave in temporary folders.

    The folder itself is open to everybody, so that each file counts.
    """
    folder, temporary = open_folder / "work", open_folder / "tmp"
    for path in (folder, temporary):
        path.mkdir()
        path.chmod(0o777)
    (folder / "sweep.toml").write_text(TEXT.replace("1e9", "1e3"))
    (open_folder / "script.py").write_text(WHOLE_SWEEP)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    script = [sys.executable, str(open_folder / "script.py")]
    subprocess.run(script, cwd=folder, env=environment, capture_output=True, check=True)
    paths = [path for top in (folder, temporary) for path in sorted(top.rglob("*"))]
    written = [path for path in paths if path != folder / "sweep.toml"]
    assert {"report.html", "experiment.json", "sweep"} < {path.name for path in written}
    modes = {str(path.relative_to(open_folder)): path.stat().st_mode & 0o077 for path in written}
    assert {name: f"{mode:o}" for name, mode in modes.items() if mode} == {}
    if os.getuid() == 0:
        reader = [sys.executable, "-c", READ_EVERYTHING]
        names = "\0".join(map(str, [folder / "sweep.toml", *written]))
        found = subprocess.run(reader, input=names, capture_output=True, text=True, check=True)
        assert found.stdout.split() == [str(folder / "sweep.toml")]


# What goes wrong


def make_deadly(flag: str):
    """Returns what makes GEM, but kills a worker that calls it while a file is there."""

    def gem(step_size):
        if os.path.exists(flag) and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return learners.gem(step_size)

    return gem


def test_a_unit_that_always_kills_its_worker_is_set_aside_and_the_rest_completes(
    tmp_path, expected, monkeypatch
):
    monkeypatch.setattr(workers, "_MAX_DEATHS", 0)
    flag, folder, messages = tmp_path / "flag", tmp_path / "store", []
    flag.touch()
    fatal = experiment(make_deadly(str(flag)), num_runs=10)
    dataset = run_on_cluster(fatal, folder, "local", num_workers=1, on_message=messages.append)
    title = "gem, features=one-hot, runs 0 to 9"
    assert len(messages) == 1
    assert messages[0].startswith(f"{title} is set aside: its workers died")
    assert "run the same again" in messages[0]
    (path,) = (folder / "aside").iterdir()
    record = json.loads(path.read_text())
    assert record["unit"] == title
    assert "died" in record["reason"]
    assert store.status(folder).aside == [record]
    assert dataset.attrs["interrupted"] == 1
    assert np.isnan(dataset["emphasis_error"].sel(learner="gem")).all()
    first_runs = expected.isel(run=slice(10))["emphasis_error"]
    assert_identical(dataset["emphasis_error"].sel(learner="td"), first_runs.sel(learner="td"))
    flag.unlink()
    again = store.load_dataset(complete(fatal, folder))
    assert_identical(again["emphasis_error"], first_runs)
    assert store.status(folder).aside == []


@pytest.mark.parametrize("last", [False, True])
def test_an_error_in_a_unit_names_it_and_what_is_finished_is_kept(tmp_path, scheduler, last):
    def make(step_size):
        if multiprocessing.parent_process() is not None:
            raise FileNotFoundError("no such thing")
        return learners.gem(step_size)

    folder, failing = tmp_path / "store", experiment(make, num_runs=10, num_steps=301)
    opened, (_, other) = store.begin(failing, folder), failing.units
    if last:
        opened.save(other, compute(other))
    with pytest.raises(RuntimeError, match=r"^gem, features=one-hot, runs 0 to 9: FileNotFoundEr"):
        cluster.complete(failing, folder, scheduler)
    assert list((folder / "running").iterdir()) == []
    assert opened.path(other).exists() >= last


def test_workers_with_other_versions_are_refused(tmp_path, scheduler, monkeypatch):
    versions = {**provenance.versions(), "jax": "0.0.1"}
    monkeypatch.setattr(cluster, "versions", lambda: versions)
    with pytest.raises(ValueError, match=r"a worker has jax .* and not 0\.0\.1"):
        cluster.complete(experiment(), tmp_path / "store", scheduler)


def test_ctrl_c_keeps_what_is_finished_and_frees_the_workers(tmp_path, scheduler):
    """Units that would take minutes end at once when nobody waits for them."""
    folder = tmp_path / "store"
    cluster.complete(experiment(num_runs=10), folder, scheduler)
    with distributed.Client(scheduler, set_as_default=False) as client:

        def interrupt():
            while not any(client.processing().values()):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        endless = experiment(num_runs=10, num_steps=10**9, record_every=10**8)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(interrupt)
            with pytest.raises(KeyboardInterrupt):
                cluster.complete(endless, folder, scheduler)
        while any(client.processing().values()):
            time.sleep(0.01)
    assert len(list((folder / "units").glob("*.safetensors"))) == 2
    assert list((folder / "running").iterdir()) == []


SCRIPT = """
import sys
from pathlib import Path
from emphatic.experiments import cluster
from emphatic.experiments.toml import parse

TEXT = {text!r}

if __name__ == "__main__":
    cluster.complete(parse(TEXT), Path(sys.argv[1]), "local", num_workers=1)
"""


def test_ctrl_c_in_a_terminal_ends_everything_without_the_noise_of_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.replace("{text!r}", repr(TEXT)))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "store")]
    running = tmp_path / "store" / "running"
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        while not (running.exists() and list(running.iterdir())):
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
        errors = process.stderr.read()  # its end is that of all processes
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    assert "Nanny" not in errors
    assert list(running.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "num_workers", "message"),
    [
        ("locl", None, "cluster: unknown name 'locl'; did you mean 'local'"),
        ("10.0.0.1", None, "cluster: unknown name '10.0.0.1'"),
        ("tcp://127.0.0.1:1", None, "cluster: no scheduler answers at tcp://127.0.0.1:1"),
        (
            "tls://127.0.0.1:1",
            None,
            "cluster: no scheduler answers at tls://127.0.0.1:1: TLS expects",
        ),
        (
            "http://127.0.0.1:1",
            None,
            "cluster: no scheduler answers at http://127.0.0.1:1: unknown",
        ),
        ("tcp://127.0.0.1:1", 2, "num_workers: tcp://127.0.0.1:1 has its own"),
        ("local", 0, "num_workers: got 0; at least 1"),
        ("slurm", None, "cluster: there is no sbatch here"),
    ],
)
def test_what_cannot_be_a_cluster_is_one_clear_error(
    tmp_path, monkeypatch, address, num_workers, message
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(workers, "_CONNECT_TIMEOUT", 0.2)
    with pytest.raises(ValueError, match=message):
        cluster.complete(experiment(), tmp_path / "store", address, num_workers=num_workers)


def test_the_address_of_a_worker_is_not_that_of_a_scheduler(tmp_path, scheduler):
    with distributed.Client(scheduler, set_as_default=False) as client:
        (address,) = client.nthreads()
    with pytest.raises(ValueError, match=rf"^cluster: {address} is a worker, not a scheduler$"):
        cluster.complete(experiment(), tmp_path / "store", address)


@pytest.mark.parametrize(
    ("module", "name"), [("distributed", "Dask"), ("cryptography", "cryptography")]
)
def test_without_dask_or_cryptography_the_extra_is_named(tmp_path, monkeypatch, module, name):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"{name} is not installed; run pip install 'emphatic\[c"):
        cluster.complete(experiment(), tmp_path / "store", "local")
    assert not (tmp_path / "store").exists()


# SLURM: three commands stand for it, which start, list and end jobs on this machine; test_slurm.py
# has the real one

SBATCH = """#!/usr/bin/env bash
echo "$1" >> "$JOBS/names"
test -e "$JOBS/full" && { echo "sbatch: error: the queue is full" >&2; exit 1; }
test -e "$JOBS/broken" && cat > "$JOBS/job" && echo 1000000000 >> "$JOBS/pids" && exit
cat > "$JOBS/job"
SLURM_JOB_ID=$$ setsid bash "$JOBS/job" > "$JOBS/out" 2>&1 < /dev/null &
echo $! >> "$JOBS/pids"
"""
SQUEUE = """#!/usr/bin/env bash
test -e "$JOBS/silent" && exit 1
for pid in $(cat "$JOBS/pids"); do kill -0 -- "-$pid" && echo "RUNNING (None)"; done
exit 0
"""
SCANCEL = """#!/usr/bin/env bash
for pid in $(cat "$JOBS/pids"); do kill -- "-$pid"; done
exit 0
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """Yields the folder of what stands for SLURM, with a job described."""
    answer_to_ctrl_c = signal.getsignal(signal.SIGINT)
    pytest.importorskip("dask_jobqueue")  # and the defaults of its configuration
    signal.signal(signal.SIGINT, answer_to_ctrl_c)  # which the import changes
    from dask import config

    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "pids").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("JOBS", str(tmp_path))
    monkeypatch.setattr(slurm, "_LOOK_EVERY", 0.0)
    job = {"cores": 2, "processes": 2, "memory": "4GB", "interface": "lo"}
    job["local-directory"] = str(tmp_path / "scratch")
    with config.set({f"jobqueue.slurm.{key}": value for key, value in job.items()}):
        yield tmp_path


def list_jobs(folder) -> list[int]:
    return [int(word) for word in (folder / "pids").read_text().split()]


@pytest.mark.slow  # test_slurm.py has the same with SLURM itself
def test_slurm_jobs_compute_the_same_and_one_that_ends_is_replaced(jobs, expected):
    """A job with two workers, which no other user can read or reach."""
    from dask import config

    answers, modes, killed = [], set[str](), []
    before = list_listening()

    def on_progress(done, total):
        if done and not killed:
            addresses = (list_listening() | list_listening(list_jobs(jobs)[0])) - before
            answers.extend([len(addresses), *ask_as_another_user(*addresses)])
            modes.update(f"{path.stat().st_mode:o}" for path in (jobs / "scratch").iterdir())
            killed.append(list_jobs(jobs)[0])
            os.killpg(killed[0], signal.SIGKILL)

    dataset = run_on_cluster(
        experiment(),
        jobs / "store",
        "slurm",
        num_workers=2,
        on_progress=on_progress,
        on_message=refuse_message,
    )
    assert_identical(dataset, expected)
    assert len(list_jobs(jobs)) == 2
    (name,) = set((jobs / "names").read_text().split())
    assert name.startswith("--job-name=emphatic-")
    assert answers[0] >= 6  # scheduler, two nannies, a worker or two, and their HTTP
    assert answers[1:] == [""] * (answers[0] + 1)
    assert modes == {"40700"}
    (text,) = re.findall("INHERIT_CONFIG=(.*)", (jobs / "job").read_text())
    assert not any(config.deserialize(text)["distributed"]["worker"]["memory"].values())


def test_what_slurm_refuses_is_one_clear_error(jobs):
    (jobs / "full").touch()
    with pytest.raises(ValueError, match=r"^cluster: SLURM takes no job: the queue is full$"):
        cluster.complete(experiment(), jobs / "store", "slurm")


def test_jobs_that_end_without_a_worker_are_not_replaced_for_ever(jobs):
    (jobs / "broken").touch()
    with pytest.raises(ValueError, match=r"^cluster: the jobs of SLURM end before a worker comes"):
        cluster.complete(experiment(), jobs / "store", "slurm", num_workers=1)
    assert len(list_jobs(jobs)) == 3


def test_a_queue_that_is_full_or_silent_later_is_only_a_message(jobs):
    messages = []
    queue = slurm.Jobs("exec sleep 100", 3, messages.append)
    queue.renew(False)
    assert len(list_jobs(jobs)) == 3
    os.killpg(list_jobs(jobs)[0], signal.SIGKILL)
    for file in ("silent", "full"):
        (jobs / file).touch()
    queue.renew(True)
    (jobs / "silent").unlink()
    while queue.state != "2 RUNNING":
        queue.renew(True)
    assert messages == ["3 of 3 jobs are queued: squeue fails"]
    (jobs / "full").unlink()
    queue.renew(True)
    assert len(list_jobs(jobs)) == 4
    queue.cancel()
    while subprocess.run("squeue", capture_output=True, check=True).stdout:
        pass


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "the cluster has no worker; waiting for one (its jobs: 2 PENDING (Priority))"),
        (["paused"], "the workers are paused, as Dask does with those that use 80 % of their mem"),
        (["paused", "running"], ""),
    ],
)
def test_a_cluster_that_does_nothing_says_why(monkeypatch, states, message):
    class Client:
        def nthreads(self):
            return dict.fromkeys(range(len(states)), 1)

        def scheduler_info(self):
            return {"workers": {n: {"status": state} for n, state in enumerate(states)}}

    messages = []
    monkeypatch.setattr(cluster, "_PATIENCE", -1.0)
    queue = slurm.Jobs("", 1, messages.append, state="2 PENDING (Priority)", _next_look=math.inf)
    cluster._watch_capacity(Client(), queue, messages.append)()
    assert [text[: len(message)] for text in messages] == ([message] if message else [])


def test_ctrl_c_stays_ctrl_c_with_jobs():
    """Dask's jobs, when they are imported, make it end the process as if all were well."""
    program = """
import signal
from emphatic.experiments import workers
workers._import_job()
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_job_that_is_not_described_names_what_is_missing(jobs):
    from dask import config

    with (
        config.set({"jobqueue.slurm.cores": None}),
        pytest.raises(ValueError, match=r"jobqueue\.slurm\.cores is not set"),
    ):
        cluster.complete(experiment(), jobs / "store", "slurm")
    with (
        config.set({"jobqueue.slurm.memory": "lots"}),
        pytest.raises(
            ValueError, match=r"^cluster: jobqueue\.slurm in .*: Could not interpret 'lots'"
        ),
    ):
        cluster.complete(experiment(), jobs / "store", "slurm")
    with (
        config.set({"jobqueue.slurm.interface": "ib7"}),
        pytest.raises(ValueError, match=r"^cluster: no scheduler can be started here: .*'ib7'"),
    ):
        cluster.complete(experiment(), jobs / "store", "slurm")
