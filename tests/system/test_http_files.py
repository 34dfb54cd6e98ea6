"""Text of a web server: what is not the bytes that were asked for is never spliced into it."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from road_ray.data.corpus.documents import read_corpus
from road_ray.errors import ResourceError
from road_ray.system import remote_files
from road_ray.system.remote_files import Storage

TEXT = "".join(f"document {n} has a few words .\n\n" for n in range(400)).encode()
DOCUMENTS = [part for part in TEXT.decode().split("\n\n") if part]


class Server:
    """A server of one file; ``faults`` are names of answers that come before a right one."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.requests = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer(200, {"Accept-Ranges": "bytes"}, b"", len(TEXT))

            def do_GET(self):
                server.requests += 1
                wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if wanted is None:
                    self.answer(200, {}, TEXT)
                    return
                first, last = (int(n) for n in wanted.groups())
                last = min(last, len(TEXT) - 1)
                headers = {"Content-Range": f"bytes {first}-{last}/{len(TEXT)}"}
                body = TEXT[first : last + 1]
                fault = server.faults.pop(0) if server.faults and len(body) > 1 else ""
                if fault == "page":
                    self.answer(200, {"Content-Type": "text/html"}, b"<html>busy</html>")
                elif fault == "short page":
                    self.answer(200, {}, b"try again")
                elif fault == "other range":
                    headers["Content-Range"] = f"bytes 0-{len(body) - 1}/{len(TEXT)}"
                    self.answer(206, headers, TEXT[: len(body)])
                elif fault == "empty":
                    self.answer(206, {}, b"")
                elif fault == "short":
                    headers["Content-Range"] = f"bytes {first}-{last - 5}/{len(TEXT)}"
                    self.answer(206, headers, body[:-5])
                elif fault in ("500", "503", "403", "404"):
                    self.answer(int(fault), {}, b"no")
                elif fault == "cut":
                    self.answer(206, headers, body[: len(body) // 2], len(body))
                    self.close_connection = True
                elif fault == "reset":
                    self.close_connection = True
                else:
                    self.answer(206, headers, body)

            def answer(self, status, headers, body, length=None):
                self.send_response(status)
                given = {"Content-Length": str(len(body) if length is None else length)} | headers
                for name, value in given.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_port}/text.txt"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(remote_files, "_CHUNK_BYTES", 4096)
    monkeypatch.setattr(remote_files, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(remote_files, "_GIVE_UP_SECONDS", 0.1)
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def test_a_text_is_read_by_ranges(server):
    assert list(read_corpus(server.address)) == DOCUMENTS
    assert server.requests >= len(TEXT) // 4096


@pytest.mark.parametrize(
    "fault",
    ["page", "short page", "other range", "empty", "short", "500", "503", "cut", "reset"],
)
def test_a_wrong_answer_is_asked_for_again(server, fault):
    server.faults = ["", fault, "", fault]
    assert list(read_corpus(server.address)) == DOCUMENTS
    assert not server.faults


@pytest.mark.parametrize("fault", ["page", "other range", "empty", "500", "cut"])
def test_a_server_that_stays_wrong_is_told(server, fault):
    server.faults = ["", *[fault] * 100]
    with pytest.raises(ResourceError, match=r"text.txt: cannot be read at byte \d+(?s:.)*attempts"):
        list(read_corpus(server.address))


@pytest.mark.parametrize("fault", ["403", "404"])
def test_a_refusal_is_told_at_once(server, fault):
    server.faults = ["", fault]
    with pytest.raises(ResourceError, match=rf"status {fault}(?s:.)*1 attempts"):
        list(read_corpus(server.address))


def test_a_file_has_the_size_that_the_server_tells(server):
    storage = Storage(server.address)
    entry = storage.find(storage.base)
    assert entry is not None
    assert entry.bytes == len(TEXT)
    assert storage.read(storage.base, len(TEXT) - 3, 100) == TEXT[-3:]


def test_a_shorter_file_is_no_end_of_the_text(server):
    storage = Storage(server.address)
    (entry,) = storage.list_files()
    file = remote_files.StoredFile(storage, remote_files.Entry(entry.path, entry.bytes + 10, 0))
    with pytest.raises(OSError, match="shorter than when it was listed"):
        file.open().read()
