"""Teachers and their weights, as configured and as listed; those of folds have not seen the row."""

import json
from dataclasses import replace

import pytest
import torch

import road_ray as rr
from road_ray.config import override
from road_ray.data.training_rows import fold_of
from road_ray.distillation import weighting
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.stored_ensemble import TeacherTables
from road_ray.errors import ConfigError
from road_ray.recipes.several_runs import _with_teachers
from road_ray.recipes.train.answer_files import read_files
from road_ray.recipes.train.config import DistillConfig
from road_ray.recipes.train.find_teachers import find_teachers, locate_teachers
from road_ray.recipes.train.prepare import prepare
from road_ray.recipes.train.teachers import weighting_rule
from road_ray.recipes.train.teaching_config import (
    RULES,
    DistillationConfig,
    WeightingConfig,
    read_teacher_list,
    resolve_teachers,
)
from road_ray.training.worker import Worker
from tests.row_files import write_rows


def test_a_teacher_of_the_hub_is_fetched(teachers, monkeypatch):
    fetched = str(teachers.directory / "teacher-0" / "hf")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: fetched)
    config = DistillConfig(distillation=DistillationConfig(teachers=("somebody/sst2",)))
    assert locate_teachers(config) == {"sst2": ([fetched], 1)}


def test_options_of_spans_reach_the_rule_and_regressions_have_the_mean():
    logits = torch.tensor([[[[9.0, 0, 0], [9, 0, 0]]], [[[9.0, 0, 0], [0, 9, 0]]]])
    gold = torch.tensor([[0, 1]])
    for way, weights in (("independent", [1, 1]), ("joint", [0.75, 1.25])):
        rule = weighting_rule(WeightingConfig(span_correctness=way), num_teachers=3)
        assert rule(logits, gold)[:, 0, 0].tolist() == weights
    mean = weighting_rule(WeightingConfig(), num_teachers=3)
    assert mean(torch.zeros(3, 2, 1), torch.zeros(2)).eq(1).all()


def test_one_teacher_has_the_mean_and_several_have_the_correctness_rule_of_all_that_there_are():
    assert set(RULES) == {*weighting.RULES}
    for given, count, used in ((None, 1, "mean"), (None, 2, "correctness"), ("mean", 2, "mean")):
        rule = weighting_rule(WeightingConfig(rule=given), num_teachers=count)
        assert rule.func is weighting.RULES[used]


def test_a_list_is_sorted_by_fold_and_has_equally_many_models_of_each(tmp_path):
    path = tmp_path / "teachers.json"

    def written(*folds: int, suffix: str = "") -> str:
        teachers = [{"directory": f"d{n}{suffix}", "fold": fold} for n, fold in enumerate(folds)]
        path.write_text(json.dumps({"num_folds": 2, "teachers": teachers}))
        return str(path)

    listed = written(1, 0, 1, 0, 1, 0)
    assert read_teacher_list(path) == (["d1", "d3", "d5", "d0", "d2", "d4"], 2)
    for names, total, per_row, folds in (
        ((listed,), 6, 3, 2),
        ((listed, "answers.csv"), 6, 4, 2),
        (("a", "b"), 2, 2, 1),
        (("a", "b.csv", "datasets/c/d"), 1, 3, 1),
    ):
        settings = DistillationConfig(teachers=names)
        assert DistillConfig(distillation=settings).total_teachers == total
        found = resolve_teachers(names)
        assert (found.per_row, found.folds) == (per_row, folds)
    with pytest.raises(ConfigError, match="2 folds, which stand alone"):
        resolve_teachers([listed, "a"])
    for folds, suffix in (((0, 1, 1), ""), ((0, 2), ""), ((0, 0), ""), ((0, 1), ".csv")):
        written(*folds, suffix=suffix)
        with pytest.raises(ConfigError, match="equally many models"):
            read_teacher_list(path)


def test_teachers_are_named_by_themselves_or_in_a_list_that_may_move_with_them(tmp_path):
    (tmp_path / "near").mkdir()
    path = tmp_path / "teachers.json"
    path.write_text(json.dumps({"teachers": [{"directory": "near"}, {"directory": "far"}]}))
    assert resolve_teachers([str(path)]) == ([str(tmp_path / "near"), "far"], 1)
    beside = resolve_teachers(["c.csv", "a", str(path)])
    assert beside == (["a", str(tmp_path / "near"), "far", "c.csv"], 1)


@pytest.mark.parametrize(
    "content",
    [
        *("", "null", "[]", "{}", "1", '{"teachers": []}', '{"teachers": [1]}'),
        *('{"teachers": 1e400}', "[" * 100_000),
    ],
)
def test_what_is_no_list_of_teachers_is_named(content, tmp_path):
    path = tmp_path / "teachers.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"teachers\.json.*\n.*a list of model directories"):
        read_teacher_list(path)
    with pytest.raises(ConfigError, match=r"init = .*\n.* finished `road teachers`\n"):
        read_teacher_list(path, "init")


