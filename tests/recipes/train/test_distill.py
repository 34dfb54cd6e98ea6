"""Distillation with the teachers in this process, asked live or once; in actors:
journeys/test_on_ray.py.
"""

import shutil
from functools import partial

import pytest
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

import road_ray as rr
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import CheckpointError
from road_ray.models.precision import compile_for_all_shapes
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


def events(run: rr.Run) -> dict[str, dict]:
    return {event["kind"]: event for event in read_rows(run.directory / "events.jsonl")}


def test_the_first_and_every_later_run_are_bit_equal_and_these_start_no_teacher(
    student, tmp_path, loading
):
    keys = {"training.steps": 14}  # an epoch is 10: every row is asked for, some twice
    stored = partial(student, **keys, **{"distillation.store": str(tmp_path / "store")})
    cold = stored("cold")
    loading.assert_called_once()
    assert len([*(tmp_path / "store").glob("*/table-*")]) == 3
    warm = stored("warm")
    assert weights(warm) == weights(cold)
    assert list(events(warm)["teachers_proven"]["difference"]) == ["its table"]
    hot = stored("hot", temperature=4.0, **{"distillation.check_parity": False})
    assert weights(hot) != weights(cold)
    assert "teachers_proven" not in events(hot)
    loading.assert_called_once()
    once = stored("once", **{"distillation.store": None, "distillation.answers": "once"})
    assert weights(once) == weights(cold)  # auto: once, because a store is given
    assert len([*(once.directory / "answers").glob("*/table-*")]) == 3


def test_compiled_teachers_teach_the_same(student, monkeypatch):
    counter = CompileCounter()
    monkeypatch.setattr(
        "road_ray.distillation.teacher.compile_for_all_shapes",
        partial(compile_for_all_shapes, backend=counter),
    )
    eager = student("eager")
    assert not counter.frame_count
    compiled = student("compiled", **{"distillation.torch_compile": True})
    assert counter.frame_count == 1  # three teachers of one architecture share the graph
    (drift,) = events(compiled)["teachers_proven"]["difference"].values()
    assert drift < 1e-5
    ours, theirs = (load_file(run.hf_dir / "model.safetensors") for run in (compiled, eager))
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
