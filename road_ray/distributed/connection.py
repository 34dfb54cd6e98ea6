"""Connection of this process to a Ray cluster: a running one, the one of a job, or a new one on
this machine that lives as long as the process; and the cluster's authentication token.

The token is required by default and readable by its owner only: anyone who reaches an open cluster
can run code on all of its machines (CVE-2023-48022), so a cluster that answers without a token is
an error unless the user accepts it explicitly.
"""

import logging
import os
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from road_ray.distributed.room import SCALE_UP_VARIABLE, no_room
from road_ray.errors import ClusterError
from road_ray.system.files import CACHE, path_of

_REPEATED = "Failed to query Ray Train|arguments in the object store"
_READ_AT_IMPORT = {  # by Ray
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",  # default 2: seconds until a dead worker is noticed
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",  # default 60: too long for a node that is gone
    # Default 600: seconds until a worker that does not answer is ended; enough for one that swaps.
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "120",
    # End groups that hang in a collective of NCCL for ten minutes.
    "RAY_TRAIN_ENABLE_NCCL_HANG_DETECTOR": "1",
    "RAY_TRAIN_NCCL_RAS_ACTION": "fail",
    "RAY_TRAIN_NCCL_RAS_CONFIRM_DURATION_S": "600",
    # Default 5; a proxy that takes three times as long to import its modules is killed.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    "RAY_WARN_BLOCKING_GET_INSIDE_ASYNC": "0",  # as Ray Train has it in its controller
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of results that nobody asks for behind a first error
    "RAY_worker_niceness": "0",  # default 15: starves workers where the driver works too
    "RAY_COLOR_PREFIX": "0",  # lines of other processes, also in files
    # Drop messages that Ray's helpers repeat every second, and pass all others on as they are:
    # without "[repeated 2x across cluster]" in green.
    "RAY_DEDUP_LOGS_SKIP_REGEX": _REPEATED,
    "RAY_DEDUP_LOGS_ALLOW_REGEX": f"^(?!.*(?:{_REPEATED}))",
}
# Variables that a run reads and that must agree with the driver's. ROAD_DEVICE is not one of them:
# it depends on the machine.
_SHARED_WITH_WORKERS = ("ROAD_DATA", CACHE, SCALE_UP_VARIABLE)
_log = logging.getLogger(__name__)
ACCEPT = "ROAD_ACCEPT_OPEN_CLUSTER"
_HEAD_ANSWERS = "/ray.rpc.NodeInfoGcsService/CheckAlive"  # takes an empty request
_ATTEMPTS = 3  # to start; a machine full of other work makes the first one miss Ray's limit
# Ray would show its metrics to other machines, without a token. Those of its dashboard and its
# autoscaler have no switch; their servers do not start without a port.
_NO_METRICS = {"DASHBOARD_METRIC_PORT": "-1", "AUTOSCALER_METRIC_PORT": "-1"}


def check_machine(workers: int, address: str | None) -> None:
    """Raise ``ClusterError`` if a new cluster on this machine has fewer CPUs than ``workers``.
    Called before the data are read and the cluster starts, which takes half a minute.
    """
    cores = os.cpu_count() or workers
    if workers > cores and not (address_of(address) or is_joined()):
        problem = f"workers = {workers} do not fit on this machine: each needs a core"
        fix = f"--workers {cores} or fewer, or the address of a larger cluster (--address)"
        raise no_room(problem, {"CPU": str(workers)}, {"CPU": cores}, fix)


