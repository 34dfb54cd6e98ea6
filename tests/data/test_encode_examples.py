"""Sentences, pairs and tagged words: rows by hand; labels and tags, right and wrong; rows on disk:
the same as made, another key for any other content, never half a file.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from road_ray.data import load_split as module
from road_ray.data.batching import BatchStream
from road_ray.data.catalog import dataset, task
from road_ray.data.config import SourceConfig
from road_ray.data.encode_examples import cache_key, encode, load_or_encode
from road_ray.data.examples import Answer, SpanExample, TagExample, TextExample
from road_ray.data.load_split import load_split
from road_ray.data.task_and_dataset import Tag, Task
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import ConfigError, DataError


def row(*texts, label=None, line=2):
    return TextExample(str(line), texts, label, f"train.tsv:{line}")


def read(rows, tokenizer):
    return [
        " ".join(tokenizer.convert_ids_to_tokens(rows.row(r).tolist())) for r in range(len(rows))
    ]


def encoded(name, examples, tokenizer, limit=8):
    return encode(examples, dataset(name), task(name), tokenizer, {"max_length_tokens": limit})


def test_truncation_is_counted(letters):
    pairs = [row("a b", "c"), row("a b c d e f", "g"), row("a b c", "d e f")]  # 6, 10, 9 tokens
    cut = encoded("rte", pairs, letters)
    assert read(cut, letters) == [
        *("[CLS] a b [SEP] c [SEP]", "[CLS] a b c d [SEP] g [SEP]", "[CLS] a b [SEP] d e f [SEP]")
    ]
    assert cut.first_segment.tolist() == [4, 6, 4]
    assert (cut.num_truncated, cut.tokens_cut) == (2, 3)
    assert cut.truncation == {"truncated_rows": 2.0, "truncated_tokens_percent": 12.0}
    assert encoded("rte", pairs, letters, 10).truncation == {}


def test_windows_of_a_text_have_its_label_and_their_logits_are_joined(letters):
    texts = {"a b c d e f g": "positive", "a": "negative", "b c d e": "positive"}
    examples = [row(text, label=label) for text, label in texts.items()]

    def windows(join, stride=None):
        limits = {"max_length_tokens": 5, "windows": join, "stride_tokens": stride}
        return encode(examples, dataset("sst2"), task("sst2"), letters, limits)

    whole, overlapping = windows("mean"), windows("max", 2)
    assert read(whole, letters) == [
        *("[CLS] a b c [SEP]", "[CLS] d e f [SEP]", "[CLS] g [SEP]"),
        *("[CLS] a [SEP]", "[CLS] b c d [SEP]", "[CLS] e [SEP]"),
    ]
    assert whole.example.tolist() == [0, 0, 0, 1, 2, 2]
    assert whole.gold["labels"].tolist() == [1, 1, 1, 0, 1, 1]
    assert whole.example_labels.tolist() == [1, 0, 1]
    assert whole.truncation == {}
    assert read(overlapping, letters)[:3] == [
        *("[CLS] a b c [SEP]", "[CLS] c d e [SEP]", "[CLS] e f g [SEP]")
    ]
    logits = [np.array(pair, np.float32) for pair in ((0, 3), (6, 0), (3, 0), *[(1, 2)] * 3)]
    assert [row.tolist() for row in whole.pooled(logits)] == [[3, 1], [1, 2], [1, 2]]
    assert overlapping.pooled(logits)[0].tolist() == [6, 3]


def test_labels_follow_the_order_of_the_task_and_missing_ones_are_not_counted(letters):
    classes = encoded("sst2", [row("a"), row("b", label="negative")], letters).gold["labels"]
    numbers = encoded("stsb", [row("a", "b"), row("b", "c", label="2.5")], letters).gold["labels"]
    assert (classes.dtype, classes.tolist()) == (np.int64, [-100, 0])
    assert (numbers.dtype, numbers.tolist()) == (np.float32, [-100.0, 2.5])
    ordered = [row("a", "b", label=name) for name in ("neutral", "contradiction", "entailment")]
    assert encoded("mnli", ordered, letters).gold["labels"].tolist() == [2, 0, 1]
    rows = encoded("sst2", [row("a b", label="positive"), row("c", label="negative")], letters)
    assert read(rows, letters) == ["[CLS] a b [SEP]", "[CLS] c [SEP]"]
    assert rows.first_segment.tolist() == rows.lengths.tolist() == [4, 3]
    assert rows.gold["labels"].tolist() == [1, 0]
    assert (rows.dataset, rows.task, rows.example.tolist()) == ("sst2", "sentiment", [0, 1])


@pytest.mark.parametrize("label", ["2", "", "mixed", "-1"])
def test_a_label_outside_the_set_is_named_with_its_line(letters, label):
    examples = [row("a", label="positive"), row("b", label=label, line=17), row("c", label="9")]
    with pytest.raises(DataError) as raised:
        encoded("sst2", examples, letters)
    allowed = "allowed: negative, positive, '0' = negative, '1' = positive"
    assert f"train.tsv:17 label={label!r}, {allowed}" in str(raised.value)
    assert "1 more rows have one" in str(raised.value)
    assert "fix: correct `labels`, or the rows, or map the values" in str(raised.value)


@pytest.mark.parametrize("label", ["5.1", "-0.1", "nan", "inf", "high"])
def test_a_number_outside_the_range_is_named_with_its_line(letters, label):
    with pytest.raises(
        DataError, match=r"train.tsv:3 label='.*', allowed: a number from 0.0 to 5.0"
    ):
        encoded("stsb", [row("a", "b", label=label, line=3)], letters)


def test_what_cannot_be_encoded_is_refused(letters):
    with pytest.raises(ConfigError, match="fast tokenizer"):
        encoded("sst2", [row("a")], object())
    with pytest.raises(ConfigError, match="does not fit"):  # an example of another kind of task
        encoded("sst2", [SpanExample("1", "a", "b c", (Answer("c", 2),), "f")], letters)
    with pytest.raises(DataError, match=r"eng.train:1: word 2 \('b'\) has the tag 'B-LOC', allo"):
        tagged([sentence("a b", "O B-LOC")], letters)


NER = Task("ner", Tag(("O", "B-PER", "I-PER")))


def sentence(words, tags=None):
    labels = None if tags is None else tuple(tags.split())
    return TagExample("0", tuple(words.split(" ")), labels, "eng.train:1")


def tagged(examples, tokenizer, limit=8):
    return encode(examples, dataset("conll2003"), NER, tokenizer, {"max_length_tokens": limit})


@pytest.mark.parametrize("side", ["right", "left"])
def test_long_sentences_go_on_in_further_rows_and_no_word_is_lost(letters, side, monkeypatch):
    monkeypatch.setattr(letters, "truncation_side", side)
    rows = tagged([sentence("a ab abc b c"), sentence("c")], letters, limit=5)
    texts = [" ".join(letters.convert_ids_to_tokens(rows.row(r).tolist())) for r in range(4)]
    assert texts == [
        "[CLS] a a ##b [SEP]",
        "[CLS] a ##b ##c [SEP]",
        "[CLS] b c [SEP]",
        "[CLS] c [SEP]",
    ]
    assert rows.example.tolist() == [0, 0, 0, 1]
    assert rows.words[rows.words >= 0].tolist() == [0, 1, 2, 3, 4, 0]


def test_words_without_tokens_and_longer_than_a_row_stay_words(letters):
    rows = tagged([sentence("\x01 abcbcbc a", "O B-PER O")], letters, limit=6)
    texts = [letters.convert_ids_to_tokens(rows.row(r).tolist())[1:-1] for r in range(2)]
    assert texts == [["a", "##b", "##c", "##b"], ["##c", "##b", "##c", "a"]]
    assert rows.words.tolist() == [-1, 1, -1, -1, -1, -1, -1, -1, -1, -1, 2, -1]
    assert rows.gold["labels"][rows.words >= 0].tolist() == [1, 0]


def test_a_sentence_without_words_is_a_row_without_labels(letters):
    rows = tagged([sentence("a", "O"), TagExample("1", (), (), "f:2"), sentence("b", "O")], letters)
    assert rows.example.tolist() == [0, 1, 2]
    assert letters.convert_ids_to_tokens(rows.row(1).tolist()) == ["[CLS]", "[SEP]"]
    assert (rows.gold["labels"][rows.bounds[1] : rows.bounds[2]] == -100).all()
    assert len(tagged([TagExample("1", (), None, "f:2")], letters)) == 1
    assert len(tagged([sentence("a", "O"), TagExample("1", (), (), "f:2")], letters)) == 2


def test_labels_are_padded_beside_their_tokens(letters):
    rows = tagged([sentence("a ab", "O B-PER"), sentence("c", "O"), sentence("b")], letters)
    batch = BatchStream(rows, 3, seed=0, pad_id=0)[0]
    labels = dict(zip(batch["rows"].tolist(), batch["labels"], strict=True))
    assert batch["labels"].shape == batch["input_ids"].shape == (3, 5)
    assert labels[1].tolist() == [-100, 0, *[-100] * 3]
    assert labels[0].tolist() == [-100, 0, 1, *[-100] * 2]
    assert (labels[2] == -100).all()
    shares = [BatchStream(rows, 3, seed=0, pad_id=0, rank=rank, size=2)[0] for rank in (0, 1)]
    assert sum(len(share["labels"]) for share in shares) == 3
    assert all(share["labels"].shape == share["input_ids"].shape for share in shares)


def same(one, other):
    parts = [
        (getattr(one, f.name), getattr(other, f.name)) for f in fields(one) if f.name != "gold"
    ]
    assert one.gold.keys() == other.gold.keys()
    parts += [(one.gold[name], other.gold[name]) for name in one.gold]
    return all(
        np.array_equal(a, b) and getattr(a, "dtype", 0) == getattr(b, "dtype", 0) for a, b in parts
    )


@pytest.mark.parametrize("name", ["sst2", "squad_v2"])
def test_a_second_load_reads_what_the_first_made(name, world, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("road_ray.data.load_split.LEAST_EXAMPLES", 1)
    monkeypatch.setenv("ROAD_CACHE", str(tmp_path))
    source = SourceConfig(root=str(world))
    first = load_split(name, "dev", source, tokenizer).features
    (path,) = (tmp_path / "features").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(module, "encode", lambda *_, **__: pytest.fail("was kept"))
        assert same(load_split(name, "dev", source, tokenizer).features, first)
    path.unlink()
    assert same(load_split(name, "dev", source, tokenizer).features, first)
    assert list((tmp_path / "features").iterdir()) == [path]


def test_a_key_follows_from_texts_labels_tokenizer_and_limits_alone(tokenizer, world):
    first = TextExample("1", ("a film",), "0", "f:1")
    key = cache_key([first], tokenizer, length=8)
    assert cache_key([replace(first, id="2", where="g:2")], tokenizer, length=8) == key
    tokenizer("a", truncation=True, max_length=4)
    assert cache_key([first], tokenizer, length=8) == key
    assert cache_key([replace(first, label="1")], tokenizer, length=8) != key
    assert cache_key([replace(first, texts=("a", "film"))], tokenizer, length=8) != key
    assert cache_key([first, first], tokenizer, length=8) != key
    assert cache_key([first], tokenizer, length=9) != key
    words = (world / "glue" / "SST-2" / "train.tsv").read_text()
    assert cache_key([first], train_wordpiece([words], vocab_size=150), length=8) != key


def test_a_damaged_file_is_made_anew(world, tokenizer, tmp_path, caplog):
    made = load_split("sst2", "dev", SourceConfig(root=str(world)), tokenizer).features
    load_or_encode(tmp_path, "k", lambda: made)
    load_or_encode(tmp_path, "of others", lambda: made)
    path, other = tmp_path / "k.features", tmp_path / "of others.features"
    whole = path.read_bytes()

    place = whole.index(made.tokens.tobytes())
    flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    for content in (whole[: len(whole) // 2], b"", other.read_bytes(), flipped):
        path.write_bytes(content)
        assert load_or_encode(tmp_path, "k", lambda: made) is made
        assert "is damaged" in caplog.text
        assert same(load_or_encode(tmp_path, "k", lambda: pytest.fail("it is whole again")), made)
        caplog.clear()
    (tmp_path / "file").touch()
    assert load_or_encode(tmp_path / "file", "k", lambda: made) is made
    assert "features are not kept (ROAD_CACHE" in caplog.text
