"""A finished run is of the files that it read: others are refused by name."""

from __future__ import annotations

import os

import pytest

from road_ray.errors import ResourceError
from road_ray.recipes.run_directory.input_files import changed_inputs, current_inputs, model_files
from road_ray.system.files import write_json_atomic


def record(run_dir, *paths):
    write_json_atomic(run_dir / "inputs.json", current_inputs(run_dir, {"data": paths}))


def test_changed_inputs_compares_content_not_time(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    record(tmp_path, path)
    os.utime(path, (1, 1))
    assert changed_inputs(tmp_path) == []
    path.write_text("two")
    (line,) = changed_inputs(tmp_path)
    assert line.startswith(f"{path}: then 3 bytes, sha256 7692c3ad3540, now 3 bytes, sha256 3fc4cc")


def test_changed_inputs_tells_a_missing_file_but_not_a_missing_folder(tmp_path):
    path = tmp_path / "data" / "a.txt"
    path.parent.mkdir()
    path.write_text("one")
    record(tmp_path, path)
    path.unlink()
    assert changed_inputs(tmp_path) == [f"{path}: then 3 bytes, sha256 7692c3ad3540, now missing"]
    path.parent.rmdir()
    assert changed_inputs(tmp_path) == []
    record(tmp_path)  # what began with it still says so
    assert str(path) in (tmp_path / "inputs.json").read_text()


def test_model_files_are_those_that_decide(teachers, tmp_path):
    names = {path.name for path in model_files(str(teachers.directory / "teacher-0"))}
    assert {"config.json", "model.safetensors", "tokenizer.json", "road_ray.json"} <= names
    assert "README.md" not in names
    assert model_files("") == model_files("google/electra-small") == []


def test_found_inputs_names_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ResourceError, match=f"{tmp_path / 'gone'}: cannot be read: No such file"):
        current_inputs(tmp_path, {"data": [tmp_path / "gone"]})
