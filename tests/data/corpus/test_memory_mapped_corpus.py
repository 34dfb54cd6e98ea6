"""Opening a corpus: what is damaged or missing is named."""

from __future__ import annotations

import json

import pytest

from road_ray.data.corpus.build_corpus import build_corpus
from road_ray.data.corpus.memory_mapped_corpus import DamagedCorpus, _read_once, open_corpus
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import DataError

DOCUMENTS = ["The cat sat on the mat. It was warm! Was it red?"] * 40


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=70)


def build(directory, tokenizer):
    return build_corpus([DOCUMENTS], directory, tokenizer, max_length_tokens=32)


@pytest.fixture(autouse=True)
def nothing_read_yet():
    """Files change here faster than their time stamps."""
    _read_once.cache_clear()


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "text", "flipped"])
def test_a_damaged_shard_is_named(tokenizer, tmp_path, damage):
    build(tmp_path / "c", tokenizer)
    shard = tmp_path / "c" / "shard-00000-00000.arrow"
    content = shard.read_bytes()
    shard.unlink()
    if damage != "gone":
        contents = {"cut": content[: len(content) // 2], "empty": b"", "text": b"x" * 999}
        contents["flipped"] = content.replace(b"\x02\0\0\0", b"\x03\0\0\0")  # other token ids
        shard.write_bytes(contents[damage])
    _read_once.cache_clear()
    with pytest.raises(DamagedCorpus, match=r"(?s)00000\.arrow: damaged corpus.*delete"):
        open_corpus(tmp_path / "c")


def test_missing_rows_and_a_damaged_manifest_are_told(tokenizer, tmp_path):
    build(tmp_path / "c", tokenizer)
    file = tmp_path / "c" / "MANIFEST.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"rows": manifest["rows"] + 1}))
    with pytest.raises(DataError, match=r"MANIFEST\.json: .* its own sha256 is another"):
        open_corpus(tmp_path / "c")
    file.write_text(json.dumps(manifest | {"format": 3}))
    with pytest.raises(DataError, match=r"MANIFEST\.json: .* format 3, this one is 5"):
        open_corpus(tmp_path / "c")
    for text in ("{", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(DataError, match=r"MANIFEST\.json: damaged"):
            open_corpus(tmp_path / "c")
    file.unlink()
    with pytest.raises(DataError, match="not a built corpus"):
        open_corpus(tmp_path / "c")
