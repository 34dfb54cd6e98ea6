"""Teachers of other tokenizers: texts of rows, and answers carried over."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch.testing import assert_close

from road_ray.data import catalog
from road_ray.data.batching import allowed_positions, pad
from road_ray.data.encode_examples import encode
from road_ray.data.examples import Answer, ChoiceExample, SpanExample, TagExample, TextExample
from road_ray.data.load_split import Split
from road_ray.data.task_and_dataset import HEADS
from road_ray.distillation.cross_tokenizer import (
    PAD_LOGIT,
    _question_and_slice,
    row_texts,
    transfer_spans,
)
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.stored_ensemble import StoredEnsemble
from road_ray.distillation.teacher import Teacher, TeacherOptions, inputs_of
from road_ray.distillation.teacher_directory import fingerprint_tokenizer, teacher_entry
from road_ray.errors import DataError
from tests.published import TEXTS, publish, tokenizer_of

WORDS = tuple(TEXTS[1].replace("!", " !").split())
EXAMPLES = {
    "mnli": [TextExample(str(n), (TEXTS[n], TEXTS[n - 1]), "neutral", "f:1") for n in range(3)],
    "stsb": [TextExample(str(n), (TEXTS[n], TEXTS[n - 1]), "2.5", "f:1") for n in range(3)],
    "commonsenseqa": [ChoiceExample("1", TEXTS[0], (*TEXTS, "no", "1995"), 1, "f:1")] * 2,
    "conll2003": [TagExample(str(n), WORDS[n:], ("O",) * (len(WORDS) - n), "f:1") for n in (0, 3)],
    "squad_v2": [
        SpanExample("1", "who painted it?", " ".join(TEXTS), (Answer("Nobody", 57),), "f:1"),
        SpanExample("2", "when?", TEXTS[1], (), "f:1"),
    ],
}


ANOTHER = TeacherOptions(student="another")


def task_of(name):
    return catalog.task(catalog.dataset(name).task)


@pytest.fixture
def teacher(tmp_path):
    """``teacher(family, name)``: the directory of a published model for a data set's task."""

    def make(family, name, **options):
        task = task_of(name)
        head = HEADS[type(task.kind)]
        named = head not in ("ForQuestionAnswering", "ForMultipleChoice")
        labels = getattr(task.kind, "labels", ("score",)) if named else ()
        return publish(tmp_path / f"{family}-{name}", family, head, labels=labels, **options)

    return make


def batch_of(name, tokenizer, **limits):
    """Return the batch of all rows of the examples as the student with that tokenizer has it."""
    entry, task = catalog.dataset(name), task_of(name)
    spans = {"stride_tokens": 16} if name == "squad_v2" else {}
    rows = encode(EXAMPLES[name], entry, task, tokenizer, spans | limits)
    numbers = np.arange(len(rows))
    batch = pad(rows, numbers, pad_id=tokenizer.pad_token_id)
    split = Split(entry, task, EXAMPLES[name], rows)
    return dict(batch) | row_texts(split, rows, numbers, batch["input_ids"].shape[-1])


@pytest.mark.parametrize("name", ["squad_v2", "conll2003"])
@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2"])
def test_with_the_students_tokenizer_it_answers_as_a_plain_teacher_does(family, name, teacher):
    directory, task = teacher(family, name), task_of(name)
    batch = batch_of(name, tokenizer_of(family), max_length_tokens=159)
    plain = Teacher(directory, task).logits(**inputs_of(batch))
    carried = Teacher(directory, task, ANOTHER).logits(**inputs_of(batch))
    assert carried.shape == plain.shape
    if name == "squad_v2":
        allowed = allowed_positions(batch)[:, None, :].expand_as(plain)
        expected = plain.masked_fill(~allowed, -torch.inf).log_softmax(-1)
        # Tokens of one character, as the bytes of a letter, share its mass.
        shared = torch.zeros_like(allowed)
        for row, (first, last) in enumerate(batch["offsets"]):
            same = (first[:, None] == first) | (last[:, None] == last)
            shared[row] = ((same.sum(1) > 1) & (first >= 0)) | (first == last) & (first >= 0)
        known = allowed & ~shared
        assert known.sum() > 0.5 * allowed.sum()
        assert_close(carried[known], expected[known], rtol=0, atol=1e-5)
    else:
        known = batch["words"] >= 0
        assert_close(carried[known], plain[known], rtol=1e-4, atol=1e-5)
        assert (carried[~known] == PAD_LOGIT).all()


def test_a_sentence_longer_than_the_teacher_reads_has_all_its_words_answered(teacher):
    directory = teacher("roberta", "conll2003", max_position_embeddings=18)
    student = tokenizer_of("electra")
    batch = batch_of("conll2003", student)
    carried = Teacher(directory, task_of("conll2003"), ANOTHER).logits(**inputs_of(batch))
    known = batch["words"] >= 0
    assert (carried[known] != PAD_LOGIT).all()


def test_a_text_longer_than_the_teacher_reads_is_cut_and_counted(teacher):
    directory = teacher("roberta", "squad_v2", max_position_embeddings=42)
    student = tokenizer_of("electra")
    batch = batch_of("squad_v2", student, max_length_tokens=128)
    first = Teacher(directory, task_of("squad_v2"), ANOTHER)
    assert first.logits(**inputs_of(batch)).isfinite().all()
    assert first.stats["cut"] >= 1


def test_ids_alone_never_reach_a_teacher_with_another_tokenizer(teacher):
    first = Teacher(teacher("roberta", "mnli"), task_of("mnli"), ANOTHER)
    with pytest.raises(DataError, match="the batch has no texts"):
        first.logits(torch.tensor([[1, 2, 3]]))
    spans = Teacher(teacher("roberta", "squad_v2"), task_of("squad_v2"), ANOTHER)
    with pytest.raises(DataError, match="the batch has no offsets"):
        spans.logits(torch.tensor([[1, 2, 3]]), texts=[("who?", "he")])


