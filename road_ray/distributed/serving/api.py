"""HTTP interface of a predictor: POST /predict, GET /health, GET /ready and the page /docs, and the
queue in which rows of waiting requests share a forward pass.

A refused request gets a JSON body that says what is wrong, where, the value seen and what is
allowed: a ``Refusal``. The type of a row is made for each kind of head. Independent of Ray, whose
own ``@serve.batch`` works inside its replicas only and refuses a request that has more rows than a
batch.
"""

import asyncio
import hmac
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlsplit

import torch
from fastapi import FastAPI, HTTPException, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi_offline import FastAPIOffline
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as PlainHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from road_ray.distributed.serving.config import ServingConfig, digest_of, is_loopback
from road_ray.errors import DataError, RoadError, first_line
from road_ray.inference.input_rows import Row, TrainedInput, names_read
from road_ray.inference.predictor import Prediction, Predictor

_log = logging.getLogger(__name__)
_ROW = ConfigDict(extra="forbid", strict=True)
_FIELDS: dict[str, tuple[Any, str]] = {
    "id": (str | int, "Name of the row in the answer; by default its number in the request."),
    "text": (str, "The text, or the first of a pair."),
    "text_pair": (str, "The second text of a pair."),
    "question": (str, "The question."),
    "context": (str, "The text that holds the answer."),
    "words": (Annotated[list[str], Field(min_length=1)], "The words of the sentence."),
    "choices": (Annotated[list[str], Field(min_length=2)], "The texts to choose from."),
}


def row_type(trained: TrainedInput) -> type[BaseModel]:
    """Return the type of a row with the fields of a model; a request may have the columns of the
    training instead, if the model records them.
    """
    fields, optional = trained.fields, ("id", *trained.optional)
    described: dict[str, Any] = {}
    for name in ("id", *fields):
        kind, meaning = _FIELDS[name]
        kind, default = (kind | None, None) if name in optional else (kind, ...)
        described[name] = kind, Field(default, description=meaning)

    def by_field(row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        columns = trained.columns_in(row, {})
        given = [name for name in columns if row.get(name) is not None]
        if twice := [name for name in given if name not in names_read(row, columns)]:
            raise ValueError(f"{twice[0]} is given twice, also by its column of the training")
        named = trained.named(row)
        if "words" in fields and (named.get("text") is None) == (named.get("words") is None):
            raise ValueError("give either text or words")
        return named

    checks: dict[str, Any] = {"by_field": model_validator(mode="before")(by_field)}
    text = "Row of a request."
    return create_model("Row", __config__=_ROW, __doc__=text, __validators__=checks, **described)


_SHOWN = 80  # characters of a value in a message
_BODY_SECONDS = 10.0  # in which a body arrives
_BEARER = HTTPBearer(auto_error=False, description="The token that the server was given.")


class Refusal(HTTPException):
    """A request that is answered with a status from 400 and the reason: the mistake, its row
    and field, header or byte, the value found there and what is allowed.
    """

    def __init__(
        self, status: int, error: str, where: str, value: object = None, allowed: str | None = None
    ) -> None:
        # JSON has no NaN.
        plain = value is None or (isinstance(value, int | float) and abs(value) < math.inf)
        seen: Any = value if plain else str(value)[:_SHOWN]
        reason = {"error": error, "where": where, "value": seen, "allowed": allowed}
        super().__init__(status, reason, {"WWW-Authenticate": "Bearer"} if status == 401 else None)


class RowReader:
    """Reads the rows of a body and holds them to the limits."""

    def __init__(self, predictor: Predictor, config: ServingConfig) -> None:
        self._tokenizer, self._most_tokens = predictor.tokenizer, config.max_row_tokens
        self.row = row_type(predictor.trained)
        self._fields = ", ".join(self.row.model_fields)
        limits = Field(min_length=1, max_length=config.max_request_rows)
        self._many = TypeAdapter[Any](Annotated[list[self.row], limits])  # type: ignore

    def rows(self, body: bytes) -> tuple[list[tuple[str, Row]], bool]:
        """Return the rows with their places, and whether the body is one row rather than a list.

        Raises ``Refusal``.
        """
        single = not body.lstrip().startswith(b"[")
        try:
            one = self.row.model_validate_json
            rows = [one(body)] if single else self._many.validate_json(body)
        except ValidationError as error:
            raise self._refusal(error) from error
        read = []
        for number, parsed in enumerate(rows):
            where = "row" if single else f"[{number}]"
            row = parsed.model_dump(exclude_none=True)
            row["id"] = str(row.get("id", number))
            self._check_size(row, where)
            read.append((where, row))
        return read, single

    def _check_size(self, row: Row, where: str) -> None:
        """Raise ``Refusal`` for a row with too many tokens."""
        most = self._most_tokens
        values = [value for name, value in row.items() if name != "id"]
        texts = [text for v in values for text in (v if isinstance(v, list) else [str(v)])]
        if sum(len(text.encode()) for text in texts) > most:  # a token has a byte at least
            ids = self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
            if (count := sum(map(len, ids))) > most:
                raise Refusal(413, "tokens of a row", where, count, f"at most {most} tokens")

    def _refusal(self, error: ValidationError) -> Refusal:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            allowed = "a JSON object, or a list of them, in UTF-8"
            return Refusal(400, first["msg"], "body", None, allowed)
        places = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]]
        where = "".join(places).lstrip(".") or "body"
        known = {"missing": "missing field", "extra_forbidden": "unknown field"}
        message = known.get(first["type"], first["msg"].removeprefix("Value error, "))
        value = None if first["type"] in known else first["input"]
        status = 413 if first["type"] == "too_long" else 422
        return Refusal(status, message, where, value, f"fields {self._fields}")


