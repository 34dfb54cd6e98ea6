"""The HTTP interface without Ray: predictions of every kind of head, and every refused request.
Nothing is reached from other machines without a token; a token has a length.
"""

import asyncio
import hashlib
import json
import socket
import threading
from contextlib import ExitStack
from functools import cache
from unittest.mock import Mock

import httpx
import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from road_ray.distributed.serving import api
from road_ray.distributed.serving.api import RowQueue, build_api, row_type
from road_ray.distributed.serving.config import (
    ServingConfig,
    digest_of,
    refuse_exposed,
    token_digest,
)
from road_ray.errors import ConfigError, DataError
from road_ray.inference.input_rows import TrainedInput, cell
from road_ray.inference.load_model import load
from road_ray.inference.predictor import Predictor
from tests.published import TEXTS, publish

TOKEN = "a token of twenty-two characters"
HEADS = {
    "classify": ("ForSequenceClassification", ("no", "yes"), {"text": TEXTS[0]}),
    "multi": ("ForSequenceClassification", ("no", "yes"), {"text": TEXTS[0]}),
    "regress": ("ForSequenceClassification", ("x",), {"text": TEXTS[0], "text_pair": TEXTS[1]}),
    "span": ("ForQuestionAnswering", (), {"question": "Who painted it?", "context": TEXTS[1]}),
    "tag": ("ForTokenClassification", ("O", "B-A", "I-A"), {"text": TEXTS[1]}),
    "choose": ("ForMultipleChoice", (), {"question": TEXTS[0], "choices": [TEXTS[1], TEXTS[2]]}),
}


@pytest.fixture(scope="module")
def predictor_of(tmp_path_factory):
    @cache
    def get(name):
        head, labels, _ = HEADS[name]
        options = {"problem_type": "multi_label_classification"} if name == "multi" else {}
        place = tmp_path_factory.mktemp(name)
        return load(publish(place, "electra", head, labels=labels, **options))

    return get


@pytest.fixture
def client(predictor_of):
    """Start the interface of a head with settings and return its client."""
    with ExitStack() as stack:

        def start(name="classify", token=None, **settings):
            predictor, config = predictor_of(name), ServingConfig(model="m", **settings)
            digest = digest_of(token) if token else None
            api = build_api(predictor, config, digest, "127.0.0.5")
            return stack.enter_context(TestClient(api, base_url="http://localhost"))

        yield start


@pytest.mark.parametrize("name", HEADS)
def test_answers_are_those_of_the_predictor(client, predictor_of, name):
    row = HEADS[name][2]
    http, predictor = client(name, n_best=1), predictor_of(name)
    first = http.post("/predict", json=row | {"id": "a"})
    assert (first.status_code, first.json()) == (200, predictor(row | {"id": "a"}))
    many = http.post("/predict", json=[row, row | {"id": 7}, row]).json()
    assert many == predictor([row | {"id": name} for name in ("0", "7", "2")])


@pytest.mark.parametrize(
    ("columns", "given"),
    [
        ({"text": "title", "text_pair": "body"}, {"title": "a", "body": "b"}),
        ({"text": "title", "text_pair": "text"}, {"title": "a", "text": "b"}),
        ({"question": "q", "choices": ["a", "b"]}, {"q": "a", "a": "1", "b": "2"}),
        ({"text": "text"}, {"text": "a"}),  # of its own field
        ({"question": "q[x]", "choices": ["a+b", "b"]}, {"q": {"x": "y"}, "a": "1", "b": "2"}),
    ],
)
def test_a_row_may_have_the_columns_of_the_training(columns, given):
    trained = TrainedInput(columns, id="number")
    row = row_type(trained)
    fields = {name: cell(given, column) for name, column in columns.items()}
    read = row.model_validate(given | {"number": 7})
    assert read == row.model_validate(fields | {"id": 7})
    assert read.model_dump() == fields | {"id": 7}
    assert row.model_json_schema()["properties"].keys() == {"id", *columns}
    for wrong in ({**given, "headline": "b"}, {"headline": "b"}):
        with pytest.raises(ValidationError, match=r"Extra|Field required"):
            row.model_validate(wrong)
    assert row.model_validate(given | {"number": 7, "id": None}) == read
    for field in {"id", *columns} - given.keys():
        with pytest.raises(ValidationError, match=f"{field} is given twice"):
            row.model_validate(given | {"number": 7, field: "b"})


