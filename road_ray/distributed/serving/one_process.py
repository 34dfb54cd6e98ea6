"""Serve one copy of a model from this process: no cluster, no port but the one of requests."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable

import uvicorn

from road_ray.distributed.serving.api import build_api
from road_ray.distributed.serving.config import ServingConfig
from road_ray.inference.predictor import Predictor

_MOST_CONNECTIONS = 4096  # more are refused with status 503


def serve_here(
    predictor: Predictor,
    config: ServingConfig,
    listener: socket.socket,
    digest: str | None,
    ready: Callable[[], None],
) -> None:
    """Answer requests on ``listener`` until SIGTERM or SIGINT; those that are open then are
    answered. ``ready`` is called once requests are taken. The signal is raised again at the end.
    """
    host, *_ = listener.getsockname()
    server = uvicorn.Server(
        uvicorn.Config(
            build_api(predictor, config, digest, host),
            log_level="warning",
            access_log=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=math.ceil(config.stop_seconds),
        )
    )

    async def serve() -> None:
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            ready()
        await serving

    asyncio.run(serve())
