"""Pre-training goes on from a published model of any family with a masked language model."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

import road_ray as rr
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import load_encoder
from tests.published import FAMILIES, publish


@pytest.fixture
def settings(pretraining, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The film was a delight from the first scene to the last.\n\n" * 60)
    remaining = {key: value for key, value in pretraining.items() if not key.startswith("encoder.")}
    remaining.pop("data.vocab_size")
    remaining |= {"encoder.family": "init", "encoder.dropout": 0.0, "data.corpus": str(corpus)}
    return remaining | {"data.shards": str(tmp_path / "shards"), "training.steps": 2}


@pytest.mark.parametrize("objective", ["mlm", "electra"])
@pytest.mark.parametrize("family", FAMILIES)
def test_two_steps_from_a_published_model(family, objective, settings, tmp_path):
    head = "ForMaskedLM" if objective == "mlm" else ""
    init = publish(tmp_path / "init", family, head)
    chosen = settings | {"init": str(init), "objective.name": objective, "optimizer.peak_lr": 1e-5}
    if objective == "electra":
        chosen |= {"generator.scale": 0.5, "generator.depth": 0.5, "generator.tying": "none"}
    if family == "eurobert":  # its head over the vocabulary has weights of its own
        with pytest.raises(rr.errors.ConfigError, match="continue the pre-training of 'eurobert'"):
            rr.pretrain(overrides=chosen, run_dir=tmp_path / "run")
        return
    run = rr.pretrain(overrides=chosen, run_dir=tmp_path / "run")
    before, after = (load_encoder(str(place)).state_dict() for place in (init, run.hf_dir))
    assert before.keys() == after.keys()
    moved = [(after[name] - before[name]).abs().max() for name in before]
    assert 0 < max(moved) < 1e-3  # it went on, from these weights
    detector = AutoModelForPreTraining if family == "electra" else AutoModelForTokenClassification
    kind = AutoModelForMaskedLM if objective == "mlm" else detector
    loaded, report = kind.from_pretrained(run.hf_dir, output_loading_info=True)
    assert not report["missing_keys"]
    assert loaded.config.model_type == family
    longest = longest_row(load_encoder(str(run.hf_dir)))
    assert longest == (161 if family == "xlm-roberta" else 160)  # its padding has the index 0
    assert AutoTokenizer.from_pretrained(run.hf_dir).model_max_length == longest
    if objective == "mlm":  # the head over the vocabulary was kept
        stored = AutoModelForMaskedLM.from_pretrained(init).state_dict()
        bias = [name for name in stored if name.endswith("bias") and "decoder" in name]
        for name in bias:
            assert torch.allclose(loaded.state_dict()[name], stored[name], atol=1e-3)


def test_embeddings_may_be_shared_with_a_generator_of_equal_width(settings, tmp_path):
    init = publish(tmp_path / "init", "roberta")
    chosen = settings | {"init": str(init), "generator.scale": 1.0, "generator.depth": 0.5}
    run = rr.pretrain(overrides=chosen, run_dir=tmp_path / "run")
    generator = AutoModelForMaskedLM.from_pretrained(run.hf_dir / "generator").base_model
    main = load_encoder(str(run.hf_dir))
    for ours, theirs in zip(
        main.embeddings.parameters(), generator.embeddings.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_without_init_there_is_no_family(settings, tmp_path):
    with pytest.raises(rr.errors.ConfigError, match="family = init without init"):
        rr.pretrain(overrides=settings, run_dir=tmp_path / "run")