@pytest.mark.parametrize(("kind", "status"), [(DataError, 422), (ConfigError, 500)])
def test_an_error_of_the_model_is_answered_with_its_reason(client, monkeypatch, kind, status):
    monkeypatch.setattr(Predictor, "predict_rows", Mock(side_effect=kind("row: bad\n  fix: x")))
    answer = client().post("/predict", json={"text": "a"})
    assert (answer.status_code, answer.json()["error"]) == (status, "row: bad")


def test_a_sentence_is_given_as_text_or_as_words_and_answers_are_listed(client, predictor_of):
    http = client("tag")
    words = http.post("/predict", json={"words": ["Nobody", "in", "York"]})
    assert words.json()["words"] == ["Nobody", "in", "York"]
    assert http.post("/predict", json={"text": "Nobody", "words": None}).status_code == 200
    for row in ({}, {"text": "a", "words": ["a"]}, {"words": []}, {"words": None}):
        assert http.post("/predict", json=row).status_code == 422
    empty = http.post("/predict", json={"text": "   "})
    assert (empty.status_code, empty.json()["tags"]) == (200, [])


@pytest.mark.parametrize(
    ("body", "status", "error", "where", "value", "allowed"),
    [
        (b"", 400, "Invalid JSON", "body", None, "a JSON object"),
        (b'{"text": "a"', 400, "Invalid JSON", "body", None, "a JSON object"),
        (b'{"text": "caf\xe9"}', 400, "Invalid JSON", "body", None, "in UTF-8"),
        ('{"text": "a"}'.encode("utf-16"), 400, "Invalid JSON", "body", None, "in UTF-8"),
        (b'\xef\xbb\xbf{"text": "a"}', 400, "Invalid JSON", "body", None, "a JSON object"),
        (rb'{"text": "\ud800"}', 400, "Invalid JSON", "body", None, "a JSON object"),
        (b"[" * 100_000, 400, "Invalid JSON", "body", None, "a JSON object"),
        (b'"a text"', 422, "object", "body", "a text", "text, text_pair"),
        (b"[]", 422, "at least 1 item", "body", "[]", "text, text_pair"),
        (b"[1]", 422, "object", "[0]", 1, "text, text_pair"),
        (b'{"txt": "a"}', 422, "missing field", "text", None, "id, text, text_pair"),
        (b'{"text": "a", "x": 1}', 422, "unknown field", "x", None, "id, text, text_pair"),
        (b'[{"text": "a"}, {"text": 1}]', 422, "valid string", "[1].text", 1, "text_pair"),
        (b'{"text": NaN}', 422, "valid string", "text", "nan", "text_pair"),
        (b'{"text": "a", "id": NaN}', 422, "valid", "id.str", "nan", "text_pair"),
        (b'{"text": 1e999}', 422, "valid string", "text", "inf", "text_pair"),
        (b'{"text": 1%s}' % (400 * b"0"), 422, "valid string", "text", 10**400, "text_pair"),
        (b'{"text": null}', 422, "valid string", "text", None, "text_pair"),
        (b"[{}, 1, 2, 3]", 413, "most 3 items", "body", "[{}, 1, 2, 3]", "text"),
        (json.dumps([{"text": "a " * 1100}]).encode(), 413, "tokens", "[0]", 1100, "most 1000"),
        (json.dumps({"text": "a" * 20_000}).encode(), 413, "bytes", "body", 20_012, "9000 bytes"),
    ],
)
def test_a_refused_request_says_what_where_value_and_allowed(
    client, body, status, error, where, value, allowed
):
    http = client(max_request_rows=3, max_row_tokens=1000, max_request_bytes=9000)
    if body.startswith(b"[[["):
        http = client(max_request_bytes=1_000_000)
    answer = http.post("/predict", content=body)
    output = answer.json()
    assert answer.status_code == status
    assert error in output["error"]
    assert where in output["where"]
    assert output["value"] == value
    assert allowed in output["allowed"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *(({"Host": host}, 200) for host in ("127.0.0.1:8000", "LOCALHOST", "[::1]:8000")),
        ({"Host": "127.0.0.5:8000", "Origin": "http://127.0.0.5:8000"}, 200),  # as it was given
        ({"Host": "localhost", "Origin": "http://localhost:3000"}, 200),
        *(({"Host": host}, 403) for host in ("evil.example", "evil.example:8000", "192.0.2.2", "")),
        *(({"Host": f"localhost{end}"}, 403) for end in (".evil.example", "@evil.example")),
        ({"Host": "[::1"}, 403),
        *(({"Host": "localhost", "Origin": o}, 403) for o in ("http://evil.example", "null")),
    ],
)
def test_a_server_without_token_answers_pages_of_this_machine_only(client, headers, status):
    http, row = client(), {"text": "a film"}
    answer = http.post("/predict", json=row, headers=headers)
    assert answer.status_code == status
    assert http.get("/docs", headers=headers).status_code == status
    if status == 403:
        assert answer.json()["error"] == "another site"
    shown = {"Authorization": f"Bearer {TOKEN}"}
    assert client(token=TOKEN).post("/predict", json=row, headers=headers | shown).is_success