@pytest.mark.parametrize("name", EXAMPLES)
def test_students_of_two_tokenizers_share_a_store(name, teacher, tmp_path):
    """The second student reads what the first one's teachers said, carried to its own tokens."""
    task = task_of(name)
    places = [teacher("bert", name), teacher("roberta", name, max_position_embeddings=40)]
    answered = []
    for student in (tokenizer_of("electra", TEXTS[:2], 150), tokenizer_of("mpnet", TEXTS[:1], 120)):
        fingerprint = fingerprint_tokenizer(student)
        options = TeacherOptions(student=fingerprint, precision="fp32")
        plain = LocalEnsemble(places, task, options)
        entries = [teacher_entry(place, task, options) for place in places]
        batch = batch_of(name, student, max_length_tokens=320)

        @contextmanager
        def live(members, options=options):
            answered.append(members)
            yield LocalEnsemble([places[member] for member in members], task, options)

        with StoredEnsemble(tmp_path / "store", entries, task) as stored:
            stored.label(lambda batch=batch: [batch], live)
            result = stored.gather(stored.submit(batch))
            figures = stored.stats
        expected = plain.gather(plain.submit(batch))
        assert_close(result, expected, rtol=2**-9, atol=2e-3)
        assert figures == pytest.approx(plain.stats, abs=1e-2)
    assert answered == [(0, 1)]
    assert len(list((tmp_path / "store").iterdir())) == 2


@pytest.mark.parametrize(
    ("context", "seen"),
    [
        ("a first sentence, the second one, and a third", "the second"),
        ("語" * 200, "語" * 70),  # no words to complete
    ],
)
def test_a_window_is_widened_to_words_and_not_to_the_whole_context(context, seen):
    middle = [(19, 20), (23, 27)] if " " in context else [(100, 101), (105, 106)]
    offsets = np.array([(-1, -1), *middle], np.int32)
    example = SpanExample("1", "who?", context, (), "f:1")
    (question, part), shown = _question_and_slice(example, offsets)
    assert (question, part) == ("who?", seen)
    assert shown[0].tolist() == [-1, -1]
    first, last = middle[0]
    assert part[shown[1][0] : shown[1][1]] == context[first:last]


def shown(length, offsets):
    """The characters of tokens by their places; the others are of no text."""
    made = np.full((2, length), -1, np.int32)
    for place, of in offsets.items():
        made[:, place] = of
    return made


# The text "ab cd": the teacher reads `ab`, `cd`; the student `a`, `b`, `cd`. Both rows are
# [CLS] question [SEP] text [SEP], the student's with two tokens of padding.
THEIRS = shown(6, {3: (0, 2), 4: (3, 5)}).T
OURS = shown(9, {3: (0, 1), 4: (1, 2), 5: (3, 5)})
OF_BYTES = {2: (0, 1), 3: (0, 1), 4: (1, 2)}  # one character of two byte-level tokens
NONE = {1: 0, 2: 0, 7: 0, 8: 0}  # question and padding
CARRIED = {
    # The floor, 0.1, is the smallest of the teacher's row.
    "to the first and the last character": (
        *(THEIRS, OURS, 7, [[0.1, 9, 9, 0.6, 0.2, 0.1], [0.2, 9, 9, 0.5, 0.2, 0.1]]),
        {0: 0.1, 3: 0.6, 4: 0.1, 5: 0.2, 6: 0.1} | NONE,
        *({0: 0.2, 3: 0.1, 4: 0.5, 5: 0.2, 6: 0.1} | NONE, 0),
    ),
    "not shown, behind a window of `ab`: to no answer": (
        *(THEIRS, shown(5, {3: (0, 2)}), 5, [[0.1, 9, 9, 0.3, 0.5, 0.1]] * 2),
        *({0: 0.6, 3: 0.3, 4: 0.1}, {0: 0.6, 3: 0.3, 4: 0.1}, 0.5),
    ),
    "an end behind a window of `ab` and the `c` of `cd`: to no answer": (
        *(THEIRS, shown(5, {2: (0, 2), 3: (3, 4)}), 5, [[0.1, 9, 9, 0.2, 0.6, 0.1]] * 2),
        *({0: 0.1, 2: 0.2, 3: 0.6, 4: 0.1}, {0: 0.7, 2: 0.2, 4: 0.1}, 0.3),
    ),
    "to the first and the last token of a character": (
        *(shown(5, {2: (0, 1), 3: (1, 2)}).T, shown(6, OF_BYTES), 6),
        *([[0.1, 9, 0.6, 0.2, 0.1]] * 2, {2: 0.6, 3: 0.1}, {3: 0.6}, 0),
    ),
    "a row without text": (
        *(shown(3, {}).T, shown(4, {}), 4, [[0.7, 9, 0.3]] * 2),
        *({0: 0.7, 3: 0.3}, {0: 0.7, 3: 0.3}, 0),
    ),
}


@pytest.mark.parametrize("case", CARRIED)
def test_mass_is_carried_over_by_hand(case):
    theirs, ours, length, chances, start, end, expected_lost = CARRIED[case]
    logits = np.log(np.array(chances)).astype(np.float32)
    carried, lost = transfer_spans(logits, theirs, ours, length)
    for row, known in zip(np.exp(carried), (start, end), strict=True):
        assert_allclose(row[[*known]], [*known.values()], rtol=1e-5)
    assert lost == pytest.approx(expected_lost, abs=1e-6)
