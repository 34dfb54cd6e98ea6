"""A finished run whose files are damaged is refused by their names."""

from __future__ import annotations

import shutil

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError
from road_ray.recipes.run_directory.input_files import changed_inputs
from road_ray.recipes.run_directory.recorded_config import damage, seal


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


def test_a_leftover_of_a_killed_process_is_not_part_of_a_run(tmp_path):
    (tmp_path / "predictions" / "sst2").mkdir(parents=True)
    leftover = tmp_path / "predictions" / "sst2" / ".diagnostics.json.tmp-17"
    for path in (leftover, leftover.with_name("diagnostics.json")):
        path.write_text("{")
    seal(tmp_path)
    leftover.unlink()
    assert damage(tmp_path) == []
    leftover.with_name("diagnostics.json").unlink()
    assert damage(tmp_path) == ["predictions/sst2/diagnostics.json is missing"]


def test_damaged_weights_of_a_finished_run_are_not_taken(sentiment, teachers, tmp_path):
    place = tmp_path / "teacher"
    shutil.copytree(teachers.directory / "teacher-0", place)
    weights = bytearray((place / "hf" / "model.safetensors").read_bytes())
    weights[len(weights) // 2] ^= 1
    (place / "hf" / "model.safetensors").write_bytes(weights)
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
