"""Every objective from the command line; what generators and initialisations are refused."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForTokenClassification,
    AutoTokenizer,
    ElectraForMaskedLM,
)

import road_ray as rr
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import load_encoder
from road_ray.objectives.pretraining.registry import OBJECTIVES, objective_class, options_of
from road_ray.recipes.pretraining.config import ObjectiveConfig
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.published import FAMILIES, publish

MORE = {"teams": {"generator.scale": 1.0, "objective.options.shared_layers": 1}}


@pytest.mark.parametrize("name", sorted({*OBJECTIVES} - {"electra"}))
def test_objectives_beside_electra_train(attempt, tmp_path, name):
    attempt(objective__name=name, training__steps=1, **MORE.get(name, {})).good()
    AutoModel.from_pretrained(tmp_path / "run" / "hf")
    record = json.loads((tmp_path / "run" / "hf" / "road_ray.json").read_text())
    assert record["objective"] == name


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_other_encoders_are_trained_and_gone_on_from(attempt, tmp_path, family):
    chosen = {"encoder__family": family, "training__steps": 1}
    chosen |= {"encoder__embedding_size": 32} if family == "bert" else {}
    assert attempt("first", **chosen).code == 0
    hf = tmp_path / "first" / "hf"
    assert AutoModel.from_pretrained(hf).config.model_type == family
    ElectraForMaskedLM.from_pretrained(hf / "generator")
    assert len(AutoTokenizer.from_pretrained(hf / "generator")) > 100
    attempt("second", init=hf, generator__init=hf, objective__name="replace_mlm", **chosen).good()


def test_the_row_of_padding_is_that_of_the_tokenizer(attempt, tmp_path):
    """It is not trained; it was row 0, which is the beginning of a row for RoBERTa."""
    attempt(data__tokenizer=publish(tmp_path / "init", "roberta"), training__steps=1).good()
    for place in (tmp_path / "run" / "hf", tmp_path / "run" / "hf" / "generator"):
        assert AutoModel.from_pretrained(place).get_input_embeddings().padding_idx == 1


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_generators_that_look_at_no_context(attempt, tmp_path, kind):
    attempt(generator__kind=kind, training__steps=1).good()
    assert not (tmp_path / "run" / "hf" / "generator").exists()


def test_two_stages_are_two_runs(attempt, tmp_path, caplog):
    """A masked language model, then a discriminator that begins as it, the generator frozen."""
    assert attempt("first", objective__name="mlm", training__steps=2).code == 0
    first = tmp_path / "first"
    stage = {"init": first, "generator__init": first, "generator__scale": 1.0}
    stage |= {"training__steps": 2}
    attempt("second", generator__kind="frozen", **stage).good()
    original = (tmp_path / "second" / "hf" / "generator" / "model.safetensors").read_bytes()
    assert original == (first / "hf" / "model.safetensors").read_bytes()
    rows = read_rows(tmp_path / "second" / "metrics.jsonl")
    assert "train/generator" not in rows[-1]
    assert "train/generator_accuracy" in rows[-1]
    assert attempt("other", objective__name="mlm", seed=1, training__steps=1).code == 0
    attempt("fourth", **stage | {"generator__init": tmp_path / "other"}, console="plain").good()
    assert f"{tmp_path / 'other'} has other embeddings than" in caplog.text


def test_another_vocabulary_than_that_of_the_model_is_refused(attempt, pretrained, tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    vocabulary.write_text("\n".join(words + [f"##{letter}" for letter in words[5:]]))
    for key in ("init", "generator__init"):
        attempt(data__tokenizer=vocabulary, **{key: pretrained.directory}).refused(
            2, "was trained with another tokenizer"
        )


def test_every_option_of_the_configuration_belongs_to_an_objective():
    known = {name for kind in OBJECTIVES for name in options_of(objective_class(kind))}
    assert ObjectiveConfig.model_fields.keys() - {"name", "options"} <= known


@pytest.mark.parametrize(
    ("part", "bias", "chosen", "kept"),
    [
        (".", "discriminator_predictions.dense_prediction.bias", {}, ["discriminator_predictions"]),
        (
            "generator",
            "generator_lm_head.bias",
            {"objective__name": "mlm", "encoder__family": "init"},
            ["generator_predictions", "generator_lm_head"],
        ),
    ],
)
def test_the_head_of_init_is_kept(attempt, pretrained, tmp_path, part, bias, chosen, kept):
    place = shutil.copytree(pretrained.hf_dir / part, tmp_path / "published")
    (place / "road_ray.json").unlink(missing_ok=True)
    tensors = load_file(place / "model.safetensors")
    tensors[bias] = torch.full_like(tensors[bias], 7.0)
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    attempt(init=place, training__steps=1, optimizer__peak_lr=1e-9, **chosen).good()
    stored = load_file(tmp_path / "run" / "hf" / "model.safetensors")
    assert stored[bias].mean().item() == pytest.approx(7.0, abs=1e-3)
    events = read_rows(tmp_path / "run" / "events.jsonl")
    [event] = [row for row in events if row["kind"] == "initialized"]
    assert (event["kept"], event["new"]) == (kept, [])


def test_what_init_has_not_is_new_and_told(attempt, pretrained, tmp_path, caplog):
    attempt(init=pretrained.hf_dir, objective__name="mlm", training__steps=1, console="plain")
    assert "heads kept: none; new: generator_predictions, generator_lm_head" in caplog.text
    chosen = {"objective__name": "teams", "training__steps": 1, "console": "plain"} | MORE["teams"]
    assert attempt("first", **chosen).code == 0
    attempt("second", init=tmp_path / "first", **chosen).good()  # its parts are of no model
    assert "lm_head; new: detection_layer, detection_head" in caplog.text


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
    init = publish(tmp_path / "init", family, "ForMaskedLM" if objective == "mlm" else "")
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
    labels = 1 if kind is AutoModelForTokenClassification else 2  # the default of later heads
    assert (loaded.config.model_type, loaded.config.num_labels) == (family, labels)
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


def test_a_decoding_matrix_of_its_own_is_kept_and_exported(settings, tmp_path):
    """It was replaced by the token embeddings, and plain transformers then read a random one."""
    init = publish(tmp_path / "init", "bert", "ForMaskedLM")
    model = AutoModelForMaskedLM.from_pretrained(init, tie_word_embeddings=False)
    torch.nn.init.normal_(model.get_output_embeddings().weight)
    model.save_pretrained(init)
    chosen = settings | {"init": str(init), "objective.name": "mlm", "optimizer.peak_lr": 1e-9}
    run = rr.pretrain(overrides=chosen, run_dir=tmp_path / "run")
    loaded = AutoModelForMaskedLM.from_pretrained(run.hf_dir)
    ours, theirs = (part.get_output_embeddings().weight for part in (loaded, model))
    assert torch.allclose(ours, theirs, atol=1e-6)
