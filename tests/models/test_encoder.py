"""Sizes, weights new and loaded, and directories that hold no encoder."""

import pytest
import torch
from transformers import GPT2Config, GPT2Model

from road_ray.errors import CheckpointError, ConfigError
from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import (
    build_encoder,
    hugging_face_config,
    load_encoder,
    load_language_model,
    load_parts,
    model_directory,
    new_discriminator,
    new_language_model,
    scale_encoder,
)
from tests.tiny_encoder import TINY


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"heads": 5}, r"hidden_size = 32 .*\.heads = 5"), ({"family": "bert"}, "BERT has one width")],
)
def test_sizes_that_make_no_encoder_are_refused(change, problem):
    with pytest.raises(ConfigError, match=problem):
        hugging_face_config(TINY.model_copy(update=change), 100)


@pytest.mark.parametrize(
    ("hidden", "heads", "fraction", "expected"),
    [
        (256, 4, 1 / 4, (64, 1, 256)),  # ELECTRA-Small
        (768, 12, 1 / 3, (256, 4, 1024)),  # Base
        (1024, 16, 1 / 4, (256, 4, 1024)),  # Large
        (256, 4, 1.0, (256, 4, 1024)),
        (32, 2, 1 / 4, (8, 1, 32)),
        (100, 10, 1 / 3, (33, 3, 132)),
    ],
)
def test_generators_have_the_published_sizes(hidden, heads, fraction, expected):
    size = EncoderConfig(hidden_size=hidden, heads=heads, layers=7, embedding_size=64)
    small = scale_encoder(size, fraction)
    assert (small.hidden_size, small.heads, small.intermediate_size) == expected
    assert (small.layers, small.embedding_size) == (7, 64)
    assert scale_encoder(size, fraction, 0.5).layers == 4
    hugging_face_config(small, 100)


def test_new_weights_are_truncated_at_two_deviations():
    torch.manual_seed(0)
    encoder = build_encoder(hugging_face_config(TINY, 2000))
    words = encoder.embeddings.word_embeddings.weight
    assert words.abs().max() <= 0.04 + 1e-6
    # A normal cut at two deviations has 0.88 of its deviation.
    assert words[1:].std().item() == pytest.approx(0.88 * 0.02, rel=0.02)
    assert (words[0] == 0).all()
    dense = encoder.encoder.layer[0].intermediate.dense
    assert dense.weight.abs().max() <= 0.04 + 1e-6
    assert (dense.bias == 0).all()
    norm = encoder.embeddings.LayerNorm
    assert (norm.weight == 1).all()
    wide = build_encoder(hugging_face_config(TINY.model_copy(update={"initializer_std": 0.2}), 99))
    assert wide.embeddings.word_embeddings.weight.abs().max() > 0.2


def test_another_kind_of_model_is_refused(tmp_path):
    GPT2Model(GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2)).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="'gpt2' is no encoder"):
        load_encoder(str(tmp_path))


def test_init_names_a_run_a_model_directory_or_the_hub(tmp_path, monkeypatch):
    directory = tmp_path / "run" / "hf"
    hugging_face_config(TINY, 100).save_pretrained(directory)
    assert model_directory(str(directory)) == model_directory(str(tmp_path / "run"))
    assert model_directory(str(directory)) == str(directory)
    assert model_directory("google/electra-small") == "google/electra-small"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_directory("~/run") == str(tmp_path / "run" / "hf")
    with pytest.raises(
        CheckpointError, match=r"not a model.*\n.*1 models below it, such as .*/run$"
    ):
        model_directory(str(tmp_path))
    (tmp_path / "other").mkdir()
    with pytest.raises(CheckpointError, match=r"init = .*no config\.json"):
        model_directory(str(tmp_path / "other"))
    (tmp_path / "other" / "config.resolved.yaml").touch()
    with pytest.raises(CheckpointError, match=r"generator\.init = .*other: (?s:.*)no model yet"):
        model_directory(str(tmp_path / "other"), "generator.init")


@pytest.mark.parametrize(
    ("family", "dropout"), [("bert", "classifier_dropout"), ("albert", "classifier_dropout_prob")]
)
def test_an_encoder_of_another_family_than_asked_for_is_refused_and_a_detector_drops_nothing(
    tmp_path, family, dropout
):
    """It leaves the dropout of later heads alone."""
    size = TINY.model_copy(update={"family": family, "embedding_size": 32})
    detector = new_discriminator(size, 100)
    assert detector.dropout.p == 0.0
    assert getattr(detector.config, dropout) != 0.0
    detector.save_pretrained(tmp_path)
    assert load_encoder(str(tmp_path)).config.model_type == family
    with pytest.raises(CheckpointError, match=f"(?s)its config.json says '{family}'.*family=init"):
        load_parts(new_discriminator(TINY, 100), tmp_path, "init", 100)


def test_a_stored_language_model_fills_one_of_its_size(tmp_path):
    stored = new_language_model(TINY, 100)
    stored.save_pretrained(tmp_path / "run" / "hf" / "generator")
    stored.save_pretrained(tmp_path / "run" / "hf")
    model = new_language_model(TINY, 100)
    load_language_model(model, str(tmp_path / "run"), 100)
    torch.testing.assert_close(model.state_dict(), stored.state_dict())
    wide = new_language_model(TINY.model_copy(update={"hidden_size": 64}), 100)
    with pytest.raises(ConfigError, match=r"(?s)generator\.init = .*has another size"):
        load_language_model(wide, str(tmp_path / "run"), 100)
    stored.config.tie_word_embeddings = False
    stored.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"tie_word_embeddings is False there\n.*family=init"):
        load_parts(model, tmp_path, "init", 100)