def test_a_body_that_does_not_arrive_is_given_up(client, monkeypatch):
    monkeypatch.setattr(api, "_BODY_SECONDS", 0.2)

    async def half_a_body():
        yield b"{"
        await asyncio.sleep(60)

    async def ask():
        transport = httpx.ASGITransport(client().app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.post("/predict", content=half_a_body())

    answer = asyncio.run(asyncio.wait_for(ask(), 10))
    assert (answer.status_code, answer.json()["where"]) == (408, "body")


def test_a_prediction_that_takes_too_long_is_given_up(client, monkeypatch):
    free = threading.Event()
    monkeypatch.setattr(Predictor, "predict_rows", lambda self, rows: free.wait(30))
    answer = client(timeout_seconds=0.2).post("/predict", json={"text": "a"})
    free.set()
    assert (answer.status_code, answer.json()["allowed"]) == (408, "at most 0.2 s")


def test_only_requests_with_the_token_are_predicted(client, caplog):
    http, row = client(token=TOKEN), {"text": "a film"}
    given = ("Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN} "[:-2], f"bearer {TOKEN}")
    headers = [{}, *({"Authorization": words} for words in given)]
    answers = [http.post("/predict", json=row, headers=shown) for shown in headers]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 401, 200]
    assert [x.json()["error"] for x in answers[:4]] == ["missing token", "wrong token"] * 2
    assert answers[0].headers["WWW-Authenticate"] == "Bearer"
    huge = http.post("/predict", content=b"x" * 5_000_000)
    assert huge.status_code == 401  # before its body is looked at
    assert TOKEN not in caplog.text + "".join(answer.text for answer in answers)
    assert [http.get(path).status_code for path in ("/health", "/ready")] == [200, 200]


def test_health_ready_and_unknown_paths_answer_in_json(client):
    http = client()
    assert http.get("/health").json()["status"] == "ok"
    title = http.get("/openapi.json").json()["info"]["title"]
    assert http.get("/ready").json() == {"status": "ready", "task": title.split(": ")[1]}
    missing = http.get("/predictions")
    assert (missing.status_code, missing.json()["where"]) == (404, "GET /predictions")
    assert http.get("/predict").status_code == 405


def test_the_page_describes_rows_and_token_without_other_hosts(client):
    http = client("span", token=TOKEN, max_request_rows=5)
    page = http.get("/docs").text
    assert "swagger-ui-bundle.js" in page
    assert "https://" not in page
    described = http.get("/openapi.json").json()
    post = described["paths"]["/predict"]["post"]
    first, many = post["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    assert set(first["properties"]) == {"id", "question", "context"}
    assert (many["maxItems"], many["items"]) == (5, first)
    assert post["security"] == [{"HTTPBearer": []}]


class Model:
    """Predicts the characters of each row, one batch at a time, and keeps the batches."""

    def __init__(self):
        self.batches = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, rows):
        self.batches.append([len(row["text"]) for _, row in rows])
        assert self.free.wait(10)
        if any(row["text"] == "bad" for _, row in rows):
            raise DataError("bad row")
        return [{"length": len(row["text"])} for _, row in rows]


