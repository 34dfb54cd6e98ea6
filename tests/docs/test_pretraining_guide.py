"""The commands of the guide to pre-training on a text of one's own, as they are printed.

Only what would take hours is changed: steps and batches are appended, and the published models
are tiny ones in directories of their names.
"""

from __future__ import annotations

import json

import pytest
from transformers import AutoConfig

from tests.docs.blocks import blocks, commands
from tests.published import publish

pytestmark = pytest.mark.guide
BLOCKS = blocks("docs/guides/pretraining.md")
SHORT = ("training.steps=2", "training.log_every_steps=1", "data.batch_size=2", "console=quiet")
TINY = ("encoder.layers=1", "encoder.hidden_size=32", "encoder.heads=2", "generator.scale=1")
SENTENCES = "The court held that the contract was void. The appeal was dismissed with costs.\n\n"


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "TEXT").mkdir()
    (tmp_path / "TEXT" / "cases.txt").write_text(SENTENCES * 120)
    return tmp_path


def run(road, block, *more):
    """Run the commands of a block; ``more`` goes to those that train."""
    outputs = []
    for words in commands(BLOCKS[block]):
        assert words[0] == "road"
        extra = more if words[1] in ("pretrain", "finetune") else ()
        outputs.append(road(*words[1:], *extra))
        assert outputs[-1].code == 0, outputs[-1].err
    return outputs


def test_vocabulary_run_preview_and_shards_of_a_text(road, text):
    *_, peek = run(road, "own", *SHORT, *TINY)
    assert " -> " in peek.out
    (built,) = run(road, "shards")
    keys = next(line for line in reversed(built.out.splitlines()) if "data." in line)
    assert "data.tokenizer=runs/vocabulary" in keys
    assert any((text / "SHARDS").iterdir())


def test_published_weights_give_tokenizer_family_and_sizes(road, text):
    """A generator of half the width and other layers than the preset's: nobody copies numbers."""
    sizes = {"max_position_embeddings": 512}
    publish(text / "google/electra-small-discriminator", "electra", "ForPreTraining", **sizes)
    small = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 1}
    publish(
        *(text / "google/electra-small-generator", "electra", "ForMaskedLM"),
        **{"layers": 1, "seed": 1, **small, **sizes},
    )
    run(road, "published", *SHORT)
    hf = text / "runs" / "legal" / "hf"
    made = AutoConfig.from_pretrained(hf), AutoConfig.from_pretrained(hf / "generator")
    assert [config.hidden_size for config in made] == [16, 8]
    assert [config.num_hidden_layers for config in made] == [2, 1]
    events = (text / "runs/legal/events.jsonl").read_text().splitlines()
    (started,) = [e for e in map(json.loads, events) if e["kind"] == "initialized"]
    assert started["new"] == []


def test_a_model_of_another_family_goes_on_and_is_finetuned(road, text, world):
    publish(text / "FacebookAI/roberta-base", "roberta", "ForMaskedLM")
    (text / "DATA").symlink_to(world)
    run(road, "family", *SHORT)
    assert AutoConfig.from_pretrained(text / "runs/finetuned/hf").model_type == "roberta"


@pytest.mark.parametrize("key", ["init", "generator.init"])
def test_a_contradiction_lists_wanted_and_found(road, text, key):
    publish(text / "A", "electra", "ForPreTraining", max_position_embeddings=512)
    publish(text / "B", "electra", "ForMaskedLM", layers=1, max_position_embeddings=512)
    words = ("init=A", "encoder.family=electra", f"{key}=B", *TINY, "encoder.layers=2")
    same = ("encoder.hidden_size=16", "encoder.intermediate_size=24", "encoder.embedding_size=8")
    result = road("pretrain", "data.corpus=TEXT", *words, *same, *SHORT)
    assert result.code in (2, 4)
    assert "layers: wanted 2, found 1" in result.err
    assert "hidden_size" not in result.err
    assert "fix: encoder.family=init" in result.err
    assert len(result.err.splitlines()) < 8