@pytest.fixture
def teachers_of(folded, sentiment, tmp_path):
    """Teachers and student of a configuration with changes."""

    def make(**changes: object):
        settings = {"distillation.teachers": [str(folded.directory / "teachers.json")]}
        settings |= {"distillation.host": "process", "distillation.num_teachers": 2}
        config = override(DistillConfig(run_dir=tmp_path), sentiment | settings | changes)
        return find_teachers(config)["sst2"], prepare(config, Worker.alone())

    return make


def test_a_file_beside_models_of_folds_is_one_more_teacher_of_every_row_that_it_answers(
    folded, teachers_of, tmp_path, sentiment
):
    path = tmp_path / "answers.jsonl"
    rows = [{"row": row, "logits": {"negative": row, "positive": -1}} for row in range(0, 40, 2)]
    write_rows(path, rows)
    names = [str(folded.directory / "teachers.json"), str(path)]
    keys = {"distillation.teachers": names, "distillation.num_teachers": 3}
    teachers, prepared = teachers_of(**keys)
    of_folds, _ = teachers_of()
    assert teachers.per_row == 3
    split = prepared.splits["sst2"]
    teachers = replace(teachers, answers=read_files(teachers, split))
    given = {"worker": Worker.alone(), "on_event": lambda *_, **__: None}
    mixed, plain = (found.open(split, None, **given) for found in (teachers, of_folds))
    answered = {split.examples[row].texts: row for row in range(38, -1, -2)}
    batch = prepared.streams["sst2"][0]
    logits = mixed.gather(mixed.submit(batch))
    assert logits.shape == (3, len(batch["rows"]), 2)
    assert logits[:2].equal(plain.gather(plain.submit(batch)))
    for row, answer in zip(batch["rows"].tolist(), logits[2], strict=True):
        number = answered.get(split.examples[split.features.example[row]].texts)
        assert answer.tolist() == [number, -1] if number is not None else answer.isnan().all()
    once = sentiment | keys | {"distillation.answers": "once"}
    run = rr.distill(overrides=once, host="process", run_dir=tmp_path / "run")
    listed = json.loads((run.directory / "teachers.json").read_text())["teachers"]
    assert ["weights_sha256" in entry for entry in listed] == [True] * 4 + [False]


@pytest.mark.parametrize("store", [False, True])
def test_every_row_is_asked_of_the_teachers_without_its_fold(teachers_of, tmp_path, store):
    teachers, prepared = teachers_of(
        **({"distillation.store": str(tmp_path / "s")} if store else {})
    )
    directories = [entry["directory"] for entry in teachers.models]
    assert [f"fold-{f}" in d for f, d in zip((0, 0, 1, 1), directories, strict=True)]
    split, stream = prepared.splits["sst2"], prepared.streams["sst2"]
    everybody = LocalEnsemble(directories, split.task)
    if store:
        teachers.label(split)
    ensemble = teachers.open(split, None, worker=Worker.alone(), on_event=lambda *_, **__: None)
    for number in range(stream.batches_per_epoch):
        batch = stream[number]
        answers = ensemble.gather(ensemble.submit(batch))
        whole = everybody.gather(everybody.submit(batch))
        for place, row in enumerate(batch["rows"].tolist()):
            fold = fold_of(split.examples[split.features.example[row]], 2)
            expected = whole[2 * fold : 2 * fold + 2, place]
            assert answers[:, place].allclose(expected, atol=2e-2 if store else 1e-5)
    if store:  # every teacher has only the rows that it has not seen
        entries = teachers.entries
        counts = [len(TeacherTables(tmp_path / "s", entry, split.task)) for entry in entries]
        assert counts[0] == counts[1]
        assert counts[2] == counts[3]
        assert 0 < counts[0] < counts[0] + counts[2] <= len(split.features)


@pytest.mark.parametrize("changes", [{"distillation.answers": "once"}, {}])
def test_a_fold_may_have_no_row(folded, sentiment, tmp_path, changes, caplog):
    caplog.set_level("INFO", "road_ray")
    given = {"teachers": folded.directory / "teachers.json", "num_teachers": 2, "host": "process"}
    few = {"data.max_rows": 1, "training.steps": 1}
    assert rr.distill(overrides=sentiment | few | changes, run_dir=tmp_path, **given).metrics
    assert "; 2 teachers a row, of 2 folds, rule correctness" in caplog.text


def test_a_pool_of_folds_keeps_what_the_list_knows_of_them(folded, sentiment, tmp_path):
    path = folded.directory / "teachers.json"
    places = read_teacher_list(path)[0]
    settings = {"distillation.teachers": [str(path)], "distillation.num_teachers": 2}
    config = override(DistillConfig(run_dir=tmp_path), sentiment | settings)
    assert _with_teachers(config, places) == config
    with pytest.raises(ConfigError, match=r"(?s)lists 2 teachers of a row.*expected: 3"):
        locate_teachers(override(config, {"distillation.num_teachers": 3}))
    unnamed = {"distillation.teachers": [], "distillation.num_teachers": None}
    plain = _with_teachers(override(config, unnamed), places)
    assert plain.distillation.teachers == tuple(places)
    with pytest.raises(ConfigError, match="names 4 models, and the ensemble has 4 others"):
        _with_teachers(config, places[::-1])
