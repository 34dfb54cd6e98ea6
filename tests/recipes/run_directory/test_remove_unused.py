"""A mistake that is found before anything starts leaves no run directory behind."""

from __future__ import annotations

import pytest

MISTAKES = {
    "finetune": ["data.dataset=sst2"],
    "teachers": ["data.dataset=sst2", "num_teachers=2"],
    "distill": ["data.dataset=sst2", "distillation.host=process", "distillation.num_teachers=1"],
    "multitask": ["data.datasets=sst2,qqp", "training.steps=2"],
    "evaluate": ["data.datasets=sst2"],
    "pretrain": ["data.corpus=text", "training.steps=2"],
    "reproduce": ["low_resource", "data.dataset=sst2"],
}


@pytest.mark.parametrize("verb", MISTAKES)
@pytest.mark.parametrize("root", ["missing", "empty"])
def test_data_that_are_not_there(road, teachers, tmp_path, verb, root):
    (tmp_path / "empty").mkdir()
    place = ["--run-dir", tmp_path / "runs" / "mine", f"data.root={tmp_path / root}"]
    init = [] if verb == "pretrain" else [f"init={teachers.directory}/teacher-0"]
    if verb == "distill":
        init.append(f"distillation.teachers=[{teachers.directory}/teacher-1]")
    result = road(verb, *MISTAKES[verb], *init, *place)
    assert result.code in (2, 3), result.err
    assert str(tmp_path / root) in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_model_that_is_not_there(road, world, tmp_path):
    result = road(
        "finetune", f"init={tmp_path}", f"data.root={world}", "run_dir=" + str(tmp_path / "x")
    )
    assert result.code == 4
    assert [*tmp_path.iterdir()] == []
