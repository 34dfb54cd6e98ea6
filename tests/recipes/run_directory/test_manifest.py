"""A finished run whose files are damaged is refused by their names."""

from __future__ import annotations

import shutil

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError
from road_ray.recipes.run_directory.input_files import changed_inputs
from road_ray.recipes.run_directory.recorded_config import damage, seal


@pytest.fixture(scope="module")
def whole(sentiment, tmp_path_factory):
    """A finished fine-tuning, to be copied."""
    place = tmp_path_factory.mktemp("outputs") / "run"
    return rr.finetune(overrides=sentiment | {"training.keep_checkpoints_at_end": 1}, run_dir=place)


@pytest.fixture
def copied(whole, tmp_path):
    shutil.copytree(whole.directory, tmp_path / "run")
    return tmp_path / "run"


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "read", "like"),
    [
        ("inputs.json", changed_inputs, '{"data": {"a": {"bytes": 1}}}'),
        ("MANIFEST.json", damage, '{"format": 1, "files": [], "runs": []}'),
    ],
)
def test_a_damaged_record_is_named(tmp_path, name, read, like):
    for content in ("", "null", "[]", '{"data": 1, "files": 1}', like):
        (tmp_path / name).write_text(content)
        with pytest.raises(CheckpointError, match=f"{tmp_path / name}: "):
            read(tmp_path)


def test_a_leftover_of_a_killed_process_is_not_part_of_a_run(sentiment, copied):
    leftover = copied / "predictions" / "sst2" / ".diagnostics.json.tmp-17"
    leftover.write_text("{")
    seal(copied)
    leftover.unlink()
    assert damage(copied) == []


def test_damaged_weights_of_a_finished_run_are_not_taken(sentiment, teachers, tmp_path):
    place = tmp_path / "teacher"
    shutil.copytree(teachers.directory / "teacher-0", place)
    flip(place / "hf" / "model.safetensors")
    settings = {key: sentiment[key] for key in ("data.root", "console")}
    shown = f"{place}/hf/model.safetensors: not the file that .* records"
    for init in (place, place / "hf"):
        with pytest.raises(CheckpointError, match=shown):
            rr.evaluate(
                overrides=settings | {"init": str(init), "run_dir": str(tmp_path / "judged")}
            )
    changes = {"distillation.teachers": [str(place)], "distillation.num_teachers": 1}
    with pytest.raises(CheckpointError, match=shown):
        rr.distill(overrides=sentiment | changes | {"run_dir": str(tmp_path / "student")})
