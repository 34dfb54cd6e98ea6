"""`road predict` gives the predictions of `road evaluate`, row by row, on published data sets."""

import json
from pathlib import Path

import pytest
import torch
from transformers import ElectraModel

from road_ray.data import catalog
from road_ray.data.examples import SpanExample, TagExample
from road_ray.data.readers.layouts import read_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.models.multitask import MultitaskModel
from tests.row_files import write_rows
from tests.tiny_encoder import small_config

ROWS = 300
# whole dev splits
WHOLE = {"sst2": 872, "mrpc": 408, "stsb": 1500, "conll2003": 3250, "squad_v2": 5795}


@pytest.fixture(scope="module")
def trained(real_data, tmp_path_factory):
    """Return the directory of a model with random weights and the head of a task."""
    tokenizer = load_tokenizer(real_data / "vocab" / "bert-base-uncased-vocab.txt")
    tokenizer.model_max_length = 200  # less than the rows of answers have by default
    size = {"vocab_size": len(tokenizer), "num_hidden_layers": 1, "max_position_embeddings": 512}
    config = small_config(**size, initializer_range=0.5)

    def export(task: str) -> Path:
        torch.manual_seed(0)
        directory = tmp_path_factory.mktemp(task.replace("/", "_"))
        MultitaskModel(ElectraModel(config), [catalog.task(task)]).export(directory, task)
        tokenizer.save_pretrained(directory)
        return directory

    return export


def fields_of(example) -> dict[str, object]:
    """Return a row with the texts of an example alone."""
    if isinstance(example, SpanExample):
        return {"id": example.id, "question": example.question, "context": example.context}
    if isinstance(example, TagExample):
        return {"id": example.id, "words": example.words}
    texts = zip(("text", "text_pair"), example.texts, strict=False)
    return {"id": example.id} | dict(texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_rows"),
    [
        *((name, ROWS) for name in WHOLE),
        *(pytest.param(*all_rows, marks=pytest.mark.long) for all_rows in WHOLE.items()),
    ],
)
def test_every_row_has_the_prediction_of_the_evaluation(
    road, real_data, trained, tmp_path, name, num_rows
):
    dataset = catalog.dataset(name)
    model = trained(dataset.task)
    record = {"task": dataset.task, "no_answer_threshold": -0.1}
    (model / "road_ray.json").write_text(json.dumps(record))
    places = [f"init={model}", f"data.root={real_data}", f"data.datasets=[{name}]"]
    judged = tmp_path / "judged"
    road(
        *("evaluate", *places, f"data.max_judged_rows={num_rows}", f"run_dir={judged}"),
        "-q",
    ).good()
    [file] = judged.glob("predictions/**/predictions.json")
    expected = json.loads(file.read_text())
    assert len(expected) == num_rows
    rows = [fields_of(example) for example in read_split(dataset, real_data, "dev")]
    rows = [row for row in rows if row["id"] in expected]
    write_rows(tmp_path / "rows.jsonl", rows)
    output = tmp_path / "predicted.jsonl"
    assert road("predict", model, tmp_path / "rows.jsonl", "--output", output).code == 0
    predicted = [json.loads(line) for line in output.read_text().splitlines()]
    assert [item["id"] for item in predicted] == [row["id"] for row in rows]
    predictions = {item["id"]: _as_evaluated(item) for item in predicted}
    if name == "stsb":  # sums of other batches
        assert predictions == pytest.approx(
            {key: float(value) for key, value in expected.items()}, abs=1e-4
        )
    else:
        assert predictions == expected
        assert len(set(predictions.values())) > 1


def _as_evaluated(prediction):
    if "tags" in prediction:
        return " ".join(prediction["tags"])
    return prediction.get("answer", prediction.get("label", prediction.get("value")))
