"""``road data``."""

import json

import pytest

from road_ray.data.corpus.prepare_corpus import prepare_corpus
from road_ray.verbs import configure


def test_the_catalogue_is_listed(road):
    rows = json.loads(road("data", "list", "--json").out)
    assert {"sst2", "squad_v2", "newsqa"} <= {row["name"] for row in rows}
    assert "squad_v2" in road("data", "list").out


def test_a_tokenizer_and_a_corpus_are_made_and_rows_looked_at(road, world, tmp_path):
    text = world / "wikipedia" / "train-00000-of-00001.parquet"
    vocabulary = tmp_path / "tokenizer"
    result = road("data", "tokenizer", text, vocabulary, "--vocab-size", 300)
    assert result.out.startswith(f"300 entries: {vocabulary}\nnext: road pretrain ")
    shards = tmp_path / "shards"
    made = ("data", "corpus", text, shards, "--tokenizer", vocabulary)
    result = road(*made, "--max-length-tokens", 64, "--max-length-tokens", 32)
    built = {path: path.stat().st_mtime_ns for path in shards.rglob("*") if path.is_file()}
    assert len(list(shards.iterdir())) == 2
    first, second, last = result.out.splitlines()
    assert first.startswith("at most 64 tokens: ")
    assert second.startswith("at most 32 tokens: ")
    # A run with this line reads them.
    keys = last.removeprefix("next: road pretrain ").split()
    for length in (64, 32):
        line = [*keys, f"data.max_length_tokens={length}"]
        corpus, _ = prepare_corpus(configure("pretrain", overrides=line).data)
        assert corpus.lengths.max() == length
        assert str(corpus.directory) in (first if length == 64 else second)
    assert built == {p: p.stat().st_mtime_ns for p in shards.rglob("*") if p.is_file()}
    peek = ("data", "peek", "squad_v2", "--tokenizer", vocabulary, f"data.root={world}")
    shown = road(*peek, "--rows", 2).out
    assert shown.startswith("squad_v2 train: 128 examples")
    assert shown.count("gold:") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("tokenizer", "nowhere", "out"), 3, "nowhere: no such file"),
        (("tokenizer", "nowhere", "out", "--vocab-size", 2), 2, "--vocab-size"),
        (("peek", "sst2", "--tokenizer", "."), 3, "holds no tokenizer"),
        (("peek", "sst2", "--split", "validation"), 2, "--split"),
        (("peek", "sst3"), 2, "did you mean 'sst2'?"),
        (("peek", "sst2", "data.rot=x"), 2, "did you mean 'data.root'?"),
        (("peek", "own.yaml"), 2, "own.yaml  no such file"),
        (("corpus", "nowhere", "out", "--tokenizer", "."), 2, "nowhere: no such file"),
        (("corpus", __file__, "out", "--tokenizer", "."), 3, "holds no tokenizer"),
    ],
)
def test_mistakes_are_told(road, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.delenv("ROAD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    road("data", *arguments).refused(code, message)
    assert not list(tmp_path.iterdir())


def test_own_sets_of_a_yaml_file_are_shown(road, world, tmp_path, monkeypatch, sentiment):
    (tmp_path / "a.csv").write_text("t,l\nred,x\ngreen,y\n")
    sets = {"mine": {"train": "a.csv", "text": ["t"], "label": "l", "labels": ["x", "y"]}}
    file = tmp_path / "own.yaml"
    file.write_text(json.dumps({"data": {"dataset": "mine", "sets": sets}}))
    shown = road("data", "peek", file).out
    lines = ["mine train: 2 examples; x (1), y (1)", "", "red", "  gold: x", "", "green"]
    assert shown.splitlines() == [*lines, "  gold: y"]
    file.write_text(json.dumps({"data": {"datasets": ["mine", "sst2"], "sets": sets}}))
    both = road("data", "peek", file, f"data.root={world}", "--rows", 1).out
    assert both.startswith("mine train: 2 examples")
    assert "\n\nsst2 train: " in both
    data = {"sets": sets, "root": str(world)}
    arms = {"targets": {"sst2": {}}, "experiment": {"arms": {"one": {}}}}
    (tmp_path / "arms.yaml").write_text(json.dumps({"comparison": "own", **arms, "data": data}))
    assert "sst2 train: " in road("data", "peek", tmp_path / "arms.yaml").out
    tokens = road("data", "peek", file, f"data.root={world}", f"init={sentiment['init']}").out
    assert "[CLS] re ##d [SEP]\n  gold: x" in tokens
    assert road("data", "peek", "sst2", f"data.root={world}").out.startswith("sst2 train: ")
    monkeypatch.setenv("ROAD_DATA", str(tmp_path / "elsewhere"))
    assert "ROAD_DATA" in road("data", "peek", "sst2").err


def test_a_corpus_of_a_yaml_file_is_shown(road, tmp_path):
    (tmp_path / "text.txt").write_text("one story\n\nanother one\n")
    file = tmp_path / "text.yaml"
    file.write_text(json.dumps({"preset": "tiny_electra", "data": {"corpus": "text.txt"}}))
    shown = road("data", "peek", file).out
    assert shown == f"{tmp_path / 'text.txt'}:\n\none story\n\nanother one\n"
