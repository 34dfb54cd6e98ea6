"""The commands of README and guides run as they are printed, in a folder with what they name.

Only what would take hours is changed: sizes, steps and rows are appended, teachers stay in the
student's process, and models of the hub are tiny ones in directories of their names. The dashboard
of Optuna is not started: it is not among our dependencies.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import httpx
import pytest
from transformers import AutoConfig

import road_ray as rr
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.cluster import until
from tests.conftest import PRETRAINING, SPANS
from tests.docs.blocks import ROOT, blocks, commands, publish_sentiment_models
from tests.ports import free_port
from tests.published import publish

pytestmark = [pytest.mark.guide, pytest.mark.timeout(600), pytest.mark.usefixtures("drawn_figures")]

STEPS = {"training.steps": 2, "training.log_every_steps": 1, "optimizer.warmup_steps": 1}
FEW = STEPS | {"console": "quiet", "data.batch_size": 4, "data.max_rows": 32}
LENGTHS = {"data.max_length_tokens": 96, "data.max_judged_rows": 16}
IN_PROCESS = {"distillation.host": "process"}
SHORT = {
    "pretrain": PRETRAINING | STEPS | {"generator.scale": 1.0},
    "multitask": FEW | LENGTHS,
    "finetune": FEW | LENGTHS,
    "teachers": FEW | LENGTHS,
    "distill": FEW | LENGTHS | IN_PROCESS,
    "evaluate": SPANS | {"data.max_judged_rows": 16, "console": "quiet"},
}
SENTENCES = "The court held that the contract was void. The appeal was dismissed with costs.\n\n"


@pytest.fixture
def place(tmp_path, monkeypatch, world):
    """The folder in which the commands run: data, text and models under the names of the guides."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)
    (tmp_path / "DATA").mkdir()
    for path in world.iterdir():
        (tmp_path / "DATA" / path.name).symlink_to(path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/road").write_text(f'#!/bin/sh\nexec {sys.executable} -m road_ray "$@"\n')
    (tmp_path / "bin/road").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "TEXT").mkdir()
    (tmp_path / "TEXT" / "cases.txt").write_text(SENTENCES * 120)
    sizes = {"max_position_embeddings": 512}
    publish(tmp_path / "google/electra-small-discriminator", "electra", "ForPreTraining", **sizes)
    return tmp_path


@pytest.fixture
def run(road, flags):
    """``run(page, block, verb={...})``: the commands of a block, with more keys for a verb."""

    def run(page, block, short=SHORT, **more):
        done = []
        for line in blocks(page)[block].replace("\\\n", " ").splitlines():
            for words in commands(os.path.expandvars(line)):
                verb = words[1]
                if words[0] == "road":
                    options = flags(short.get(verb, {}) | more.get(verb, {}))
                    done.append(road(*words[1:], *options))
                    assert done[-1].code == 0, (words, done[-1].err)
                elif words[0] not in ("optuna-dashboard", "pip"):
                    subprocess.run(["bash", "-euc", line], check=True, timeout=240)
        return done

    return run


def metrics(run_dir):
    return json.loads((run_dir / "metrics.json").read_text())


def test_first_commands(run, place, world, monkeypatch):
    monkeypatch.setenv("ROAD_DATA", str(world))  # in the place of the hub
    publish_sentiment_models(place)
    run("README.md", "first")
    for name, key in (("sst2", "sst2"), ("mine", "reviews"), ("student_sst2", "sst2")):
        assert f"eval/{key}/accuracy" in metrics(place / "runs" / name)


@pytest.fixture
def all_data(place, real_data):
    """The real data sets in ``DATA``, but the text of the miniature."""
    for path in real_data.iterdir():
        link = place / "DATA" / path.name
        if path.name != "wikipedia":
            link.unlink(missing_ok=True)
            link.symlink_to(path)


def test_all_stages_and_python(run, place, cluster, all_data):
    question = {"question": "Who wrote it?", "context": "Ada wrote it in 1843.", "id": "7"}
    paragraph = {"context": question["context"], "qas": [{"id": "7", "question": "Who wrote it?"}]}
    (place / "questions.json").write_text(
        json.dumps({"data": [{"title": "", "paragraphs": [paragraph]}]})
    )
    spans = {verb: SPANS for verb in ("finetune", "teachers", "distill")}
    done = run("README.md", "stages", multitask={"data.max_rows": 40}, **spans)
    assert {"eval/squad_v2/f1", "eval/newsqa/f1"} <= metrics(place / "runs/judged").keys()
    (answer,) = read_rows(place / "answers.jsonl")
    assert answer["id"] == "7"
    assert "model.safetensors" in done[-2].out
    assert (place / "runs/student/report.html").is_file()
    assert (place / "runs/student/onnx-int8/model_int8.onnx").is_file()
    for number in range(3):
        shutil.copytree(place / "runs/student", place / f"runs/t{number}")
    finetune = rr.finetune
    few = FEW | SPANS | {"data.max_judged_rows": 16}

    def shortened(preset, overrides):
        return finetune(preset=preset, overrides=overrides | few)

    names = {"batch": batch_of(place), "batches": [batch_of(place)] * 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rr, "finetune", shortened)
        exec(blocks("README.md", "python")["api"], names)
    assert names["logits"].shape[:3] == (3, 1, 2)
    assert names["soft"].shape == names["logits"].shape[1:]


