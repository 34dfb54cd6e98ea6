"""Heads of a user's own, by name: export, loading by road_ray and by plain transformers."""

import shutil
import sys

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModel, BertConfig

from road_ray.data.task_and_dataset import Classify, MultiLabel, Regress, Task
from road_ray.distillation.teacher import Teacher
from road_ray.errors import CheckpointError, ConfigError
from road_ray.inference.load_model import load
from road_ray.models.encoder import build_encoder
from road_ray.models.multitask import MultitaskModel, load_trained
from tests.docs.blocks import ROOT
from tests.runs import edit
from tests.tiny_encoder import small_config
from tests.tiny_teacher import WORDS, make_batch, make_teacher, make_tokenizer

MEAN = "my_road_parts:MeanPooling"
KINDS = {
    "classify": (Classify(("bad", "good", "odd")), Classify(("good", "odd", "bad"))),
    "multi": (MultiLabel(("a", "b")), MultiLabel(("b", "a"))),
    "regress": (Regress(1.0, 6.0), Regress(-4.0, 8.0)),
}


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples" / "extension")
    yield
    sys.modules.pop("my_road_parts", None)


@pytest.fixture(params=KINDS)
def kinds(request):
    """A kind, and the same with labels in another order or in another range."""
    return KINDS[request.param]


def exported(place, kind, family="electra", name="own"):
    """A model with random weights, and its directory."""
    size = {"vocab_size": len(WORDS), "num_hidden_layers": 1, "max_position_embeddings": 32}
    config = small_config(**size)
    if family == "bert":
        size |= {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
        config = BertConfig(**size)
    torch.manual_seed(0)
    model = MultitaskModel(build_encoder(config), [Task(name, kind, MEAN)]).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.export(place, name)
    make_tokenizer().save_pretrained(place)
    return model


@pytest.mark.parametrize("family", ["electra", "bert"])
def test_an_export_loads_with_its_head_and_its_encoder_by_plain_transformers(
    tmp_path, kinds, family
):
    model, batch = exported(tmp_path, kinds[0], family), make_batch(0) | {"task": "own"}
    again = load_trained(str(tmp_path), Task("own", kinds[0])).eval()
    plain = AutoModel.from_pretrained(tmp_path).eval()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    with torch.no_grad():
        assert_close(again(batch), model(batch))
        assert_close(plain(**inputs).last_hidden_state, model.states(batch).last_hidden_state)
        assert_close(Teacher(tmp_path, Task("own", kinds[0])).logits(**inputs), model(batch))
        assert_close(load(tmp_path).model(batch | {"task": tmp_path.name}), model(batch))


def test_labels_in_another_order_and_another_range_stay_right_also_exported_again(tmp_path, kinds):
    model, batch = exported(tmp_path, kinds[0]), make_batch(0) | {"task": "own"}
    other = load_trained(str(tmp_path), Task("own", kinds[1])).eval()
    other.export(tmp_path / "again", "own")
    back = load_trained(str(tmp_path / "again"), Task("own", kinds[0])).eval()
    with torch.no_grad():
        expected, turned = model(batch), other(batch)
        assert_close(back(batch), expected)
    if isinstance(kinds[0], Regress):
        assert_close(turned, expected)
    else:
        assert_close(turned, expected[:, [kinds[0].labels.index(x) for x in kinds[1].labels]])
        teacher = Teacher(tmp_path, Task("own", kinds[1], "no.such:Head"))  # that of a student
        inputs = {name: batch[name] for name in batch.keys() - {"task", "labels"}}
        assert_close(teacher.logits(**inputs), turned)


def test_what_does_not_fit_is_told(tmp_path):
    kind = KINDS["classify"][0]
    exported(tmp_path / "own", kind)
    plain = make_teacher(tmp_path / "plain", labels=kind.labels)
    with pytest.raises(CheckpointError, match=r"(?s)head is of transformers, .*Pooling.*fix: fine"):
        load_trained(str(plain), Task("own", kind, MEAN))
    with pytest.raises(CheckpointError, match=r"(?s)no head for task own: .*size mismatch"):
        load_trained(str(tmp_path / "own"), Task("own", Classify(("bad", "good"))))
    copy = shutil.copytree(tmp_path / "own", tmp_path / "lost")
    for name, error in (("no_such:Head", "No module named"), ("os:getcwd", "is <built-in")):
        edit(copy / "config.json", road_ray_head=name)
        for loading in (load, lambda place: Teacher(place, Task("own", kind))):
            with pytest.raises(ConfigError, match=rf"(?s)head = {name}: .*{error}.*check_head"):
                loading(copy)
    (tmp_path / "own" / "sub").mkdir()
    (tmp_path / "own" / "sub" / "my_road_parts.py").write_text("raise SystemExit\n")
    with pytest.raises(CheckpointError, match=r"my_road_parts.py: code that came with a model"):
        load(tmp_path / "own")
