"""The further heads of QuAC are trained, exported and judged again."""

import json

import pytest
import yaml
from transformers import AutoModelForSequenceClassification

import road_ray as rr
from road_ray.inference.input_rows import ColumnChoice, input_rows

CONTEXT = "Ann was born in Rome. She sang. CANNOTANSWER"
TURNS = [("where was she born?", "Rome", "x", "m"), ("did she sing?", "She sang.", "y", "y")]
FURTHER = ("quac_yes_no", "quac_continue")


@pytest.fixture(scope="module")
def run(sentiment, tmp_path_factory, drawn_figures):
    root = tmp_path_factory.mktemp("own")
    (root / "quac").mkdir()
    for name in ("train_v0.2.json", "val_v0.2.json"):
        dialogs = []
        for number in range(8):
            turns = []
            for place, (question, text, yesno, followup) in enumerate(TURNS):
                answer = {"text": text, "answer_start": CONTEXT.index(text)}
                labels = {"yesno": yesno, "followup": followup, "orig_answer": answer}
                identity = {"id": f"{name}{number}_q#{place}", "question": f"{question} {number}"}
                turns.append(identity | labels | {"answers": [answer]})
            paragraph = {"context": CONTEXT, "id": f"C{number}", "qas": turns}
            dialogs.append({"title": "Ann", "paragraphs": [paragraph]})
        (root / "quac" / name).write_text(json.dumps({"data": dialogs}))
    chosen = {"data.root": str(root), "data.dataset": "quac", "data.max_length_tokens": 64}
    chosen |= {"data.stride_tokens": 16}
    place = tmp_path_factory.mktemp("runs") / "quac"
    return rr.finetune(overrides=sentiment | chosen | {"data.batch_size": 4}, run_dir=place)


@pytest.mark.parametrize("task", FURTHER)
def test_the_head_is_a_model_of_transformers(run, task):
    model, report = AutoModelForSequenceClassification.from_pretrained(
        run.hf_dir / "heads" / task, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert set(model.config.id2label.values()) & {"neither", "maybe"}


def test_evaluation_gives_the_figures_of_the_run(run, tmp_path):
    assert (run.directory / "report.html").read_text().count("<path") > 10
    assert json.loads((run.hf_dir / "road_ray.json").read_text())["task"] == "mrc"
    data = yaml.safe_load((run.directory / "config.resolved.yaml").read_text())["data"]
    names = ("root", "max_length_tokens", "stride_tokens")
    chosen = {f"data.{name}": data[name] for name in names}
    chosen |= {"init": str(run.directory), "data.datasets": ["quac"], "console": "quiet"}
    again = rr.evaluate(overrides=chosen, run_dir=tmp_path).metrics
    for task in FURTHER:
        key = f"eval/quac/{task}_accuracy"
        assert again[key] == run.metrics[key]
    # Those of `road predict` too, by the head of answers, without the word CANNOTANSWER.
    model, file = rr.load(run.directory), f"{data['root']}/quac/val_v0.2.json"
    rows = [row.fields for row in input_rows(file, ColumnChoice(), model.trained)]
    expected = json.loads((run.directory / "predictions/quac/predictions.json").read_text())
    assert {row["id"]: row["answer"] for row in model(rows)} == expected