def batch_of(place):
    """Return a batch of one question, as a loader of one's own would make it."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place / "runs/student/hf")
    batch = tokenizer(["Who wrote it?"], ["Ada wrote it in 1843."], return_tensors="pt")
    return {**batch, "labels": batch["input_ids"].new_tensor([[5, 5]])}


@pytest.fixture
def runs(place, pretrained, teachers, sentiment):
    """A pre-trained model and teachers under the names that the guides give to a user's own."""
    for name in ("STUDENT", "PRETRAINED", "RUN"):
        (place / name).symlink_to(pretrained.directory)
    (place / "TEACHERS").symlink_to(teachers.directory)
    return place


def publish_teachers(place, head, labels=()):
    """Save a BERT, a RoBERTa and a DeBERTa under the names of the guide of models."""
    for seed, family in enumerate(("bert", "roberta", "deberta-v2")):
        name = family.partition("-")[0].upper()
        longer = {"max_position_embeddings": 514}
        publish(place / name, family, head, labels=labels, seed=seed, **longer)


@pytest.fixture
def published(place):
    """Encoders under the names of the guide of models."""
    shared = {"max_position_embeddings": 512}
    publish(place / "ELECTRA", "electra", "ForPreTraining", **shared)
    publish(place / "MODEL", "electra", "ForPreTraining", **shared)
    return place


def test_low_resource_comparison(run, runs, cluster):
    few = {"arms": ["none", "entropy"], "data.max_unlabelled_rows": 20, "num_seeds": 2}
    few |= FEW | LENGTHS | {"max_concurrent": 2}
    run("docs/guides/comparisons.md", "low", reproduce=few)
    assert (runs / "runs/low/table.json").is_file()
    assert (runs / "runs/low/report.html").is_file()


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ("teach", {"student": "sst2"}),
        ("once", {"once": "sst2"}),
        ("unlabelled", {"more": "sst2"}),
        ("multitask", {"mtl": "mnli"}),
        ("file", {"file": "sst2"}),
    ],
)
def test_distillation(run, runs, all_data, block, names):
    run("docs/guides/distillation.md", block, multitask=IN_PROCESS)
    for name, dataset in names.items():
        assert f"eval/{dataset}/accuracy" in metrics(runs / "runs" / name)


def test_answers_to_questions(run, runs):
    run("docs/guides/distillation.md", "spans", finetune=SPANS, distill=SPANS)
    assert "eval/squad_v2/f1" in metrics(runs / "runs" / "spans")
    listed = {row["id"]: row["n_best"] for row in read_rows(runs / "spans.jsonl")}
    (runs / "nbest_predictions.json").write_text(json.dumps(listed))
    exec(blocks("docs/guides/distillation.md", "python")["nbest"], {})
    assert {row["id"]: row["n_best"] for row in read_rows(runs / "nbest.jsonl")} == listed


def test_wrong_labels(run, runs, all_data):
    run("docs/guides/data.md", "errors")
    assert "eval/sst2/accuracy" in metrics(runs / "runs" / "clean")
    assert (runs / "errors.csv").read_text().startswith("correction,label,suggested,")


def test_long_texts(run, runs):
    run("docs/guides/data.md", "windows")
    record = json.loads((runs / "runs" / "windows" / "hf" / "road_ray.json").read_text())
    assert record["windows"] == "mean"
    run("docs/guides/data.md", "unpadded")
    assert (runs / "runs" / "unpadded" / "hf" / "road_ray.json").is_file()


@pytest.mark.parametrize("block", ["continue", "labels", "mixed"])
def test_published_models(run, published, block):
    short = {verb: FEW | LENGTHS | IN_PROCESS for verb in ("distill",)}
    if block == "mixed":
        publish_teachers(published, "ForQuestionAnswering")
        short["distill"] |= SPANS
    else:
        publish_teachers(published, "ForSequenceClassification", ("LABEL_0", "LABEL_1"))
    short["pretrain"] = STEPS | {"data.batch_size": 4, "console": "quiet"}
    for done in run("docs/guides/models.md", block, short):
        assert "nan" not in done.out


