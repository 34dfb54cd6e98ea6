"""The text of a pre-training run: found, tokenised and cut once, told apart by what it holds."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from road_ray.data.config import CorpusConfig
from road_ray.data.corpus import prepare_corpus as module
from road_ray.data.corpus.build_corpus import encoded_blocks
from road_ray.data.corpus.documents import Documents
from road_ray.data.corpus.prepare_corpus import corpus_text, corpus_tokenizer, prepare_corpus
from road_ray.errors import ConfigError, DataError

TEXT = "a first sentence . and a second one .\n\nanother document is here .\n"


@pytest.fixture
def data(tmp_path):
    (tmp_path / "root" / "texts").mkdir(parents=True)
    (tmp_path / "root" / "texts" / "a.txt").write_text(TEXT)
    return CorpusConfig(
        root=str(tmp_path / "root"),
        corpus="texts",
        vocab_size=60,
        max_length_tokens=16,
        shards=tmp_path / "shards",
    )


def test_text_lies_below_the_root_or_where_it_is_said_to_be(data, tmp_path, monkeypatch):
    assert corpus_text(data) == tmp_path / "root" / "texts"
    own = data.model_copy(update={"corpus": str(tmp_path / "root" / "texts" / "a.txt")})
    assert corpus_text(own) == tmp_path / "root" / "texts" / "a.txt"
    monkeypatch.delenv("ROAD_DATA", raising=False)
    with pytest.raises(ConfigError, match=r"data\.root"):
        corpus_text(data.model_copy(update={"root": None}))


def test_shards_and_tokenizer_are_made_once(data):
    corpus, tokenizer = prepare_corpus(data)
    stamps = {p: p.stat().st_mtime_ns for p in Path(data.shards).rglob("*") if p.is_file()}
    again, same = prepare_corpus(data)
    assert stamps == {p: p.stat().st_mtime_ns for p in Path(data.shards).rglob("*") if p.is_file()}
    assert again.manifest == corpus.manifest
    assert same.get_vocab() == tokenizer.get_vocab()
    assert len(corpus) == 4
    assert not [p for p in Path(data.shards).iterdir() if p.name.startswith("tmp")]


def test_text_that_changes_while_it_is_read_is_refused(data, tmp_path):
    """Size, beginning and end of the file may stay, and these are what the fingerprint samples."""
    file = tmp_path / "root" / "texts" / "a.txt"

    def encoding(blocks, encoder, **options):
        file.write_text(TEXT.replace("second", "fourth"))
        return encoded_blocks(blocks, encoder, **options)

    corpus_tokenizer(data, corpus_text(data))
    with pytest.raises(DataError, match=r"a\.txt: changed while it was read\n  fix"):
        prepare_corpus(data, 1, encoding)
    assert not list(Path(data.shards).glob("*/MANIFEST.json"))
    corpus, _ = prepare_corpus(data)
    assert len(corpus) == 4


@pytest.mark.parametrize("damage", ["flipped", "empty", "gone"])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "SHA256.json"])
def test_a_damaged_tokenizer_is_learnt_again(data, caplog, name, damage):
    corpus, tokenizer = prepare_corpus(data)
    (directory,) = Path(data.shards).glob("tokenizer-*")
    file = directory / name
    whole = file.read_bytes()
    flipped = whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1])
    file.write_bytes(flipped + whole[len(whole) // 2 + 1 :] if damage == "flipped" else b"")
    if damage == "gone":
        file.unlink()
    again, same = prepare_corpus(data)
    assert same.get_vocab() == tokenizer.get_vocab()
    assert again.directory == corpus.directory
    assert file.read_bytes() == whole
    assert f"{directory}: damaged" in caplog.text
    caplog.clear()
    prepare_corpus(data)
    assert not caplog.text


def test_token_ids_beyond_the_vocabulary_are_refused(data, monkeypatch):
    prepare_corpus(data)
    monkeypatch.setattr("transformers.ElectraTokenizerFast.__len__", lambda self: 3)
    with pytest.raises(DataError, match=r"token id \d+, the tokenizer has 3 entries\n  fix"):
        prepare_corpus(data)


def test_a_named_vocabulary_is_looked_for_below_the_root_first(data, tmp_path):
    words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    (tmp_path / "root" / "vocab.txt").write_text(words)
    settings = data.model_copy(update={"tokenizer": "vocab.txt"})
    assert len(corpus_tokenizer(settings, corpus_text(settings))) == 6
    (tmp_path / "own.txt").write_text(words + "b\n")
    settings = data.model_copy(update={"tokenizer": str(tmp_path / "own.txt")})
    assert len(corpus_tokenizer(settings, corpus_text(settings))) == 7


def test_a_data_set_of_the_hub_whose_files_cannot_be_read_is_saved_once(tmp_path, monkeypatch):
    import datasets

    calls = []

    def load_dataset(hub, split):
        calls.append((hub.path, hub.configuration, split))
        if hub.path == "x":
            raise ValueError("unknown split train")
        return datasets.Dataset.from_dict({"text": ["One."], "id": [1]})

    builder = SimpleNamespace(config=SimpleNamespace(data_files=None))
    monkeypatch.setattr("datasets.load_dataset_builder", lambda *_: builder)
    monkeypatch.setattr(module, "load_rows", load_dataset)
    data = CorpusConfig(corpus="hub:owner/name:small", shards=str(tmp_path))
    places = {corpus_text(data), corpus_text(data)}
    assert len(places) == 1
    assert list(Documents(places.pop())) == ["One."]
    assert calls == [("owner/name", "small", "train")]
    with pytest.raises(DataError, match=r"(?s)hub:x could not be loaded.*unknown split.*fix"):
        corpus_text(CorpusConfig(corpus="hub:x", shards=str(tmp_path)))
