"""Teachers that read texts with a tokenizer of their own."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from road_ray.data import catalog
from road_ray.data.batching import pad
from road_ray.data.features.encode_examples import encode
from road_ray.data.features.examples_and_features import (
    Answer,
    ChoiceExample,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.load_split import Split
from road_ray.distillation.ensemble.annotate import allowed_of
from road_ray.distillation.ensemble.cross_tokenizer.row_texts import RowTexts, _question_and_slice
from road_ray.distillation.ensemble.cross_tokenizer.text_teacher import TextTeacher
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble, TeacherOptions
from road_ray.distillation.ensemble.protocol import PAD_LOGIT
from road_ray.distillation.ensemble.teacher import Teacher, inputs_of
from road_ray.distillation.stored_ensemble import StoredEnsemble
from road_ray.distillation.teacher_directory import HEADS, fingerprint_tokenizer, teacher_manifest
from road_ray.errors import DataError
from tests.published import TEXTS, publish, tokenizer_of

WORDS = tuple(
    [
        "Nobody",
        "in",
        "New",
        "Zealand",
        "knew",
        "who",
        "had",
        "painted",
        "the",
        "café",
        "in",
        "1995",
        "!",
    ]
)
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


def task_of(name):
    return catalog.task(catalog.dataset(name).task)


def labels_of(task):
    return getattr(task.kind, "labels", ("score",) if task.kind.width == 1 else ())


@pytest.fixture
def teacher(tmp_path):
    """``teacher(family, name)``: the directory of a published model for a data set's task."""

    def make(family, name, **options):
        task = task_of(name)
        head = HEADS[type(task.kind)]
        labels = () if head in ("ForQuestionAnswering", "ForMultipleChoice") else labels_of(task)
        return publish(tmp_path / f"{family}-{name}", family, head, labels=labels, **options)

    return make


def batch_of(name, tokenizer, **limits):
    """Return the batch of all rows of the examples as the student with that tokenizer has it."""
    entry, task = catalog.dataset(name), task_of(name)
    spans = {"stride_tokens": 16, "max_question_tokens": 16} if name == "squad_v2" else {}
    rows = encode(EXAMPLES[name], entry, task, tokenizer, **spans, **limits)
    numbers = np.arange(len(rows))
    batch = pad(rows, numbers, pad_id=tokenizer.pad_token_id)
    texts = RowTexts(Split(entry, task, EXAMPLES[name], rows), rows)
    return dict(batch) | texts.of(numbers, batch["input_ids"].shape[-1])


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2"])
def test_with_the_students_tokenizer_it_answers_as_a_plain_teacher_does(family, name, teacher):
    directory, task = teacher(family, name), task_of(name)
    batch = batch_of(name, tokenizer_of(family), max_length_tokens=159)
    plain = Teacher(directory, task).logits(**inputs_of(batch))
    carried = TextTeacher(directory, task).logits(**inputs_of(batch))
    assert carried.shape == plain.shape
    if name == "squad_v2":
        allowed = allowed_of(batch | {"start_positions": None}).expand_as(plain)
        expected = plain.masked_fill(~allowed, -torch.inf).log_softmax(-1)
        # Tokens of one character, as the bytes of a letter, share its mass.
        shared = torch.zeros_like(allowed)
        for row, (first, last) in enumerate(batch["offsets"]):
            same = (first[:, None] == first) | (last[:, None] == last)
            shared[row] = ((same.sum(1) > 1) & (first >= 0)) | (first == last) & (first >= 0)
        known = allowed & ~shared
        assert known.sum() > 0.5 * allowed.sum()
        assert_close(carried[known], expected[known], rtol=0, atol=1e-5)
    elif name == "conll2003":
        known = batch["words"] >= 0
        assert_close(carried[known], plain[known], rtol=1e-4, atol=1e-5)
        assert (carried[~known] == PAD_LOGIT).all()
    else:
        assert_close(carried, plain, rtol=1e-4, atol=1e-5)


def test_a_sentence_longer_than_the_teacher_reads_has_all_its_words_answered(teacher):
    directory = teacher("roberta", "conll2003", max_position_embeddings=18)
    student = tokenizer_of("electra")
    batch = batch_of("conll2003", student)
    carried = TextTeacher(directory, task_of("conll2003")).logits(**inputs_of(batch))
    known = batch["words"] >= 0
    assert (carried[known] != PAD_LOGIT).all()


def test_a_text_longer_than_the_teacher_reads_is_cut_and_counted(teacher):
    directory = teacher("roberta", "squad_v2", max_position_embeddings=42)
    student = tokenizer_of("electra")
    batch = batch_of("squad_v2", student, max_length_tokens=128)
    first = TextTeacher(directory, task_of("squad_v2"))
    assert first.logits(**inputs_of(batch)).isfinite().all()
    assert first.stats["cut"] >= 1


def test_ids_alone_never_reach_a_teacher_with_another_tokenizer(teacher):
    first = TextTeacher(teacher("roberta", "mnli"), task_of("mnli"))
    with pytest.raises(DataError, match="the batch has no texts"):
        first.logits(torch.tensor([[1, 2, 3]]))
    spans = TextTeacher(teacher("roberta", "squad_v2"), task_of("squad_v2"))
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
        plain = LocalEnsemble.load(places, task, options)
        manifest = teacher_manifest(places, task, student=fingerprint)
        batch = batch_of(name, student, max_length_tokens=320)

        @contextmanager
        def live(members, plain=plain):
            answered.append(members)
            yield LocalEnsemble([plain.teachers[member] for member in members])

        with StoredEnsemble.open(tmp_path / "store", manifest, task) as stored:
            stored.label(lambda batch=batch: [batch], live)
            result = stored.gather(stored.submit(batch))
            figures = stored.stats
        expected = plain.gather(plain.submit(batch))
        assert_close(result, expected, rtol=2**-9, atol=2e-3)
        if name in ("conll2003", "squad_v2"):
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