def test_teachers_of_another_tokenizer_from_python(published):
    publish_teachers(published, "ForSequenceClassification", ("negative", "positive"))
    from transformers import AutoTokenizer

    names = {
        "directories": [str(published / "BERT"), str(published / "ROBERTA")],
        "tokenizer": AutoTokenizer.from_pretrained(published / "ELECTRA"),
        "texts": ["a fine film", "a dull one"],
    }
    code = blocks("docs/guides/models.md", "python")["ensemble"]
    exec(code, names)
    assert names["logits"].shape == (2, 2, 2)
    names["ensemble"].close()


@pytest.mark.parametrize("block", ["mix", "short"])
def test_multitask(run, runs, cluster, all_data, block):
    spans = {"finetune": SPANS, "multitask": {"data.max_rows": 40}}
    run("docs/guides/multitask.md", block, **spans)
    squad = runs / "runs" / ("squad" if block == "mix" else "squad_short")
    assert {"eval/squad_v2/f1", "eval/newsqa/f1"} <= metrics(squad).keys()
    if block == "mix":
        assert "eval/newsqa/f1" in metrics(runs / "runs/newsqa")


def test_two_stages_of_pretraining(run, place):
    run("docs/guides/pretraining.md", "stages")
    assert (place / "runs/electra/hf/generator").is_dir()


def test_text_larger_than_a_disk(run, place, cluster, monkeypatch):
    import ray

    publish(place / "runs/vocabulary", "electra")
    monkeypatch.setenv("BUCKET", f"file://{place}/bucket")
    (place / "bucket").mkdir()
    (place / "TEXT").rename(place / "bucket/text")
    monkeypatch.setenv("HEAD", ray.get_runtime_context().gcs_address)
    monkeypatch.setenv("DISK", str(place / "disk"))
    run("docs/guides/pretraining.md", "large")
    assert any((place / "bucket/shards").rglob("MANIFEST.json"))
    assert metrics(place / "runs/large")


def test_a_sweep_and_reports(run, runs, cluster, sentiment):
    sst2 = {"overrides.data.dataset": "sst2", "overrides.data.evaluate_on": ["sst2"]}
    keys = {f"overrides.{key}": value for key, value in (FEW | LENGTHS | IN_PROCESS).items()}
    words = {"trials": 2, "max_concurrent": 1, "console": "quiet", "scheduler": "none"}
    few = keys | sst2 | words | {"metric": "eval/sst2/accuracy", "overrides.data.root": "DATA"}
    run("docs/guides/sweeps.md", "sweep", sweep=few)
    assert (runs / "runs/sweeps/weighted_kd/report.html").is_file()
    settings = sentiment | {"data.root": "DATA"}
    for name in ("student", "squad/a", "squad/b", "none-10", "mean-10"):
        rr.finetune(overrides=settings, run_dir=f"runs/{name}")
    run("docs/reports.md", "report")
    assert (runs / "comparison.html").is_file()
    assert [*(runs / "runs/student").rglob("*.png")]


def test_predictions_by_several_workers(run, place, cluster, monkeypatch):
    publish(place / "model", "electra", "ForSequenceClassification", labels=("bad", "good"))
    monkeypatch.setenv("MODEL", "model")
    (place / "rows.csv").write_text("text\n" + "a fine film\na dull one\n" * 50)
    run("docs/guides/serving.md", "workers")
    assert len((place / "predictions.csv").read_text().splitlines()) == 101


@pytest.mark.ray
@pytest.mark.parametrize("block", ["serve", "token"])
def test_serving(place, block):
    """The server answers, asks for its token, and ends on a signal."""
    model = publish(place / "model", "electra", "ForSequenceClassification", labels=("bad", "good"))
    port = free_port()
    environment = os.environ | {"MODEL": str(model), "PORT": str(port)}
    line = blocks("docs/guides/serving.md")[block].replace("road serve", "exec road serve")
    server = subprocess.Popen(["bash", "-euc", line], env=environment)
    try:
        until(lambda: status(port, "ready") == 200 or server.poll() is not None, 120, 0.5)
        assert status(port, "predict", b'{"text": "a film"}') == (401 if block == "token" else 200)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        server.kill()


def status(port, path, body=None):
    """Return the status of a request, 0 without a server."""
    method, headers = "POST" if body else "GET", {"Content-Type": "application/json"}
    try:
        url = f"http://127.0.0.1:{port}/{path}"
        return httpx.request(method, url, content=body, headers=headers, timeout=30).status_code
    except httpx.TransportError:
        return 0


TEXT = STEPS | {"data.batch_size": 2, "console": "quiet"}
TINY = {"encoder.layers": 1, "encoder.hidden_size": 32, "encoder.heads": 2, "generator.scale": 1}