def is_joined() -> bool:
    """Return True if this process uses a cluster already."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def address_of(address: str | None) -> str | None:
    """Return the address of the cluster to join, as given or from the surrounding Ray job, or
    None.
    """
    return address or os.environ.get("RAY_ADDRESS") or None


def prepare_address(address: str | None) -> str | None:
    """Return ``address_of(address)``; set the variables that Ray reads at import, so call it before
    Ray is imported: those of its token, and our defaults unless they are set already. A cluster
    that this process starts afterwards has them in all of its processes.
    """
    address = address_of(address)
    require_token(create=address is None)
    for name, value in _READ_AT_IMPORT.items():
        os.environ.setdefault(name, value)
    return address


@contextmanager
def connected(
    address: str | None = None, *, num_cpus: int | None = None, dashboard: bool = False
) -> Iterator[None]:
    """Connect this process to Ray: to the cluster it already uses, else to the one at ``address``
    or of the surrounding Ray job, else to a new one with ``num_cpus`` CPUs. ``dashboard`` starts
    the new one's, which Ray Train's clean-up needs.

    Raises ``ClusterError`` for a cluster that cannot be joined or that accepts requests without a
    token.
    """
    address = prepare_address(address)
    import ray

    if ray.is_initialized():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address is None:
            start(num_cpus, dashboard=dashboard)
        else:
            if address.rpartition(":")[2].isdecimal() and "//" not in address:
                refuse_open(address, lets_anybody_join)  # Ray waits for minutes for an answer
            ray.init(address=address, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"address = {address}: no Ray cluster could be joined: {error}\n"
            "  fix: start one, check the address and the token, or leave the address out"
        ) from error
    # Ray has put in its own, which ends the process at once.
    if callable(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
    try:
        if address is not None:
            refuse_open(ray.get_runtime_context().gcs_address, lets_anybody_join)
        yield
    finally:
        ray.shutdown()


def environment_for_workers() -> tuple[str, dict[str, str]]:
    """Return working directory and variables of this process for ``driver_environment``."""
    shared = [name for name in _SHARED_WITH_WORKERS if name in os.environ]
    return os.getcwd(), {name: os.environ[name] for name in shared}


@contextmanager
def driver_environment(environment: tuple[str, Mapping[str, str]]) -> Iterator[None]:
    """Give this worker process the driver's working directory, if it exists here, and in the body
    the driver's variables, so that a configuration means the same in both. Variables that the
    driver does not have stay as they are.

    Entered once a task, before its run: on a running cluster, Ray starts workers in a directory of
    its own and with the environment of their machine, and one process may run several tasks.
    """
    directory, variables = environment
    if Path(directory).is_dir():
        os.chdir(directory)
    with temporary_variables(variables):
        yield


def start(num_cpus: int | None, *, dashboard: bool) -> None:
    """Start a cluster and join it; try again if it is not up within Ray's 30 s, which cannot be
    changed. Raises ``ClusterError`` if the last attempt fails too.
    """
    import ray

    _log.info("starting Ray on this machine")
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with temporary_variables(_NO_METRICS):
                ray.init(
                    address="local",
                    num_cpus=num_cpus,
                    include_dashboard=dashboard,
                    log_to_driver=True,
                    logging_level=logging.ERROR,
                    _system_config={"enable_metrics_collection": False},
                )
            return
        except Exception as error:
            if type(error) is not Exception:  # Ray raises a plain one for a failed start
                raise
            ray.shutdown()  # ends what this attempt has started
            load = f"{os.getloadavg()[0]:.0f} processes at work on {os.cpu_count()} cores"
            if attempt == _ATTEMPTS:
                raise ClusterError(
                    f"Ray could not be started on this machine in {attempt} attempts: {error}\n"
                    f"  seen: {load}\n"
                    "  fix: run the same command again when the machine is less busy, or give the "
                    "address of a running cluster (`ray start --head`, then --address auto)\n"
                    "  kept: what was there before"
                ) from error
            _log.warning("Ray was not up within its 30 s (%s); trying again", load)


@contextmanager
def temporary_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables in the body and restore them afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def token_path() -> Path:
    """Return the path where Ray looks for the token."""
    variable = "RAY_AUTH_TOKEN_PATH"
    return path_of(os.environ.get(variable) or "~/.ray/auth_token", variable)


def require_token(*, create: bool = False) -> None:
    """Make this process and its children send a token and require one.

    A token file that others can read is made private (Ray writes it with mode 0644); ``create``
    writes a new one if there is none. RAY_AUTH_MODE, if set, is not changed.
    """
    # Ray reads the mode when it is imported: set later, its server would require a token that its
    # client does not send. A Ray that is already imported uses the token if there is one.
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode != "token" or os.environ.get("RAY_AUTH_TOKEN"):
        return
    path = token_path()
    if path.is_file():
        permissions = stat.S_IMODE(path.stat().st_mode)
        if permissions & 0o077:
            path.chmod(permissions & 0o700)
            _log.warning("%s could be read by others (mode %o); closed", path, permissions)
    elif create:
        path.parent.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(32)
        with suppress(FileExistsError):  # another process has made one meanwhile
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            os.write(file, token.encode())  # few bytes: all or none
            os.close(file)


def accepts_anonymous(dashboard: str, timeout_seconds: float = 10.0) -> bool | None:
    """Return True if the jobs interface of a dashboard answers without a token, False if it asks
    for one, None if it cannot be told: nothing answers in time, or not in HTTP.
    """
    import httpx

    url = dashboard if "://" in dashboard else f"http://{dashboard}"
    try:
        place = f"{url.rstrip('/')}/api/jobs/"
        with httpx.stream("GET", place, timeout=timeout_seconds, trust_env=False) as answer:
            return answer.status_code not in (401, 403)
    except (httpx.HTTPError, httpx.InvalidURL):  # of the connection, the answer, the address
        return None


def lets_anybody_join(gcs_address: str, timeout_seconds: float = 10.0) -> bool | None:
    """Return True if the head of a cluster (``host:port``) answers Ray's processes without a token,
    False if it asks for one, None if it cannot be told. Needs no dashboard.
    """
    import grpc  # a dependency of ray[default]

    with grpc.insecure_channel(gcs_address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(_HEAD_ANSWERS)(b"", timeout=timeout_seconds)
            return True
        except grpc.RpcError as error:
            return False if error.code() is grpc.StatusCode.UNAUTHENTICATED else None


def refuse_open(address: str, ask: Callable[[str], bool | None], *, accepted: bool = False) -> None:
    """Raise ``ClusterError`` for a cluster that takes requests without authentication and for one
    that could not be asked, unless that is accepted. ``ask`` is ``accepts_anonymous`` for a
    dashboard, ``lets_anybody_join`` for a head.
    """
    if accepted or os.environ.get(ACCEPT) == "1":
        return
    is_open = ask(address)
    if is_open is False:
        return
    problem = "answers without a token: it lets everybody in"
    fix = "start it with RAY_AUTH_MODE=token (docs/guides/cluster.md)"
    if is_open is None:
        problem = "whether it asks for a token could not be checked: it does not answer as Ray does"
        fix = "check that it is reachable (`ray dashboard FILE`, `kubectl port-forward`)"
    raise ClusterError(
        f"{address}: {problem}\n"
        "  allowed: clusters that ask for a token; in an open one everybody who reaches it runs "
        f"code\n  fix: {fix}, or say that an open one is meant: {ACCEPT}=1, or "
        "--i-know-this-is-open of `road submit`\n  kept: nothing was sent"
    )
