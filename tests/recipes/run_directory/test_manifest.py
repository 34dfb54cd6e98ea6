"""A finished run: files that are damaged are refused by their names; its checkpoints are removed
unless something needs them, and never missed silently.
"""

import json
import shutil

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError
from road_ray.recipes.run_directory.input_files import changed_inputs
from road_ray.recipes.run_directory.recorded_config import damage, seal
from road_ray.reporting.records.run_record import read_run
from road_ray.training.monitoring.metrics_journal import read_rows


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
    place = shutil.copytree(teachers.directory / "teacher-0", tmp_path / "teacher")
    weights = bytearray((place / "hf" / "model.safetensors").read_bytes())
    weights[len(weights) // 2] ^= 1
    (place / "hf" / "model.safetensors").write_bytes(weights)
    shown = f"{place}/hf/model.safetensors: not the file that .* records"
    for init in (place, place / "hf"):
        with pytest.raises(CheckpointError, match=shown):
            rr.evaluate(init=str(init), run_dir=tmp_path / "judged")
    with pytest.raises(CheckpointError, match=shown):
        rr.distill(overrides=sentiment, teachers=[place], run_dir=tmp_path / "student")


def test_a_finished_fine_tuning_keeps_its_model_and_no_checkpoint_and_never_starts_again(
    sentiment, tmp_path
):
    early = {"training.evaluate_every_steps": 2, "training.early_stopping.patience": 5}
    saving = sentiment | early | {"data.max_judged_rows": 20, "training.save_every_steps": 2}
    place = rr.finetune(overrides=saving, run_dir=tmp_path / "run").directory
    assert [path.name for path in (place / "checkpoints").iterdir()] == ["removed.json"]
    assert json.loads((place / "checkpoints" / "removed.json").read_text()) == {"step": 6}
    (row,) = [r for r in read_rows(place / "events.jsonl") if r["kind"] == "checkpoints_removed"]
    model = (place / "hf" / "model.safetensors").stat().st_size
    assert row["bytes"] > 3 * model  # weights, two moments, and the model of two steps
    assert rr.load(place)(["a good film"])
    assert read_run(place).faults == []
    rows = (place / "metrics.jsonl").read_bytes()
    (place / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match=r"had finished.*keep_checkpoints_at.*\n.*restore"):
        rr.finetune(overrides=saving, run_dir=place)
    assert (place / "metrics.jsonl").read_bytes() == rows
