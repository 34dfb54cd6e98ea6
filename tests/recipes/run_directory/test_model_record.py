"""What a model records: its head, thresholds and files, and the data of its training."""

import gzip
import json

import pytest

from road_ray.data.load_split import load_split
from road_ray.data.model_files import model_record
from road_ray.errors import CheckpointError, ConfigError
from road_ray.inference.input_rows import ColumnChoice, TrainedInput, input_rows
from road_ray.recipes.config import EvaluateDataConfig
from road_ray.recipes.run_directory.model_record import trained_rows, with_trained_data


@pytest.mark.parametrize("content", ["", "null", "[]", '{"columns": 3}'])
def test_a_damaged_record_of_a_model_is_named(tmp_path, content):
    (tmp_path / "road_ray.json").write_text(content)
    with pytest.raises(CheckpointError) as refused:
        model_record(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path / 'road_ray.json'}: ")


OWN = {"text": ["review"], "labels": ["bad", "good"], "label_map": {"0": "bad", "1": "good"}}
OF_EARLIER = {"removed": None, "first_rows": 7}  # keys of earlier versions
OWN_FILES = {"films": OWN | {"train": "a.csv", **OF_EARLIER}}
OF_RUN = {"dataset": "films", "sets": OWN_FILES, "stride_tokens": 32, "max_judged_rows": 3}
RUN = json.dumps({"data": OF_RUN})


@pytest.fixture
def recorded(tmp_path):
    """Write a model with this record, as the ``hf/`` of a run if ``run`` is its configuration."""

    def write(record, run=None):
        model = tmp_path / "run" / "hf"
        model.mkdir(parents=True)
        (model / "road_ray.json").write_text(json.dumps(record))
        if run is not None:
            (model.parent / "config.resolved.yaml").write_text(run)
        return model

    return write


def test_a_run_its_model_and_a_copy_of_it_know_their_data(recorded, tmp_path):
    model = recorded({"datasets": ["films"], "data": {"sets": {"films": OWN}}}, RUN)
    for place in (model, model.parent):
        data = with_trained_data(EvaluateDataConfig(), str(place))
        assert (data.datasets, data.sets["films"].train) == (("films",), "a.csv")
        assert (data.stride_tokens, data.max_judged_rows) == (32, None)  # rows of one run alone
    given = EvaluateDataConfig(datasets=("sst2",), stride_tokens=64)
    data = with_trained_data(given, str(model))
    assert (data.datasets, data.stride_tokens) == (("sst2",), 64)
    (model.parent / "config.resolved.yaml").write_text("data: 3")
    with pytest.raises(CheckpointError, match="yaml: data is 3"):
        with_trained_data(EvaluateDataConfig(), str(model))
    copy = model.rename(tmp_path / "copy")
    with pytest.raises(ConfigError, match="records its columns and labels, but no files"):
        with_trained_data(EvaluateDataConfig(), str(copy))
    with pytest.raises(ConfigError, match="no directory here, does not say"):
        with_trained_data(EvaluateDataConfig(), "org/of-the-hub")
    head = tmp_path / "heads" / "sst2"  # of a mixture: it has learnt fewer sets than the model
    head.mkdir(parents=True)
    (head / "road_ray.json").write_text('{"datasets": ["mnli", "sst2"], "head_datasets": ["sst2"]}')
    assert with_trained_data(EvaluateDataConfig(), str(head)).datasets == ("sst2",)


