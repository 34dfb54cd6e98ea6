"""Inputs and logits equal those of plain transformers, for every kind of tokenizer and of rows."""

import json
from functools import lru_cache

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch.testing import assert_close
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from road_ray.data.batching import encoder_inputs, pad
from road_ray.data.config import SourceConfig
from road_ray.data.encode_examples import encode
from road_ray.data.examples import ChoiceExample, SpanExample, TagExample, TextExample
from road_ray.data.load_split import training_tokenizer
from road_ray.data.task_and_dataset import (
    HEADS,
    Choose,
    Classify,
    Columns,
    Dataset,
    Span,
    Tag,
    Task,
)
from road_ray.data.tokenizer import load_tokenizer, pad_id_of
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher
from road_ray.distillation.teacher import Teacher, TeacherOptions, inputs_of
from road_ray.distillation.teacher_directory import check_teacher, fingerprint_tokenizer
from road_ray.models.architectures import auto_class, input_names
from road_ray.models.multitask import load_trained
from tests.published import TEXTS, publish, tokenizer_of

PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[2], "It is dull."), ("A film", TEXTS[1])]
QUESTIONS = ["Who had painted the café?", "What was a delight?", "Was it slow?"]
CONTEXTS = [" ".join(TEXTS), TEXTS[0], " ".join(TEXTS[::-1])]
WORDS = [text.split() for text in TEXTS]
STRIDE, LENGTH = 7, 40
WHOLE = 150  # tokens of a row, without truncation
KINDS = {
    "text": Task("t", Classify(("no", "yes"))),
    "pair": Task("t", Classify(("no", "yes"))),
    "windows": Task("t", Span()),
    "words": Task("t", Tag(("O", "B-X", "I-X"))),
    "choices": Task("t", Choose(2)),
}


def _words(family):
    return tokenizer_of(family).get_vocab()


def _unigram(**others):
    backend = json.loads(tokenizer_of("xlm-roberta").backend_tokenizer.to_str())
    names = {"[PAD]": "<pad>", "[CLS]": "<s>", "[SEP]": "</s>", "[UNK]": "<unk>"} | others
    return [(names.get(word, word), score) for word, score in backend["model"]["vocab"]]


def bert_with(template=None, pair=None):
    """Return a tokenizer with BERT's words and another template, or none."""
    backend = Tokenizer.from_str(tokenizer_of("bert").backend_tokenizer.to_str())
    backend.post_processor = None
    if template is not None:
        ends = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
        backend.post_processor = TemplateProcessing(single=template, pair=pair, special_tokens=ends)
    names = ("input_ids", "token_type_ids", "attention_mask")
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("cls", "sep", "pad", "unk", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_input_names=names, **roles)


