"""The commands at the head of every example run as they are printed.

Published models are tiny ones in directories of their names; steps and rows are cut to seconds.
"""

import json
import os
import re
import runpy
import subprocess
import sys

import httpx
import pytest

from road_ray.data.tokenizer import train_wordpiece
from road_ray.distributed.job_client import completed, load_profile
from road_ray.verbs import configure
from tests.docs.blocks import ROOT, commands, publish_sentiment_models
from tests.ports import free_port
from tests.published import publish

pytestmark = [pytest.mark.guide, pytest.mark.usefixtures("drawn_figures")]
EXAMPLES = ROOT / "examples"
KEYS = {"training.steps": 3, "data.batch_size": 4, "console": "quiet", "optimizer.warmup_steps": 1}
SHORT = [f"{key}={value}" for key, value in KEYS.items()]


def commands_of(name: str) -> list[list[str]]:
    """Return the commands in the comment at the head of an example."""
    head = re.match(r"(#.*\n)+", (EXAMPLES / name).read_text("utf-8"))
    assert head is not None
    lines = re.findall(r"^#  +(.*)$", head[0], flags=re.M)
    return commands("\n".join(lines))


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Tiny models under the names of published ones, with words of the examples."""
    place = tmp_path_factory.mktemp("hub")
    texts = [path.read_text("utf-8") for path in (EXAMPLES / "data").iterdir()]
    tokenizer = train_wordpiece(texts, vocab_size=500)
    for size in ("small", "base"):
        shared = {"tokenizer": tokenizer, "max_position_embeddings": 512}
        for part, head in (("discriminator", "ForPreTraining"), ("generator", "ForMaskedLM")):
            publish(place / f"google/electra-{size}-{part}", "electra", head, **shared)
    chinese = place / "hfl/chinese-electra-180g-small-discriminator"
    publish(chinese, "electra", "ForPreTraining", **shared)
    return place


@pytest.fixture
def place(tmp_path, monkeypatch, hub):
    """A working directory with the examples and the models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    for owner in ("google", "hfl"):
        (tmp_path / owner).symlink_to(hub / owner)
    return tmp_path


def run(road, words, *more):
    assert words[0] == "road"
    result = road(*words[1:], *more)
    assert result.code == 0, result.err
    return result


def test_every_example_is_listed_and_has_a_test():
    page = (EXAMPLES / "README.md").read_text("utf-8")
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests/docs").glob("*.py"))
    for path in EXAMPLES.glob("*.*"):
        if path.name not in ("README.md", "tiny_teachers.py"):
            assert f"({path.name})" in page, path.name
            assert f'"{path.name}"' in tests or f'"{path.stem}"' in tests, path.name


@pytest.mark.parametrize(
    "name", ["own_csv.yaml", "own_squad.yaml", "chinese_squad.yaml", "tags.yaml", "regression.yaml"]
)
def test_files_of_ones_own(road, place, name):
    train, *predict = commands_of(name)
    run(road, train, *SHORT)
    metrics = json.loads((place / train[-1] / "metrics.json").read_text())
    assert any(key.startswith("eval/") for key in metrics)
    for words in predict:
        rows = [json.loads(line) for line in run(road, words).out.splitlines()]
        assert len(rows) == (12 if name == "own_csv.yaml" else 3)
        assert {"answer", "label"} & rows[0].keys()


def test_parts_of_ones_own(road, place, monkeypatch):
    install, train = commands_of("extension/reviews.yaml")
    assert install == ["pip", "install", "examples/extension"]
    monkeypatch.syspath_prepend(EXAMPLES / "extension")  # in its place
    run(road, train, *SHORT)
    metrics = json.loads((place / "runs/parts/metrics.json").read_text())
    assert {"eval/reviews/accuracy", "eval/reviews/kappa"} <= metrics.keys()
    assert (place / "runs/parts/curves.csv").stat().st_size
    del sys.modules["my_road_parts"]


