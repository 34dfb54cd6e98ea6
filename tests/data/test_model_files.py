"""What the files of a model directory may say, and that none of it loads anything else."""

import json
import sys
from fnmatch import fnmatch

import pytest

from road_ray.data.model_files import locate_model, model_hashes, read_config
from road_ray.data.tokenizer import load_tokenizer, read_tokenizer
from road_ray.errors import CheckpointError, RoadError
from road_ray.models.encoder import load_encoder
from tests.runs import edit
from tests.tiny_teacher import make_teacher


@pytest.fixture
def place(tmp_path):
    return make_teacher(tmp_path / "model")


@pytest.mark.parametrize("content", [b"null", b"[]", b"{}", b"", b"{", b"\xff\xfe", b"[" * 100_000])
@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_damaged_files_are_refused_by_name(place, file, content):
    (place / file).write_bytes(content)
    load = load_encoder if file == "config.json" else load_tokenizer
    if (file, content) == ("tokenizer_config.json", b"{}"):
        assert len(load(place)) == 24
        return
    with pytest.raises(RoadError, match=file):
        load(str(place))


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine", "AutoModel": "mine.Model"}},
        {"auto_map": {"AutoConfig": "mine.Mine", "AutoModel": "mine.Model"}},
        {"auto_map": {}},
        {"model_type": None},
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
        {"fusion_config": {"patch": True}},
    ],
)
def test_read_config_refuses_fields_that_can_load_code(place, fields, monkeypatch):
    """The code that such a field names would write a file; nobody is asked whether it may."""
    (place / "mine.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(place)
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    edit(place / "config.json", **fields)
    for load in (load_encoder, read_tokenizer):
        with pytest.raises(CheckpointError, match=r"config\.json: .*(field '|model_type)"):
            load(str(place))
    assert not (place / "ran").exists()
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    "fields",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": "two"},
        {"hidden_act": "swooosh"},
        {"hidden_size": None},
        {"hidden_size": float("inf")},
        {"id2label": ["a", "b"]},
    ],
)
def test_values_that_no_model_can_have_are_refused_by_name(place, fields):
    edit(place / "config.json", **fields)
    with pytest.raises(CheckpointError, match=rf"{place}/(config\.json|model\.safetensors): "):
        load_encoder(str(place))


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("evaluate", ["init={}", "data.datasets=[sst2]"]),
        ("finetune", ["init={}"]),
        ("multitask", ["init={}", "data.datasets=[sst2]"]),
        ("pretrain", ["init={}"]),
        ("pretrain", ["generator.init={}"]),
        ("distill", ["init={}", "distillation.teachers=[{}]", "distillation.num_teachers=1"]),
        ("distill", ["init=good", "distillation.teachers=[{}]", "distillation.num_teachers=1"]),
    ],
)
def test_no_verb_runs_the_code_of_a_model_directory(place, verb, given, road, world, monkeypatch):
    """Even where transformers would ask, and somebody answers."""
    make_teacher(place.parent / "good")
    foreign = {"AutoConfig": "mine.Mine", "AutoModel": "mine.Model"}
    edit(place / "config.json", model_type="mine", auto_map=foreign)
    (place / "mine.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    monkeypatch.chdir(place.parent)
    result = road(
        verb, *(item.format(place) for item in given), f"data.root={world}", "run_dir=run"
    )
    assert result.code == 4, result.err
    assert "auto_map" in result.err or "mine.py" in result.err
    assert not list(place.parent.rglob("ran"))


def test_read_config_lets_harmless_fields_of_published_models_pass_and_act_on_nothing(place):
    edit(
        place / "config.json",
        **{"_name_or_path": "/home/someone/model", "_commit_hash": "main", "pruned_heads": {}},
        **{"directionality": "bidi", "pooler_fc_size": 768, "finetuning_task": "sst2"},
        **{"gradient_checkpointing": False, "task_specific_params": {"a": {"b": 1}}},
        **{"transformers_weights": "../other/model.safetensors", "_num_labels": 2},
        **{"use_return_dict": False, "return_dict": False, "attn_implementation": "a/kernel"},
        **{"_attn_implementation_internal": "a/kernel:forward", "experts_implementation": "a/b"},
        **{"to_dict": 5, "tokenizer_class": "BertTokenizer", "adapters": {"a": 1}},
    )
    config = read_config(place)
    assert config.pooler_fc_size == 768
    assert config.return_dict
    assert config.to_dict()["hidden_size"] == 16
    assert not hasattr(config, "transformers_weights")
    assert load_encoder(str(place)).config._attn_implementation == "sdpa"
    assert read_tokenizer(place) is not None


def test_an_adapter_of_another_model_is_refused(place):
    (place / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
    with pytest.raises(CheckpointError, match=r"adapter_config\.json: an adapter"):
        load_encoder(str(place))


@pytest.mark.parametrize(
    "fields",
    [
        {"auto_map": {"AutoTokenizer": ["x.Y", None]}},
        {"gguf_file": "x.gguf"},
        {"fast_tokenizer_files": ["../tokenizer.json"]},
        {"tokenizer_class": "AutoModel"},
        {"tokenizer_class": "pipeline"},
        {"tokenizer_class": 3},
        {"init_inputs": ["/etc/passwd"]},
        {"vocab_file": "/etc/passwd"},
        {"tokenizer_object": {"a": 1}},
    ],
)
@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_read_tokenizer_refuses_fields_that_can_load_other_files_or_code(place, file, fields):
    (place / file).write_text(json.dumps(fields))
    for load in (read_tokenizer, load_tokenizer):
        with pytest.raises(CheckpointError, match=rf"{file}: (field '|tokenizer_class)"):
            load(place)


def test_read_tokenizer_takes_what_published_ones_say(place):
    before = read_tokenizer(place)("good film")["input_ids"]
    edit(
        place / "tokenizer_config.json",
        **{
            "name_or_path": "/someone",
            "special_tokens_map_file": "/root/.cache/x",
            "never_split": None,
        },
        **{"tokenizer_class": "BertTokenizerFast", "clean_up_tokenization_spaces": True},
        **{"sp_model_kwargs": {}, "tokenizer_file": None, "do_basic_tokenize": True},
        **{"model_max_length": 10**30, "wordpieces_prefix": "##"},
    )
    assert read_tokenizer(place)("good film")["input_ids"] == before


def test_locate_takes_a_run_a_model_directory_and_fetches_no_pickles(place, tmp_path, monkeypatch):
    calls = {}

    def fetched(name, allow_patterns):
        calls[name] = allow_patterns
        return str(place)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)
    assert locate_model(place) == place
    assert locate_model("someone/model") == place
    assert locate_model("someone/words", weights=False) == place
    weights = ["model.safetensors", "model.onnx", "model.onnx.data", "model_int8.onnx"]
    for file in weights:
        assert any(fnmatch(file, item) for item in calls["someone/model"])
        assert not any(fnmatch(file, item) for item in calls["someone/words"])
    for file in ("x.bin", "onnx/model.onnx"):
        assert not any(fnmatch(file, item) for each in calls.values() for item in each)


def recorded(place):
    (place / "road_ray.json").write_text(json.dumps({"files": model_hashes(place)}))
    return place


def test_model_hashes_cover_weights_and_tokenizer_but_not_what_people_edit(place):
    make_teacher(place / "generator")
    for name in ("model.onnx", "model.onnx.data"):
        (place / name).write_bytes(b"x")
    files = ["model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    expected = {*files, *(f"generator/{name}" for name in files), "model.onnx", "model.onnx.data"}
    assert set(model_hashes(recorded(place))) == expected


def test_a_tokenizer_file_other_than_recorded_is_refused_until_its_entry_is_deleted(place):
    recorded(place)
    edit(place / "config.json", id2label={"0": "a", "1": "b", "2": "c"})
    edit(place / "tokenizer_config.json", do_lower_case=False)
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: .*road_ray\.json records"):
        load_tokenizer(place)
    output = json.loads((place / "road_ray.json").read_text())
    del output["files"]["tokenizer_config.json"]
    (place / "road_ray.json").write_text(json.dumps(output))
    assert len(load_tokenizer(place)) == 24


@pytest.mark.parametrize("at", ["", "generator"])
def test_weights_other_than_recorded_are_refused_by_name(place, at):
    make_teacher(place / "generator")
    recorded(place)
    other = make_teacher(place.with_name("other"), seed=1) / "model.safetensors"
    load_encoder(str(place / at))
    (place / at / "model.safetensors").write_bytes(other.read_bytes())
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*road_ray\.json records"):
        load_encoder(str(place / at))
    (place / "road_ray.json").unlink()
    load_encoder(str(place / at))


@pytest.mark.parametrize("files", [[], "all", {"tokenizer.json": None}])
def test_a_record_with_damaged_hashes_is_named(place, files):
    (place / "road_ray.json").write_text(json.dumps({"files": files}))
    with pytest.raises(CheckpointError, match=r"road_ray\.json"):
        load_tokenizer(place)
