"""Labels of an LLM behind an address: a server that speaks the protocol, and its faults."""

import json
import math
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import road_ray as rr
from road_ray.errors import ConfigError, DataError, ResourceError
from road_ray.inference import label_rows as module
from road_ray.inference.label_rows import LabelSettings, label_of, label_rows, shares_of
from road_ray.system.files import sha256_of
from tests.distributed.web_service import Service, serving

SECRET = "sk-very-secret-key"
UNLABELLED = {"choices": [{"message": {"content": "As a model"}}]}
# What is no completion: a status and a body.
HTML = 200, "<html><body>Sign in</body></html>"


def good(text: str) -> float:
    """Return the probability of ``positive``: a function of the text."""
    return 0.9 if "good" in text else 0.2


def completion(text: str, body: dict, count: int):
    p = good(text)
    label = "positive" if p > 0.5 else "negative"
    choice = {"message": {"content": label.title()}}
    if body.get("logprobs"):
        listed = [("Pos", p * 0.8), (" negative", 1 - p), ("positive", p * 0.1), ("The", p * 0.1)]
        alternatives = [{"token": t, "logprob": math.log(x)} for t, x in listed]
        choice["logprobs"] = {"content": [alternatives[0] | {"top_logprobs": alternatives}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    return {"choices": [choice] * body.get("n", 1), "usage": usage}


@pytest.fixture
def server():
    """A chat server; ``answer(text, body, count)`` gives the response to the ``count``-th request
    with this text.
    """
    chat, lock = SimpleNamespace(answer=completion, asked=Counter(), keys=set()), threading.Lock()

    class Chat(Service):
        def do_GET(self):
            self.answer(200, json.dumps({"data": [{"id": "tiny"}]}))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = body["messages"][0]["content"].rpartition("Text: ")[2]
            with lock:
                chat.keys.add(self.headers["Authorization"])
                chat.asked[text] += 1
                count = chat.asked[text]
            answer = chat.answer(text, body, count)
            with suppress(ConnectionError):  # of one that waited no longer
                self.answer(*(answer if isinstance(answer, tuple) else (200, json.dumps(answer))))

    with serving(Chat) as address:
        chat.url = f"http://{address}/v1"
        yield chat


@pytest.fixture
def label(server, tmp_path, monkeypatch):
    """``label(texts)``: the figures and the table of a labelling."""
    monkeypatch.setattr(module, "_FIRST_DELAY", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def run(texts: list[str], name: str = "answers.parquet", **changes: object):
        data = tmp_path / "data.jsonl"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        prompt = 'Answer {"label"} as one of {labels}. Text: {text}'
        given = {"url": server.url, "labels": ("negative", "positive"), "prompt": prompt}
        figures = label_rows(str(data), tmp_path / name, LabelSettings(**given | changes))
        rows = pq.read_table(tmp_path / name).to_pylist() if name.endswith("parquet") else None
        return figures, rows

    return run


TEXTS = [f"{'good' if number % 3 else 'bad'} film {number}" for number in range(30)]


def test_probabilities_of_labels_in_the_order_of_the_rows(label, server, tmp_path):
    figures, rows = label([*TEXTS, *TEXTS])
    assert [row["text"] for row in rows] == [*TEXTS, *TEXTS]
    for row in rows:
        p = good(row["text"])
        assert row["probability_positive"] == pytest.approx(0.9 * p / (0.9 * p + 1 - p))
        assert row["probability_positive"] + row["probability_negative"] == pytest.approx(1)
    assert set(server.asked.values()) == {1}  # also of equal rows
    assert (figures.rows, figures.asked, figures.requests) == (60, 30, 30)
    assert (figures.prompt_tokens, figures.answer_tokens, figures.unlabelled) == (300, 60, 0)
    assert server.keys == {f"Bearer {SECRET}"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.parquet", "data.jsonl"]
    with pytest.raises(ConfigError, match="exists"):
        label(TEXTS)


def without_logprobs(text, body, count):
    answer = completion(text, {}, count)
    if "n" in body:  # four of five votes, one sample a request
        content = "positive" if count % 5 else "I do not know"
        answer["choices"] = [{"message": {"content": content}}]
    return answer


def refuses_logprobs(text, body, count):
    if body.get("logprobs"):
        return 400, "logprobs are not supported"
    return without_logprobs(text, body, count)


@pytest.mark.parametrize("answer", [without_logprobs, refuses_logprobs])
def test_votes_where_the_server_gives_no_log_probabilities(label, server, answer):
    server.answer = answer
    figures, rows = label(TEXTS, name="votes.parquet")
    assert {row["probability_positive"] for row in rows} == {1.0}
    assert max(server.asked.values()) <= 6
    assert figures.unlabelled == 0


def now_and_then(fault):
    """Fail at the first request of every text, and answer the next."""
    return lambda text, body, count: completion(text, body, count) if count > 1 else fault(text)


FAULTS = {
    "429": lambda text: (429, "", ("retry-after", "0")),
    "500": lambda text: (500, "out of memory"),
    "timeout": lambda text: time.sleep(0.5),
    "HTML": lambda text: HTML if text != TEXTS[0] else completion(text, {"logprobs": True}, 1),
    "no choices": lambda text: {"choices": []} if text != TEXTS[0] else completion(text, {}, 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_asked_again(label, server, fault):
    server.answer, concurrency = now_and_then(FAULTS[fault]), 3
    if fault in ("HTML", "no choices"):  # behind an answer that was one
        server.asked[TEXTS[0]] = concurrency = 1
    time_out = 0.2 if fault == "timeout" else 60.0
    figures, rows = label(TEXTS[:6], timeout_seconds=time_out, concurrency=concurrency)
    assert all(row["probability_positive"] is not None for row in rows)
    assert figures.unlabelled == 0


LASTING = {
    "HTML": (lambda text, body, count: HTML, ConfigError, "no chat completion: .*Sign in"),
    "wrong key": (lambda *_: (401, "key"), ConfigError, "HTTP 401"),
    "500": (lambda *_: (500, ""), ResourceError, "HTTP 500.* 7 times"),
    "no label": (lambda *_: UNLABELLED, DataError, "name no label"),
}


@pytest.mark.parametrize("fault", LASTING)
def test_a_fault_that_lasts_is_one_clear_error(label, server, fault, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_DELAY", 0.001)
    server.answer, error, problem = LASTING[fault]
    with pytest.raises(error, match=problem) as caught:
        label(TEXTS)
    assert SECRET not in str(caught.value)


def test_answers_without_a_label_are_counted_and_empty(label, server):
    server.answer = lambda text, *of: completion(text, *of) if "good" in text else UNLABELLED
    figures, rows = label(TEXTS)
    unlabelled = [row for row in rows if row["probability_positive"] is None]
    assert [row["text"] for row in unlabelled] == [text for text in TEXTS if "bad" in text]
    assert figures.unlabelled == len(unlabelled)
    assert "As a model" in unlabelled[0]["answer"]


def test_an_empty_answer_does_not_end_the_log_probabilities(label, server):
    def answer(text, body, count):
        if text == TEXTS[0] and body.get("logprobs"):
            return {"choices": [{"message": {"content": ""}, "logprobs": {"content": []}}]}
        return completion(text, body, count)

    server.answer = answer
    _, rows = label([*TEXTS, None], concurrency=1)
    assert all(0 < row["probability_positive"] < 1 for row in rows[1:])  # not of votes
    assert rows[-1]["text"] == ""


@pytest.mark.slow
def test_a_killed_labelling_goes_on_and_asks_nothing_twice(server, tmp_path):
    texts = [f"{text} {number}" for number in range(10) for text in TEXTS]

    def slow_completion(text, body, count):
        time.sleep(0.002)
        return completion(text, body, count)

    server.answer = slow_completion
    data, prompt, output = tmp_path / "data.txt", tmp_path / "prompt.txt", tmp_path / "out.csv"
    data.write_text("\n".join(texts))
    prompt.write_text("One of {labels}. Text: {text}")
    command = [sys.executable, "-m", "road_ray", "label", server.url, str(data)]
    command += ["--labels", "negative,positive", "--prompt", str(prompt)]
    command += ["--output", str(output), "--concurrency", "4", "--json", "--price", "2", "5"]
    environment = os.environ | {"OPENAI_API_KEY": SECRET, "PYTHONPATH": str(Path.cwd())}
    partial = tmp_path / ".out.csv.partial"
    process = subprocess.Popen(command, env=environment)
    while not partial.is_file() or partial.read_text().count("key") < len(texts) / 5:
        time.sleep(0.01)
        assert process.poll() is None
    process.kill()
    process.wait()
    kept = partial.read_text().count('"key"')
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    assert figures["asked"] == len(texts) - kept
    cost = (2 * figures["prompt_tokens"] + 5 * figures["answer_tokens"]) / 1e6
    assert figures["cost"] == pytest.approx(cost)
    assert server.asked.total() <= len(texts) + 4  # those that were on their way at the kill
    lines = output.read_text().splitlines()
    assert lines[0] == "text,probability_negative,probability_positive,answer"
    assert [line.split(",")[0] for line in lines[1:]] == texts
    assert not any(SECRET in path.read_text() for path in tmp_path.iterdir())


def test_the_labels_of_an_llm_are_a_teacher(server, sentiment, tmp_path):
    """The commands of the guide, with a data set whose column is ``sentence``."""
    data = Path(str(sentiment["data.root"])) / "glue" / "SST-2" / "train.tsv"
    prompt = "Is this positive or negative? Text: {sentence}"
    settings = LabelSettings(server.url, ("negative", "positive"), prompt)
    figures = label_rows(str(data), tmp_path / "answers.parquet", settings)
    teachers = {"distillation.teachers": [str(tmp_path / "answers.parquet")]}
    run = rr.distill(overrides=sentiment | teachers, run_dir=tmp_path / "run", host="process")
    assert figures.rows == 150
    (teacher,) = json.loads((run.directory / "teachers.json").read_text())["teachers"]
    assert teacher["file_sha256"] == sha256_of(tmp_path / "answers.parquet")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("Positive.", "positive"), (' "negative"', "negative"), ("positively", None)),
        *(("not entailment, because", "not_entailment"), ("maybe", None), ("", None)),
        *(("-", "-"), (" -.\n", "-"), ("- positive", "positive")),
    ],
)
def test_the_label_of_an_answer(text, expected):
    assert label_of(text, ("positive", "negative", "not_entailment", "not", "-")) == expected


def test_tokens_that_begin_two_labels_or_hardly_a_label_tell_nothing():
    def content(**tokens: float):
        listed = [{"token": t, "logprob": math.log(p)} for t, p in tokens.items()]
        return [{"token": "\n"}, {"token": "x", "top_logprobs": listed}]

    labels = ("not_a", "not_b", "c")
    assert shares_of(content(**{"not": 0.6, "c": 0.3}), labels) is None
    assert shares_of(content(**{"c": 0.6, "not_a": 0.2}), labels) == pytest.approx([0.25, 0, 0.75])
    assert shares_of(content(The=0.9), labels) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        *(({"labels": labels}, "two or more") for labels in (("a",), ("a", "A"))),
        ({"prompt": "one of {labels}"}, "no column"),
        ({"url": "localhost"}, "no address"),
        ({"url": "http://127.0.0.1:9/v1"}, "gives no list of models"),
        ({"prompt": "{body}"}, "no column 'body'"),
        ({"name": "answers.txt"}, "allowed: .parquet"),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(label, server, changes, problem):
    with pytest.raises((ConfigError, DataError), match=problem):
        label(TEXTS, **changes)
    assert not server.asked
