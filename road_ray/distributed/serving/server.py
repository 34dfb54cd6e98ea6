"""Start the server, here or on a Ray cluster, serve until a signal, and stop it gracefully."""

import logging
import math
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from road_ray.distributed.connection import address_of, check_machine, connected, is_joined
from road_ray.distributed.serving.config import ServingConfig, refuse_exposed, token_digest
from road_ray.errors import ClusterError, ConfigError, require

_log = logging.getLogger(__name__)
_NAME = "road"  # of the application
_MOST_CONNECTIONS = 4096  # of a server of one process; more are refused with status 503


def serve_model(
    config: ServingConfig,
    ready: Callable[[str, str], None],
    *,
    host: str,
    port: int,
    address: str | None,
) -> None:
    """Serve at ``host`` and ``port`` until SIGTERM or SIGINT; requests that are open then are
    answered. ``ready`` is called with the URL and the name of the model's task once the application
    answers. One replica without a cluster is this process; several, or one on the cluster at
    ``address``, are processes of Ray Serve.

    Raises ``ConfigError`` for an address beyond this machine without a token, for a port in use and
    for a model that cannot be loaded, before anything is started.
    """
    digest = token_digest(config.token_env)
    if config.token_env is not None:
        del os.environ[config.token_env]  # which processes that start later inherit
    refuse_exposed(host, digest)
    require("road serve", "serve", "fastapi", "fastapi_offline")
    cpus = config.replicas * config.cpus_per_replica
    check_machine(cpus, address)
    told = partial(ready, _url(host, port))
    with suppress(KeyboardInterrupt):
        if config.replicas > 1 or address_of(address) is not None or is_joined():
            _serve_on_ray(config, (host, port), digest, told, address)
        else:
            _serve_here(config, (host, port), digest, told)


def _serve_here(
    config: ServingConfig, place: tuple[str, int], digest: str | None, ready: Callable[[str], None]
) -> None:
    with _listener(*place) as listener:
        import uvicorn

        from road_ray.distributed.serving.api import build_api
        from road_ray.inference.load_model import load

        device = None if config.gpus_per_replica else "cpu"
        predictor = load(config.model, **config.loading | {"device": device})
        app = build_api(predictor, config, digest, place[0])

        settings = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=math.ceil(config.stop_seconds),
        )
        ready(predictor.task.name)  # requests wait in the listener until the server takes them
        uvicorn.Server(settings).run([listener])  # raises the signal that ended it again


def _serve_on_ray(
    config: ServingConfig,
    place: tuple[str, int],
    digest: str | None,
    ready: Callable[[str], None],
    address: str | None,
) -> None:
    """Serve on the cluster that this process uses, that at ``address``, or a new one."""
    host, port = place
    if address is None:  # another cluster's head is not asked
        _listener(host, port).close()
    from road_ray.inference.load_model import load

    # On the CPU: the model is read for its mistakes, and a GPU is for the replicas.
    task = load(config.model, **config.loading | {"device": "cpu"}).task.name
    if (directory := Path(config.model)).exists():
        config = config.model_copy(update={"model": str(directory.resolve())})
    cpus = config.replicas * config.cpus_per_replica
    with connected(address, num_cpus=None if address else cpus):
        from ray import serve
        from ray.exceptions import RayError

        from road_ray.distributed.room import room
        from road_ray.distributed.serving.deployment import build_application

        resources = {"CPU": float(config.cpus_per_replica), "GPU": config.gpus_per_replica}
        room("replicas", config.replicas, resources, free=True)
        logging.getLogger("ray.serve").setLevel(logging.WARNING)
        if serve.status().proxies:
            raise ClusterError(
                "Ray Serve runs on this cluster already, with its own host and port\n"
                "  fix: name another cluster, or stop what it serves: serve shutdown\n"
                "  kept: what it serves"
            )
        http = {"host": host, "port": port, "request_timeout_s": config.timeout_seconds}
        log = {"enable_access_log": False, "log_level": "WARNING"}
        try:
            try:
                serve.start(proxy_location="HeadOnly", http_options=http, logging_config=log)
                application = build_application(config, digest, host)
                serve.run(application, name=_NAME, route_prefix="/")
            except (RayError, RuntimeError) as error:
                raise ClusterError(
                    f"the model could not be served: {str(error).splitlines()[0]}\n"
                    "  fix: see the errors of replicas above, or try again when the machine is "
                    f"less busy; every machine with a replica reads {config.model}\n"
                    "  kept: nothing was left running"
                ) from error
            try:
                ready(task)
                threading.Event().wait()
            finally:
                # The proxy would go at once with Serve, and open requests with it.
                _log.info("stopping; open requests are answered first")
                serve.delete(_NAME)
        finally:
            serve.shutdown()


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises ``ConfigError`` for a host that is not of this
    machine and for a port in use, which Serve would retry for minutes.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # asyncio does it only for sockets that name their protocol. Without it the body of an
        # answer waits 40 ms, until the client has acknowledged the header.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise ConfigError(
            f"{_url(host, port)}: cannot listen there: {error.strerror or error}\n"
            "  fix: free the port, or name another host or port; the processes of a killed server "
            "(kill -9) may hold its port for up to a minute: then try again\n"
            "  kept: nothing was started"
        ) from error