def test_labels_of_a_causal_model(road, place, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import tiny_llm
    import tiny_teachers

    address = f"http://127.0.0.1:{(port := free_port())}/v1"
    command = [sys.executable, str(EXAMPLES / "tiny_llm.py"), "--port", str(port)]
    server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        rows = tiny_teachers.sentences()[:40]
        (place / "films.csv").write_text("text\n" + "".join(f"{row['text']}\n" for row in rows))
        (place / "prompt.txt").write_text(tiny_llm.PROMPT)
        connect = httpx.HTTPTransport(retries=9)  # with pauses that double, from half a second
        httpx.Client(transport=connect).get(f"{address}/models", timeout=60).raise_for_status()
        asked = ["films.csv", "--labels", "positive,negative", "--prompt", "prompt.txt"]
        run(road, ["road", "label", address, *asked, "--output", "answers.jsonl"])
    finally:
        server.terminate()
        server.wait(30)
    answers = [json.loads(line) for line in (place / "answers.jsonl").read_text().splitlines()]
    right = [tiny_teachers.LABELS[row["labels"]] for row in rows]
    said = [
        max(tiny_teachers.LABELS, key=lambda one: answer[f"probability_{one}"])
        for answer in answers
    ]
    assert sum(a == b for a, b in zip(said, right, strict=True)) >= 30


def test_rows_without_labels(road, place):
    teachers, distill = commands_of("unlabelled.yaml")
    assert commands_of("own_csv_teachers.yaml") == [teachers]
    run(road, teachers, *SHORT)
    run(road, distill, *SHORT, "distillation.host=process")
    lines = [json.loads(x) for x in (place / "runs/taught/metrics.jsonl").read_text().splitlines()]
    assert any("train/soft" in key or "soft" in key for key in lines[0]), lines[0].keys()


def test_pretraining_on_text_of_a_domain(road, place):
    pretrain, finetune = commands_of("domain_pretraining.yaml")
    run(road, pretrain, *SHORT)
    run(road, finetune, *SHORT)
    record = json.loads((place / "runs/mine/hf/road_ray.json").read_text())
    assert "runs/domain" in json.dumps(record)


@pytest.mark.ray
def test_sweep(road, place, cluster):
    ((*words,),) = commands_of("sweep.yaml")
    short = [f"overrides.{item}" for item in SHORT]
    run(road, words, *short, "trials=2", "max_concurrent=1", "console=quiet")
    assert json.loads((place / "runs/sweeps/sweep/metrics.json").read_text())


def test_cluster_job_is_complete():
    """What is sent is `tests/journeys/test_submit.py`; here: the file and the line are valid."""
    ((*words,),) = commands_of("cluster.profile.yaml")
    profile = load_profile(str(ROOT / words[words.index("--cluster") + 1]))
    line = words[words.index("--") + 1 :]
    assert (profile.workers, completed(line, profile)[1]) == (2, "/shared/runs/mine")
    configure(line[0], path=ROOT / line[1], overrides=[word for word in line if "=" in word])


def test_python(place):
    labels = runpy.run_path(str(EXAMPLES / "own_csv.py"))["main"](**KEYS)
    assert len(labels) == 2
    assert {*labels} <= {"happy", "unhappy"}


@pytest.fixture
def from_python():
    return runpy.run_path(str(EXAMPLES / "from_python.py"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("own_squad", str), ("tags", list), ("regression", float), ("domain_pretraining", dict)],
)
def test_a_story_from_python(from_python, place, name, kind):
    assert isinstance(from_python[name](**KEYS), kind)


def test_stories_with_teachers_from_python(from_python, place, world, monkeypatch):
    monkeypatch.setenv("ROAD_DATA", str(world))
    publish_sentiment_models(place)
    rows = {"data.max_rows": 12, "data.max_judged_rows": 8, "distillation.host": "process"}
    assert "eval/sst2/accuracy" in from_python["published_teachers"](**KEYS, **rows)


@pytest.mark.ray
def test_stories_on_ray_from_python(from_python, place, cluster):
    assert "eval/reviews/accuracy" in from_python["unlabelled"](**KEYS)
    short = {f"overrides.{key}": value for key, value in KEYS.items()}
    sweep = {"trials": 1, "max_concurrent": 1, "console": "quiet"}
    (best,) = from_python["sweep"](**short, **sweep)
    assert best.values
