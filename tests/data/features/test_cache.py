"""Features on disk: the same as made, another key for any other content, never half a file."""

from __future__ import annotations

import os
from dataclasses import fields, replace

import numpy as np
import pytest

from road_ray.data import load_split as module
from road_ray.data.config import SourceConfig
from road_ray.data.examples import TextExample
from road_ray.data.features.encode_examples import cache_key, load_or_encode
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import train_wordpiece


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
    source = SourceConfig(root=str(world), cache=str(tmp_path / "kept"))
    first = load_split(name, "dev", source, tokenizer).features
    (path,) = (tmp_path / "kept").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(module, "encode", lambda *_, **__: pytest.fail("was kept"))
        assert same(load_split(name, "dev", source, tokenizer).features, first)
    plain = SourceConfig(root=str(world), cache="off")
    assert same(load_split(name, "dev", plain, tokenizer).features, first)
    assert list((tmp_path / "kept").iterdir()) == [path]


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

    def flipped(place):
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    # The last one marks a member as encrypted, which the format alone answers with RuntimeError.
    places = (0, whole.index(made.tokens.tobytes()), whole.rindex(b"PK\x01\x02") + 8)
    damaged = [whole[: len(whole) // 2], b"", other.read_bytes(), *map(flipped, places)]
    for content in damaged:
        path.write_bytes(content)
        assert load_or_encode(tmp_path, "k", lambda: made) is made
        assert "is damaged" in caplog.text
        assert same(load_or_encode(tmp_path, "k", lambda: pytest.fail("it is whole again")), made)
        caplog.clear()


def test_a_write_that_fails_leaves_nothing_and_costs_a_warning(
    world, tokenizer, tmp_path, monkeypatch, caplog
):
    made = load_split("sst2", "dev", SourceConfig(root=str(world)), tokenizer).features

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert load_or_encode(tmp_path, "k", lambda: made) is made
    assert not list(tmp_path.iterdir())
    assert "features are not kept" in caplog.text
    assert "data.cache" in caplog.text
