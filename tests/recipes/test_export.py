"""A model and its ONNX export give the same predictions, for every kind of head."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from road_ray.data.task_and_dataset import JointSpan, Task
from road_ray.errors import CheckpointError
from road_ray.inference.hub_upload import model_files
from road_ray.inference.load_model import load
from road_ray.models.multitask import MultitaskModel
from road_ray.recipes.export import check_equal, export, export_onnx
from tests.data.test_equals_transformers import MAKERS
from tests.published import TEXTS, load_multitask, publish

LONG = " ".join(TEXTS * 12)  # answers are read in several windows
SPAN = [{"question": "Who painted the café?", "context": text} for text in (*TEXTS, LONG)]
PAIRS = [*TEXTS, {"text": TEXTS[0], "text_pair": TEXTS[1]}, LONG]
CHOICES = [
    {"question": text, "choices": [*TEXTS, "no"][:number]} for number in (2, 3, 4) for text in TEXTS
]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    """An ELECTRA with three classes, its head also as one of several."""
    place = tmp_path_factory.mktemp("classifier")
    publish(place, "electra", "ForSequenceClassification", labels=("dull", "fair", "fine"))
    return place


@pytest.fixture(scope="module")
def int8(classifier) -> Path:
    return export(str(classifier), quantize="int8")[0]


def near(number: str) -> object:
    return pytest.approx(float(number), rel=1e-3, abs=2e-4)


def assert_alike(ours: object, theirs: object) -> None:
    """Texts and the order of keys are equal and numbers are close, at any depth."""
    expected = json.loads(json.dumps(ours), object_pairs_hook=list, parse_float=near)
    assert json.loads(json.dumps(theirs), object_pairs_hook=list) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "head", "labels", "rows"),
    [
        ("bert", "ForQuestionAnswering", (), SPAN),
        *(
            pytest.param(*more, marks=pytest.mark.long)
            for more in (
                ("roberta", "ForSequenceClassification", ("score",), PAIRS),
                ("electra", "ForTokenClassification", ("O", "B-PER", "I-PER"), [*TEXTS, LONG]),
                ("bert", "ForMultipleChoice", ("a", "b", "c"), CHOICES),
                ("roberta", "ForMultipleChoice", (), CHOICES),
                ("deberta-v2", "ForSequenceClassification", ("no", "yes"), PAIRS),
                ("xlm-r on BertModel", "ForSequenceClassification", ("no", "yes"), PAIRS),
            )
        ),
    ],
)
def test_the_export_predicts_what_the_model_predicts(tmp_path, family, head, labels, rows):
    of_model, tokenizer = MAKERS.get(family, (family, lambda: None))
    model = publish(tmp_path / "model", of_model, head, labels=labels, tokenizer=tokenizer())
    facts = {"max_length_tokens": 96, "no_answer_threshold": 0.5, "init": "somewhere"}
    (model / "road_ray.json").write_text(json.dumps(facts))
    directory, measured = export(str(model), tmp_path / "exported")
    ours, theirs = load(model), load(directory)
    assert not isinstance(theirs.model, MultitaskModel)
    assert (theirs.max_length_tokens, theirs.threshold) == (96, 0.5)
    assert theirs.longest_row_tokens == ours.longest_row_tokens == 160
    written = json.loads((directory / "tokenizer_config.json").read_text())
    assert written["model_max_length"] == 160
    assert_alike(ours(rows), theirs(rows))
    assert json.loads((directory / "road_ray.json").read_text())["init"] == "somewhere"
    scale = sum(float(x.abs().sum(-1).max()) for x in ours.model.state_dict().values())
    assert measured["largest_logit_difference"]["onnx_fp32"] <= 1e-4 * max(1, scale)


@pytest.mark.slow
def test_the_int8_export_is_smaller_and_its_record_and_card_say_by_how_much(classifier, int8):
    assert int8 == classifier / "onnx-int8"
    files = {path.name for path in int8.iterdir()}
    assert {"model_int8.onnx", "config.json", "tokenizer.json", "README.md"} <= files
    assert "model.onnx" not in files
    assert not list(classifier.glob(".*"))
    facts = json.loads((int8 / "road_ray.json").read_text())["onnx"]
    assert facts["quantization"] == "int8"
    assert facts["bytes"]["onnx_int8"] == (int8 / "model_int8.onnx").stat().st_size
    assert set(facts["largest_logit_difference"]) == {"onnx_fp32", "onnx_int8"}
    card = (int8 / "README.md").read_text()
    assert "| ONNX int8 |" in card
    assert "road_ray.load" in card
    ours, theirs = load(classifier), load(int8)
    for one, other in zip(ours(PAIRS), theirs(PAIRS), strict=True):
        for label, share in one["scores"].items():
            assert other["scores"][label] == pytest.approx(share, abs=0.25)


@pytest.mark.slow
def test_an_answer_in_int8_does_not_depend_on_its_neighbours(int8):
    """Activations were scaled by the largest of the batch: 0.026 of a share. The right value is
    that of ONNX Runtime for the row alone.
    """
    model = load(int8)
    together, alone = model(PAIRS), [model([row])[0] for row in PAIRS]
    assert together == alone
    session = onnxruntime.InferenceSession(int8 / "model_int8.onnx")
    for text, predicted in zip(TEXTS, together, strict=False):
        given = {name: [ids] for name, ids in model.tokenizer(text).items()}
        inputs = {tensor.name: np.array(given[tensor.name]) for tensor in session.get_inputs()}
        logits = torch.from_numpy(session.run(["logits"], inputs)[0])
        shares = logits.softmax(-1)[0].tolist()
        assert list(predicted["scores"].values()) == pytest.approx(shares, abs=1e-6)


@pytest.mark.slow
def test_road_predict_takes_an_export_and_refuses_what_it_cannot_do(road, int8, tmp_path):
    (tmp_path / "rows.csv").write_text("text\n" + "\n".join(f'"{text}"' for text in TEXTS) + "\n")
    result = road("predict", int8, tmp_path / "rows.csv", "--output", tmp_path / "o.jsonl")
    assert (result.code, len((tmp_path / "o.jsonl").read_text().splitlines())) == (0, 3)
    road("predict", int8, tmp_path / "rows.csv", "--precision", "bf16").refused(
        2, "precision = bf16"
    )
    road("export", int8, "--output", tmp_path / "again").refused(2, "is an ONNX export already")
    road("export", int8.parent, "--quantize", "int8").refused(2, "already exists")


@pytest.mark.long
def test_weights_beside_the_onnx_file_belong_to_the_export(classifier, tmp_path, monkeypatch):
    """As PyTorch writes a model above 1.5 GiB; here its limit is lower."""
    exporter = "torch.onnx._internal.exporter._onnx_program"
    monkeypatch.setattr(f"{exporter}._LARGE_MODEL_THRESHOLD", 1)
    place, facts = export(str(classifier), tmp_path / "fp32")
    sizes = {name: (place / name).stat().st_size for name in ("model.onnx", "model.onnx.data")}
    assert facts["bytes"]["onnx_fp32"] == sum(sizes.values())
    assert sizes.keys() <= json.loads((place / "road_ray.json").read_text())["files"].keys()
    assert sizes.keys() <= {*model_files(place)[0]}
    assert_alike(load(classifier)(PAIRS), load(place)(PAIRS))
    with (place / "model.onnx.data").open("r+b") as file:
        file.write(b"more")
    with pytest.raises(CheckpointError, match=r"model.onnx.data: not the file that .* records"):
        load(place)
    for facts, name in (({"file": "../gone.onnx"}, "gone.onnx"), ({}, "None")):
        (place / "road_ray.json").write_text(json.dumps({"onnx": facts}))
        with pytest.raises(CheckpointError, match=rf"fp32/{name}: ONNX Runtime cannot read it"):
            load(place)


def test_logits_that_differ_are_refused_with_both_numbers(classifier):
    predictor = load(classifier)
    with pytest.raises(CheckpointError, match=r"differ from PyTorch's by 0\.\d+; allowed: \d"):
        check_equal(predictor, lambda batch: predictor.model(batch) + 0.5)
    with pytest.raises(CheckpointError, match="by nan"):
        check_equal(predictor, lambda batch: predictor.model(batch) * torch.nan)
    assert check_equal(predictor, predictor.model) == 0.0


def test_export_names_mistakes_before_it_loads_anything(road, classifier, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    road("export", classifier, "--output", tmp_path / "there").refused(2, "already exists")
    assert not list((tmp_path / "there").iterdir())
    for wrong in (["--to", "tflite"], ["--quantize", "int4"], ["--head", "ner"]):
        assert road("export", classifier, *wrong, "--output", tmp_path / "new").code == 2
    road("export", tmp_path / "nothing").refused(2, "no such directory", "--output DIR")
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    road("export", classifier, "--output", tmp_path / "new").refused(
        2, "pip install 'road-ray[onnx]'"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_head_of_our_own_is_refused_by_its_name(tmp_path):
    publish(tmp_path / "encoder", "electra")
    task = Task("mrc", JointSpan())
    load_multitask(str(tmp_path / "encoder"), [task]).export(tmp_path / "joint", task.name)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "joint" / name).write_bytes((tmp_path / "encoder" / name).read_bytes())
    with pytest.raises(CheckpointError, match="the joint span head cannot be exported to ONNX"):
        export_onnx(load(tmp_path / "joint"), tmp_path, None)
