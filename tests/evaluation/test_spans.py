"""Spans against exhaustive search; thresholds and scores against hand-computed values."""

import itertools
import re
import string

import numpy as np
import pytest

from road_ray.data.examples import Answer, Features, SpanExample
from road_ray.evaluation import spans
from road_ray.evaluation.spans import Candidate, Span, SpanPrediction, best_spans, window_spans
from road_ray.evaluation.squad import Scored


def example(id_, context, *golds):
    answers = tuple(Answer(gold, context.index(gold)) for gold in golds)
    return SpanExample(id_, "q", context, answers, f"dev.json:{id_}")


def windows_of(**contexts):
    """Windows ``CLS q SEP words SEP`` of one question for each context. A window is given by its
    first word and, for each word, whether it has most context there.
    """
    offsets, most, lengths, questions = [], [], [], []
    for number, (context, *windows) in enumerate(contexts.values()):
        words = [word.span() for word in re.finditer(r"\w+", context)]
        for first, flags in windows:
            offsets += [(-1, -1)] * 3 + words[first : first + len(flags)] + [(-1, -1)]
            most += [False] * 3 + [flag == "1" for flag in flags] + [False]
            lengths.append(len(flags) + 4)
            questions.append(number)
    features = Features(
        dataset="squad_v2",
        task="mrc",
        tokens=np.arange(sum(lengths), dtype=np.int32),
        bounds=np.cumsum([0, *lengths], dtype=np.int64),
        first_segment=np.full(len(lengths), 3, dtype=np.int32),
        gold={},
        example=np.array(questions, dtype=np.int32),
        offsets=np.array(offsets, dtype=np.int32),
        max_context=np.array(most),
    )
    return features, [example(name, context) for name, (context, *_) in contexts.items()]


def two_questions():
    """The windows of the first share "cc", with most context in the first, and "dd"."""
    return windows_of(a=("aa bb cc dd ee", (0, "1110"), (2, "011")), b=("xx yy", (0, "11")))


LOGITS = [
    np.array(pair, np.float32)
    for pair in (
        ([1, 9, 9, 0, 3, 2, 8, 9], [1, 9, 9, 0, 1, 2, 3, 9]),
        ([2, 9, 9, 7, 4, 0, 9], [-2, 9, 9, 6, 0, 2, 9]),
        ([5, 9, 9, 1, 0, 9], [4, 9, 9, -1, 2, 9]),
    )
]


def test_best_spans_by_hand():
    features, examples = two_questions()
    first, second = best_spans(features, examples, LOGITS)
    # Window 0: bb..dd = 3 + 3; starting at dd (8) is left to window 1, whose cc (7) is left to
    # window 0; there dd..ee = 4 + 2 ties with bb..dd and comes after it, being in a later window.
    assert (first.id, first.text) == ("a", "bb cc dd")
    assert [c.text for c in first.n_best[:4]] == ["bb cc dd", "dd ee", "bb cc", "cc dd"]
    assert first.null_odds == (2 - 2) - 6.0  # the lower of 1 + 1 and 2 - 2
    assert (second.text, second.null_odds) == ("xx yy", 6.0)
    assert second.n_best[0][2:4] == (1.0, 2.0)
    odds = np.exp([3.0, 2.0, 0.0])  # xx yy; yy; xx
    assert [c.text for c in second.n_best] == ["xx yy", "yy", "xx"]
    assert [c.probability for c in second.n_best] == pytest.approx(list(odds / odds.sum()))


def by_trying_all(start, end, opening, closing, longest):
    pairs = itertools.product(np.flatnonzero(opening), np.flatnonzero(closing))
    return sorted(
        Span(-(start[i] + end[j]), 0, int(i), int(j), start[i], end[j])
        for i, j in pairs
        if i <= j < i + longest
    )


@pytest.mark.parametrize("seed", range(40))
def test_window_spans_equal_trying_all_pairs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 60))
    # Few distinct values make ties; gaps in the context and in max-context are allowed.
    values = rng.integers(-3, 4, (2, length)) if seed % 2 else rng.normal(size=(2, length))
    logits = values.astype(np.float64)
    closing = rng.random(length) < 0.8
    opening = closing & (rng.random(length) < 0.6)
    n_best, longest = int(rng.integers(1, 25)), int(rng.integers(1, 35))
    monkeypatch.setattr(spans, "_N_BEST", n_best)
    monkeypatch.setattr(spans, "_LONGEST", longest)
    found = window_spans(0, logits, opening, closing)
    assert found == by_trying_all(*logits, opening, closing, longest)[:n_best]


def test_a_context_without_tokens_gives_no_answer():
    features, examples = two_questions()
    features.offsets[features.bounds[2] :] = -1
    second = best_spans(features, examples, LOGITS)[1]
    assert second == SpanPrediction("b", 0.0, ())


def answered(id_, text, null_odds):
    return SpanPrediction(id_, null_odds, (Candidate(text, 1.0, 0.5, 0.5),))


# By odds: a right, b wrongly answered, c half right, d rightly refused late.
EXAMPLES = [
    example("a", "x", "x"),
    example("c", "y z", "y z"),
    example("b", "no"),
    example("d", "no"),
]
PREDICTIONS = [
    answered("a", "x", -3.0),
    answered("c", "y", 1.0),
    answered("b", "no", -1.0),
    answered("d", "no", 4.0),
]


