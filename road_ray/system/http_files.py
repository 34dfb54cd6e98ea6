"""Files of a web server, read by ranges. All faults are ``OSError``, which callers may repeat."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_MISSING, _REFUSED, _BEHIND_THE_END = (404, 410), (401, 403), 416


def file_size(url: str) -> int | None:
    """Return the size of a file in bytes; None if there is none, or a web page in its place."""
    try:
        status, headers, _ = _answer(url, 0, 1)
    except FileNotFoundError:
        return None
    if _is_page(url, headers):
        return None
    if status == _BEHIND_THE_END:  # an empty file has no first byte
        return 0
    if status == 206:
        total = _range(headers)[2]
        if total is not None:
            return total
    elif (length := headers.get("Content-Length")) is not None:
        return int(length)
    raise OSError(f"the server does not say how long {url} is")


def read_range(url: str, start: int, count: int) -> bytes:
    """Return ``count`` bytes of a file from ``start`` on, fewer at its end.

    Raises ``OSError`` for an answer that is not these bytes: an error of the server, a web page,
    another range, a body that is cut short.
    """
    status, headers, body = _answer(url, start, count)
    if status == _BEHIND_THE_END:
        return b""
    if _is_page(url, headers):
        raise OSError(f"the server answers with a web page: {headers['Content-Type']}")
    if status == 200:  # the whole file
        if start or len(body) > count:
            raise OSError(f"status 200 and {len(body)} bytes, where a range was asked for")
        return body
    first, last, total = _range(headers)
    wanted = start + count if total is None else min(start + count, total)
    if status != 206 or first != start or last + 1 != wanted or len(body) != last + 1 - first:
        raise OSError(
            f"status {status}, Content-Range {headers.get('Content-Range')!r} and {len(body)} "
            f"bytes, where bytes {start} to {wanted - 1} were asked for"
        )
    return body


def _is_page(url: str, headers: Mapping[str, str]) -> bool:
    """Return True for HTML in the place of a file of another kind: an error, a login, a listing."""
    is_html = headers.get("Content-Type", "").lower().startswith("text/html")
    path = PurePosixPath(url.partition("?")[0])
    return is_html and path.suffix not in (".html", ".htm")


def _range(headers: Mapping[str, str]) -> tuple[int, int, int | None]:
    """Return first and last byte of an answer, and the size of the file if it is told."""
    match = _RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None:
        return -1, -1, None
    first, last, total = match.groups()
    return int(first), int(last), None if total == "*" else int(total)


def _answer(url: str, start: int, count: int) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body of the answer to a request for a range."""
    import aiohttp
    import fsspec

    files = fsspec.filesystem("https" if url.startswith("https") else "http")

    async def request() -> tuple[int, Mapping[str, str], bytes]:
        session: Any = await files.set_session()
        headers = {"Range": f"bytes={start}-{start + count - 1}", "Accept-Encoding": "identity"}
        async with session.get(files.encode_url(url), headers=headers, **files.kwargs) as reply:
            if reply.status in _MISSING:
                raise FileNotFoundError(errno.ENOENT, f"status {reply.status}", url)
            if reply.status in _REFUSED:
                raise PermissionError(errno.EACCES, f"status {reply.status} {reply.reason}", url)
            if reply.status not in (200, 206, _BEHIND_THE_END):
                raise OSError(f"status {reply.status} {reply.reason}")
            # A server without ranges sends the whole file: not more of it is read than was asked.
            body = b""
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > count:
                    break
            return reply.status, reply.headers, body

    try:
        answer: tuple[int, Mapping[str, str], bytes] = fsspec.asyn.sync(files.loop, request)
    except aiohttp.ClientError as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return answer
