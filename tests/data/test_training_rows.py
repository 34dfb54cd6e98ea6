"""Rows without labels follow those of a data set, and folds follow from what an example says."""

import numpy as np
import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.examples import UNKNOWN, ChoiceExample, SpanExample, TagExample, TextExample
from road_ray.data.load_split import (
    find_dataset,
    load_split,
    read_examples,
    read_unlabelled_rows,
)
from road_ray.data.training_rows import fold_of, read_unlabelled, row_folds
from road_ray.errors import ConfigError, DataError
from tests.row_files import write_rows


@pytest.fixture
def train(world, tokenizer):
    def load(name, *unlabelled, **changes):
        source = SourceConfig(root=str(world), **changes)
        return load_split(name, "train", source, tokenizer, unlabelled=unlabelled)

    return load


def test_texts_of_every_layout_follow_without_labels(train, tmp_path):
    plain = train("sst2")
    lines = tmp_path / "more.txt"
    lines.write_text("a fine film\n\ndull\n")
    named = write_rows(tmp_path / "more.jsonl", [{"sentence": "one"}, {"sentence": "two"}])
    usual = tmp_path / "more.csv"
    usual.write_text("text\nthree\n")
    split = train("sst2", str(lines), str(named), str(usual))
    new = split.examples[len(plain.examples) :]
    assert [e.texts[0] for e in new] == ["a fine film", "dull", "one", "two", "three"]
    assert {e.label for e in new} == {None}
    labels = split.features.gold["labels"]
    assert np.array_equal(labels[: -len(new)], plain.features.gold["labels"])
    assert (labels[-len(new) :] == UNKNOWN).all()
    assert len({e.id for e in split.examples}) == len(split.examples)


@pytest.mark.parametrize(
    ("dataset", "row", "entry"),
    [
        ("squad_v2", {"context": "the red apple", "question": "which?"}, {"kind": "span"}),
        ("sst2", {"text": "a fine film", "label": None}, {"text": "text", "labels": ["0", "1"]}),
    ],
)
def test_a_named_set_needs_no_labels(train, tmp_path, dataset, row, entry):
    own = {"train": str(write_rows(tmp_path / "asked.jsonl", [row])), **entry}
    *_, last = train(dataset, "mine", sets={"mine": own}).examples
    assert last.where.startswith(str(tmp_path))
    assert last == last.unlabelled()


def test_rows_that_are_held_out_of_a_set_are_not_among_its_unlabelled_ones(tmp_path):
    rows = [{"text": f"film {n}", "label": "" if n % 4 else "a"} for n in range(200)]
    entry = {"text": "text", "labels": ["a", "b"], "dev_fraction": 0.1}
    entry["train"] = str(write_rows(tmp_path / "x.jsonl", rows))
    source = SourceConfig(sets={"mine": entry})
    held = {e.texts for e in read_examples(find_dataset("mine", source)[0], "dev", tmp_path)}
    assert len(held) == 5
    assert held.isdisjoint(e.texts for e in read_unlabelled_rows(["mine"], "mine", source))


def test_a_column_of_text_may_be_called_answers(tmp_path):
    path = write_rows(tmp_path / "x.jsonl", [{"answers": "forty-two", "id": 7}])
    own = {"train": "t.csv", "text": ["answers"], "labels": ["a", "b"]}
    entry, kind = find_dataset("mine", SourceConfig(sets={"mine": own}))
    assert [e.texts for e in read_unlabelled(path, entry, kind)] == [("forty-two",)]


@pytest.mark.parametrize("name", ["sst2", "squad_v2"])
def test_the_rest_are_the_rows_beyond_the_labelled_ones(train, name):
    whole, split = train(name), train(name, "rest", max_rows=40)
    first, rest = split.examples[:40], split.examples[40:]
    assert not any(example == example.unlabelled() for example in first)
    assert all(example == example.unlabelled() for example in rest)
    assert sorted(e.texts for e in split.examples) == sorted(e.texts for e in whole.examples)
    few = train(name, "rest", max_rows=40, max_unlabelled_rows=7)
    assert len(few.examples) == 47