_ALBERT = {"[CLS]": "[CLS]", "[SEP]": "[SEP]"}
MAKERS = {  # family of the model, and its tokenizer
    "bert": ("bert", lambda: transformers.BertTokenizerFast(vocab=_words("bert"))),
    "electra": ("electra", lambda: transformers.ElectraTokenizerFast(vocab=_words("bert"))),
    "roberta": ("roberta", lambda: tokenizer_of("roberta")),
    "xlm-r on BertModel": ("bert", lambda: transformers.XLMRobertaTokenizerFast(vocab=_unigram())),
    "deberta-v3": ("deberta-v2", lambda: tokenizer_of("deberta-v2")),
    "albert": ("albert", lambda: transformers.AlbertTokenizerFast(vocab=_unigram(**_ALBERT))),
    "modernbert": ("modernbert", lambda: tokenizer_of("modernbert")),
    "distilbert": ("distilbert", lambda: transformers.DistilBertTokenizer(vocab=_words("bert"))),
    "mpnet": ("mpnet", lambda: bert_with("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]")),
    "minilm": ("bert", lambda: bert_with("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")),
    "no template": ("bert", bert_with),
    "zero types": ("bert", lambda: bert_with("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]")),
}
_made = lru_cache(lambda kind: MAKERS[kind][1]())


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Directories of models by tokenizer and rows."""
    return lru_cache(
        lambda kind, rows: publish(
            tmp_path_factory.mktemp("model"),
            MAKERS[kind][0],
            HEADS[type(KINDS[rows].kind)],
            labels=getattr(KINDS[rows].kind, "labels", ()),
            tokenizer=_made(kind),
        )
    )


def dataset(rows):
    texts = ("a", "b") if rows == "pair" else ("a",)
    return Dataset("own", task="t", layout="", folder="", columns=Columns(texts))


CHOICES = list(zip(QUESTIONS, PAIRS, strict=True))
EXAMPLES = {
    "text": [TextExample("1", (text,), None, "f") for text in TEXTS],
    "pair": [TextExample("1", pair, None, "f") for pair in PAIRS],
    "windows": [SpanExample("1", q, c, (), "f") for q, c in zip(QUESTIONS, CONTEXTS, strict=True)],
    "words": [TagExample("1", tuple(words), None, "f") for words in WORDS],
    "choices": [ChoiceExample("1", question, pair, None, "f") for question, pair in CHOICES],
}


def plain_rows(rows, tokenizer, length):
    """Return the rows as a script with transformers alone makes them: one dictionary each."""
    limits = {"truncation": True, "max_length": length}
    if rows == "text":
        return [dict(tokenizer(text, **limits)) for text in TEXTS]
    if rows == "pair":
        return [dict(tokenizer(*pair, **limits)) for pair in PAIRS]
    if rows == "words":
        limits |= {"is_split_into_words": True, "return_overflowing_tokens": True}
        return [row for words in WORDS for row in _rows_of(tokenizer(words, **limits))]
    if rows == "choices":
        return [dict(tokenizer(q, c, **limits)) for q, pair in CHOICES for c in pair]
    windows = []
    for question, context in zip(QUESTIONS, CONTEXTS, strict=True):
        asked = len(tokenizer(question, add_special_tokens=False)["input_ids"])
        room = LENGTH - asked - tokenizer.num_special_tokens_to_add(pair=True)
        encoded = tokenizer(
            question, context, truncation="only_second", max_length=LENGTH,
            stride=room - STRIDE, return_overflowing_tokens=True,
        )  # fmt: skip
        windows += _rows_of(encoded)
    return windows


def _rows_of(encoded):
    encoded.pop("overflow_to_sample_mapping")
    count = len(encoded["input_ids"])
    return [{name: values[n] for name, values in encoded.items()} for n in range(count)]


def own_batch(rows, tokenizer, length=LENGTH):
    limits = {"max_length_tokens": length}
    if rows == "windows":
        limits |= {"stride_tokens": STRIDE}
    entry = dataset(rows)
    features = encode(EXAMPLES[rows], entry, KINDS[rows], tokenizer, limits)
    batch = pad(features, np.arange(len(features)), pad_id=pad_id_of(tokenizer))
    return batch | {"task": "t"}


def plain_batch(rows, tokenizer, model, length=LENGTH):
    padded = tokenizer.pad(plain_rows(rows, tokenizer, length), return_tensors="pt")
    if "token_type_ids" not in input_names(model):
        padded.pop("token_type_ids", None)
    if rows == "choices":
        return {name: values.view(-1, 2, values.shape[-1]) for name, values in padded.items()}
    return dict(padded)


def plain_logits(rows, tokenizer, model, length=LENGTH):
    with torch.no_grad():
        output = model(**plain_batch(rows, tokenizer, model, length))
    return (
        torch.stack([output.start_logits, output.end_logits], 1)
        if rows == "windows"
        else output.logits
    )


def plain_model(rows, directory):
    return auto_class(KINDS[rows].kind).from_pretrained(directory).eval()


@pytest.mark.parametrize("rows", KINDS)
@pytest.mark.parametrize("kind", MAKERS)
def test_inputs_and_logits_are_those_of_plain_transformers(kind, rows, published):
    directory = published(kind, rows)
    tokenizer, plain = AutoTokenizer.from_pretrained(directory), plain_model(rows, directory)
    model = load_trained(str(directory), KINDS[rows]).eval()
    batch = own_batch(rows, load_tokenizer(directory))
    ours = encoder_inputs(batch, input_names(model.encoder))
    theirs = {
        name: values.flatten(0, -2) for name, values in plain_batch(rows, tokenizer, plain).items()
    }
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        width = values.shape[-1]
        assert ours[name][:, :width].tolist() == values.tolist(), name
        assert not ours["attention_mask"][:, width:].any()
    with torch.no_grad():
        logits = model(batch)
    expected = plain_logits(rows, tokenizer, plain)
    assert expected.std() > 1e-4
    real = theirs["attention_mask"].bool()
    if rows == "words":
        assert_close(logits[:, : real.shape[1]][real], expected[real], rtol=1e-4, atol=1e-5)
    elif rows == "windows":
        mask = real[:, None].expand_as(expected)
        assert_close(logits[..., : real.shape[1]][mask], expected[mask], rtol=1e-4, atol=1e-5)
    else:
        assert_close(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", ["text", "pair", "choices"])
@pytest.mark.parametrize("kind", MAKERS)
def test_teachers_of_the_same_and_of_another_tokenizer_answer_as_plain_transformers(
    kind, rows, published
):
    directory = published(kind, rows)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    expected = plain_logits(rows, tokenizer, plain_model(rows, directory), WHOLE)
    batch = own_batch(rows, tokenizer, WHOLE)
    teacher = Teacher(directory, KINDS[rows], TeacherOptions(precision="fp32"))
    assert_close(teacher.logits(**inputs_of(batch)), expected, rtol=1e-4, atol=1e-5)
    texts = np.empty(3, object)
    given = {"text": [(t,) for t in TEXTS], "pair": PAIRS}
    texts[:] = given.get(rows) or [(question, *pair) for question, pair in CHOICES]
    reader = Teacher(directory, KINDS[rows], TeacherOptions(student="another", precision="fp32"))
    mine = reader.logits(torch.zeros(3, 4, dtype=torch.long), texts=texts)
    assert_close(mine, expected, rtol=1e-4, atol=1e-5)


def test_a_row_without_any_token_gets_the_unknown_one():
    tokenizer = _made("no template")
    empty = TextExample("1", ("",), None, "f")
    rows = encode([empty], dataset("text"), KINDS["text"], tokenizer, {})
    assert rows.row(0).tolist() == [tokenizer.unk_token_id]


@pytest.mark.parametrize("family", ["roberta", "modernbert", "bert", "xlm-roberta"])
def test_words_are_trained_as_within_a_text_and_saved_so(family, tmp_path):
    """What transformers' run_ner.py does with ``add_prefix_space=True``."""
    directory = publish(tmp_path / "init", family)
    tokenizer = training_tokenizer(directory, ["conll2003"], SourceConfig())
    words = ["Nobody", "in", "New", "Zealand", "knew"]
    sentence = TagExample("1", tuple(words), None, "f")
    rows = encode([sentence], dataset("words"), KINDS["words"], tokenizer, {})
    plain = AutoTokenizer.from_pretrained(directory)
    byte_level = family in ("roberta", "modernbert")
    as_text = plain((" " if byte_level else "") + " ".join(words))["input_ids"]
    assert rows.row(0).tolist() == as_text
    tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert again(words, is_split_into_words=True)["input_ids"] == as_text
    untouched = training_tokenizer(directory, ["sst2"], SourceConfig())
    assert untouched("a film")["input_ids"] == plain("a film")["input_ids"]


