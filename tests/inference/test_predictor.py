"""Predictions of an exported model equal those of its evaluation, row by row."""

# ruff: noqa: RUF001

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split
from road_ray.errors import CheckpointError, ConfigError, DataError
from road_ray.evaluation.evaluate_split import DecisionRule, evaluate_split
from road_ray.inference.load_model import load
from road_ray.inference.predictor import Predictor, Sentence, grouped, words_of
from tests.published import TEXTS, publish
from tests.runs import edit
from tests.tiny_encoder import model_of_all_tasks


@pytest.fixture(scope="module")
def model(tokenizer):
    return model_of_all_tasks(tokenizer)


@pytest.fixture(scope="module")
def exported(model, tokenizer, tmp_path_factory):
    """Return the directory of the model with the head of a task."""

    def export(task: str) -> Path:
        directory = tmp_path_factory.mktemp(task.replace("/", "_"))
        model.export(directory, task)
        tokenizer.save_pretrained(directory)
        return directory

    return export


def test_answers_equal_those_of_the_evaluation_with_offsets_and_the_threshold(
    exported, world, model, tokenizer
):
    split = load_split("squad_v2", "dev", SourceConfig(root=str(world)), tokenizer)
    result = evaluate_split(model, split, DecisionRule(0.0), pad_id=0)
    threshold = float(np.median([span.null_odds for span in result.spans]))
    model = load(exported(split.task.name), threshold=threshold, n_best=3)
    rows = [{"question": e.question, "context": e.context, "id": e.id} for e in split.examples]
    silent = 0
    for one, row, span in zip(model(rows), rows, result.spans, strict=True):
        assert one["null_odds"] == pytest.approx(span.null_odds, abs=1e-5)
        assert 0 <= one["no_answer_score"] <= 1
        if span.null_odds > threshold:
            silent += 1
            assert (one["answer"], one["start"]) == ("", None)
        else:
            assert one["answer"] == span.text
            assert row["context"][one["start"] : one["end"]] == span.text
        listed = [best["answer"] for best in one["n_best"]]
        assert listed == [candidate.text for candidate in span.n_best[:3]]
    assert 0 < silent < len(rows)


def test_grouped_entities_have_offsets_in_the_text():
    text = "Ada Lovelace met Babbage in London ."
    sentence = Sentence("", tuple(text.split()), None, "", text)
    tags = ["B-PER", "I-PER", "O", "I-PER", "O", "B-LOC", "I-PER"]
    entities = grouped(sentence, tags, [0.5, 1.0, 0.9, 0.8, 0.9, 0.7, 0.6])
    assert [(e["type"], e["text"], e["start"], e["end"]) for e in entities] == [
        ("PER", "Ada Lovelace", 0, 12),
        ("PER", "Babbage", 17, 24),
        ("LOC", "London", 28, 34),
        ("PER", ".", 35, 36),
    ]
    assert [e["score"] for e in entities] == pytest.approx([0.75, 0.8, 0.7, 0.6])


def test_a_row_with_other_choices_than_an_export_of_before_takes_is_named(exported):
    model = load(exported("completion"))
    model.model.choices = 3
    assert len(model(question="who ?", choices=["a", "b", "c"])["scores"]) == 3
    with pytest.raises(DataError, match="the row: 2 choices, the model takes 3 a row"):
        model(question="who ?", choices=["a", "b"])


@pytest.mark.parametrize(("family", "labels"), [("bert", ("a", "b", "c")), ("roberta", ())])
def test_a_model_of_choices_takes_any_number_of_them(tmp_path, family, labels):
    publish(tmp_path, family, "ForMultipleChoice", labels=labels)
    rows = [
        {"question": "who ?", "choices": [*TEXTS, "nobody", "the film"][:number]}
        for number in (4, 2, 5, 3)
    ]
    predictions = load(tmp_path)(rows)
    model = AutoModelForMultipleChoice.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for row, prediction in zip(rows, predictions, strict=True):
        questions = [row["question"]] * len(row["choices"])
        inputs = tokenizer(questions, row["choices"], padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**{name: x[None] for name, x in inputs.items()}).logits[0]
        assert prediction["scores"] == pytest.approx(logits.softmax(0).tolist(), abs=1e-5)
        assert prediction["score"] == prediction["scores"][int(logits.argmax())]
        assert prediction["choice"] == int(logits.argmax())


