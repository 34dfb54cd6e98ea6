"""Folds by what an example says."""

from __future__ import annotations

from collections import Counter

import numpy as np

from road_ray.data.config import SourceConfig
from road_ray.data.examples import ChoiceExample, SpanExample, TagExample, TextExample
from road_ray.data.load_split import load_split
from road_ray.data.training_rows import fold_of, row_folds


def text(*texts: str) -> TextExample:
    return TextExample(id="1", texts=texts, label="x", where="f:1")


def test_a_fold_does_not_depend_on_label_place_case_or_space():
    first = text("A fine  film", "indeed")
    other = TextExample(id="9", texts=("a fine film", "Indeed"), label=None, where="g:7")
    assert fold_of(first, 1000) == fold_of(other, 1000)
    assert fold_of(first, 1000) == fold_of(text("Indeed", "A fine film"), 1000), "nor on the order"
    assert fold_of(first, 1000) != fold_of(text("a fine film"), 1000)


def test_it_is_the_same_on_every_machine():
    assert [fold_of(text(word), 5) for word in ("a", "b", "c", "d")] == [0, 1, 0, 4]


def test_folds_are_even():
    counts = Counter(fold_of(text(str(number)), 4) for number in range(2000))
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 430


def test_questions_about_one_context_are_together_and_other_kinds_have_folds_too():
    about = {
        fold_of(SpanExample(str(n), f"question {n}?", "The context.", (), "f:1"), 50)
        for n in range(9)
    }
    assert len(about) == 1
    assert 0 <= fold_of(TagExample("1", ("a", "b"), None, "f:1"), 3) < 3
    assert 0 <= fold_of(ChoiceExample("1", "q", ("a", "b"), 0, "f:1"), 3) < 3


def test_windows_have_the_fold_of_their_example(world, pretrained):
    from road_ray.data.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(str(pretrained.hf_dir))
    source = SourceConfig(
        root=str(world), max_length_tokens=64, stride_tokens=8, max_question_tokens=24
    )
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