def test_a_file_takes_the_place_of_a_split_with_the_labels_of_the_training(
    recorded, tmp_path, tokenizer, monkeypatch
):
    model = recorded({"datasets": ["films"], "data": {"sets": {"films": OWN}}})
    file = tmp_path / "new.csv"
    file.write_text("page,review,label\n1,fine,1\n2,dull,bad\n")
    monkeypatch.setenv("ROAD_DATA", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nowhere").mkdir()
    data = with_trained_data(EvaluateDataConfig(file="new.csv"), str(model))
    split = load_split("films", "dev", data, tokenizer, evaluated=True)
    assert [e.texts for e in split.examples] == [("fine",), ("dull",)]
    assert split.features.gold["labels"].tolist() == [1, 0]  # by the map of the training
    file.write_text("page,text,label\n1,fine,++\n2,dull,BAD\n")
    # The rest is recorded; an id that the file lacks is not needed.
    given = {"films": {"text": ["text"], "label_map": {"++": "good"}, "id": "number"}}
    data = with_trained_data(data.model_validate({"file": "new.csv", "sets": given}), str(model))
    split = load_split("films", "dev", data, tokenizer, evaluated=True)
    assert split.features.gold["labels"].tolist() == [1, 0]
    default = data.model_validate({"file": "new.csv", "sets": {"films": {"label_map": {}}}})
    assert with_trained_data(default, str(model)).sets["films"].label_map == {}
    with pytest.raises(ConfigError, match="no such file"):
        with_trained_data(EvaluateDataConfig(file="nev.csv"), str(model))


ASKED = {"stem": "Where?", "choices": [{"label": name, "text": f"a {name}"} for name in "ABCDE"]}
ASKED = {"id": "q1", "question": ASKED, "answerKey": "B"}


@pytest.mark.parametrize(
    ("name", "file", "rows", "text"),
    [
        ("sst2", "new.csv", 'sentence,label\n"fine",1\n', "fine"),
        ("sst2", "new.tsv", 'sentence\tlabel\n"a ""fine"" one"\t1\n', 'a "fine" one'),
        ("cola", "new.tsv.gz", "gj04\t1\t\tfine\n", "fine"),
        ("commonsenseqa", "new.jsonl", json.dumps(ASKED), "Where?"),
        ("mrpc", "new.csv", "Quality,#1 ID,#2 ID,#1 String,#2 String\n1,4,5,fine,good\n", "fine"),
    ],
)
def test_a_file_may_have_the_columns_of_a_data_set_of_the_catalogue(
    recorded, tmp_path, tokenizer, name, file, rows, text
):
    model = recorded({"datasets": [name]})
    (tmp_path / file).write_bytes(gzip.compress(rows.encode()) if "gz" in file else rows.encode())
    given = {"file": str(tmp_path / file), "sets": {f"my_{name}": {"metrics": ["matthews"]}}}
    data = with_trained_data(EvaluateDataConfig.model_validate(given), str(model))
    assert (data.datasets, data.sets[f"my_{name}"].metrics) == ((f"my_{name}",), ("matthews",))
    split = load_split(f"my_{name}", "dev", data, tokenizer, evaluated=True)
    [example], trained = split.examples, TrainedInput.of_record(trained_rows(data, split))
    assert (split.features.gold["labels"].tolist(), example.texts[0]) == ([1], text)
    [row] = input_rows(str(tmp_path / file), ColumnChoice(), trained)  # as `road predict` reads it
    read = [row.fields[field] for field in trained.fields]
    assert [*example.texts] == (read if name != "commonsenseqa" else [read[0], *read[1]])


def test_a_file_of_questions_takes_the_place_of_a_split_of_the_catalogue(recorded, tmp_path):
    model, file = recorded({"datasets": ["squad_v2"]}), tmp_path / "new.json"
    file.write_text("{}")
    entry = with_trained_data(EvaluateDataConfig(file=str(file)), str(model)).sets["my_squad_v2"]
    assert (entry.kind, entry.task, entry.dev) == ("span", "mrc", str(file))


def test_a_file_for_several_data_sets_is_refused(recorded, tmp_path):
    model = recorded({"datasets": ["sst2", "mrpc"]})
    (tmp_path / "new.csv").write_text("sentence,label\nfine,1\n")
    with pytest.raises(ConfigError, match=r"data sets are several: sst2, mrpc(.|\n)*datasets="):
        with_trained_data(EvaluateDataConfig(file=str(tmp_path / "new.csv")), str(model))
