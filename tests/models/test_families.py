"""Every family of encoders as student: trained, exported, loaded by transformers alone."""

from functools import cache

import pytest
import torch
from torch.testing import assert_close

from road_ray.data.task_and_dataset import Choose, Classify, Regress, Span, Tag, Task
from road_ray.errors import CheckpointError
from road_ray.models.architectures import auto_class, input_names
from road_ray.models.multitask import load_trained
from tests.published import FAMILIES, load_multitask, publish
from tests.tiny_encoder import padded_batch

KINDS = {
    "classes": Classify(("no", "maybe", "yes")),
    "number": Regress(0.0, 5.0),
    "span": Span(),
    "tags": Tag(("O", "B-X", "I-X")),
    "choices": Choose(3),
}

WITHOUT_HEAD = {  # in transformers
    "eurobert": ("span", "choices"),
    "nomic_bert": ("span", "choices"),
    "jina_embeddings_v3": ("choices",),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Directories of encoders by family, made when asked for."""
    return cache(lambda family: publish(tmp_path_factory.mktemp(family), family))


def inputs(kind):
    each = 3 if isinstance(kind, Choose) else 1
    batch = padded_batch(*[9] * each, *[12] * each)
    return {name: x.view(2, each, -1).squeeze(1) for name, x in batch.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_what_is_exported_with_equal_logits(family, kind, published, tmp_path):
    task = Task("t", KINDS[kind])
    torch.manual_seed(0)
    if kind in WITHOUT_HEAD.get(family, ()):
        with pytest.raises(CheckpointError, match=f"transformers has no .* on '{family}'"):
            load_multitask(str(published(family)), [task])
        return
    model = load_multitask(str(published(family)), [task]).eval()
    batch = inputs(task.kind) | {"task": "t"}
    with torch.no_grad():
        ours = model(batch)
    model.export(tmp_path, "t")
    plain = auto_class(task.kind).from_pretrained(tmp_path)
    given = {name: batch[name] for name in input_names(plain)}
    with torch.no_grad():
        output = plain.eval()(**given)
    span = isinstance(task.kind, Span)
    theirs = torch.stack([output.start_logits, output.end_logits], 1) if span else output.logits
    assert ours.isfinite().all()
    assert ours.std() > 1e-4
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    if kind in ("classes", "number"):  # Hugging Face's own loss takes the labels as we have them
        problem = {"classes": "single_label_classification", "number": "regression"}[kind]
        assert plain.config.problem_type == problem
        labels = torch.tensor([0, 2]) if kind == "classes" else torch.rand(2)
        assert plain(**given, labels=labels).loss.isfinite()
        assert kind == "number" or (*plain.config.id2label.values(),) == task.kind.labels
    again = load_trained(str(tmp_path), task).eval()
    with torch.no_grad():
        assert_close(again(batch), ours, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_reaches_every_weight_that_answers_depend_on(family, published):
    task = Task("t", KINDS["classes"])
    model = load_multitask(str(published(family)), [task]).train()
    model(inputs(task.kind) | {"task": "t"}).square().sum().backward()
    without = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.isfinite().all()
    ]
    assert without == []
