"""Models that cannot be used are refused by the command line before anything starts."""

from __future__ import annotations

import json

import pytest
from transformers import CTRLTokenizer

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
    publish(root / "numbered", "roberta", SENTENCES, labels=("LABEL_0", "LABEL_1"))
    publish(root / "three", "roberta", SENTENCES, labels=("a", "b", "c"))
    publish(root / "headless", "roberta")
    with_slow_tokenizer(publish(root / "slow", "bert", SENTENCES, labels=LABELS))
    publish(root / "short", "roberta", SENTENCES, labels=LABELS, max_position_embeddings=18)
    return root


@pytest.mark.parametrize(
    ("teacher", "more", "code", "message"),
    [
        (
            "numbered",
            (),
            4,
            (
                "config.json: the labels of its head ['LABEL_0', 'LABEL_1'] are not those of task",
                "allowed: ['negative', 'positive']",
                "distillation.label_map='{LABEL_0: negative, LABEL_1: positive}'",
            ),
        ),
        ("three", (), 4, ("config.json: the head gives 3 numbers", "allowed: 2", "fix: ")),
        ("headless", (), 4, ("config.json: architectures is ['RobertaModel']", SENTENCES, "fix: ")),
        ("slow", (), 4, ("slow: has another tokenizer than the student", "fast", "fix: ")),
        (
            "fits",
            ("student.layers=9",),
            2,
            ("student.layers = 9: init has 1 layers", "allowed: 1 to 1", "fix: "),
        ),
    ],
)
def test_distill_refuses_it_before_anything_starts(
    road, flags, sentiment, models, tmp_path, teacher, more, code, message
):
    named = [str(models / "fits"), str(models / teacher)]
    chosen = sentiment | {"distillation.teachers": named, "distillation.num_teachers": 2}
    result = road("distill", *flags(chosen), *more, "--run-dir", tmp_path / "run")
    print(result.err)
    assert result.code == code
    assert all(part in result.err for part in message), result.err
    assert not (tmp_path / "run").exists()


def test_a_student_with_a_slow_tokenizer_is_refused(road, flags, sentiment, models, tmp_path):
    chosen = sentiment | {"init": str(models / "slow")}
    result = road("finetune", *flags(chosen), "--run-dir", tmp_path / "run")
    print(result.err)
    assert result.code == 3
    assert "slow holds no tokenizer (tokenizer.json or vocab.txt)" in result.err
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.fixture
def with_short_teacher(sentiment, models):
    """Overrides with a second teacher that reads 16 tokens a row."""
    named = [str(models / "fits"), str(models / "short")]
    return sentiment | {"distillation.teachers": named, "distillation.num_teachers": 2}


def test_a_text_that_a_teacher_truncates_is_refused_before_anything_starts(
    road, flags, with_short_teacher, models, tmp_path
):
    result = road("distill", *flags(with_short_teacher), "--run-dir", tmp_path / "run")
    print(result.err)
    assert result.code == 2
    assert f"teacher 1 ({models / 'short'}) reads at most 16 tokens" in result.err
    assert "teacher 0" not in result.err
    for part in ("which the student reads whole", "allowed: ", "distillation.on_truncated=learn"):
        assert part in result.err
    assert not (tmp_path / "run").exists()


def test_a_declared_choice_learns_from_a_teacher_that_truncates(
    road, flags, with_short_teacher, models, tmp_path, caplog
):
    chosen = with_short_teacher | {"distillation.host": "process", "training.steps": 2}
    chosen |= {"distillation.on_truncated": "learn", "console": "plain"}
    result = road("distill", *flags(chosen), "--run-dir", tmp_path / "run")
    print(result.err, caplog.text)
    assert result.code == 0, result.err
    assert f"teacher 1 ({models / 'short'}) reads at most 16 tokens" in caplog.text
    assert "teachers/cut_1" in caplog.text
    assert "warning: teacher 0" not in caplog.text


def test_rows_that_the_student_truncates_as_well_are_no_error(
    road, flags, with_short_teacher, tmp_path, caplog
):
    chosen = with_short_teacher | {"distillation.host": "process", "training.steps": 2}
    chosen |= {"data.max_length_tokens": 8, "console": "plain"}
    result = road("distill", *flags(chosen), "--run-dir", tmp_path / "run")
    print(result.err, caplog.text)
    assert result.code == 0, result.err
    assert "reads at most" not in caplog.text


def test_a_mixture_refuses_a_teacher_that_truncates(road, flags, with_short_teacher, tmp_path):
    chosen = {k: v for k, v in with_short_teacher.items() if k != "data.dataset"}
    named = chosen.pop("distillation.teachers")
    chosen |= {"data.datasets": ["sst2", "mnli"], "distillation.teachers.sst2": named}
    chosen |= {"distillation.teachers.mnli": [], "training.steps": 2}
    result = road("multitask", *flags(chosen), "--run-dir", tmp_path / "run")
    print(result.err)
    assert result.code == 2
    assert "reads at most 16 tokens" in result.err
    assert not (tmp_path / "run").exists()


def test_a_student_that_reads_shorter_rows_than_the_data_is_refused(
    road, flags, sentiment, tmp_path
):
    place = publish(tmp_path / "brief", "electra", max_position_embeddings=16)
    result = road(
        "finetune", *flags(sentiment | {"init": str(place)}), "--run-dir", tmp_path / "run"
    )
    print(result.err)
    assert result.code == 2
    assert "data.max_length_tokens" in result.err


def test_a_window_that_a_teacher_truncates_is_refused(road, flags, questions, tmp_path):
    place = publish(
        tmp_path / "short", "roberta", "ForQuestionAnswering", max_position_embeddings=42
    )
    chosen = questions | {"distillation.teachers": [str(place)], "distillation.num_teachers": 1}
    result = road("distill", *flags(chosen), "--run-dir", tmp_path / "run")
    print(result.err)
    assert result.code == 2
    assert "reads at most 40 tokens" in result.err
    assert not (tmp_path / "run").exists()
