"""Heads by task, and the way out to plain transformers and back."""

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForSequenceClassification, ElectraForPreTraining

from road_ray.data.task_and_dataset import Choose, Classify, Regress, Span, Tag, Task
from road_ray.errors import CheckpointError
from road_ray.models.architectures import FIRST_TOKEN_FAMILIES, keep_layers
from road_ray.models.encoder import build_encoder, hugging_face_config
from road_ray.models.multitask import MultitaskModel, keep_pooler, load_trained
from tests.published import load_multitask, publish
from tests.runs import name_labels
from tests.tiny_encoder import padded_batch, size_of, small_config

NLI = Task("nli", Classify(("contradiction", "entailment", "neutral")))
PARAPHRASE = Task("v1.2", Classify(("different", "same")))  # a name that PyTorch refuses
SIMILARITY = Task("similarity", Regress(0, 5))
MRC = Task("mrc", Span())
NER = Task("ner", Tag(("O", "B-X", "I-X")))
TASKS = [NLI, PARAPHRASE, SIMILARITY, MRC, NER]

CONFIG = small_config(max_position_embeddings=16, initializer_range=0.2)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return MultitaskModel(build_encoder(CONFIG), TASKS).eval()


@pytest.fixture
def batch():
    return padded_batch(10, 7, 4)


def test_an_encoder_without_a_head_is_not_a_trained_model(tmp_path):
    ElectraForPreTraining(CONFIG).save_pretrained(tmp_path)
    assert load_multitask(str(tmp_path), [NLI]) is not None
    for task in (NLI, MRC):
        with pytest.raises(CheckpointError, match=f"head for task {task.name}"):
            load_trained(str(tmp_path), task)


@pytest.mark.parametrize(
    ("stored", "wanted"), [(PARAPHRASE, NLI), (NLI, SIMILARITY), (NLI, MRC), (MRC, NLI)]
)
def test_the_head_of_another_task_is_refused(model, tmp_path, stored, wanted):
    model.export(tmp_path, stored.name)
    assert keep_pooler(model, str(tmp_path))["new"] == [task.name for task in TASKS]
    with pytest.raises(CheckpointError, match=f"task {wanted.name}"):
        load_trained(str(tmp_path), wanted)


def config_of(family):
    return hugging_face_config(size_of(family, layers=1), 60)


@pytest.mark.parametrize("family", ["electra", "bert"])
def test_load_trained_puts_labels_in_another_order_into_the_order_of_the_task(
    family, batch, tmp_path
):
    kinds = (NLI, Task("nli tags", Tag(NLI.kind.labels)))
    model = MultitaskModel(build_encoder(config_of(family)), kinds).eval()
    for task in kinds:
        model.export(tmp_path / task.name, task.name)
        name_labels(tmp_path / task.name, "Contradiction ", "entailment", "NEUTRAL")
        swapped = ("neutral", "contradiction", "entailment")
        other = Task(task.name, type(task.kind)(swapped))
        ours = load_trained(str(tmp_path / task.name), other).eval()(batch | {"task": task.name})
        assert_close(ours, model(batch | {"task": task.name})[..., [2, 0, 1]])


def test_a_regression_under_autocast_has_label_units_in_fp32(model, batch):
    batch = batch | {"task": "similarity"}
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.heads["similarity"](model.states(batch).last_hidden_state, batch)
        scores = model(batch)
    assert logits.dtype == torch.bfloat16
    assert_close(scores, 5 * logits.float(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("family", "prefix"), [("bert", "pooler.dense."), ("albert", "pooler."), ("bert", None)]
)
def test_a_sentence_head_begins_with_the_stored_pooler(tmp_path, family, prefix):
    published = AutoModel.from_config(config_of(family))
    if prefix is None:  # a model with a head on top, whose names have the encoder's prefix
        published = AutoModelForSequenceClassification.from_config(config_of(family))
        prefix = "bert.pooler.dense."
    published.save_pretrained(tmp_path)
    expected = published.state_dict()
    model = load_multitask(str(tmp_path), [NLI, SIMILARITY, MRC])
    for task in ("nli", "similarity"):
        head = model.heads[task].model.state_dict()
        for part in ("weight", "bias"):
            name = prefix.removeprefix("bert.") + part
            assert_close(head[f"{family}.{name}"], expected[prefix + part])


@pytest.mark.parametrize("family", FIRST_TOKEN_FAMILIES)
def test_a_head_of_sentences_costs_the_last_layer_first_tokens_alone(tmp_path, family):
    """Logits and gradients are those of all tokens, also after layers were removed."""
    model = load_multitask(str(publish(tmp_path, family, layers=3)), [NLI, MRC])
    keep_layers(model.encoder, [0, 1])
    widths, logits, gradients = [], [], []
    # For one that is not contiguous, PyTorch copies the weights once a row without gradients.
    model.encoder.encoder.layer[-1].intermediate.register_forward_hook(
        lambda part, inputs, output: widths.append((output.shape[1], inputs[0].is_contiguous()))
    )
    batch = {"input_ids": torch.arange(5, 17).view(2, 6), "attention_mask": torch.ones(2, 6).long()}
    for reads_first, task in ((True, "nli"), (False, "nli"), (True, "mrc")):
        model.heads["nli"].reads_first_token = reads_first
        model.zero_grad()
        logits.append(model.eval()(batch | {"task": task}))
        logits[-1].square().sum().backward()
        gradients.append([x.grad for x in model.encoder.parameters() if x.grad is not None])
    assert widths == [(1, True), (6, True), (6, True)]
    assert_close(logits[0], logits[1])
    assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)
    means = publish(tmp_path / "means", "electra", summary_type="mean")  # of choices: of all tokens
    assert not load_multitask(str(means), [Task("c", Choose(2))]).heads["c"].reads_first_token
