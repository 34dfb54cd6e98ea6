"""A LoRA adapter answers as PEFT's own model of it, as teacher and wherever a model is named."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

import road_ray as rr
from road_ray.data import catalog
from road_ray.distillation.teacher import Teacher, TeacherOptions
from road_ray.errors import CheckpointError
from road_ray.models.encoder import model_directory
from road_ray.models.load_weights import merge_adapter
from road_ray.system.files import cache_home
from tests.published import TEXTS, publish, tokenizer_of
from tests.runs import edit

TARGETS = {"bert": ["query", "value"], "roberta": ["query", "dense"], "gpt2": ["c_attn"]}
LABELS = ("negative", "positive")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ROAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def peft():
    return pytest.importorskip("peft")


def make_adapter(peft, place, family, labels=LABELS, seed=0, **options):
    """Save an encoder and an adapter of it with a head, all random; return PEFT's model."""
    layers = {"layers": 1, "n_embd": 16, "n_head": 2} if family == "gpt2" else {}
    publish(place / "base", family, tokenizer=tokenizer_of("bert"), **layers)
    base = AutoModelForSequenceClassification.from_pretrained(
        place / "base", num_labels=len(labels)
    )
    lora = {"task_type": "SEQ_CLS", "r": 4, "lora_alpha": 6, "target_modules": TARGETS[family]}
    model = peft.get_peft_model(base, peft.LoraConfig(**lora | options))
    torch.manual_seed(seed)
    with torch.no_grad():  # the matrices B are zero at first
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(place / "adapter")
    if family == "roberta":
        (place / "base" / "tokenizer.json").unlink()
        tokenizer_of("bert").save_pretrained(place / "adapter")
    path = place / "adapter" / "adapter_config.json"
    edit(path, base_model_name_or_path=str(place / "base"))
    (place / "adapter" / "config.json").write_text(
        json.dumps({"id2label": dict(enumerate(labels))})
    )
    return model.eval()


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {}),
        ("bert", {"use_rslora": True, "bias": "lora_only"}),
        ("roberta", {"rank_pattern": {"query": 2}, "use_dora": True}),
        ("gpt2", {"fan_in_fan_out": True}),
    ],
)
def test_an_adapter_teaches_as_peft_answers(peft, family, options, tmp_path):
    model = make_adapter(peft, tmp_path, family, **options)
    merged = model_directory(str(tmp_path / "adapter"))
    assert merged == model_directory(str(tmp_path / "adapter"))
    teacher = Teacher(
        merged, catalog.task("sentiment"), TeacherOptions(student="another", precision="fp32")
    )
    answers = teacher.logits(torch.zeros(3, 1).long(), texts=[(text,) for text in TEXTS])
    tokenizer = tokenizer_of("bert")
    with torch.no_grad():
        ids = [tokenizer(text, return_tensors="pt").input_ids for text in TEXTS]
        rows = [model(row).logits for row in ids]
        plain = model.base_model.model(ids[0]).logits
    torch.testing.assert_close(answers.softmax(-1), torch.cat(rows).softmax(-1), rtol=0, atol=1e-5)
    assert torch.equal(plain, rows[0])
    if family != "gpt2":  # decoders are teachers only
        scores = rr.load(str(tmp_path / "adapter"))(TEXTS[:1])[0]["scores"]
        assert list(scores.values()) == pytest.approx(rows[0].softmax(-1)[0].tolist(), abs=1e-5)


def test_its_head_may_have_more_labels_than_the_base_or_none_of_its_own(peft, tmp_path):
    make_adapter(peft, tmp_path, "bert", ("a", "b", "c"))
    scores = rr.load(str(tmp_path / "adapter"))(TEXTS[:1])[0]["scores"]
    assert list(scores) == ["a", "b", "c"]
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    save_file({n: x for n, x in load_file(path).items() if "classifier" not in n}, path)
    merge_adapter.cache_clear()
    with pytest.raises(CheckpointError, match=r"has the head: classifier\.bias.*(?s:.*)modules"):
        model_directory(str(tmp_path / "adapter"))


@pytest.mark.trained
def test_a_student_learns_from_an_adapter_and_another_starts_at_it(peft, sentiment, tmp_path):
    make_adapter(peft, tmp_path, "bert")
    adapter = str(tmp_path / "adapter")
    chosen = sentiment | {"training.steps": 2, "distillation.host": "process"}
    chosen |= {"distillation.teachers": [adapter], "distillation.num_teachers": 1}
    (tmp_path / "adapter" / "config.json").unlink()
    names = {adapter: {"LABEL_0": "negative", "LABEL_1": "positive"}}
    chosen |= {"distillation.label_map": names}
    student = rr.distill(overrides=chosen, run_dir=tmp_path / "student")
    assert f"`.../{tmp_path.name}/adapter`" in (student.hf_dir / "README.md").read_text()
    shutil.rmtree(cache_home() / "adapters")  # a cache may be cleared
    merge_adapter.cache_clear()
    listed = chosen | {"distillation.teachers": [str(student.directory / "teachers.json")]}
    rr.distill(overrides=listed, run_dir=tmp_path / "again")
    tokenizer = tokenizer_of("bert")
    options = {"host": "process", "student_tokenizer": tokenizer, "label_map": names}
    ensemble = rr.Ensemble([adapter], task="sentiment", **options)
    batch = tokenizer(list(TEXTS), padding=True, return_tensors="pt")
    assert ensemble.logits({**batch, "texts": list(TEXTS)}).shape == (1, 3, 2)
    started = sentiment | {"training.steps": 2, "init": adapter}
    run = rr.finetune(overrides=started, run_dir=tmp_path / "finetuned")
    assert rr.load(run.hf_dir)(TEXTS[:1])[0]["label"] in LABELS


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"task_type": "CAUSAL_LM"}, "task_type is 'CAUSAL_LM'"),
        ({"megatron_config": {"a": 1}}, "foreign code"),
        ({"base_model_name_or_path": "/nowhere"}, r"its base(?s:.*)/nowhere: no such directory"),
        ({"base_model_name_or_path": None}, "its base"),
        ({"r": 8}, "is not an adapter of"),
        ({"target_modules": ["key"]}, "is not an adapter of"),
        ("other width", "is not an adapter of"),
        ("fewer layers", "is not an adapter of"),
        ("not finite", "is not an adapter of"),
        ("pickle", r"no adapter_model\.safetensors; pickled"),
    ],
    ids=str,
)
def test_an_adapter_that_does_not_fit_is_refused(peft, damage, message, tmp_path):
    make_adapter(peft, tmp_path, "bert")
    adapter = tmp_path / "adapter"
    weights = adapter / "adapter_model.safetensors"
    if isinstance(damage, dict):
        edit(adapter / "adapter_config.json", **damage)
    elif damage == "pickle":
        weights.rename(adapter / "adapter_model.bin")
    elif damage == "not finite":
        tensors = load_file(weights)
        save_file({name: x * float("nan") for name, x in tensors.items()}, weights)
    else:
        size = {"layers": 1} if damage == "fewer layers" else {"hidden_size": 8}
        publish(tmp_path / "other", "bert", **size)
        edit(adapter / "adapter_config.json", base_model_name_or_path=str(tmp_path / "other"))
    with pytest.raises(CheckpointError, match=message):
        model_directory(str(adapter))
    assert not (tmp_path / "cache").is_dir() or not list((tmp_path / "cache").rglob("*.json"))
