"""``road data``."""

from __future__ import annotations

import json

import pytest


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
        made = ("data", "corpus", text, tmp_path / "corpus", "--tokenizer", vocabulary)
        said = road(*made, "--max-length-tokens", 64)
        assert "rows" in said.out
        assert road(*made, "--max-length-tokens", 64).out == said.out
        other = road(*made, "--max-length-tokens", 32)
        assert other.code == 3
        assert "another recipe" in other.err
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
            (("corpus", "nowhere", "out", "--tokenizer", "."), 3, "holds no tokenizer"),
        ],
    )
    def test_mistakes_are_told(self, road, tmp_path, monkeypatch, arguments, code, told):
        monkeypatch.chdir(tmp_path)
        said = road("data", *arguments)
        assert said.code == code
        assert told in said.err
        assert not list(tmp_path.iterdir())