def scored(examples, predictions):
    texts = {one.id: one.text for one in predictions}
    return Scored(examples, texts, {one.id: one.null_odds for one in predictions})


def test_the_best_threshold_reaches_the_best_score_even_by_silence():
    # a, then c, then d: F1 2, 2 + 2/3, 1 + 2/3 of 3.
    assert scored([EXAMPLES[n] for n in (0, 1, 3)], PREDICTIONS).best()[1] == 1.0
    predictions = [answered("a", "no", -5.0), answered("b", "no", -6.0)]
    silent = scored([example("a", "no"), example("b", "no")], predictions)
    figures, threshold = silent.best()
    assert (figures["best_f1_thresh"], threshold) == (0.0, pytest.approx(-6.0))
    assert threshold < -6.0
    assert silent.metrics(threshold)["at_threshold_f1"] == 100.0


def test_score_tells_untuned_given_and_best_apart():
    scores = scored(EXAMPLES, PREDICTIONS).metrics(1.0)
    # At 0: a right, b wrong, c refused and wrong, d right. At 1: c answered as well, for 2/3.
    assert (scores["exact"], scores["f1"]) == (50.0, 50.0)
    assert scores["threshold"] == 1.0
    assert scores["at_threshold_exact"] == 50.0
    assert scores["at_threshold_f1"] == pytest.approx(100 * (2 + 2 / 3) / 4)
    assert (scores["at_threshold_HasAns_total"], scores["NoAns_exact"]) == (2, 50.0)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (75.0, -3.0)
    assert not [key for key in scores if key.startswith("at_threshold_best")]


def test_answerability_by_hand():
    # At 0 refused are c and d; b and d have no answer.
    metrics = scored(EXAMPLES, PREDICTIONS).metrics(0.0)
    assert dict(list(metrics.items())[-6:]) == {
        "no_answer_precision": 50.0,
        "no_answer_recall": 50.0,
        "no_answer_f1": 50.0,
        "answerability_accuracy": 50.0,
        "no_answer_predicted": 2,
        "no_answer_total": 2,
    }
    bold = scored(EXAMPLES[:1], PREDICTIONS).metrics(0.0)
    assert (bold["no_answer_precision"], bold["answerability_accuracy"]) == (0.0, 100.0)


def beam(length, none, starts):
    """What the head says: ``{start: (log p, {end: log p})}``, best start first."""
    logits = np.full((2 + len(starts), length), -50.0, np.float32)
    logits[1] = none
    for row, (start, (first, ends)) in enumerate(starts.items(), 2):
        logits[0, start] = first
        logits[row, :start] = -np.inf
        for end, value in ends.items():
            logits[row, end] = value
    return logits


def test_best_joint_spans_by_hand():
    features, examples = windows_of(q=("a b c d", (0, "1111"), (0, "1111")))
    first = beam(8, 0.5, {0: (-0.1, {0: -0.1}), 3: (-1.0, {5: -0.5, 3: -2.0})})
    second = beam(8, -1.5, {4: (-0.2, {7: -0.1, 5: -0.9}), 1: (-0.3, {4: -0.1})})
    (prediction,) = best_spans(features, examples, [first, second], joint=True)
    # Position 0, the question and the last [SEP] (7) are no answers.
    assert [candidate.text for candidate in prediction.n_best[:3]] == ["b c", "a b c", "a"]
    assert prediction.text == "b c"
    assert prediction.null_odds == -1.5, "the classifier's smallest logit, whatever the best span"
    assert prediction.n_best[1][2:4] == pytest.approx((-1.0, -0.5))
    assert sum(c.probability for c in prediction.n_best) == pytest.approx(1.0)


def test_only_twenty_ends_a_start_are_looked_at_and_spans_are_not_too_long(monkeypatch):
    monkeypatch.setattr(spans, "_N_BEST", 40)
    features, examples = windows_of(q=(" ".join(string.ascii_lowercase), (0, "1" * 26)))
    ends = {3 + i: -0.1 * (i + 1) for i in range(26)}
    logits = beam(30, 0.0, {3: (-0.5, ends)})
    (prediction,) = best_spans(features, examples, [logits], joint=True)
    assert len(prediction.n_best) == 20
    monkeypatch.setattr(spans, "_LONGEST", 2)
    (short,) = best_spans(features, examples, [logits], joint=True)
    assert [c.text for c in short.n_best] == ["a", "a b"]


def test_a_start_that_another_window_sees_better_is_passed_over():
    features, examples = windows_of(q=("a b c", (0, "011")))
    logits = beam(7, 0.0, {3: (-0.1, {3: -0.1}), 4: (-2.0, {4: -0.1})})
    assert best_spans(features, examples, [logits], joint=True)[0].text == "b"


def test_where_nothing_is_allowed_there_is_no_answer():
    features, examples = windows_of(q=("a", (0, "1")))
    logits = [beam(5, 2.5, {0: (-0.1, {0: 0.0})})]
    found = best_spans(features, examples, logits, joint=True)
    assert found == [SpanPrediction("q", 2.5, ())]
