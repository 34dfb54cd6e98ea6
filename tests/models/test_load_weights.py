"""Stored weights are compared with their configuration before a model is built of them."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AlbertForMaskedLM,
    AlbertForPreTraining,
    BertForPreTraining,
    BertModel,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraForQuestionAnswering,
)

from road_ray.data.catalog import task
from road_ray.data.task_and_dataset import Classify, Task
from road_ray.errors import CheckpointError
from road_ray.models.encoder import hugging_face_config, load_encoder
from road_ray.models.load_weights import label_order
from tests.published import publish
from tests.runs import edit
from tests.tiny_encoder import size_of
from tests.tiny_teacher import LABELS


def saved(kind, directory, family="electra"):
    torch.manual_seed(0)
    size = size_of(family, intermediate_size=48, max_length_tokens=64)
    model = kind(hugging_face_config(size, 100)).eval()
    model.save_pretrained(directory)
    return model


@pytest.fixture
def place(tmp_path):
    saved(ElectraForPreTraining, tmp_path)
    return tmp_path


def change(place, change_tensors, **fields):
    """The tensors changed by ``change_tensors``, the configuration by ``fields``."""
    path = place / "model.safetensors"
    save_file(change_tensors(load_file(path)), path, metadata={"format": "pt"})
    edit(place / "config.json", **fields)
    return str(place)


def said_by(encoder):
    tokens = torch.arange(18).view(2, 9)
    return encoder.eval()(input_ids=tokens).last_hidden_state


PUBLISHED = [
    ("electra", ElectraForPreTraining),
    ("electra", ElectraForMaskedLM),
    ("electra", ElectraForQuestionAnswering),
    ("bert", BertForPreTraining),
    ("bert", BertModel),
    ("albert", AlbertForMaskedLM),
    ("albert", AlbertForPreTraining),
]


@pytest.mark.parametrize(("family", "kind"), PUBLISHED)
@pytest.mark.parametrize("layout", ["now", "first BERT", "no prefix", "shards"])
def test_load_encoder_reads_the_layouts_of_published_models(family, kind, layout, tmp_path):
    model = saved(kind, tmp_path, family)
    prefix = f"{model.base_model_prefix}."

    def written(tensors):
        if layout == "first BERT":
            buffers = {"position_ids": torch.arange(64)[None], "token_type_ids": torch.zeros(1, 64)}
            front = "" if kind is BertModel else prefix
            tensors |= {f"{front}embeddings.{name}": x.long() for name, x in buffers.items()}
            swaps = (("Norm.weight", "Norm.gamma"), ("Norm.bias", "Norm.beta"))
            for now, then in swaps:
                tensors = {name.replace(now, then): x for name, x in tensors.items()}
        if layout == "no prefix":
            tensors = {name.removeprefix(prefix): x for name, x in tensors.items()}
        return tensors

    if layout == "shards":
        shutil.rmtree(tmp_path)
        model.save_pretrained(tmp_path, max_shard_size="20KB")
        assert not (tmp_path / "model.safetensors").exists()
    else:
        change(tmp_path, written)
    base = getattr(model, model.base_model_prefix, model)
    torch.testing.assert_close(said_by(load_encoder(str(tmp_path))), said_by(base))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"num_hidden_layers": 1}, r"not in the model .*layer\.1\."),
        ({"num_hidden_layers": 3}, r"are missing, the first: .*layer\.2\."),
        ({"hidden_size": 64}, "cannot be loaded"),
        ({"intermediate_size": 64}, "cannot be loaded"),
        ({"vocab_size": 10**7}, "cannot be loaded"),
        ({"embedding_size": 32}, "cannot be loaded"),
    ],
)
def test_load_encoder_refuses_another_size(place, fields, named):
    change(place, dict, **fields)
    with pytest.raises(CheckpointError, match=rf"model\.safetensors: {named}|{named}"):
        load_encoder(str(place))


def surplus(tensors):
    return tensors | {"electra.encoder.layer.0.attention.self.distance_embedding": torch.zeros(3)}


def whole_numbers(tensors):
    name = "electra.embeddings.word_embeddings.weight"
    return tensors | {name: (tensors[name] * 100).to(torch.int8)}


def not_a_number(tensors):
    tensors["electra.encoder.layer.1.output.dense.weight"][3, 4] = float("nan")
    return tensors


@pytest.mark.parametrize(
    ("change_tensors", "named"),
    [
        (surplus, r"1 encoder weights of the files are not in the model .*distance_embedding"),
        (whole_numbers, r"word_embeddings\.weight is of dtype I8"),
        (not_a_number, r"model\.safetensors: weight .*layer\.1\.output\.dense\.weight is not fin"),
    ],
)
def test_load_encoder_refuses_weights_that_are_not_those_of_the_configuration(
    place, change_tensors, named
):
    with pytest.raises(CheckpointError, match=named):
        load_encoder(change(place, change_tensors))


def test_load_encoder_takes_half_precision_and_ignores_surplus_and_missing_heads(place):
    def half(tensors):
        heads = {"some_head.weight": torch.zeros(2, 2)}
        return {name: x.half() for name, x in tensors.items() if "predictions" not in name} | heads

    assert {x.dtype for x in load_encoder(change(place, half)).parameters()} == {torch.float32}


def test_load_encoder_names_shards_that_are_absent_or_damaged(tmp_path):
    saved(ElectraForPreTraining, tmp_path).save_pretrained(tmp_path, max_shard_size="20KB")
    (tmp_path / "model.safetensors").unlink()
    first = min(tmp_path.glob("model-*.safetensors"))
    content = first.read_bytes()
    first.write_bytes(content[:200])
    with pytest.raises(CheckpointError, match=rf"{first.name}: .*no readable safetensors"):
        load_encoder(str(tmp_path))
    first.unlink()
    with pytest.raises(CheckpointError, match=rf"index\.json: cannot be loaded: .*{first.name}"):
        load_encoder(str(tmp_path))


def test_an_onnx_export_says_which_model_to_name(place):
    (place / "model.safetensors").rename(place / "model.onnx")
    with pytest.raises(CheckpointError, match="fix: name the model that was exported"):
        load_encoder(str(place))


def test_load_stored_reads_nothing_else_in_the_directory(place):
    """Not the weights of torch.distributed, whose index is a pickle, nor other safetensors."""
    before = said_by(load_encoder(str(place)))
    (place / ".metadata").write_bytes(b"not a pickle")
    (place / "__0_0.distcp").write_bytes(b"")
    (place / "pytorch_model.bin").write_bytes(b"")
    save_file({"electra.more": torch.zeros(1)}, place / "joint_span_head.safetensors")
    torch.testing.assert_close(said_by(load_encoder(str(place))), before)


def test_load_stored_leaves_the_random_numbers_alone(place):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_encoder(str(place))
    assert torch.rand(1) == expected


NLI = task("nli")
NAMED = ("LABEL_0", "LABEL_1", "LABEL_2")
EVERYWHERE = dict(zip(NAMED, ("contradiction", "entailment", "neutral"), strict=True))
TURNED = {"model": dict(zip(NAMED, ("neutral", "entailment", "contradiction"), strict=True))}
SNAPSHOT = "hub/models--org--nli-bert/snapshots/0a1b"
SWAPPED = {"entailment": "contradiction", "contradiction": "entailment"}
CASED = Task("x", Classify(("A", "a", "b")))


@pytest.mark.parametrize(
    ("names", "of", "label_map", "place", "expected"),
    [
        (("not-entailment", "entailment"), task("rte"), None, "model", (1, 0)),  # a dash
        (("start", "end"), task("mrc"), None, "model", None),  # a head without labels
        (("a", "b", "A"), CASED, None, "model", (2, 0, 1)),  # that differ in case alone
        (NAMED, NLI, EVERYWHERE | {"another": TURNED["model"]}, "model", None),
        (NAMED, NLI, EVERYWHERE | TURNED, "model", (2, 1, 0)),  # first the map for one model
        (NAMED, NLI, TURNED, "model", (2, 1, 0)),
        (LABELS[1::-1] + LABELS[2:], NLI, {"org/nli": SWAPPED}, SNAPSHOT, (1, 0, 2)),
        (LABELS[1::-1] + LABELS[2:], NLI, {"org/nli-bert": SWAPPED}, SNAPSHOT, None),
    ],
)
def test_label_order_follows_names_and_maps(names, of, label_map, place, expected):
    assert label_order(Path(place), dict(enumerate(names)), of, label_map) == expected


def test_labels_that_differ_in_case_alone_are_not_matched_loosely():
    with pytest.raises(CheckpointError, match="not those of task"):
        label_order(Path("model"), dict(enumerate(("a ", "b", "A"))), CASED)


@pytest.mark.parametrize("head", ["", "ForMaskedLM"])
def test_load_encoder_refuses_weights_of_a_field_that_the_configuration_lost(tmp_path, head):
    place = publish(tmp_path / "deberta", "deberta-v2", head)
    assert load_encoder(str(place)).encoder.LayerNorm is not None
    output = json.loads((place / "config.json").read_text())
    assert output.pop("norm_rel_ebd") == "layer_norm"
    (place / "config.json").write_text(json.dumps(output))
    with pytest.raises(CheckpointError, match=r"(?s)not in the model.*encoder\.LayerNorm"):
        load_encoder(str(place))
