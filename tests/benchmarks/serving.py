"""Requests a second and latency of `road serve` beside a plain FastAPI handler, on loopback."""

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from road_ray.data import catalog
from tests.benchmarks import shapes
from tests.benchmarks.plan import Plan, Row, row
from tests.cluster import until
from tests.ports import free_port
from tests.published import TEXTS, tokenizer_of

AIM = 2.0  # times the requests of the plain handler, at most clients
_START_SECONDS = 300.0
_WARM_SECONDS = 1.0


@dataclass(frozen=True)
class Load:
    """Requests a second, and the milliseconds within which half and 99% of them are answered."""

    requests: float
    p50: float
    p99: float


def serve(plan: Plan) -> list[Row]:
    """A model of 4 layers behind `road serve` against FastAPI and uvicorn without batching."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        tokenizer = tokenizer_of("electra", TEXTS * 10, size=2000)  # frequent words are whole
        task = catalog.task("sentiment")
        shapes.model_of(plan.tiny.encoder, len(tokenizer), task).export(Path(scratch), task.name)
        tokenizer.save_pretrained(scratch)
        ours, our_port = stack.enter_context(_started("road_ray", "serve", scratch, "--port"))
        plain, port = stack.enter_context(_started("tests.benchmarks.plain_server", scratch))
        rows = []
        for clients in plan.clients:
            loads: dict[int, list[Load]] = {our_port: [], port: []}
            for number in range(plan.few_repeats):
                for each in loads:  # in turns, so that other work on the machine meets both
                    loads[each].append(asyncio.run(load(each, clients, plan.load_seconds, number)))
            memory = {"peak_memory_mb": _memory_mb(ours), "their_peak_memory_mb": _memory_mb(plain)}
            rows += _rows(clients, loads[our_port], loads[port], memory)
        return rows


def _rows(clients: int, ours: list[Load], theirs: list[Load], memory: Any) -> list[Row]:
    """``limit_share`` is the share of the aim, twice the requests; of latencies, theirs' part."""
    rows = []
    for unit, name in (("requests/s", "requests"), ("p50 ms", "p50"), ("p99 ms", "p99")):
        mine, other = (
            statistics.median(getattr(load, name) for load in loads) for loads in (ours, theirs)
        )
        share = mine / other / (AIM if name == "requests" else 1.0)
        peer, facts = f"plain FastAPI, {clients} clients", {"repeats": len(ours), **memory}
        facts |= {"precision": "fp32", "limit_share": share}
        rows.append(row("serve", peer, unit, mine, other, **facts))
    return rows


async def load(port: int, clients: int, seconds: float, seed: int) -> Load:
    """Send requests from ``clients`` connections, each the next one when the last is answered."""
    draw, times = random.Random(seed), []
    words = " ".join(TEXTS).split()
    bodies = [
        json.dumps({"text": " ".join(draw.choices(words, k=draw.randint(5, 30)))}).encode()
        for _ in range(256)
    ]

    async def client(until: float, taken: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < until:
            began = time.monotonic()
            is_open = await _post(reader, writer, draw.choice(bodies))
            taken.append(time.monotonic() - began)
            if not is_open:
                writer.close()
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    for length, taken in ((_WARM_SECONDS, []), (seconds, times)):
        began = time.monotonic()
        await asyncio.gather(*(client(began + length, taken) for _ in range(clients)))
        spent = time.monotonic() - began
    times.sort()
    p50, p99 = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
    return Load(len(times) / spent, p50, p99)


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> bool:
    """Send a row, read the answer and return True if the server keeps the connection; a client
    library would take more time than the servers.
    """
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert answer.startswith(b"http/1.1 200"), answer
    if b"content-length:" in answer:
        length = answer.partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        return b"connection: close" not in answer
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()
    return b"connection: close" not in answer


@contextmanager
def _started(module: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a server on a free port and wait until it answers."""
    port = free_port()
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", module, *arguments, str(port)]
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": root}, cwd=root
    )
    try:
        until(lambda: server.poll() is not None or _is_ready(port), _START_SECONDS, 0.5)
        assert _is_ready(port), f"{module} does not answer; its exit code: {server.poll()}"
        yield server, port
    finally:
        server.terminate()
        server.wait(120)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _memory_mb(server: subprocess.Popen[bytes]) -> float:
    """Return the memory of a process and its children; pages that they share count for each."""
    process = psutil.Process(server.pid)
    return float(
        sum(item.memory_info().rss for item in [process, *process.children(recursive=True)]) / 1e6
    )
