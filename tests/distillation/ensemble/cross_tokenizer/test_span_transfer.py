"""Start and end distributions carried between tokenizers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from road_ray.data import catalog
from road_ray.data.features.encode_examples import encode
from road_ray.data.features.examples_and_features import Answer, SpanExample
from road_ray.data.readers.layouts import read_split
from road_ray.distillation.ensemble.cross_tokenizer.span_transfer import can_express, transfer_spans
from road_ray.distillation.ensemble.protocol import PAD_LOGIT
from road_ray.evaluation.squad import normalize
from tests.published import tokenizer_of

# The text "ab cd": the teacher reads `ab`, `cd`; the student `a`, `b`, `cd`. Both rows are
# [CLS] question [SEP] text [SEP], the student's with two tokens of padding.
THEIRS = np.array([[-1, -1], [-1, -1], [-1, -1], [0, 2], [3, 5], [-1, -1]], np.int32)
OURS = np.array([[-1, -1, -1, 0, 1, 3, -1, -1, -1], [-1, -1, -1, 1, 2, 5, -1, -1, -1]], np.int32)


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def test_mass_goes_to_the_first_and_the_last_character_by_hand():
    chances = np.array([[0.1, 9, 9, 0.6, 0.2, 0.1], [0.2, 9, 9, 0.5, 0.2, 0.1]])
    logits = np.log(chances).astype(np.float32)
    carried, lost = transfer_spans(logits, THEIRS, OURS, 7)
    start, end = np.exp(carried)
    assert_allclose(start[[0, 3, 5, 6]], [0.1, 0.6, 0.2, 0.1], rtol=1e-5)
    assert_allclose(end[[0, 4, 5, 6]], [0.2, 0.5, 0.2, 0.1], rtol=1e-5)
    assert_allclose(start[4], 0.1, rtol=1e-5)  # the floor: the smallest of the teacher's row
    assert_allclose(end[3], 0.1, rtol=1e-5)
    assert (carried[:, [1, 2, 7, 8]] == PAD_LOGIT).all()
    assert lost == pytest.approx(0, abs=1e-6)


def test_one_tokenizer_gives_the_distribution_over_allowed_positions():
    logits = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    ours = np.full((2, 8), -1, np.int32)
    ours[:, :6] = THEIRS.T
    carried, lost = transfer_spans(logits, THEIRS, ours, 6)
    allowed = [0, 3, 4, 5]
    for head in (0, 1):
        assert_allclose(
            carried[head, allowed], np.log(softmax(logits[head, allowed].astype(float))), atol=1e-6
        )
    assert lost == pytest.approx(0, abs=1e-6)


def test_mass_of_characters_that_the_student_does_not_show_is_no_answer_and_counted():
    ours = np.full((2, 5), -1, np.int32)
    ours[:, 3] = [0, 2]  # a window that ends behind `ab`
    logits = np.log(np.array([[0.1, 9, 9, 0.3, 0.5, 0.1]] * 2)).astype(np.float32)
    carried, lost = transfer_spans(logits, THEIRS, ours, 5)
    assert lost == pytest.approx(0.5, abs=1e-6)
    assert_allclose(np.exp(carried[:, [0, 3, 4]]), [[0.6, 0.3, 0.1]] * 2, rtol=1e-5)


def test_an_end_behind_the_window_alone_is_no_answer():
    """The window ends inside a word, so its start is shown and its end is not."""
    ours = np.full((2, 5), -1, np.int32)
    ours[:, 2], ours[:, 3] = [0, 2], [3, 4]  # `ab` and the `c` of `cd`
    logits = np.log(np.array([[0.1, 9, 9, 0.2, 0.6, 0.1]] * 2)).astype(np.float32)
    carried, lost = transfer_spans(logits, THEIRS, ours, 5)
    assert_allclose(np.exp(carried[0, [0, 2, 3, 4]]), [0.1, 0.2, 0.6, 0.1], rtol=1e-5)
    assert_allclose(np.exp(carried[1, [0, 2, 4]]), [0.7, 0.2, 0.1], rtol=1e-5)
    assert carried.argmax(1).tolist() == [3, 0]
    assert lost == pytest.approx(0.3, abs=1e-6)  # of the mean of start and end


def test_a_character_of_several_tokens_begins_at_the_first_and_ends_at_the_last():
    ours = np.full((2, 6), -1, np.int32)
    ours[:, 2:5] = np.array([[0, 0, 1], [1, 1, 2]])  # one character of two byte-level tokens
    theirs = np.array([[-1, -1], [-1, -1], [0, 1], [1, 2], [-1, -1]], np.int32)
    logits = np.log(np.array([[0.1, 9, 0.6, 0.2, 0.1]] * 2)).astype(np.float32)
    start, end = np.exp(transfer_spans(logits, theirs, ours, 6)[0])
    assert (start[2], end[3]) == (pytest.approx(0.6, rel=1e-5), pytest.approx(0.6, rel=1e-5))
    assert start[3] == pytest.approx(0.1, rel=1e-5)


def test_a_row_without_text_keeps_its_null_answer():
    ours, theirs = np.full((2, 4), -1, np.int32), np.full((3, 2), -1, np.int32)
    logits = np.log(np.array([[0.7, 9, 0.3]] * 2)).astype(np.float32)
    carried, _ = transfer_spans(logits, theirs, ours, 4)
    assert_allclose(np.exp(carried[:, [0, 3]]), [[0.7, 0.3]] * 2, rtol=1e-5)


@pytest.mark.parametrize(
    ("gold", "known"),
    [((3, 4), True), ((5, 5), True), ((3, 5), True), ((4, 4), False), ((3, 3), False)],
)
def test_an_answer_inside_a_token_of_the_teacher_is_not_expressible(gold, known):
    assert can_express(gold, THEIRS, OURS, 7) is known


def test_an_answer_behind_the_teachers_row_is_not_expressible():
    assert not can_express((5, 5), THEIRS[[0, 1, 2, 3, 5]], OURS, 7)


FAMILIES = ("bert", "roberta", "deberta-v2")


@pytest.fixture(scope="module")
def squad(real_data):
    """500 answered questions of SQuAD 2.0 and their rows by tokenizers learnt elsewhere."""
    entry = catalog.dataset("squad_v2")
    examples = [item for item in read_split(entry, real_data, "dev") if item.answers]
    texts = sorted({item.context for item in examples[2000:]})[:600]
    examples = examples[:500]
    task = catalog.task(entry.task)
    return examples, {
        family: encode(
            examples,
            entry,
            task,
            tokenizer_of(family, tuple(texts), 8000),
            max_length_tokens=4096,
            stride_tokens=4096,
        )
        for family in FAMILIES
    }


@pytest.mark.slow
@pytest.mark.parametrize("student", FAMILIES)
@pytest.mark.parametrize("teacher", FAMILIES)
def test_gold_answers_of_squad_reach_the_student(squad, teacher, student):
    """One-hot distributions at the gold tokens of one tokenizer, decoded by the other's."""
    examples, rows = squad
    right = expressible = exceptions = counted = 0
    for number, example in enumerate(examples):
        shown, best = [], {}
        for name in (teacher, student):
            single = rows[name]
            part = slice(single.bounds[number], single.bounds[number + 1])
            shown.append(single.offsets[part])
            best[name] = [int(single.gold[f"{end}_positions"][number]) for end in ("start", "end")]
        theirs, ours = shown
        logits = np.full((2, len(theirs)), -30.0, np.float32)
        logits[[0, 1], best[teacher]] = 0
        carried, _ = transfer_spans(logits, theirs, ours.T, len(ours))
        first, last = carried.argmax(1)
        exceptions += [first, last] != best[student]
        counted += not can_express(tuple(best[student]), theirs, ours.T, len(ours))
        gold = example.answers[0].text
        own = example.context[ours[best[student][0]][0] : ours[best[student][1]][1]]
        if normalize(own) != normalize(gold):
            continue  # no pair of the student's tokens has these boundaries
        expressible += 1
        answer = example.context[ours[first][0] : ours[last][1]] if first and last else ""
        right += normalize(answer) == normalize(gold)
    print(f"{teacher} to {student}: {right} of {expressible} of {len(examples)}")
    assert expressible >= 0.97 * len(examples)
    assert right >= 0.99 * expressible
    # A student's token of several characters may begin before the answer: counted too.
    assert exceptions <= counted <= exceptions + 2


def test_an_answer_that_only_the_teacher_can_express_gets_the_covering_token():
    example = SpanExample("1", "q", "abc", (Answer("b", 1),), "f:1")
    assert example.answers
    theirs = np.array([[-1, -1], [-1, -1], [0, 1], [1, 2], [2, 3], [-1, -1]], np.int32)
    ours = np.full((2, 4), -1, np.int32)
    ours[:, 2] = [0, 3]
    logits = np.full((2, 6), -30.0, np.float32)
    logits[:, 3] = 0
    carried, lost = transfer_spans(logits, theirs, ours, 4)
    assert carried.argmax(1).tolist() == [2, 2]
    assert lost == pytest.approx(0, abs=1e-6)
