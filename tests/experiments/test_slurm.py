"""Sweeps by SLURM's own daemons, on this machine; `make test-slurm` runs them."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from emphatic.experiments import complete, slurm
from emphatic.experiments.toml import read

pytestmark = pytest.mark.slurm
PLACES = f"{os.environ['PATH']}:/usr/sbin:/sbin"
DAEMONS = [shutil.which(name, path=PLACES) or "" for name in ("slurmctld", "slurmd")]

CONFIGURATION = """
ClusterName=emphatic
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP
"""
CGROUP = """
CgroupPlugin=cgroup/v1
CgroupAutomount=no
CgroupMountpoint={folder}/cgroup
"""
JOBS = """
jobqueue:
  slurm:
    cores: {cores}
    processes: {cores}
    memory: {memory}
    walltime: "00:30:00"
    interface: lo
    python: {python}
    local-directory: {folder}/scratch
    log-directory: {folder}/logs
"""
SWEEP = """
name = "sweep"
steps = 1e5
runs = 60
records = 20
measures = ["emphasis_error"]
[problem]
name = "baird"
features = "one-hot"
[learners]
gem = "gem(step_size)"
td = "reverse_td(step_size)"
[grid]
step_size = "0.1 * 2^[0:-31]"
"""


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wait_for(condition, *processes) -> None:
    """Waits until something holds, while processes run."""
    while not condition():
        for process in processes:
            assert process.poll() is None, process.args
        time.sleep(0.05)


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    """Starts a controller and a node in a folder of their own; skips where they do not start."""
    if not all(DAEMONS) or not all(map(shutil.which, slurm.COMMANDS)):
        pytest.skip("SLURM is not installed (slurmctld, slurmd, slurm-client)")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    values = {
        "folder": folder,
        "ports": free_ports(2),
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "host": socket.gethostname().partition(".")[0],
    }
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
    (folder / "cgroup.conf").write_text(CGROUP.format(**values))
    before, os.environ["SLURM_CONF"] = os.environ.get("SLURM_CONF"), str(folder / "slurm.conf")
    options = ("-D", "-f", str(folder / "slurm.conf"))
    with open(folder / "daemons.log", "w") as log:
        output = {"stdout": log, "stderr": log, "start_new_session": True}
        controller = subprocess.Popen([DAEMONS[0], *options], **output)
        node = subprocess.Popen([DAEMONS[1], *options, "-N", "node"], **output)
    try:
        try:
            wait_for(is_idle, controller, node)
        except AssertionError:
            lines = (folder / "daemons.log").read_text().splitlines()
            errors = [line for line in lines if "error" in line or "fatal" in line]
            pytest.skip(f"SLURM does not start here: {errors[-1:] or lines[-1:]}")
        yield folder
    finally:
        for process in (node, controller):
            process.terminate()
            process.wait()
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before


def is_idle() -> bool:
    done = subprocess.run(["sinfo", "--noheader", "--format=%T"], capture_output=True, text=True)
    return done.stdout.strip() == "idle"


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, bytes]:
    """The files that one process writes, by name."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "sweep.toml").write_text(SWEEP)
    complete(read(folder / "sweep.toml"), folder / "out")
    return read_units(folder)


def read_units(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in list_units(folder)}


def list_units(folder: Path) -> list[Path]:
    return sorted((folder / "out" / "units").glob("*.safetensors"))


def list_jobs(states: str = "PENDING,RUNNING") -> list[str]:
    return ask("squeue", "--noheader", "--format=%A", f"--states={states}").split()


def start(folder: Path, **changes) -> subprocess.Popen:
    """Starts a sweep for three workers, of which two have room; `changes` are of its jobs."""
    job = {"cores": 1, "memory": "3GB", "python": sys.executable, "folder": folder, **changes}
    (folder / "dask").mkdir(exist_ok=True)
    (folder / "dask" / "jobqueue.yaml").write_text(JOBS.format(**job))
    (folder / "sweep.toml").write_text(SWEEP)
    command = [sys.executable, "-m", "emphatic", "sweep", "sweep.toml", "--out", "out"]
    return subprocess.Popen(
        [*command, "--cluster", "slurm", "--workers", "3"],
        cwd=folder,
        env={**os.environ, "DASK_CONFIG": str(folder / "dask")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def find_workers() -> list[psutil.Process]:
    """Lists the processes that compute in SLURM's jobs; each has a nanny."""
    workers: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any("multiprocessing.spawn" in word for word in command) and (
            process.environ().get("SLURM_JOB_NAME", "").startswith("emphatic-")
        ):
            workers.append(process)
    return workers


@pytest.mark.parametrize("cores", [1, 2])
def test_a_job_that_is_cancelled_and_a_worker_that_is_killed_change_no_bit(
    tmp_path, daemons, expected, cores
):
    sweep = start(tmp_path, cores=cores)
    wait_for(lambda: list_units(tmp_path), sweep)
    cancelled = list_jobs("RUNNING")
    subprocess.run(["scancel", *cancelled[:1]], check=True)
    wait_for(lambda: not set(cancelled[:1]) & set(list_jobs("RUNNING")), sweep)
    wait_for(find_workers, sweep)
    os.kill(find_workers()[0].pid, signal.SIGKILL)
    output, errors = sweep.communicate()
    assert sweep.returncode == 0, errors
    assert "3,840 of 3,840 cells done in 12 units" in output
    assert read_units(tmp_path) == expected
    assert list_jobs() == []
    assert len(list((tmp_path / "logs").glob("*.err"))) >= 2  # one is that of a job that replaces


def test_ctrl_c_cancels_the_jobs_and_the_same_command_goes_on(tmp_path, daemons, expected):
    sweep = start(tmp_path)
    wait_for(lambda: list_units(tmp_path), sweep)
    assert list_jobs() != []
    sweep.send_signal(signal.SIGINT)
    _, errors = sweep.communicate()
    assert sweep.returncode == 130
    assert "Traceback" not in errors
    assert list_jobs() == []
    kept = {path: path.stat().st_mtime_ns for path in list_units(tmp_path)}
    assert len(kept) < len(expected)
    sweep = start(tmp_path)
    _, errors = sweep.communicate()
    assert sweep.returncode == 0, errors
    assert read_units(tmp_path) == expected
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert list_jobs() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"memory": "100GB"},
            "emphatic: cluster: SLURM takes no job: Memory specification can not ",
        ),
        (
            {"python": "/no/python"},
            "emphatic: cluster: the jobs of SLURM end before a worker comes",
        ),
    ],
)
def test_jobs_that_cannot_run_are_one_clear_line(tmp_path, daemons, changes, message):
    sweep = start(tmp_path, **changes)
    _, errors = sweep.communicate()
    assert sweep.returncode == 2
    assert errors.splitlines()[-1].startswith(message)
    assert "Traceback" not in errors
    assert list_jobs() == []


def test_jobs_that_wait_for_ever_are_cancelled_by_ctrl_c(tmp_path, daemons):
    """A sweep that is killed before anything runs leaves nothing in the queue."""
    subprocess.run(["scontrol", "update", "PartitionName=all", "State=DOWN"], check=True)
    try:
        sweep = start(tmp_path)
        wait_for(lambda: len(list_jobs("PENDING")) == 3, sweep)
        sweep.send_signal(signal.SIGINT)
        sweep.communicate()
        assert sweep.returncode == 130
        assert list_jobs() == []
    finally:
        subprocess.run(["scontrol", "update", "PartitionName=all", "State=UP"], check=True)
