"""Answers from beams, against hand-computed values and exhaustive search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from road_ray.data.examples import Features, SpanExample
from road_ray.evaluation.spans import best_spans

NEVER = -np.inf


def rows_of(*windows: int) -> tuple[Features, list[SpanExample]]:
    """Windows ``[CLS] q [SEP] context [SEP]`` of one question, its words are letters."""
    tokens, offsets, seen = [], [], []
    for length in windows:
        tokens += [0] * (length + 4)
        offsets += [[-1, -1]] * 3 + [[2 * i, 2 * i + 1] for i in range(length)] + [[-1, -1]]
        seen += [True] * (length + 4)
    features = Features(
        dataset="squad_v2",
        task="mrc_joint",
        tokens=np.array(tokens, np.int32),
        bounds=np.concatenate([[0], np.cumsum([n + 4 for n in windows])]).astype(np.int64),
        first_segment=np.full(len(windows), 3, np.int32),
        gold={},
        example=np.zeros(len(windows), np.int32),
        offsets=np.array(offsets, np.int32),
        max_context=np.array(seen),
    )
    context = " ".join("abcdefghijklmnopqrstuvwxyz"[i] for i in range(max(windows)))
    return features, [SpanExample("q", "?", context, (), "f:1")]


def beam(length: int, none: float, starts: dict[int, tuple[float, dict[int, float]]]) -> Any:
    """What the head says: ``{start: (log p, {end: log p})}``, best start first."""
    logits: NDArray[np.float32] = np.full((2 + len(starts), length), -50.0, np.float32)
    logits[1] = none
    for row, (start, (first, ends)) in enumerate(starts.items(), 2):
        logits[0, start] = first
        logits[row, :start] = NEVER
        for end, value in ends.items():
            logits[row, end] = value
    return logits


def test_best_joint_spans_by_hand() -> None:
    features, examples = rows_of(4, 4)
    first = beam(8, 0.5, {0: (-0.1, {0: -0.1}), 3: (-1.0, {5: -0.5, 3: -2.0})})
    second = beam(8, -1.5, {4: (-0.2, {7: -0.1, 5: -0.9}), 1: (-0.3, {4: -0.1})})
    (prediction,) = best_spans(features, examples, [first, second], joint=True)
    # Position 0, the question and the last [SEP] (7) are no answers.
    assert [candidate.text for candidate in prediction.n_best[:3]] == ["b c", "a b c", "a"]
    assert prediction.text == "b c"
    assert prediction.score == pytest.approx(-1.1)
    assert prediction.null_odds == -1.5, "the classifier's smallest logit, whatever the best span"
    assert prediction.n_best[1][2:4] == pytest.approx((-1.0, -0.5))
    assert sum(c.probability for c in prediction.n_best) == pytest.approx(1.0)


def test_only_twenty_ends_a_start_are_looked_at_and_spans_are_not_too_long() -> None:
    features, examples = rows_of(26)
    ends = {3 + i: -0.1 * (i + 1) for i in range(26)}
    logits = beam(30, 0.0, {3: (-0.5, ends)})
    (prediction,) = best_spans(features, examples, [logits], joint=True, n_best=40)
    assert len(prediction.n_best) == 20
    (short,) = best_spans(features, examples, [logits], joint=True, n_best=40, max_answer_tokens=2)
    assert [c.text for c in short.n_best] == ["a", "a b"]


def test_a_start_that_another_window_sees_better_is_passed_over() -> None:
    features, examples = rows_of(3)
    assert features.max_context is not None
    features.max_context[3] = False
    logits = beam(7, 0.0, {3: (-0.1, {3: -0.1}), 4: (-2.0, {4: -0.1})})
    assert best_spans(features, examples, [logits], joint=True)[0].text == "b"


def test_where_nothing_is_allowed_there_is_no_answer() -> None:
    features, examples = rows_of(1)
    (prediction,) = best_spans(
        features, examples, [beam(5, 2.5, {0: (-0.1, {0: 0.0})})], joint=True
    )
    assert (prediction.text, prediction.score, prediction.null_odds, prediction.n_best) == (
        "",
        0.0,
        2.5,
        (),
    )