@asynccontextmanager
async def deadline(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise ``Refusal`` if the body takes longer than ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Refusal(408, "time-out", what, None, f"at most {seconds:g} s") from error


def token_check(digest: str) -> Callable[..., Any]:
    """Return a dependency that raises ``Refusal`` for a request without the token of this digest,
    compared in constant time. The token is shown nowhere.
    """

    async def check(
        credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
    ) -> None:
        shown = digest_of(credentials.credentials) if credentials else ""
        if not hmac.compare_digest(shown, digest):
            error = "wrong token" if credentials else "missing token"
            raise Refusal(401, error, "header Authorization", None, "Bearer and the server's token")

    return check


async def read_body(request: Request, most: int) -> bytes:
    """Return the body. Raises ``Refusal`` for a large one before it is read whole, and for one that
    does not arrive within ``_BODY_SECONDS``.
    """
    body = bytearray()
    async with deadline(_BODY_SECONDS, "body"):
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                allowed = f"at most {most} bytes"
                raise Refusal(413, "bytes of the body", "body", len(body), allowed)
    return bytes(body)


_Request = tuple[Sequence[tuple[str, Row]], asyncio.Future[list[Prediction]]]
"""Rows and answer of a request."""


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
        answer: asyncio.Future[list[Prediction]] = loop.create_future()
        self._waiting.append((rows, answer))
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        """Predict until nothing waits."""
        while self._waiting:
            batch: list[_Request] = []
            room = self._max_rows
            while self._waiting and (not batch or len(self._waiting[0][0]) <= room):
                rows, answer = self._waiting.popleft()
                if not answer.cancelled():
                    batch.append((rows, answer))
                    room -= len(rows)
            if batch:
                await self._answer(batch)

    async def _answer(self, batch: Sequence[_Request]) -> None:
        every = [row for rows, _ in batch for row in rows]
        loop = asyncio.get_running_loop()
        try:
            predictions = iter(await loop.run_in_executor(self._thread, self._predict, every))
        except Exception as error:
            if len(batch) > 1:  # one request is faulty: predict each alone
                for request in batch:
                    await self._answer([request])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        for rows, answer in batch:
            predicted = list(islice(predictions, len(rows)))
            if not answer.done():  # the client may have gone
                answer.set_result(predicted)


_JSON = "application/json"
_ANSWERED = (PlainHTTPException, ClientDisconnect, RoadError)


def build_api(
    predictor: Predictor, config: ServingConfig, digest: str | None, host: str
) -> FastAPI:
    """Return the application; ``digest`` is that of the token that requests must show. Without one,
    requests must name this machine or ``host`` as their host and their origin.
    """
    reader = RowReader(predictor, config)
    queue = RowQueue(
        predictor.predict_rows,
        max_rows=config.max_batch_rows,
        begin=partial(torch.set_num_threads, config.cpus_per_replica),
    )
    app: FastAPI = FastAPIOffline(
        title=f"road_ray: {predictor.task.name}",
        description="Predictions of a model. Times, rows and limits: docs/guides/serving.md.",
        redoc_url=None,
        exception_handlers=dict.fromkeys(_ANSWERED, _as_json),
    )
    if digest is None:
        app.add_middleware(only_from_here, host=host)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return that the process answers."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        """Return that the model is loaded."""
        return {"status": "ready", "task": predictor.task.name}

    # The function reads the body itself, to be able to limit and explain it.
    row = reader.row.model_json_schema()
    many = {"type": "array", "items": row, "minItems": 1, "maxItems": config.max_request_rows}
    described = {"required": True, "content": {_JSON: {"schema": {"anyOf": [row, many]}}}}

    @app.post(
        "/predict",
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


def only_from_here(app: ASGIApp, host: str) -> ASGIApp:
    """Return a middleware that refuses, with status 403, a request whose headers Host and Origin
    name neither this machine nor ``host``: a page of another site, whose name its owner points to
    this machine, could read the answers. Browsers name that site.
    """

    def is_here(site: str) -> bool:
        try:
            name = urlsplit(site).hostname or ""
        except ValueError:
            return False
        return is_loopback(name) or name == host.lower()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = app
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        sites = {"Host": f"//{headers.get('host', '')}", "Origin": headers.get("origin") or ""}
        for header, site in sites.items() if headers else ():
            if site and not is_here(site):
                allowed = f"localhost, 127.0.0.1, ::1, {host}; others need a token"
                shown = site.removeprefix("//")
                refusal = Refusal(403, "another site", f"header {header}", shown, allowed)
                chosen = JSONResponse(refusal.detail, refusal.status_code)
        await chosen(scope, receive, send)

    return answer


async def _as_json(request: Request, error: Any) -> Response:
    """Answer a refusal, another error of HTTP or one of ours, or a client that has gone."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)  # nobody reads it; the log has no traceback
    if isinstance(error, RoadError):
        status, text = 422 if isinstance(error, DataError) else 500, first_line(error)
        if status == 500:
            _log.error("%s %s: %s", request.method, request.url.path, error)
        error = Refusal(status, text, text.partition(":")[0])
    reason = error.detail
    if not isinstance(error, Refusal):  # of FastAPI, or of Starlette, whose class it extends
        reason = Refusal(error.status_code, reason, f"{request.method} {request.url.path}").detail
    return JSONResponse(reason, error.status_code, error.headers)