def test_a_model_of_several_numbers_a_row_and_a_list_of_models_are_refused(tmp_path):
    labels = ("valence", "arousal")
    publish(tmp_path, "bert", "ForSequenceClassification", labels=labels, problem_type="regression")
    seen = "config.json: problem_type = 'regression' with 2 labels"
    with pytest.raises(CheckpointError, match=rf"{seen}(.|\n)*allowed: single_label"):
        load(tmp_path)
    (tmp_path / "teachers.json").write_text("{}")
    with pytest.raises(CheckpointError, match="fix: name one model; `road evaluate`"):
        load(tmp_path / "teachers.json")


@pytest.mark.parametrize("labels", [("toxic", "rude", "threat"), ("toxic",)])
def test_a_published_model_of_several_labels_predicts_as_plain_transformers(tmp_path, labels):
    problem = "multi_label_classification"
    publish(tmp_path, "bert", "ForSequenceClassification", labels=labels, problem_type=problem)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    texts = [*TEXTS, " ".join(TEXTS * 4)]  # the last has more tokens than the model positions
    options = {"padding": True, "truncation": True, "max_length": 160, "return_tensors": "pt"}
    inputs = AutoTokenizer.from_pretrained(tmp_path)(texts, **options)
    with torch.inference_mode():
        shares = model(**inputs).logits.sigmoid()
    for predicted, row in zip(load(tmp_path)(texts), shares, strict=True):
        assert list(predicted["scores"]) == list(labels)
        assert list(predicted["scores"].values()) == pytest.approx(row.tolist(), abs=1e-5)
        above = [label for label, share in zip(labels, row, strict=True) if share > 0.5]
        assert predicted["labels"] == above
    none, every = (load(tmp_path, threshold=limit)(TEXTS[0])["labels"] for limit in (1, 0))
    assert (none, every) == ([], list(labels))
    with pytest.raises(ConfigError, match=r"threshold = 1.5\n  allowed: 0 to 1"):
        load(tmp_path, threshold=1.5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"body": "x"}, "no field 'text'; found: body"),
        ({"text": 3}, "column 'text' must be text, seen 3"),
        ({}, "no field 'text'; found: none"),
        ({"text": "fine \ud83d"}, r"row 0: column 'text' holds a lone surrogate U\+D83D"),
        ({"text": "fine", "id": "\ud83d"}, r"row 0: column 'id' holds a lone surrogate"),
    ],
)
def test_a_row_without_the_fields_of_the_model_or_with_half_a_character_is_refused(
    exported, row, message
):
    with pytest.raises(DataError, match=message):
        load(exported("sentiment"))([row])


def test_a_model_reads_as_many_texts_as_it_was_trained_on(exported):
    directory = exported("sentiment")
    columns = {"text": "title", "text_pair": "body"}
    (directory / "road_ray.json").write_text(json.dumps({"columns": columns}))
    model = load(directory)
    assert (model.trained.fields, model.trained.columns) == (("text", "text_pair"), columns)
    assert model(text="fine", text_pair="a film")["label"]
    with pytest.raises(DataError, match="no field 'text_pair'; found: text"):
        model("fine")
    (directory / "road_ray.json").write_text(json.dumps({"columns": {"text": "title"}}))
    assert load(directory).trained.fields == ("text",)
    with pytest.raises(DataError, match="text_pair: the model was trained on single texts"):
        load(directory)(text="fine", text_pair="a film")


def test_rows_may_have_the_columns_of_the_training_and_further_ones(exported):
    directory = exported("sentiment")
    (directory / "road_ray.json").write_text(json.dumps({"columns": {"text": "review"}}))
    model = load(directory)
    expected = model(["a fine film"])
    assert model([{"review": "a fine film", "stars": 3, "id": None}]) == expected
    assert model(review="a fine film") == expected[0]
    with pytest.raises(
        DataError, match="no field 'text'; found: body, id\n  allowed: text, review"
    ):
        model([{"body": "fine", "id": "1"}])


def test_a_list_of_words_in_a_cell_of_a_table_is_no_text(exported):
    model, words = load(exported("ner")), ["Ada", "sleeps", "in", "New York"]
    assert model(words=json.dumps(words)) == model(words=words)
    with pytest.raises(DataError, match=r"the row: broken JSON: .*seen \"\['Ada'"):
        model(words=str(words[:2]))
    assert model(words="[Reuters] Ada")["words"] == ["[", "Reuters", "]", "Ada"]
    first, *empty = model([{"words": words}, {"words": []}, {"text": "  "}])
    assert first == model(words=words)  # rows without words end nothing
    assert [(row["tags"], row["words"]) for row in empty] == [([], [])] * 2


