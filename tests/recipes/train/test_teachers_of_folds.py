"""Students that ask only teachers that have not seen the row."""

import json
from dataclasses import replace

import pytest

import road_ray as rr
from road_ray.config import override
from road_ray.data.training_rows import fold_of
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.stored_ensemble import TeacherTables
from road_ray.errors import ConfigError
from road_ray.recipes.several_runs import _with_teachers
from road_ray.recipes.train.answer_files import read_files
from road_ray.recipes.train.config import DistillConfig
from road_ray.recipes.train.find_teachers import find_teachers, locate_teachers
from road_ray.recipes.train.prepare import prepare
from road_ray.recipes.train.teaching_config import read_teacher_list
from road_ray.training.worker import Worker
from tests.row_files import write_rows


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
    assert [f"fold-{f}" in d for f, d in zip((0, 0, 1, 1), teachers.directories, strict=True)]
    split, stream = prepared.splits["sst2"], prepared.streams["sst2"]
    everybody = LocalEnsemble(teachers.directories, split.task)
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
