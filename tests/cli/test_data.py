"""``road data``."""

from __future__ import annotations

import json

import pytest

from road_ray.config import load
from road_ray.data.config import CorpusConfig
from road_ray.data.corpus.source import prepare_corpus


class TestData:
    """``road data``."""

    def test_the_catalogue_is_listed(self, road):
        rows = json.loads(road("data", "list", "--json").out)
        assert {"sst2", "squad_v2", "newsqa"} <= {row["name"] for row in rows}
        assert "squad_v2" in road("data", "list").out

    def test_a_tokenizer_and_a_corpus_are_made_and_rows_looked_at(self, road, world, tmp_path):
        text = world / "wikipedia" / "train-00000-of-00001.parquet"
        vocabulary = tmp_path / "tokenizer"
        said = road("data", "tokenizer", text, vocabulary, "--vocab-size", 300)
        assert said.out == f"300 entries: {vocabulary}\n"
        shards = tmp_path / "shards"
        made = ("data", "corpus", text, shards, "--tokenizer", vocabulary)
        said = road(*made, "--max-length-tokens", 64, "--max-length-tokens", 32)
        built = {path: path.stat().st_mtime_ns for path in shards.rglob("*") if path.is_file()}
        assert len(list(shards.iterdir())) == 2
        first, second, last = said.out.splitlines()
        assert first.startswith("at most 64 tokens: ")
        assert second.startswith("at most 32 tokens: ")
        # A run with this line reads them.
        named = [part.removeprefix("data.") for part in last.removeprefix("read by: ").split()]
        for length in (64, 32):
            data = load(CorpusConfig, overrides=[*named, f"max_length_tokens={length}"])
            corpus, _ = prepare_corpus(data)
            assert corpus.lengths.max() == length
            assert str(corpus.directory) in (first if length == 64 else second)
        assert built == {p: p.stat().st_mtime_ns for p in shards.rglob("*") if p.is_file()}
        peek = ("data", "peek", "squad_v2", "--tokenizer", vocabulary, "--root", world)
        shown = road(*peek, "--rows", 2).out
        assert shown.startswith("squad_v2 train: 128 examples")
        assert shown.count("gold:") == 2
        assert "gold: " in road("data", "peek", "sst2", *peek[3:]).out

    @pytest.mark.parametrize(
        ("arguments", "code", "told"),
        [
            (("tokenizer", "nowhere", "out"), 3, "nowhere: no such file"),
            (("tokenizer", "nowhere", "out", "--vocab-size", 2), 2, "--vocab-size"),
            (("peek", "sst3", "--tokenizer", "."), 3, "holds no tokenizer"),
            (("peek", "sst2"), 2, "--tokenizer"),
            (("corpus", "nowhere", "out", "--tokenizer", "."), 2, "nowhere: no such file"),
            (("corpus", __file__, "out", "--tokenizer", "."), 3, "holds no tokenizer"),
        ],
    )
    def test_mistakes_are_told(self, road, tmp_path, monkeypatch, arguments, code, told):
        monkeypatch.delenv("ROAD_DATA", raising=False)
        monkeypatch.chdir(tmp_path)
        said = road("data", *arguments)
        assert said.code == code
        assert told in said.err
        assert not list(tmp_path.iterdir())
