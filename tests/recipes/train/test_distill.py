"""Distillation with the teachers in this process; in actors: journeys/test_on_ray.py."""

import shutil

import pytest

import road_ray as rr
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import CheckpointError
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.runs import name_labels, weights


def test_every_way_to_teach_is_another_student(student):
    matching = {"hidden_weight": 0.5, "attention_weight": 0.5, "layers": "last"}
    ways = {
        "correctness": {},
        "mean": {"rule": "mean"},
        "harsh": {"wrong": 0.0},
        "hot": {"temperature": 4.0},
        "gold": {"kd_weight": 0.0},
        "average": {"average_loss": True},
        "points": {"schedule": [[0, 0.5], [0.5, 0.2], [1, 0]]},
        "matching": {f"distillation.matching.{key}": value for key, value in matching.items()},
    }
    runs = {name: student(name, **way) for name, way in ways.items()}
    assert len({weights(run) for run in runs.values()}) == len(ways)
    card = (runs["points"].hf_dir / "README.md").read_text()
    assert "- distillation.schedule: `[0.0, 0.5], [0.5, 0.2], [1.0, 0.0]`" in card
    rows = read_rows(runs["matching"].directory / "metrics.jsonl")
    matched = [row for row in rows if "train/sst2" in row]
    assert all(row["train/sst2_hidden"] > 0 < row["train/sst2_attention"] for row in matched)


def test_a_stopped_run_goes_on_only_with_its_teachers(student, teachers, tmp_path):
    whole = student("whole")
    models = [teachers.directory / f"teacher-{number}" / "hf" for number in range(3)]
    names = [shutil.copytree(path, tmp_path / str(n)) for n, path in enumerate(models)]
    run = student("copies", teachers=names)
    assert weights(run) == weights(whole)
    (run.directory / "metrics.json").unlink()
    shutil.copy(names[0] / "model.safetensors", names[1] / "model.safetensors")
    with pytest.raises(rr.errors.CheckpointError, match="was trained with other inputs"):
        student("copies", teachers=names)


def test_states_of_a_teacher_with_another_tokenizer_are_refused(student, teachers, tmp_path):
    first = teachers.directory / "teacher-0"
    other = shutil.copytree(first / "hf", tmp_path / "other")
    train_wordpiece(["other words altogether"], vocab_size=60).save_pretrained(other)
    (other / "road_ray.json").unlink()  # it knows the tokenizer that was there
    with pytest.raises(CheckpointError, match="its states are of other tokens"):
        student("refused", other, first, first, **{"distillation.matching.hidden_weight": 1})


def test_teachers_with_labels_of_other_names_are_asked_with_a_label_map(
    student, teachers, tmp_path
):
    """The weights are those of teachers whose labels have the task's names."""
    plain = teachers.directory / "teacher-0" / "hf"
    other = shutil.copytree(plain, tmp_path / "other")
    name_labels(other, "LABEL_0", "LABEL_1")
    line = r"distillation\.label_map='{LABEL_0: negative, LABEL_1: positive}'$"
    with pytest.raises(CheckpointError, match=line):
        student("refused", other)
    key, mapped = "distillation.label_map", {"LABEL_0": "negative", "LABEL_1": "positive"}
    first = weights(student("mapped", other, **{key: mapped}))
    assert first == weights(student("plain", plain))
    half = {"label_map": mapped, "precision": "bf16"}  # an ensemble teaches with its own
    with rr.Ensemble([other], task="sst2", host="process", **half) as ensemble:
        taught = weights(student("taught", teachers=ensemble))
    named = {f"distillation.{name}": value for name, value in half.items()}
    assert taught == weights(student("named", teachers=[other], **named))
    swapped = {"LABEL_0": "positive", "LABEL_1": "negative"}
    assert weights(student("swapped", other, **{key: swapped})) != first
