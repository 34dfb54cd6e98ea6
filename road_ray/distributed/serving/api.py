"""HTTP interface of a predictor: POST /predict, GET /health, GET /ready and the page /docs, and the
queue in which rows of waiting requests share a forward pass.

A refused request gets a JSON body that says what is wrong, where, the value seen and what is
allowed. Independent of Ray, whose own ``@serve.batch`` works inside its replicas only and refuses a
request that has more rows than a batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import torch
from fastapi import FastAPI, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from road_ray.distributed.serving.config import ServingConfig, is_loopback
from road_ray.distributed.serving.request_checks import (
    Problem,
    Refusal,
    RowReader,
    deadline,
    read_body,
    row_type,
    token_check,
)
from road_ray.errors import DataError, RoadError
from road_ray.inference.input_rows import Row
from road_ray.inference.predictor import Prediction, Predictor


class _Request(NamedTuple):
    rows: Sequence[tuple[str, Row]]
    answer: asyncio.Future[list[Prediction]]


class RowQueue:
    """Queue in front of ``predict``, which is called in a single thread.

    A batch is taken as soon as the model is free, from what arrived meanwhile: the oldest requests,
    at most ``max_rows`` rows in all unless one request alone has more. ``begin`` is called first in
    the thread.
    """

    def __init__(
        self,
        predict: Callable[[Sequence[tuple[str, Row]]], list[Prediction]],
        *,
        max_rows: int,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._predict, self._max_rows = predict, max_rows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model", initializer=begin)
        self._waiting: deque[_Request] = deque()
        self._work: asyncio.Task[None] | None = None

    async def predict(self, rows: Sequence[tuple[str, Row]]) -> list[Prediction]:
        """Return the predictions of a request's rows. Raises what ``predict`` raises for them."""
        loop = asyncio.get_running_loop()
        request = _Request(rows, loop.create_future())
        self._waiting.append(request)
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._run())
        return await request.answer

    async def _run(self) -> None:
        """Predict until nothing waits."""
        while self._waiting:
            batch = [self._waiting.popleft()]
            count = len(batch[0].rows)
            while self._waiting and count + len(self._waiting[0].rows) <= self._max_rows:
                batch.append(self._waiting.popleft())
                count += len(batch[-1].rows)
            await self._answer([request for request in batch if not request.answer.cancelled()])

    async def _answer(self, batch: Sequence[_Request]) -> None:
        if not batch:
            return
        rows = [row for request in batch for row in request.rows]
        loop = asyncio.get_running_loop()
        try:
            predictions = await loop.run_in_executor(self._thread, self._predict, rows)
        except Exception as error:
            if len(batch) > 1:  # one request is faulty: predict each alone
                for request in batch:
                    await self._answer([request])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        begin = 0
        for request in batch:
            end = begin + len(request.rows)
            if not request.answer.done():  # the client may have gone
                request.answer.set_result(predictions[begin:end])
            begin = end


_log = logging.getLogger(__name__)
_JSON = "application/json"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not JSON in UTF-8."},
    403: {"model": Problem, "description": "Another host or origin, at a server without a token."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    408: {"model": Problem, "description": "The body or the prediction took too long."},
    413: {"model": Problem, "description": "The request or a row of it is too large."},
    422: {"model": Problem, "description": "A row has other fields than the model reads."},
}


def build_api(
    predictor: Predictor, config: ServingConfig, digest: str | None, host: str
) -> FastAPI:
    """Return the application; ``digest`` is that of the token that requests must show. Without one,
    requests must name this machine or ``host`` as their host and their origin.
    """
    kind_of_row = row_type(predictor.fields, predictor.trained)
    reader = RowReader(predictor, config, kind_of_row)
    queue = RowQueue(
        predictor.predict_rows,
        max_rows=config.max_batch_rows,
        begin=partial(torch.set_num_threads, config.cpus_per_replica),
    )
    app: FastAPI = FastAPIOffline(
        title=f"road_ray: {predictor.task.name}",
        description="Predictions of a model. Times, rows and limits: docs/guides/serving.md.",
        redoc_url=None,
    )
    _answer_errors_as_json(app)
    if digest is None:
        app.add_middleware(OnlyFromHere, host=host)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return that the process answers."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        """Return that the model is loaded."""
        return {"status": "ready", "task": predictor.task.name}

    # The function reads the body itself, to be able to limit and explain it.
    row = kind_of_row.model_json_schema()
    many = {"type": "array", "items": row, "minItems": 1, "maxItems": config.max_request_rows}
    described = {"required": True, "content": {_JSON: {"schema": {"anyOf": [row, many]}}}}

    @app.post(
        "/predict",
        responses=_PROBLEMS,
        dependencies=[Security(token_check(digest))] if digest else [],
        openapi_extra={"requestBody": described},
    )
    async def predict(request: Request) -> Response:
        """Return the prediction of a row, or a list of those of a list of rows."""
        body = await read_body(request, config.max_request_bytes)
        rows, single = reader.rows(body)
        async with deadline(config.timeout_seconds, "the prediction"):
            predictions = await queue.predict(rows)
        return Response(to_json(predictions[0] if single else predictions), media_type=_JSON)

    return app


class OnlyFromHere:
    """Middleware that refuses a request whose headers Host and Origin name neither this machine nor
    ``host``: a page of another site, whose name its owner points to this machine, could read the
    answers. Browsers name that site.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with status 403."""
        answer = self._app
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        sites = {"Host": f"//{headers.get('host', '')}", "Origin": headers.get("origin") or ""}
        for header, site in sites.items() if headers else ():
            if site and not self._is_here(site):
                allowed = f"localhost, 127.0.0.1, ::1, {self._host}; others need a token"
                shown = site.removeprefix("//")
                refusal = Refusal(403, "another site", f"header {header}", shown, allowed)
                answer = JSONResponse(refusal.detail, refusal.status_code)
        await answer(scope, receive, send)

    def _is_here(self, site: str) -> bool:
        try:
            name = urlsplit(site).hostname or ""
        except ValueError:
            return False
        return is_loopback(name) or name == self._host.lower()


def _answer_errors_as_json(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        known: Any = error.detail
        if not isinstance(error, Refusal):
            where = f"{request.method} {request.url.path}"
            paths = "POST /predict, GET /health, /ready, /docs, /openapi.json"
            known = Problem(error=error.detail, where=where, allowed=paths).model_dump()
        return JSONResponse(known, error.status_code, error.headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nobody reads it; the log has no traceback

    @app.exception_handler(RoadError)
    async def failed(request: Request, error: RoadError) -> Response:
        text, of_rows = str(error).splitlines()[0], isinstance(error, DataError)
        if not of_rows:
            _log.error("%s", error)
        problem = Problem(error=text, where=text.partition(":")[0] if of_rows else None)
        return JSONResponse(problem.model_dump(), 422 if of_rows else 500)