@pytest.mark.parametrize("option", [{"n_best": 2}, {"threshold": 0.5}])
def test_options_of_answers_are_refused_for_a_model_of_classes(exported, option):
    with pytest.raises(ConfigError, match="has no answers in a context"):
        load(exported("sentiment"), **option)
    with pytest.raises(ConfigError, match="n_best = 21\n  allowed: 1 to 20"):
        load(exported("mrc"), n_best=21)


def test_a_model_of_several_heads_wants_one_named(exported, tmp_path):
    for task in ("sentiment", "ner"):
        (tmp_path / "heads").mkdir(exist_ok=True)
        exported(task).rename(tmp_path / "heads" / task)
    (tmp_path / "config.json").write_text((tmp_path / "heads/ner/config.json").read_text())
    with pytest.raises(ConfigError, match="allowed: ner, sentiment"):
        load(tmp_path)
    assert isinstance(load(tmp_path, head="ner"), Predictor)
    with pytest.raises(ConfigError, match="allowed: ner, sentiment"):
        load(tmp_path, head="qqp")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({}, 64),  # of another program: its limit is respected
        ({"max_length_tokens": 96}, 96),  # trained on longer rows than its tokenizer says
        ({"max_length_tokens": None}, 128),  # the default of the training
        ({"max_length_tokens": 32}, 32),
        ({"max_length_tokens": 9999}, 512),  # the positions of the model
    ],
)
def test_a_limit_of_the_tokenizer_is_respected_unless_the_training_read_more(
    exported, record, expected
):
    directory = exported("sentiment")
    edit(directory / "tokenizer_config.json", model_max_length=64)
    if record:
        (directory / "road_ray.json").write_text(json.dumps(record))
    model = load(directory)
    assert model.max_length_tokens == expected
    assert model.longest_row_tokens == max(64, expected)


def test_the_task_is_that_of_the_training_else_the_name_of_the_model(exported, tmp_path):
    run = tmp_path / "films.v1"  # as a run directory has it
    exported("sentiment").rename((run.mkdir() or run) / "hf")
    assert load(run).task.name == "films.v1"
    (run / "hf" / "road_ray.json").write_text(json.dumps({"task": "reviews"}))
    assert load(run).task.name == "reviews"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mr. Waugh didn't go to Ann's U.S. home.", "Mr. Waugh did n't go to Ann 's U.S. home ."),
        ("On 1996-08-28, shares of C$ 1,000.50 rose 3.5% (6-4).",
         "On 1996-08-28 , shares of C$ 1,000.50 rose 3.5 % ( 6-4 ) ."),
        ("1. Germany, 12:30... all-rounder AT&T O'Brien -- we'll",
         "1. Germany , 12:30 ... all-rounder AT&T O'Brien -- we 'll"),
        ("In 1996. Then e-mail a@b.com!", "In 1996 . Then e-mail a@b.com !"),
        ("हिन्दी में लिखा है।", "हिन्दी में लिखा है ।"),
        ("ภาษาไทย น้ำ", "ภาษาไทย น้ำ"),
        ("كِتَابٌ، جَدِيدٌ", "كِتَابٌ ، جَدِيدٌ"),
        ("cafe\u0301 Bru\u0308ssel, cafe\u0301's", "cafe\u0301 Bru\u0308ssel , cafe\u0301 's"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("one\x1fword", "one word"),
        ("日本語、テスト", "日本語 、 テスト"),
        ("\u2764\ufe0f ok", "\u2764\ufe0f ok"),
    ],
)  # fmt: skip
def test_words_of_a_text(text, words):
    assert words_of(text) == tuple(words.split(" "))
    assert "".join(words_of(text)) == "".join(text.split())  # no character is lost


def test_a_long_text_without_spaces_takes_no_time():
    for unit in ("a", "1", "a-", "a.", "1,", "'", "-", "a'", "\u0301", "1a"):
        text = unit * 20_000
        assert "".join(words_of(text)) == text


@pytest.mark.parametrize(
    ("file", "most"), [("eng.train", 0.005), ("eng.testa", 0.004), ("eng.testb", 0.016)]
)
def test_words_of_conll_are_those_of_its_annotators(real_data, file, most):
    text = (real_data / "conll2003" / file).read_text(encoding="utf-8")
    sentences = [
        [line.split(" ")[0] for line in block.split("\n") if line]
        for block in text.split("\n\n")
        if block.strip() and "-DOCSTART-" not in block
    ]
    others = sum(words_of(" ".join(words)) != tuple(words) for words in sentences)
    assert others <= most * len(sentences)
