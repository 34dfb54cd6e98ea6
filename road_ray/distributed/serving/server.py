"""Start the application on a Ray cluster, serve until a signal, and stop it gracefully."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path

from road_ray.distributed.connection import (
    address_of,
    check_machine,
    connected,
    is_joined,
    prepare_address,
)
from road_ray.distributed.serving.config import ServingConfig, refuse_exposed, token_digest
from road_ray.distributed.serving.haproxy import haproxy_settings
from road_ray.errors import ClusterError, ConfigError

_NAME = "road"  # of the application
_START_SECONDS, _POLL_SECONDS = 600.0, 0.5


@dataclass(frozen=True)
class Listening:
    """Address on which the proxy listens, and the cluster to join, if any."""

    host: str = "127.0.0.1"
    port: int = 8000
    address: str | None = None

    @property
    def url(self) -> str:
        """Return the address of the application."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def serve_model(
    config: ServingConfig, listening: Listening, ready: Callable[[str], None] = lambda task: None
) -> None:
    """Serve until SIGTERM or SIGINT; requests that are open then are answered. ``ready`` is called
    with the name of the model's task once the application answers.

    Raises ``ConfigError`` for an address beyond this machine without a token, for a port in use and
    for a model that cannot be loaded, before anything is started.
    """
    digest = token_digest(config.token_env)
    refuse_exposed(listening.host, digest)
    if find_spec("fastapi_offline") is None or find_spec("fastapi") is None:
        raise ConfigError("road serve: FastAPI is missing\n  fix: pip install 'road-ray[serve]'")
    _check_port(listening)
    joined = prepare_address(listening.address) is not None or is_joined()
    cpus = config.replicas * config.cpus_per_replica
    check_machine(cpus, listening.address)
    from road_ray.inference.load_model import load

    # On the CPU: the model is read for its mistakes, and a GPU is for the replicas.
    task = load(config.model, **config.loading | {"device": "cpu"}).task.name
    place = Path(config.model)
    if place.exists():
        config = config.model_copy(update={"model": str(place.resolve())})
    with (
        # The processes of a running cluster have their environment already.
        nullcontext() if joined else haproxy_settings(),
        connected(listening.address, num_cpus=None if listening.address else cpus),
    ):
        try:
            with _interruptible():
                require_room(config)
        except KeyboardInterrupt:
            return
        with (
            _signals() as stop,  # within, because Ray has a handler of its own
            running_application(config, listening, digest, stop),
        ):
            if not stop.is_set():
                ready(task)
            stop.wait()


def require_room(config: ServingConfig) -> None:
    """Wait until the cluster has room for the replicas. Raises ``ClusterError`` if it has none."""
    from road_ray.distributed.placement import check_placement, wait_for_room

    resources = {"CPU": float(config.cpus_per_replica), "GPU": config.gpus_per_replica}
    check_placement("replicas", config.replicas, resources)
    wait_for_room(config.replicas, resources, actors="replicas")


@contextmanager
def running_application(
    config: ServingConfig, listening: Listening, digest: str | None, stop: threading.Event
) -> Iterator[None]:
    """Run the application on the joined cluster. Enters the body once it answers, or ``stop`` is
    set.
    """
    from ray import serve
    from ray.exceptions import RayError

    from road_ray.distributed.serving.deployment import build_application

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    if serve.status().proxies:
        raise ClusterError(
            "Ray Serve runs on this cluster already, with its own host and port\n"
            "  fix: name another cluster, or stop what it serves: serve shutdown\n"
            "  kept: what it serves"
        )
    http = {
        "host": listening.host,
        "port": listening.port,
        "request_timeout_s": config.timeout_seconds,
    }
    logging_config = {"enable_access_log": False, "log_level": "WARNING"}
    try:
        try:
            serve.start(proxy_location="HeadOnly", http_options=http, logging_config=logging_config)
            target = serve.RunTarget(build_application(config, digest), _NAME, route_prefix="/")
            serve.run_many([target], wait_for_applications_running=False)
            _wait_until_running(listening, stop)
        except (RayError, RuntimeError, TimeoutError) as error:
            raise ClusterError(
                f"the model could not be served: {str(error).splitlines()[0]}\n"
                "  fix: see the errors of replicas above, or try again when the machine is less "
                f"busy; every machine with a replica reads {config.model}\n"
                "  kept: nothing was left running"
            ) from error
        yield
        # The proxy would go at once with Serve, and open requests with it.
        serve.delete(_NAME)
    finally:
        serve.shutdown()


def _wait_until_running(listening: Listening, stop: threading.Event) -> None:
    """Wait until the application answers or ``stop`` is set. Raises ``RuntimeError`` if a replica
    cannot be started, ``TimeoutError`` after ``_START_SECONDS``.
    """
    from ray import serve

    deadline = time.monotonic() + _START_SECONDS
    while not stop.wait(_POLL_SECONDS):
        application = serve.status().applications[_NAME]
        if application.status == "DEPLOY_FAILED":
            raise RuntimeError(f"deployment failed: {application.message}")
        if application.status == "RUNNING" and _answers(listening):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"it has not started after {_START_SECONDS:g} s")


def _answers(listening: Listening) -> bool:
    """Return True if the proxy passes requests on, which HAProxy does a moment after the replicas
    are up. Another cluster's proxy is not asked, because it may not be reachable from here.
    """
    if address_of(listening.address) is not None:
        return True
    try:
        connection = HTTPConnection(listening.host, listening.port, timeout=_POLL_SECONDS)
        with closing(connection):
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end the body as Ctrl-C does, by ``KeyboardInterrupt``."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Give the event that the first SIGTERM or SIGINT sets; a second one ends the process."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: object) -> None:
        restore()
        stop.set()

    for number in numbers:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()


def _check_port(listening: Listening) -> None:
    """Raise ``ConfigError`` for a host that is not of this machine and for a port in use, which
    Serve would retry for minutes. Another cluster's machine is not checked.
    """
    if listening.address is not None:
        return
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((listening.host, listening.port))
    except OSError as error:
        raise ConfigError(
            f"{listening.url}: cannot listen there: {error.strerror or error}\n"
            "  fix: free the port, or name another host or port\n  kept: nothing was started"
        ) from error
