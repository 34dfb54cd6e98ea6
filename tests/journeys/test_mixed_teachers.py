"""Teachers of three tokenizers teach an ELECTRA student from the command line."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import road_ray as rr
from road_ray.data import catalog
from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import HEADS
from road_ray.distillation.teacher_directory import ANSWERS_FOR
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.conftest import SPANS
from tests.published import publish

FILE = "model.safetensors"
FAMILIES = ("bert", "roberta", "deberta-v2")


@pytest.fixture(scope="module")
def tags(tmp_path_factory):
    """A directory with 8 tagged sentences as CoNLL-2003."""
    root = tmp_path_factory.mktemp("own")
    (root / "conll2003").mkdir()
    words = "Ann NNP I-NP I-PER\nlives VB I-VP O\nin IN I-PP O\nZürich NNP I-NP I-LOC\n\n"
    for name in ("eng.train", "eng.testa"):
        (root / "conll2003" / name).write_text(words * 8, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """``mixed(data set)``: directories of three published models with heads for its task."""
    made: dict[str, list[str]] = {}

    def directories(name):
        task = catalog.task(catalog.dataset(name).task)
        head = HEADS[type(task.kind)]
        labels = () if head == "ForQuestionAnswering" else task.kind.labels
        if task.name not in made:
            place = tmp_path_factory.mktemp(task.name)
            made[task.name] = [
                str(publish(place / family, family, head, labels=labels, seed=number))
                for number, family in enumerate(FAMILIES)
            ]
        return made[task.name]

    return directories


@pytest.fixture
def settings(sentiment, mixed, tags):
    """``settings(data set)``: overrides of a distillation of six steps."""

    def of(name):
        chosen = sentiment | {"data.dataset": name, "distillation.teachers": mixed(name)}
        chosen |= {"data.batch_size": 8, "data.max_length_tokens": 64, "data.max_judged_rows": 16}
        if name == "squad_v2":  # whose tiny teachers need more tokens than they read
            chosen |= SPANS | {"distillation.on_truncated": "learn"}
        if name == "conll2003":
            chosen |= {"data.root": str(tags)}
        return chosen

    return of


@pytest.mark.parametrize("name", ["sst2", "mnli", "conll2003", "squad_v2"])
def test_a_student_learns_from_them_in_this_process(name, settings, tmp_path, road, flags):
    road(
        *("distill", *flags(settings(name)), "distillation.host=process"), "--run-dir", tmp_path
    ).good()
    teachers = json.loads((tmp_path / "teachers.json").read_text())["teachers"]
    assert all(len(t[ANSWERS_FOR].removesuffix("+segments")) == 64 for t in teachers)
    rows = [row for row in read_rows(tmp_path / "metrics.jsonl") if f"train/{name}" in row]
    assert len(rows) == 6
    assert all(row["teachers/cut_1"] >= 0 for row in rows)
    assert all(("teachers/outside_2" in row) == (name == "squad_v2") for row in rows)
    root = settings(name)["data.root"]
    words = [tmp_path / "teachers.json", f"data.datasets={name}", *flags({"data.root": root})]
    mean = road("evaluate", *words, "--run-dir", tmp_path / "mean")
    if name in ("conll2003", "squad_v2"):
        mean.refused(4, "another tokenizer than the first teacher's")
        return
    told = json.loads((tmp_path / "mean" / "predictions" / name / "predictions.json").read_text())
    models = [rr.load(teacher["directory"]) for teacher in teachers]
    for row in read_split(catalog.dataset(name), Path(root), "dev"):
        texts = dict(zip(("text", "text_pair"), row.texts, strict=False))
        scores = [model(**texts)["scores"] for model in models]
        sums = {label: sum(math.log(s[label]) for s in scores) for label in scores[0]}
        assert told[row.id] == max(sums, key=sums.get)


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_actors_teach_as_a_store_of_teachers_in_this_process_does(settings, tmp_path):
    # In bf16, the batch that an actor happens to compute together changes the answers visibly.
    exact = settings("squad_v2") | {"training.precision": "fp32", "distillation.precision": "fp32"}
    stored = {"distillation.host": "process", "distillation.store": str(tmp_path / "store")}
    actors = {"distillation.host": "actors", "distillation.resources.CPU": 0.3}
    first, other = (
        load_file(rr.distill(overrides=exact | more, run_dir=tmp_path / name).hf_dir / FILE)
        for name, more in (("stored", stored), ("actors", actors))
    )
    # Adam moves a weight whose gradient is rounding alone by the whole rate, so a few differ.
    alike = [torch.isclose(other[key], x, rtol=5e-3, atol=5e-4) for key, x in first.items()]
    assert torch.cat([part.flatten() for part in alike]).float().mean() > 0.9995
    rows = read_rows(tmp_path / "actors" / "metrics.jsonl")
    assert all("teachers/cut_2" in row for row in rows if "train/squad_v2" in row)
