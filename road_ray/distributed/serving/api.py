"""HTTP interface of a predictor: POST /predict, GET /health, GET /ready and the page /docs.

A refused request gets a JSON body that says what is wrong, where, the value seen and what is
allowed. Independent of Ray.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi_offline import FastAPIOffline
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from road_ray.distributed.serving.config import ServingConfig, digest_of
from road_ray.distributed.serving.row_queue import RowQueue, characters
from road_ray.distributed.serving.schemas import Problem, RowType, Status, body_types
from road_ray.errors import DataError, RoadError
from road_ray.inference.predictor import Predictor, Row

_log = logging.getLogger(__name__)
_SHOWN = 80  # characters of a value in a message
_JSON = "application/json"
_BEARER = HTTPBearer(auto_error=False, description="The token that the server was given.")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is not JSON in UTF-8."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    413: {"model": Problem, "description": "The request or a row of it is too large."},
    422: {"model": Problem, "description": "A row has other fields than the model reads."},
}


class Refusal(Exception):
    """A request that is answered with a status of 400 to 499."""

    def __init__(
        self, status: int, error: str, where: str | None, value: object, allowed: str
    ) -> None:
        super().__init__(error)
        self.status = status
        seen = value if isinstance(value, int | float | None) else str(value)[:_SHOWN]
        self.problem = Problem(error=error, where=where, value=seen, allowed=allowed)


def build_api(
    predictor: Predictor, queue: RowQueue, config: ServingConfig, digest: str | None
) -> FastAPI:
    """Return the application; ``digest`` is that of the token that requests must show, if any."""
    row_type, prediction = body_types(predictor.task.kind, predictor.columns)
    reader = _Reader(predictor, config, row_type)
    app: FastAPI = FastAPIOffline(
        title=f"road_ray: {predictor.task.name}",
        description="Predictions of a model. Times, rows and limits: docs/guides/serving.md.",
        redoc_url=None,
    )
    _answer_errors_as_json(app)

    @app.get("/health")
    async def health() -> Status:
        """Return that the process answers."""
        return Status(status="ok")

    @app.get("/ready")
    async def ready() -> Status:
        """Return that the model is loaded."""
        return Status(status="ready", task=predictor.task.name)

    @app.post(
        "/predict",
        response_model=prediction | list[prediction],  # type: ignore[valid-type]
        responses=_PROBLEMS,
        dependencies=[Security(_TokenCheck(digest))] if digest else [],
        openapi_extra={"requestBody": _request_body(row_type, config)},
    )
    async def predict(request: Request) -> Response:
        """Return the prediction of a row, or a list of those of a list of rows."""
        body = await _read(request, config.max_request_bytes)
        rows, single = reader.rows(body)
        predictions = await queue.predict(rows)
        return Response(to_json(predictions[0] if single else predictions), media_type=_JSON)

    return app


class _Reader:
    """Reads the rows of a body and holds them to the limits."""

    def __init__(self, predictor: Predictor, config: ServingConfig, row_type: RowType) -> None:
        self._tokenizer, self._config = predictor.tokenizer, config
        self._fields = ", ".join(row_type.model_fields)
        self._row_adapter: TypeAdapter[Any] = TypeAdapter(row_type)
        self._rows_adapter: TypeAdapter[Any] = TypeAdapter(list[row_type])  # type: ignore[valid-type]

    def rows(self, body: bytes) -> tuple[list[tuple[str, Row]], bool]:
        """Return the rows with their places, and whether the body is one row rather than a list.

        Raises ``Refusal``.
        """
        _check_utf8(body)
        single = not body.lstrip().startswith(b"[")
        try:
            parsed = (
                [self._row_adapter.validate_json(body)]
                if single
                else self._rows_adapter.validate_json(body)
            )
        except ValidationError as error:
            raise self._refusal(error) from error
        if not 1 <= len(parsed) <= self._config.max_request_rows:
            allowed = f"1 to {self._config.max_request_rows} rows"
            status = 413 if parsed else 422
            raise Refusal(status, "number of rows", "body", len(parsed), allowed)
        rows = []
        for number, body_row in enumerate(parsed):
            where = "row" if single else f"[{number}]"
            row = body_row.model_dump(exclude_none=True)
            row["id"] = str(row.get("id", number))
            self._check_size(row, where)
            rows.append((where, row))
        return rows, single

    def _check_size(self, row: Row, where: str) -> None:
        size, most = characters(row), self._config.max_row_characters
        if size > most:
            raise Refusal(413, "characters of a row", where, size, f"at most {most} characters")
        most = self._config.max_row_tokens
        texts = list(_texts(row))
        if sum(len(text.encode()) for text in texts) <= most:  # a token has a byte at least
            return
        token_ids = self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        count = sum(map(len, token_ids))
        if count > most:
            raise Refusal(413, "tokens of a row", where, count, f"at most {most} tokens")

    def _refusal(self, error: ValidationError) -> Refusal:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            return Refusal(400, first["msg"], "body", None, "a JSON object, or a list of them")
        places = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]]
        where = "".join(places).lstrip(".") or "body"
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("missing", "extra_forbidden"):
            known = {"missing": "missing field", "extra_forbidden": "unknown field"}
            return Refusal(422, known[first["type"]], where, None, f"fields {self._fields}")
        return Refusal(422, message, where, first["input"], f"fields {self._fields}")


def _texts(row: Row) -> list[str]:
    values = [value for name, value in row.items() if name != "id"]
    return [
        text
        for value in values
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str)
    ]


def _check_utf8(body: bytes) -> None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        seen = f"0x{body[error.start]:02x}"
        where = f"byte {error.start} of the body"
        raise Refusal(400, "body is not UTF-8", where, seen, "JSON in UTF-8") from error
    if (place := body.find(b"\0")) >= 0:  # never in JSON; every other byte of UTF-16
        raise Refusal(
            400, "body is not UTF-8", f"byte {place} of the body", "0x00", "JSON in UTF-8"
        )


class _TokenCheck:
    """Dependency that raises ``Refusal`` for a request without the token, in constant time. The
    token is shown nowhere.
    """

    def __init__(self, digest: str) -> None:
        self._digest = digest

    async def __call__(
        self, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
    ) -> None:
        shown = digest_of(credentials.credentials) if credentials else ""
        if not hmac.compare_digest(shown, self._digest):
            error = "wrong token" if credentials else "missing token"
            raise Refusal(401, error, "header Authorization", None, "Bearer and the server's token")


async def _read(request: Request, most: int) -> bytes:
    """Return the body. Raises ``Refusal`` for a large one before it is read whole."""
    allowed = f"at most {most} bytes"
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise Refusal(413, "bytes of the body", "header Content-Length", int(announced), allowed)
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise Refusal(413, "bytes of the body", "body", size, allowed)
        pieces.append(piece)
    return b"".join(pieces)


def _request_body(row_type: RowType, config: ServingConfig) -> dict[str, Any]:
    """Return the description of the body, which the function reads itself to be able to limit and
    explain it.
    """
    row = row_type.model_json_schema()
    many = {"type": "array", "items": row, "minItems": 1, "maxItems": config.max_request_rows}
    return {"required": True, "content": {_JSON: {"schema": {"anyOf": [row, many]}}}}


def _answer_errors_as_json(app: FastAPI) -> None:
    def answer(
        status: int, problem: Problem, headers: Sequence[tuple[str, str]] = ()
    ) -> JSONResponse:
        return JSONResponse(problem.model_dump(), status, dict(headers))

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        headers = [("WWW-Authenticate", "Bearer")] if error.status == 401 else []
        return answer(error.status, error.problem, headers)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        paths = "POST /predict, GET /health, /ready, /docs, /openapi.json"
        problem = Problem(
            error=error.detail, where=f"{request.method} {request.url.path}", allowed=paths
        )
        return answer(error.status_code, problem, list((error.headers or {}).items()))

    @app.exception_handler(RoadError)
    async def failed(request: Request, error: RoadError) -> Response:
        text = str(error).splitlines()[0]
        if isinstance(error, DataError):
            return answer(422, Problem(error=text, where=text.partition(":")[0]))
        _log.error("%s", error)
        return answer(500, Problem(error=text))
