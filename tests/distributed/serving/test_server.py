"""The application on Ray: a killed replica loses no request, a stopped server answers its last."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from road_ray.inference.load_model import load
from tests.ports import free_port
from tests.published import TEXTS, publish

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(900)]
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "serving.md"
TOKEN = "a token of twenty-two characters"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model") / "sentiment"
    return str(publish(directory, "electra", "ForSequenceClassification", labels=("no", "yes")))


def ask(url, **content):
    """Return the answer to a request of predictions, whose content is given as httpx takes it."""
    headers = {"Authorization": f"Bearer {TOKEN}", **content.pop("headers", {})}
    return httpx.post(f"{url}/predict", headers=headers, timeout=30, **content)


def block(name, **variables):
    """Return what a block of the guide prints."""
    match = re.search(rf"^```bash {name}\n(.*?)^```", GUIDE.read_text(), flags=re.M | re.S)
    command, environment = ["bash", "-c", match[1]], os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True).stdout


@contextmanager
def road_serve(errors, model, port, *words, **variables):
    """Give the process of ``road serve`` once it answers, and its URL; end it with its children.
    ``errors`` is the file of its standard error.
    """
    command = [sys.executable, "-m", "road_ray", "serve", model, "--port", str(port), "--json"]
    with errors.open("w") as file:
        server = subprocess.Popen(
            [*command, *words],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
        try:
            first = server.stdout.readline()
            assert first.startswith("{"), first + errors.read_text()
            yield server, json.loads(first)["url"]
        finally:
            server.kill()
            server.communicate()


@contextmanager
def half_sent_bodies(port, count):
    """Open connections, each with the first byte of a body."""
    head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{"
    with ExitStack() as stack:
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port))
            stack.enter_context(connection).sendall(head.encode())
        yield


def test_a_killed_server_of_one_process_leaves_its_port_and_nothing_else(model, tmp_path):
    port, errors = free_port(), tmp_path / "err"
    for _ in range(2):
        with road_serve(errors, model, port) as (server, url), half_sent_bodies(port, 300):
            assert ask(url, json={"text": TEXTS[0]}).status_code == 200
            process = psutil.Process(server.pid)
            assert process.children() == []
            listening = [
                one.laddr for one in process.net_connections("tcp") if one.status == "LISTEN"
            ]
            assert listening == [("127.0.0.1", port)]
            server.kill()
            server.wait()
        assert errors.read_text() == ""


def test_replicas_have_no_token_and_show_no_metrics(model, tmp_path):
    port, errors, variables = free_port(), tmp_path / "err", {"ROAD_TEST_TOKEN": TOKEN}
    options = ["--replicas", "2", "--token-env", "ROAD_TEST_TOKEN"]
    with road_serve(errors, model, port, *options, **variables) as (server, url):
        family = psutil.Process(server.pid).children(recursive=True)
        assert len([one for one in family if "ServeReplica" in " ".join(one.cmdline())]) == 2
        for process in family:
            assert TOKEN not in "".join(process.environ().values()), process.cmdline()
        ports = [
            connection.laddr.port
            for process in family
            for connection in process.net_connections("tcp")
            if connection.status == "LISTEN"
        ]
        for one in {*ports} - {port}:
            with suppress(httpx.HTTPError):  # another protocol
                shown = httpx.get(f"http://127.0.0.1:{one}/metrics", timeout=3).text
                assert "# HELP" not in shown, one
        with half_sent_bodies(port, 300):
            assert ask(url, json={"text": TEXTS[0]}).status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    said = errors.read_text()
    # Ray Serve tells of the clients that have gone, and of a machine that is busy.
    own = [line for line in said.splitlines() if not line.startswith("(Serve")]
    assert own == ["starting Ray on this machine", "stopping; open requests are answered first"]
    assert "\x1b" not in said


def ask_in_parts(url, row, signalled):
    """Ask with a body whose second half is sent after the signal."""
    body = json.dumps(row).encode()

    def halves():
        yield body[:5]
        assert signalled.wait(30)
        time.sleep(0.2)
        yield body[5:]

    return ask(url, content=halves(), headers={"Content-Length": str(len(body))})


def test_a_server_that_is_told_to_stop_answers_what_it_has(model, tmp_path):
    expected, port = load(model)([{"text": text} for text in TEXTS]), free_port()
    errors, options = tmp_path / "err", ("--token-env", "ROAD_TEST_TOKEN")
    with road_serve(errors, model, port, *options, ROAD_TEST_TOKEN=TOKEN) as (server, url):
        assert url == f"http://127.0.0.1:{port}"
        answers = json.loads(block("request", ROAD_TOKEN=TOKEN, PORT=str(port)))
        assert [answer["id"] for answer in answers] == ["0", "b"]
        refused = block("refused", ROAD_TOKEN=TOKEN, PORT=str(port))
        assert f"\n    {refused}\n" in GUIDE.read_text()
        with ThreadPoolExecutor(4) as threads:
            signalled = threading.Event()
            asked = [threads.submit(ask_in_parts, url, {"text": t}, signalled) for t in TEXTS]
            time.sleep(0.5)
            server.send_signal(signal.SIGTERM)
            signalled.set()
            answers = [one.result() for one in asked]
            assert [answer.status_code for answer in answers] == [200] * 3
            labels = [answer.json()["label"] for answer in answers]
            assert labels == [item["label"] for item in expected]
        assert server.wait(60) == 0
        with pytest.raises(httpx.ConnectError, match="refused"):
            ask(url, json={"text": "a"})
    logged = errors.read_text()
    assert TOKEN not in logged
    assert "Traceback" not in logged
