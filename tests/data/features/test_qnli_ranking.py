"""Labelled pairs as questions with two candidates."""

from __future__ import annotations

import pytest

from road_ray.data.features.examples_and_features import TextExample
from road_ray.data.features.qnli_ranking import to_ranking
from road_ray.errors import DataError


def pair(number, question, sentence, label):
    return TextExample(str(number), (question, sentence), label, f"dev.tsv:{number}")


PAIRS = [
    pair(1, "who", "she", "yes"),
    pair(2, "when", "today", "yes"),
    pair(3, "who", "a tree", "no"),
    pair(4, "when", "blue", "no"),
    pair(5, "when", "red", "no"),
    pair(6, "where", "there", "yes"),
]


def test_every_question_with_both_becomes_a_choice_with_the_right_one_first_in_turn():
    first, two = to_ranking(PAIRS, "yes", "dev.tsv", labelled=True)
    assert (first.question, first.choices, first.answer) == ("who", ("she", "a tree"), 0)
    assert (two.question, two.choices, two.answer) == ("when", ("blue", "today"), 1)
    assert (two.id, two.where) == ("2", "dev.tsv:2")


def test_pairs_that_cannot_be_ranked_are_told():
    with pytest.raises(DataError, match=r"dev.tsv: no question has both"):
        to_ranking(PAIRS[-1:], "yes", "dev.tsv", labelled=True)
    with pytest.raises(DataError, match=r"test.tsv: ranks candidates by their labels"):
        to_ranking(PAIRS, "yes", "test.tsv", labelled=False)