def test_a_teacher_without_segments_reads_the_rows_of_a_student_with_them(published):
    """And not the other way round: a student whose tokenizer gives none is read by its texts."""
    directory, other = published("zero types", "pair"), published("minilm", "pair")
    student, bare = (fingerprint_tokenizer(_made(kind)) for kind in ("minilm", "zero types"))
    for place, tokenizer in ((directory, student), (directory, bare), (other, bare)):
        fit = check_teacher(place, KINDS["pair"], TeacherOptions(student=tokenizer))
        assert fit.reads_texts == (place == other)
    batch = own_batch("pair", _made("minilm"), WHOLE)
    assert batch["token_type_ids"].any()
    expected = plain_logits(
        "pair", AutoTokenizer.from_pretrained(directory), plain_model("pair", directory), WHOLE
    )
    teacher = Teacher(directory, KINDS["pair"], TeacherOptions(precision="fp32"))
    assert_close(teacher.logits(**inputs_of(batch)), expected, rtol=1e-4, atol=1e-5)
    plain = AutoModel.from_pretrained(directory).eval()
    inputs = plain_batch("pair", AutoTokenizer.from_pretrained(directory), plain, WHOLE)
    with torch.no_grad():
        states = plain(**inputs).last_hidden_state
    real = inputs["attention_mask"].bool()
    mine = HiddenStatesTeacher(directory)(batch).hidden_states[2][:, : real.shape[1]]
    assert_close(mine[real], states[real], rtol=1e-4, atol=1e-5)
