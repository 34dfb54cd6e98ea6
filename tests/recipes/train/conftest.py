"""Files of answers, students that learn from them, and what their answers become."""

from collections import deque
from dataclasses import replace

import pytest

import road_ray as rr
from road_ray.recipes.train import teachers as module
from road_ray.recipes.train.answer_files import read_files
from road_ray.recipes.train.find_teachers import find_teachers
from road_ray.recipes.train.mixture import read
from road_ray.recipes.train.prepare import student_tokenizer
from road_ray.verbs import configure
from tests.row_files import write_rows


@pytest.fixture
def student(sentiment, teachers, tmp_path):
    """``student(name, *teachers, **changes)``: a distillation, by default from three teachers; from
    named ones in fp32.
    """

    def run(name: str, *named: object, **changes: object) -> rr.Run:
        given = {"teachers": named or teachers.directory / "teachers.json"}
        given |= {"distillation.precision": "fp32"} if named else {}
        given |= {"host": "process", "seed": 7} | changes
        return rr.distill(overrides=sentiment, run_dir=tmp_path / name, **given)

    return run


@pytest.fixture
def spied(monkeypatch):
    """Answers of live teachers by row, teacher after teacher."""
    asked, answers = deque(), {}
    submit, gather = module.RowEnsemble.submit, module.RowEnsemble.gather

    def submitted(self, batch):
        asked.append(batch["rows"].tolist())
        return submit(self, batch)

    def gathered(self, handle):
        logits = gather(self, handle)
        for number, row in enumerate(asked.popleft()):
            answers[row] = logits[:, number].tolist()
        return logits

    monkeypatch.setattr(module.RowEnsemble, "submit", submitted)
    monkeypatch.setattr(module.RowEnsemble, "gather", gathered)
    return answers


@pytest.fixture(scope="module")
def opened(sentiment, tmp_path_factory):
    """``opened(path, changes)``: teachers of which a file is the only one, its answers read; rows
    and tokenizer of a student.
    """
    place = tmp_path_factory.mktemp("answers")

    def find(path, changes):
        keys = {"distillation.teachers": [str(path)], "run_dir": str(place / "run")}
        config = configure("distill", overrides=sentiment | keys | changes)
        name, tokenizer = config.data.dataset, student_tokenizer(config)
        teachers = find_teachers(config)[name]
        split = read(config, name, "train", tokenizer)
        return replace(teachers, answers=read_files(teachers, split)), split, tokenizer, config

    return find


@pytest.fixture(scope="module")
def answered(opened, tmp_path_factory):
    """``answered(rows)``: the answers of a file of these rows as the only teacher."""
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"

    def check(rows: list[dict[str, object]], **changes: object) -> dict[tuple[str, ...], object]:
        teachers, split, *_ = opened(write_rows(path, rows), changes)
        (answers,) = teachers.answers
        found = zip(split.examples, answers.to_pylist(), strict=True)
        return {row.texts: logits for row, logits in found if logits is not None}

    return check