@pytest.fixture
def model():
    return Model()


def request(*lengths):
    return [(f"[{number}]", {"text": "x" * length}) for number, length in enumerate(lengths)]


def answers(model, requests, *, max_rows, gone=()):
    """Of requests that are sent while the model is busy with another; those ``gone`` are given up
    by their clients meanwhile.
    """

    async def behind_a_pass():
        queue = RowQueue(model, max_rows=max_rows)
        model.free.clear()
        first = asyncio.create_task(queue.predict(request(1)))
        while not model.batches:
            await asyncio.sleep(0.001)
        waiting = [asyncio.create_task(queue.predict(one)) for one in requests]
        await asyncio.sleep(0)
        for number in gone:
            waiting[number].cancel()
        await asyncio.sleep(0)
        model.free.set()
        await first
        return await asyncio.gather(*waiting, return_exceptions=True)

    return asyncio.run(behind_a_pass())


def test_requests_share_the_next_pass_which_is_bounded_and_none_is_split(model):
    requests = [request(5), request(7, 9), request(6), request(*[1] * 5), request(1)]
    found = answers(model, requests, max_rows=3)
    assert found[:3] == [[{"length": 5}], [{"length": 7}, {"length": 9}], [{"length": 6}]]
    assert [len(batch) for batch in model.batches] == [1, 3, 1, 5, 1]


def test_a_faulty_request_fails_alone(model):
    requests = [request(4), [("row", {"text": "bad"})], request(2)]
    good, bad, last = answers(model, requests, max_rows=8)
    assert (good, last) == ([{"length": 4}], [{"length": 2}])
    assert isinstance(bad, DataError)


def test_a_client_that_has_gone_costs_no_pass(model):
    answers(model, [request(2), request(3), request(4)], max_rows=1, gone=(0, 2))
    assert model.batches == [[1], [3]]


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.nip.io", ""]
)
def test_other_machines_need_a_token_and_this_one_none(host):
    for own in ("127.0.0.1", "127.8.0.1", "::1", "localhost"):
        refuse_exposed(own, None)
    with pytest.raises(ConfigError, match="--token-env") as caught:
        refuse_exposed(host, None)
    assert f"host = {host}:" in str(caught.value)
    refuse_exposed(host, digest_of(TOKEN))


def test_a_token_is_read_from_the_environment_and_is_not_short(monkeypatch):
    assert token_digest(None) is None
    for value in (TOKEN, TOKEN[:16]):
        monkeypatch.setenv("ROAD_TOKEN", value)
        assert token_digest("ROAD_TOKEN") == hashlib.sha256(value.encode()).hexdigest()
    for value in ("", TOKEN[:15]):
        monkeypatch.setenv("ROAD_TOKEN", value)
        with pytest.raises(ConfigError, match=f"has {len(value)} characters") as caught:
            token_digest("ROAD_TOKEN")
        assert not value or value not in str(caught.value)


def test_road_serve_refuses_before_anything_starts(road, monkeypatch, tmp_path):
    monkeypatch.delenv("ROAD_TOKEN", raising=False)
    line = ("serve", tmp_path / "none")
    road(*line, "--host", "0.0.0.0").refused(2, "host = 0.0.0.0")
    road(*line, "--host", "0.0.0.0", "--token-env", "ROAD_TOKEN").refused(2, "ROAD_TOKEN")
    road(*line, "max_request_row=3").refused(2, "max_request_rows")
    road("serve", publish(tmp_path / "encoder", "electra")).refused(4, "has no head of a task")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        road("serve", tmp_path / "encoder", "--port", other.getsockname()[1]).refused(
            2, "cannot listen there"
        )