def test_vocabulary_run_preview_and_shards_of_a_text(run, place):
    *_, peek = run("docs/guides/pretraining.md", "own", {"pretrain": TEXT | TINY})
    assert " -> " in peek.out
    (built,) = run("docs/guides/pretraining.md", "shards")
    assert "data.tokenizer=runs/vocabulary" in built.out
    assert any((place / "SHARDS").iterdir())


def test_published_weights_give_tokenizer_family_and_sizes(run, place):
    """A generator of half the width and other layers than the preset's: nobody copies numbers."""
    small = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 1, "layers": 1}
    small |= {"seed": 1, "max_position_embeddings": 512}
    publish(place / "google/electra-small-generator", "electra", "ForMaskedLM", **small)
    run("docs/guides/pretraining.md", "published", {"pretrain": TEXT})
    hf = place / "runs" / "legal" / "hf"
    made = AutoConfig.from_pretrained(hf), AutoConfig.from_pretrained(hf / "generator")
    assert [config.hidden_size for config in made] == [16, 8]
    assert [config.num_hidden_layers for config in made] == [2, 1]
    (started,) = [
        e for e in read_rows(place / "runs/legal/events.jsonl") if e["kind"] == "initialized"
    ]
    assert started["new"] == []


def test_a_model_of_another_family_goes_on_and_is_finetuned(run, place):
    publish(place / "FacebookAI/roberta-base", "roberta", "ForMaskedLM")
    run("docs/guides/pretraining.md", "family", {"pretrain": TEXT, "finetune": TEXT})
    assert AutoConfig.from_pretrained(place / "runs/finetuned/hf").model_type == "roberta"


def test_predictions_of_finished_models(run, place):
    publish(place / "runs/films", "electra", "ForSequenceClassification", labels=("bad", "good"))
    publish(place / "runs/answers", "bert", "ForQuestionAnswering")
    (place / "rows.csv").write_text("text\na fine film\na dull one\n")
    (place / "reviews.csv").write_text("number,review\n7,a fine film\n8,a dull one\n")
    run("docs/guides/inference.md", "files")
    assert [row["id"] for row in read_rows(place / "predictions.jsonl")] == ["7", "8"]
    run("docs/guides/inference.md", "calibrate")
    sure = [line.split(",") for line in (place / "sure.csv").read_text().splitlines()[1:]]
    assert all((cells[1] == "") == (float(cells[2]) < 0.8) for cells in sure)
    exec(blocks("docs/guides/inference.md", "python")["load"], {})
    run("docs/guides/inference.md", "export")
    labels = [
        [line.split(",")[:2] for line in (place / name).read_text().splitlines()]
        for name in ("onnx.csv", "predictions.csv")
    ]
    assert labels[0] == labels[1]
    names: dict[str, object] = {}
    exec(blocks("docs/guides/inference.md", "python")["runtime"], names)
    assert getattr(names["logits"], "shape", None) == (1, 2)


def test_from_a_file_to_predictions_and_a_score(run, place):
    labels = {"fine": "good", "dull": "bad"}
    written = [
        f"a {word} film number {n},{label}" for n in range(20) for word, label in labels.items()
    ]
    (place / "reviews.csv").write_text("\n".join(["review,verdict", *written]) + "\n")
    (place / "new.csv").write_text("review\na fine film\na dull film\n")
    (place / "labelled.csv").write_text("review,verdict,page\na fine film,good,1\n")
    run("docs/guides/data.md", "start", {})
    assert {row["label"] for row in read_rows(place / "out.jsonl")} <= {*labels.values()}


def test_the_tutorial_from_a_csv_to_an_onnx_student(run, place):
    few = {"training.steps": 3, "data.batch_size": 4, "console": "quiet"}
    short = {"pretrain": PRETRAINING, "finetune": few, "teachers": few, "distill": few | IN_PROCESS}
    for name in blocks("docs/tutorial.md"):
        done = run("docs/tutorial.md", name, short)
        if name in ("classifier", "onnx"):
            predicted = [json.loads(line) for line in done[1].out.splitlines()]
            assert len(predicted) == 12
            assert all(sum(row["scores"].values()) == pytest.approx(1) for row in predicted)
    teachers = json.loads((place / "runs/teachers/teachers.json").read_text())
    assert len(teachers["teachers"]) == 3
    assert (place / "runs/student/report.html").is_file()


@pytest.mark.parametrize("name", ["weights", "loss"])
def test_a_formula_prints_what_the_page_says(name, capsys):
    exec(blocks("docs/method.md", "python")[name], {})
    page = (ROOT / "docs/method.md").read_text("utf-8")
    [printed] = re.findall(rf"^```python {name}\n.*?^```\n\n    (.*?)\n", page, flags=re.M | re.S)
    assert capsys.readouterr().out.strip() == printed
