"""What the same command does with a run directory, for every verb that trains: it returns a
finished run, resumes a stopped one to the same bytes, and refuses other keys, other files and
damage by name.
"""

import shutil
from functools import partial
from pathlib import Path

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError, ConfigError

# Function and keys of each kind of run, and a file that it reads.
DEV, MODEL = "glue/SST-2/dev.tsv", "model/model.safetensors"
TEACHERS = {"distillation.num_teachers": 1, "distillation.host": "process"}
RUNS = {
    "finetune": ("finetune", {"data.dataset": "sst2"}, DEV),
    "another model": ("finetune", {"data.dataset": "sst2"}, MODEL),
    "seeds": ("finetune", {"data.dataset": "sst2", "num_seeds": 2}, DEV),
    "multitask": ("multitask", {"data.datasets": ["sst2", "rte"], "mixing.passes": 2}, DEV),
    "teachers": ("teachers", {"data.dataset": "sst2", "num_teachers": 2}, DEV),
    "distill": ("distill", TEACHERS, DEV),
    "generations": ("distill", TEACHERS | {"distillation.generations": 2}, DEV),
    "pretrain": ("pretrain", {}, "wikipedia/train-00000-of-00001.parquet"),
}


def contents(place):
    return {path: path.read_bytes() for path in place.rglob("hf/**/*.safetensors")}


@pytest.mark.parametrize("name", RUNS)
def test_the_same_command_returns_resumes_or_refuses(
    name, request, world, sentiment, pretraining, tmp_path
):
    verb, keys, file = RUNS[name]
    root, place = tmp_path / "world", tmp_path / "run"
    folder = file.split("/")[0]
    source = Path(sentiment["init"], "hf") if file == MODEL else world / folder
    shutil.copytree(source, root / folder)
    base = pretraining if verb == "pretrain" else sentiment
    base = {
        key: value for key, value in base.items() if key != "data.dataset" or name != "multitask"
    }
    if verb == "distill":
        listed = request.getfixturevalue("teachers").directory / "teacher-0"
        keys = keys | {"distillation.teachers": [str(listed)]}
    copied = {"init": str(root / folder)} if file == MODEL else {"data.root": str(root)}
    settings = base | keys | copied | {"training.keep_checkpoints_at_end": 1}
    settings |= {"training.steps": 2, "run_dir": str(place)}
    command = partial(getattr(rr, verb), overrides=settings)

    first, before = command(), contents(place)
    stamps = {path: path.stat().st_mtime_ns for path in before}
    assert command().metrics == first.metrics
    assert {path: path.stat().st_mtime_ns for path in before} == stamps

    last = sorted(place.rglob("metrics.jsonl"))[-1].parent  # the run itself, or its last one
    for stopped in {place, last}:
        (stopped / "metrics.json").unlink()
    assert command().metrics == first.metrics
    assert contents(place) == before

    with pytest.raises(ConfigError, match="seed: there 0, asked 1"):
        command(seed=1)

    weights = last / "hf" / "model.safetensors"
    weights.write_bytes(before[weights][:-1] + bytes([before[weights][-1] ^ 1]))
    with pytest.raises(CheckpointError, match=r"hf/model\.safetensors has the right size"):
        command()
    weights.write_bytes(before[weights])

    gone = root.rename(tmp_path / "gone")
    assert command().metrics == first.metrics
    path = gone.rename(root) / file
    path.write_bytes(path.read_bytes() + b"\n")
    message = f"(?s){path}: then .*fix: restore them, or name another run_dir"
    with pytest.raises(CheckpointError, match=message):
        command()
