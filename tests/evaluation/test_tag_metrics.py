"""Entity scores against hand-counted entities; tags of words from logits of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from road_ray.data.examples import Features, TagExample
from road_ray.evaluation.metrics import entity_scores, predicted_tags, word_logits

LABELS = ("O", "B-PER", "I-PER")


def test_whole_entities_are_counted():
    gold = [["O", "B-PER", "I-PER", "O", "B-ORG"], ["B-LOC", "O"]]
    given = [["O", "B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "B-PER"]]
    result = entity_scores(given, gold)
    # 2 of the 4 given and of the 3 gold entities are the same
    assert result["entity_precision"] == pytest.approx(50)
    assert result["entity_recall"] == pytest.approx(200 / 3)
    assert result["entity_f1"] == pytest.approx(400 / 7)
    assert result["accuracy"] == pytest.approx(500 / 7)
    # 3 of the 7 words are O; the tags given are O, B-PER, I-PER and B-LOC
    assert result["majority_accuracy"] == pytest.approx(300 / 7)
    assert result["predicted_labels"] == 4


def test_an_entity_cut_short_or_without_its_beginning():
    gold = [["B-PER", "I-PER"]]
    assert entity_scores([["B-PER", "O"]], gold)["entity_f1"] == 0
    assert entity_scores([["I-PER", "I-PER"]], gold)["entity_f1"] == 100
    assert entity_scores([["O", "O"]], gold)["entity_f1"] == 0


def test_words_over_several_rows_get_the_tag_of_their_first_token():
    examples = [TagExample("0", ("x", "y", "z"), None, "f:1")]
    rows = Features(
        dataset="conll2003",
        task="ner",
        tokens=np.zeros(7, np.int32),
        bounds=np.array([0, 4, 7]),
        first_segment=np.array([4, 3], np.int32),
        gold={},
        example=np.array([0, 0], np.int32),
        words=np.array([-1, 0, 1, -1, -1, 2, -1], np.int32),
    )
    logits = [np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], np.eye(3, dtype=np.float32)[[2, 0, 1]]]
    (words,) = word_logits(rows, examples, logits)
    assert predicted_tags(LABELS, words) == ["B-PER", "I-PER", "O"]
