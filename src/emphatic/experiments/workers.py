"""Dask's workers: on this machine, at the address of a scheduler, or in jobs of SLURM."""

import logging
import os
import re
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, ExitStack
from importlib.util import find_spec
from typing import Any

from .._validation import unknown
from ..engine.tasks import num_cores
from . import slurm

_MAX_DEATHS = 1  # of workers that a unit may cause on this machine
_NUM_WORKERS = 8  # on SLURM by default
_CONNECT_TIMEOUT = 5.0  # seconds
_NO_ROUTES = {f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")}
_NO_PAUSE = {"target": False, "spill": False, "pause": False}  # which never ends: it is JAX's
_NO_DASHBOARD = "127.0.0.1:0"  # a server without routes
_IGNORE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # it is for us alone
_NOT_INSTALLED = "cluster: {} is not installed; run pip install 'emphatic[cluster]'"
_LOGGERS = ("distributed", "tornado", "asyncio")


def require_cluster(address: str, num_workers: int | None) -> None:
    """Raises a `ValueError` if this cannot be a cluster."""
    if find_spec("distributed") is None:
        raise ValueError(_NOT_INSTALLED.format("Dask"))
    if address in ("local", "slurm") and find_spec("cryptography") is None:
        raise ValueError(_NOT_INSTALLED.format("cryptography"))
    if address not in ("local", "slurm") and not re.fullmatch(r"(\w+://)?[^\s:/]+:\d+", address):
        raise unknown("cluster", address, ("local", "slurm", "tcp://HOST:PORT"))
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers: got {num_workers}; at least 1 is required")
    if num_workers is not None and address not in ("local", "slurm"):
        raise ValueError(f"num_workers: {address} has its own; leave it out")
    if address == "slurm":
        _require_slurm()


def _require_slurm() -> None:
    for command in slurm.COMMANDS:
        if shutil.which(command) is None:
            message = f"there is no {command} here; slurm needs a machine that submits jobs"
            raise ValueError(f"cluster: {message}")
    if find_spec("dask_jobqueue") is None:
        raise ValueError(_NOT_INSTALLED.format("dask-jobqueue"))
    from dask import config

    for name in ("cores", "memory"):
        if config.get(f"jobqueue.slurm.{name}", None) is None:
            raise ValueError(f"cluster: jobqueue.slurm.{name} is not set in Dask's configuration")


@contextmanager
def connect(
    address: str, num_workers: int | None, num_units: int, on_message: Callable[[str], None]
) -> Generator[tuple[Any, slurm.Jobs | None], None, None]:
    """Connects a client to workers; yields it and the jobs they are in, and ends all in the end."""
    from distributed import Client

    with ExitStack() as stack:
        scheduler: Any = address
        jobs: slurm.Jobs | None = None
        if address == "local":
            num_workers = min(num_workers or num_cores(), num_units)
            scheduler = stack.enter_context(_start_local(num_workers))
        elif address == "slurm":
            num_workers = min(num_workers or _NUM_WORKERS, num_units)
            scheduler, jobs = stack.enter_context(_start_slurm(num_workers, on_message))
        try:
            client = Client(scheduler, timeout=_CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"cluster: no scheduler answers at {address}: {error}") from None
        yield stack.enter_context(client), jobs


@contextmanager
def _start_local(num_workers: int) -> Generator[Any, None, None]:
    """Starts processes on this machine, with one thread each, and again when they die.

    They talk TLS with a certificate of their own, which they keep in memory: whoever else connects
    is turned away. They have no dashboard, serve nothing over HTTP, and their folder is private.
    """
    from dask import config
    from distributed import LocalCluster, Security

    before = dict(os.environ)  # Dask sets the number of OpenMP's threads, also here
    options: dict[str, Any] = {
        "n_workers": num_workers,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": None,
        "security": Security.temporary(),
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
        "scheduler_kwargs": {"allowed_failures": _MAX_DEATHS, "dashboard_address": _NO_DASHBOARD},
        "preload": [*config.get("distributed.worker.preload"), _IGNORE_CTRL_C],
    }
    try:
        with (
            tempfile.TemporaryDirectory(prefix="emphatic-") as folder,
            config.set(_NO_ROUTES),
            LocalCluster(**options, local_directory=folder) as cluster,
        ):
            yield cluster
    except RuntimeError as error:
        if "failed to start" not in str(error):
            raise
        raise ValueError(
            f"cluster: its processes do not start ({error}); in a script of your own, call this "
            "below `if __name__ == '__main__':`"
        ) from error
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _start_slurm(
    num_workers: int, on_message: Callable[[str], None]
) -> Generator[tuple[Any, slurm.Jobs], None, None]:
    """Starts a scheduler here, and jobs with workers, which talk TLS as those on this machine."""
    from dask import config
    from distributed import Scheduler, Security, SpecCluster

    job_type = _import_job()  # and the defaults of its configuration

    security = Security.temporary()
    options = dict(config.get("jobqueue.slurm.scheduler-options", None) or {})
    if not {"host", "interface"} & options.keys():
        options["interface"] = config.get("jobqueue.slurm.interface")
    options = {"dashboard_address": _NO_DASHBOARD, **options}
    own = {"protocol": "tls://", "security": security, "dashboard": False}
    scheduler = {"cls": Scheduler, "options": {**options, **own}}
    settings: dict[str, Any] = {"security": security, "silence_logs": logging.CRITICAL}
    try:
        with config.set(_NO_ROUTES), SpecCluster(scheduler=scheduler, **settings) as running:
            cluster: Any = running
            script, num_processes = _write_script(job_type, cluster.scheduler_address, security)
            jobs = slurm.Jobs(script, -(-num_workers // num_processes), on_message)
            try:
                jobs.renew(False)
                yield cluster, jobs
            finally:
                jobs.cancel()
    except RuntimeError as error:
        if "failed to start" not in str(error):
            raise
        raise ValueError(f"cluster: no scheduler can be started here: {error}") from error


def _import_job() -> Any:
    """Imports what describes a job; the import lets Ctrl-C end the process, without a word."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        from dask_jobqueue.slurm import SLURMJob
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return SLURMJob


def _write_script(job_type: Any, address: str, security: Any) -> tuple[str, int]:
    """Writes a job as Dask's configuration describes it; returns also how many workers it has."""
    from dask import config

    tls = security.get_tls_config_for_role("worker")
    certificate = {"ca-file": tls["ca_file"], "worker": {"cert": tls["cert"], "key": tls["key"]}}
    settings = {
        "comm": {"require-encryption": True, "tls": certificate},
        "worker": {"http": {"routes": []}, "memory": _NO_PAUSE},
    }
    folder = config.get("jobqueue.slurm.local-directory") or "${TMPDIR:-/tmp}"
    prologue = [
        *config.get("jobqueue.slurm.job-script-prologue"),
        f"export DASK_INTERNAL_INHERIT_CONFIG={config.serialize({'distributed': settings})}",
        f'mkdir -p "{folder}" && scratch=$(mktemp -d "{folder}/emphatic-XXXXXXXX") || exit 1',
        "trap 'rm -rf \"$scratch\"' EXIT",
    ]
    try:
        job = job_type(
            address,
            name='"$SLURM_JOB_ID"',
            protocol="tls://",
            local_directory='"$scratch"',
            job_script_prologue=prologue,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"cluster: jobqueue.slurm in Dask's configuration: {error}") from None
    return job.job_script(), job.worker_processes


@contextmanager
def silence_dask() -> Generator[None, None, None]:
    """Silences Dask: what a person should know is reported here."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOGGERS]
    loggers = [logging.getLogger(name) for name in {*_LOGGERS, *names}]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