@pytest.mark.parametrize("most", [None, 10_000])
def test_no_rest_is_an_error(train, most):
    with pytest.raises(ConfigError, match="keep their labels"):
        train("sst2", "rest", max_rows=most)


def test_questions_without_answers_are_unknown_and_not_unanswerable(train, world, tmp_path):
    known = train("squad_v2")
    more = write_rows(tmp_path / "more.jsonl", [{"question": "who ?", "context": "Ada wrote ."}])
    split = train("squad_v2", str(more), "squad_v2", str(world / "squad" / "train-v2.0.json"))
    rows = len(known.features)
    for name in ("start_positions", "end_positions"):
        values = split.features.gold[name]
        assert np.array_equal(values[:rows], known.features.gold[name])
        assert (values[rows:] == UNKNOWN).all()
    assert len(split.features) == 3 * rows + 1


@pytest.mark.parametrize(
    ("dataset", "name", "content", "message"),
    [
        ("sst2", "no.csv", None, "no such file, and no data set"),
        ("sst2", "a.csv", "body\nx\n", r"no column 'sentence'; found: body"),
        ("rte", "a.txt", "one text\n", "no column 'sentence2'"),
        ("sst2", "a.xlsx", "x", r"\.xlsx is not a supported table"),
        ("squad_v2", "a.txt", "x\n", r"\.txt is not a supported table"),
        ("sst2", "a.txt", "\n", "0 usable rows"),
        ("sst2", "rte", None, "rows of 2 texts, sst2 of 1"),
        ("sst2", "squad_v2", None, "of kind Span, sst2 of kind Classify"),
    ],
)
def test_what_cannot_be_taught_is_refused_by_name(train, tmp_path, dataset, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
        name = str(tmp_path / name)
    with pytest.raises((ConfigError, DataError), match=message):
        train(dataset, name)


@pytest.mark.parametrize("name", ["rest", "conll2003", "a.jsonl"])
def test_tags_are_refused(world, name):
    with pytest.raises(ConfigError, match="rows of tags cannot be unlabelled"):
        read_unlabelled_rows([name], "conll2003", SourceConfig(root=str(world)))


def text(*texts):
    return TextExample(id="1", texts=texts, label="x", where="f:1")


def test_a_fold_does_not_depend_on_label_place_case_or_space():
    first = text("A fine  film", "indeed")
    other = TextExample(id="9", texts=("a fine film", "Indeed"), label=None, where="g:7")
    assert fold_of(first, 1000) == fold_of(other, 1000)
    assert fold_of(first, 1000) == fold_of(text("Indeed", "A fine film"), 1000), "nor on the order"
    assert fold_of(first, 1000) != fold_of(text("a fine film"), 1000)
    # On every machine:
    assert [fold_of(text(word), 5) for word in ("a", "b", "c", "d")] == [0, 1, 0, 4]


def test_questions_about_one_context_are_together_and_other_kinds_have_folds_too():
    about = {
        fold_of(SpanExample(str(n), f"question {n}?", "The context.", (), "f:1"), 50)
        for n in range(9)
    }
    assert len(about) == 1
    assert 0 <= fold_of(TagExample("1", ("a", "b"), None, "f:1"), 3) < 3
    assert 0 <= fold_of(ChoiceExample("1", "q", ("a", "b"), 0, "f:1"), 3) < 3


def test_windows_have_the_fold_of_their_example(world, tokenizer):
    source = SourceConfig(root=str(world), max_length_tokens=64, stride_tokens=8)
    split = load_split("squad_v2", "train", source, tokenizer)
    folds = row_folds(split, 3)
    assert len(folds) == len(split.features) > len(split.examples)
    for row in range(0, len(folds), 37):
        example = split.examples[split.features.example[row]]
        assert folds[row] == fold_of(example, 3)
    rest = load_split(
        "squad_v2", "train", source, tokenizer, keep=lambda example: fold_of(example, 3) != 1
    )
    assert len(rest.features) == int((folds != 1).sum())
    assert not np.isin(row_folds(rest, 3), [1]).any()
