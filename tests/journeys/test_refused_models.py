"""Models that cannot be used are refused by the command line before anything starts."""

import json

import pytest
from transformers import CTRLTokenizer

from tests.conftest import SPANS
from tests.published import publish

SENTENCES, LABELS = "ForSequenceClassification", ("negative", "positive")


def with_slow_tokenizer(place):
    """Give a model a tokenizer that knows no character offsets."""
    (place / "vocab.json").write_text(json.dumps({"<unk>": 0, "a</w>": 1, "b</w>": 2}))
    (place / "merges.txt").write_text("#version: 0.2\na b\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (place / name).unlink(missing_ok=True)
    CTRLTokenizer(str(place / "vocab.json"), str(place / "merges.txt")).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    publish(root / "fits", "bert", SENTENCES, labels=LABELS)
    with_slow_tokenizer(publish(root / "slow", "bert", SENTENCES, labels=LABELS))
    publish(root / "short", "roberta", SENTENCES, labels=LABELS, max_position_embeddings=18)
    publish(root / "narrow", "bert", SENTENCES, labels=LABELS, max_position_embeddings=16)
    publish(root / "answers", "roberta", "ForQuestionAnswering", max_position_embeddings=42)
    publish(root / "brief", "electra", max_position_embeddings=16)
    return root


READS_16 = ("teacher 1 (", "short) reads at most 16 tokens", "which the student reads whole")
SPAN = {"data.dataset": "squad_v2", **SPANS}


@pytest.mark.parametrize(
    ("verb", "teacher", "changes", "code", "message"),
    [
        ("distill", "slow", {}, 4, ("slow: has another tokenizer than the student", "fast")),
        ("distill", "short", {}, 2, (*READS_16, "distillation.on_truncated=learn")),
        ("distill", "narrow", {"init": "fits"}, 2, ("narrow has 16 positions, the",)),
        ("multitask", "short", {}, 2, READS_16),
        ("distill", "answers", SPAN, 2, ("reads at most 40 tokens",)),
        ("finetune", None, {"init": "slow"}, 3, ("slow holds no tokenizer (tokenizer.json or",)),
        ("finetune", None, {"init": "brief"}, 2, ("data.max_length_tokens",)),
    ],
)
def test_it_is_refused_before_anything_starts(
    road, flags, sentiment, models, tmp_path, verb, teacher, changes, code, message
):
    chosen = sentiment | changes
    if "init" in changes:
        chosen["init"] = str(models / changes["init"])
    named = [str(models / "fits"), str(models / str(teacher))][teacher == "answers" :]
    if verb == "distill":
        chosen |= {"distillation.teachers": named, "distillation.num_teachers": len(named)}
    elif verb == "multitask":
        del chosen["data.dataset"]
        chosen |= {"data.datasets": ["sst2", "mnli"], "distillation.teachers.sst2": named}
        chosen |= {"distillation.teachers.mnli": []}
    result = road(verb, *flags(chosen), "--run-dir", tmp_path / "run")
    assert result.code == code
    assert all(part in result.err for part in message), result.err
    assert teacher != "short" or "teacher 0" not in result.err
    assert verb == "finetune" or not (tmp_path / "run").exists()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "warns"),
    [({"distillation.on_truncated": "learn"}, True), ({"data.max_length_tokens": 8}, False)],
    ids=["a declared choice", "rows that the student truncates as well"],
)
def test_a_student_learns_from_a_teacher_that_truncates(
    road, flags, sentiment, models, tmp_path, caplog, changes, warns
):
    named = [str(models / "fits"), str(models / "short")]
    chosen = sentiment | changes | {"distillation.teachers": named, "console": "plain"}
    chosen |= {"distillation.host": "process", "training.steps": 2}
    road("distill", *flags(chosen), "--run-dir", tmp_path / "run").good()
    for part in (f"teacher 1 ({models / 'short'}) reads at most 16 tokens", "teachers/cut_1"):
        assert (part in caplog.text) == warns
    assert "warning: teacher 0" not in caplog.text
