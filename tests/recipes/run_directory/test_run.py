"""A run directory has one process, one configuration, and is gone on with by the same command."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from road_ray.errors import CheckpointError, ResourceError
from road_ray.recipes.run_directory.input_files import changed_inputs, current_inputs, model_files
from road_ray.recipes.run_directory.run import (
    Run,
    load_finished_run,
    lock_run_directory,
    open_run_directory,
    trackers_of,
)
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.system.files import write_atomic, write_json_atomic
from road_ray.training.monitoring import trackers
from road_ray.training.run_context import RunContext


def config(directory: Path, **changes: object) -> FinetuneConfig:
    return FinetuneConfig(run_dir=directory, console="quiet", **changes)


def finish(directory: Path, **changes: object) -> None:
    with open_run_directory(config(directory, **changes)):
        (directory / "metrics.json").write_text('{"eval/a": 1.0}')


def test_what_runs_is_recorded_before_it_runs(tmp_path):
    with open_run_directory(config(tmp_path / "run", seed=3)) as directory:
        text = (directory / "config.resolved.yaml").read_text()
        assert text.startswith("# road_ray 0.")
        assert "seed: 3" in text
        recorded = json.loads((directory / "environment.json").read_text())
        assert recorded["seed"] == 3
        assert recorded["packages"]["torch"]
        assert isinstance(recorded["devices"], list)


def test_damaged_metrics_are_named(tmp_path):
    finish(tmp_path)
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"metrics\.json: not JSON"):
        load_finished_run(config(tmp_path))
    (tmp_path / "metrics.json").unlink()
    (tmp_path / "metrics.json").mkdir()
    with (
        pytest.raises(ResourceError, match=r"metrics\.json: cannot be written"),
        open_run_directory(config(tmp_path)) as directory,
    ):
        write_json_atomic(directory / "metrics.json", {})


def test_a_start_that_failed_may_be_corrected(tmp_path):
    """MLflow had the settings of the first start beside the figures of the second."""
    with pytest.raises(RuntimeError), open_run_directory(config(tmp_path, seed=1)):
        raise RuntimeError
    write_atomic(tmp_path / "mlflow" / "run_id.txt", "first")
    with open_run_directory(config(tmp_path, seed=2)):
        pass
    assert "seed: 2" in (tmp_path / "config.resolved.yaml").read_text()
    assert not (tmp_path / "mlflow" / "run_id.txt").exists()


def test_finished_names_a_configuration_that_is_missing(tmp_path):
    finish(tmp_path)
    (tmp_path / "config.resolved.yaml").unlink()
    with pytest.raises(CheckpointError, match=r"config\.resolved\.yaml is missing"):
        load_finished_run(config(tmp_path))


def test_a_run_that_was_killed_after_its_last_step_is_sealed_by_the_next_command(tmp_path):
    finish(tmp_path)
    (tmp_path / "MANIFEST.json").unlink()
    assert load_finished_run(config(tmp_path)) == Run(tmp_path, {"eval/a": 1.0})
    assert (tmp_path / "MANIFEST.json").is_file()


def test_a_run_on_a_disk_that_is_full_at_its_report_makes_it_later(small_disk, caplog):
    place = small_disk(256)
    with open_run_directory(config(place / "run")) as directory:
        (directory / "metrics.json").write_text('{"eval/a": 1.0}')
        with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        with (place / "filler").open("r+b") as filler:  # room for all but the report
            filler.truncate(filler.seek(0, 2) - 16_384)
    assert "no report.html" in caplog.text
    assert (directory / "MANIFEST.json").is_file()
    assert not list(directory.glob(".*"))
    (place / "filler").unlink()
    assert load_finished_run(config(directory)) == Run(directory, {"eval/a": 1.0})
    assert (directory / "report.html").is_file()


def test_a_second_process_is_refused_until_the_lock_is_closed(tmp_path):
    with lock_run_directory(tmp_path / "run"):
        with pytest.raises(ResourceError) as refused:
            lock_run_directory(tmp_path / "run")
        assert refused.value.exit_code == 4
        assert f"in use by process {os.getpid()} on " in str(refused.value)
    lock_run_directory(tmp_path / "run").close()


def test_a_file_in_its_place_is_named(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ResourceError, match=r"run_dir = .*run: cannot be written"):
        lock_run_directory(tmp_path / "run")


def test_changed_inputs_compares_content_and_tells_a_missing_file_but_not_a_missing_folder(
    tmp_path,
):
    path = tmp_path / "data" / "a.txt"
    path.parent.mkdir()
    path.write_text("one")
    write_json_atomic(tmp_path / "inputs.json", current_inputs(tmp_path, {"data": [path]}))
    os.utime(path, (1, 1))
    assert changed_inputs(tmp_path) == []
    path.write_text("two")
    (line,) = changed_inputs(tmp_path)
    assert line.startswith(f"{path}: then 3 bytes, sha256 7692c3ad3540, now 3 bytes, sha256 3fc4cc")
    path.unlink()
    assert changed_inputs(tmp_path) == [f"{path}: then 3 bytes, sha256 7692c3ad3540, now missing"]
    path.parent.rmdir()
    assert changed_inputs(tmp_path) == []
    with pytest.raises(ResourceError, match=f"{path}: cannot be read: No such file"):
        current_inputs(tmp_path / "another run", {"data": [path]})


def test_model_files_are_those_that_decide(teachers, tmp_path):
    names = {path.name for path in model_files(str(teachers.directory / "teacher-0"))}
    assert {"config.json", "model.safetensors", "tokenizer.json", "road_ray.json"} <= names
    assert "README.md" not in names
    assert model_files("") == model_files("google/electra-small") == []


@pytest.mark.parametrize("name", ["plain", "sweep/trials/0003/seed-0"])
def test_a_run_inside_others_has_its_place_as_its_name_in_trackers(tmp_path, monkeypatch, name):
    names = []
    monkeypatch.setattr(trackers, "wandb_tracker", lambda _, name, *__: names.append(name))
    with lock_run_directory(tmp_path / "sweep"), lock_run_directory(tmp_path / name):
        run = config(tmp_path / name, tracking={"wandb_project": "p"})
        trackers_of(run, RunContext(), 1)["wandb"]()
    assert names == [name]
