"""Requests: types of their rows, one for each kind of head, and checks of token, size and rows.
What is wrong becomes a ``Refusal``.
"""

from __future__ import annotations

import asyncio
import hmac
import math
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Annotated, Any, Self

from fastapi import HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from road_ray.distributed.serving.config import ServingConfig, digest_of
from road_ray.inference.input_rows import Row, TrainedInput
from road_ray.inference.predictor import Predictor


class RequestRow(BaseModel):
    """Row of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="after")
    def _text_or_words(self) -> Self:
        values = self.model_dump()
        if "words" in values and (values["text"] is None) == (values["words"] is None):
            raise ValueError("give either text or words")
        return self


_FIELDS: dict[str, tuple[Any, str]] = {
    "id": (str | int, "Name of the row in the answer; by default its number in the request."),
    "text": (str, "The text, or the first of a pair."),
    "text_pair": (str, "The second text of a pair."),
    "question": (str, "The question."),
    "context": (str, "The text that holds the answer."),
    "words": (Annotated[list[str], Field(min_length=1)], "The words of the sentence."),
    "choices": (Annotated[list[str], Field(min_length=2)], "The texts to choose from."),
}


def row_type(fields: Collection[str], trained: TrainedInput) -> type[RequestRow]:
    """Return the type of a row with these fields of the model, which may also have the names of the
    training's columns, if the model records them. A model that does not record them may read
    single texts or pairs; a sentence is a text or its words.
    """
    optional = {"id"} if trained.fields else {"id", "text_pair"}
    optional |= {"text", "words"} if "words" in fields else set()
    columns = {"id": trained.id, **trained.columns}
    described: dict[str, Any] = {}
    for name in ("id", *fields):
        kind, meaning = _FIELDS[name]
        column = columns.get(name)
        names = [column] if isinstance(column, str) and column not in ("id", *fields) else []
        described[name] = (
            kind | None if name in optional else kind,
            Field(
                None if name in optional else ...,
                description=meaning,
                validation_alias=AliasChoices(name, *names),
            ),
        )
    return create_model("Row", __base__=RequestRow, **described)


class Problem(BaseModel):
    """Reason for which a request is refused."""

    model_config = ConfigDict(use_attribute_docstrings=True)
    error: str
    """The mistake."""
    where: str | None = None
    """Row and field, header or byte."""
    value: str | int | float | None = None
    """The value found there, cut to 80 characters."""
    allowed: str | None = None
    """The values that are allowed."""


_SHOWN = 80  # characters of a value in a message
_BODY_SECONDS = 10.0  # in which a body arrives
_BEARER = HTTPBearer(auto_error=False, description="The token that the server was given.")


class Refusal(HTTPException):
    """A request that is answered with a status of 400 to 499 and a ``Problem``."""

    def __init__(
        self, status: int, error: str, where: str | None, value: object, allowed: str
    ) -> None:
        # JSON has no NaN.
        plain = value is None or (isinstance(value, int | float) and math.isfinite(value))
        seen: Any = value if plain else str(value)[:_SHOWN]
        problem = Problem(error=error, where=where, value=seen, allowed=allowed)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        super().__init__(status, problem.model_dump(), headers)


class RowReader:
    """Reads the rows of a body and holds them to the limits."""

    def __init__(self, predictor: Predictor, config: ServingConfig, row: type[RequestRow]) -> None:
        self._tokenizer, self._config = predictor.tokenizer, config
        self._fields = ", ".join(row.model_fields)
        self._one: TypeAdapter[Any] = TypeAdapter(row)
        self._many: TypeAdapter[Any] = TypeAdapter(list[row])  # type: ignore[valid-type]

    def rows(self, body: bytes) -> tuple[list[tuple[str, Row]], bool]:
        """Return the rows with their places, and whether the body is one row rather than a list.

        Raises ``Refusal``.
        """
        single = not body.lstrip().startswith(b"[")
        try:
            rows = (self._one if single else self._many).validate_json(body)
        except ValidationError as error:
            raise self._refusal(error) from error
        parsed = [rows] if single else rows
        if not 1 <= len(parsed) <= self._config.max_request_rows:
            allowed = f"1 to {self._config.max_request_rows} rows"
            status = 413 if parsed else 422
            raise Refusal(status, "number of rows", "body", len(parsed), allowed)
        read = []
        for number, parsed_row in enumerate(parsed):
            where = "row" if single else f"[{number}]"
            row = parsed_row.model_dump(exclude_none=True)
            row["id"] = str(row.get("id", number))
            self._check_size(row, where)
            read.append((where, row))
        return read, single

    def _check_size(self, row: Row, where: str) -> None:
        values = [value for name, value in row.items() if name != "id"]
        texts = [text for v in values for text in (v if isinstance(v, list) else [str(v)])]
        most = self._config.max_row_tokens
        if sum(len(text.encode()) for text in texts) <= most:  # a token has a byte at least
            return
        token_ids = self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        count = sum(map(len, token_ids))
        if count > most:
            raise Refusal(413, "tokens of a row", where, count, f"at most {most} tokens")

    def _refusal(self, error: ValidationError) -> Refusal:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            return Refusal(
                400, first["msg"], "body", None, "a JSON object, or a list of them, in UTF-8"
            )
        places = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]]
        where = "".join(places).lstrip(".") or "body"
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] in ("missing", "extra_forbidden"):
            known = {"missing": "missing field", "extra_forbidden": "unknown field"}
            return Refusal(422, known[first["type"]], where, None, f"fields {self._fields}")
        return Refusal(422, message, where, first["input"], f"fields {self._fields}")


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
    allowed = f"at most {most} bytes"
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise Refusal(413, "bytes of the body", "header Content-Length", int(announced), allowed)
    pieces, size = [], 0
    async with deadline(_BODY_SECONDS, "body"):
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise Refusal(413, "bytes of the body", "body", size, allowed)
            pieces.append(piece)
    return b"".join(pieces)
