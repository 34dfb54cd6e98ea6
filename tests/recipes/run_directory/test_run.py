"""A run directory has one process, one configuration, and is gone on with by the same command."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from road_ray.errors import CheckpointError, ConfigError
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.recipes.train.config import FinetuneConfig


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


def test_a_start_that_failed_may_be_corrected(tmp_path):
    with pytest.raises(RuntimeError), open_run_directory(config(tmp_path, seed=1)):
        raise RuntimeError
    with open_run_directory(config(tmp_path, seed=2)):
        pass
    assert "seed: 2" in (tmp_path / "config.resolved.yaml").read_text()


def test_a_committed_checkpoint_binds_to_its_configuration(tmp_path):
    with open_run_directory(config(tmp_path, seed=1)):
        (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    with (
        pytest.raises(ConfigError, match="seed: there 1, asked 2"),
        open_run_directory(config(tmp_path, seed=2)),
    ):
        pass


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
