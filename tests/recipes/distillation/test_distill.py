"""Distillation with the teachers in this process; in actors: test_distill_actors.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import road_ray as rr
from road_ray.errors import CheckpointError, ConfigError
from road_ray.training.monitoring.metrics_journal import read_rows


@pytest.fixture
def students(sentiment, teachers, tmp_path):
    """``students(name, **changes)``: a distillation run with the three teachers."""

    def run(name: str, **changes: object) -> rr.Run:
        given = {"teachers": teachers.directory / "teachers.json", "host": "process", "seed": 7}
        return rr.distill(overrides=sentiment, run_dir=tmp_path / name, **(given | changes))

    return run


def weights(run: rr.Run) -> bytes:
    return (run.hf_dir / "model.safetensors").read_bytes()


def test_the_journal_tells_who_was_right_and_how_long_was_waited(students):
    run = students("a")
    rows = [r for r in read_rows(run.directory / "metrics.jsonl") if "train/sst2" in r]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert sum(row[f"teachers/right_{n}"] for n in range(4)) in (15, 16)  # 150 rows, 10 batches
        assert row["time/teacher_wait_seconds"] > 0
        assert row["train/sst2_soft"] >= 0
    manifest = json.loads((run.directory / "teachers.json").read_text())
    assert len({item["weights_sha256"] for item in manifest["teachers"]}) == 3
    assert "eval/sst2/accuracy" in run.metrics


def test_a_data_set_of_ones_own_is_distilled_too(sentiment, teachers, world, tmp_path):
    settings = {"layout": "glue_tsv", "text": ["sentence"], "task": "sentiment"}
    settings["label_map"] = {"0": "negative", "1": "positive"}
    settings |= {name: str(world / "glue" / "SST-2" / f"{name}.tsv") for name in ("train", "dev")}
    chosen = sentiment | {"data.sets": {"reviews": settings}, "data.dataset": "reviews"}
    chosen |= {"training.steps": 2, "distillation.host": "process"}
    chosen["distillation.teachers"] = [str(teachers.directory / "teachers.json")]
    run = rr.distill(overrides=chosen, run_dir=tmp_path)
    assert "eval/reviews/accuracy" in run.metrics


def test_the_teachers_that_are_named_are_as_many_as_there_are(sentiment, teachers, tmp_path):
    two = [str(teachers.directory / f"teacher-{number}" / "hf") for number in range(2)]
    chosen = {"distillation.teachers": two, "distillation.host": "process", "training.steps": 2}
    run = rr.distill(overrides=sentiment | chosen, run_dir=tmp_path / "two")
    assert len(json.loads((run.directory / "teachers.json").read_text())["teachers"]) == 2
    with pytest.raises(ConfigError, match=r"(?s)lists 2 teachers.*expected: 3"):
        rr.distill(
            overrides=sentiment | chosen | {"distillation.num_teachers": 3},
            run_dir=tmp_path / "refused",
        )
    assert not (tmp_path / "refused").exists()


def test_the_card_names_the_teachers(students, teachers):
    card = (students("carded").hf_dir / "README.md").read_text()
    assert "distilled from several teachers on sst2" in card
    assert "- weighting.wrong: `0.75`" in card
    assert "- teacher 2: `.../teacher-2/hf`, weights `" in card
    assert str(teachers.directory) not in card


def test_the_rule_matters_and_the_weight_of_the_wrong_too(students):
    made = [
        students("mean", rule="mean"),
        students("correctness", rule="correctness"),
        students("harsh", rule="correctness", wrong=0.0),
        students("hot", temperature=4.0),
        students("gold", kd_weight=0.0),
    ]
    assert len({weights(run) for run in made}) == 5


def test_annealing_goes_from_the_teachers_to_gold_also_after_a_stop(students):
    whole = students("whole", schedule="linear")
    rows = [r for r in read_rows(whole.directory / "metrics.jsonl") if "train/sst2" in r]
    expected = [1 - step / 6 for step in range(6)]
    assert [row["train/kd_weight"] for row in rows] == pytest.approx(expected)
    two = {
        "training.save_every_steps": 2,
        "training.keep_checkpoints": 9,
        "training.keep_checkpoints_at_end": 9,
    }
    stopped = students("stopped", schedule="linear", **two)
    for name in ("step-00000004", "step-00000006"):
        shutil.rmtree(stopped.directory / "checkpoints" / name)
    (stopped.directory / "metrics.json").unlink()
    assert weights(students("stopped", schedule="linear", **two)) == weights(whole)


def test_points_and_the_average_loss_are_other_ways(students):
    ways = [
        students("constant", average_loss=True),
        students("points", schedule=[[0, 0.5], [0.5, 0.2], [1, 0]]),
        students("logits"),
    ]
    assert len({weights(run) for run in ways}) == 3
    card = (ways[1].hf_dir / "README.md").read_text()
    assert "- distillation.schedule: `[0.0, 0.5], [0.5, 0.2], [1.0, 0.0]`" in card


def test_matching_a_teachers_states_is_another_way_and_goes_on_after_a_stop(students):
    two = {
        "training.save_every_steps": 2,
        "training.keep_checkpoints": 9,
        "training.keep_checkpoints_at_end": 9,
    }
    matching = {
        "distillation.matching.hidden_weight": 0.5,
        "distillation.matching.attention_weight": 0.5,
        "distillation.matching.layers": "last",
    }
    whole = students("whole", **two, **matching)
    assert weights(whole) != weights(students("logits"))
    rows = [r for r in read_rows(whole.directory / "metrics.jsonl") if "train/sst2" in r]
    assert all(row["train/sst2_hidden"] > 0 and row["train/sst2_attention"] > 0 for row in rows)
    stopped = students("stopped", **two, **matching)
    for name in ("step-00000004", "step-00000006"):
        shutil.rmtree(stopped.directory / "checkpoints" / name)
    (stopped.directory / "metrics.json").unlink()
    assert weights(students("stopped", **two, **matching)) == weights(whole)
    wrong = {"distillation.matching.teacher": 3}
    with pytest.raises(rr.errors.ConfigError, match=r"matching\.teacher = 3"):
        students("x", **matching, **wrong)


def test_the_average_loss_needs_a_rule_of_weights(students):
    with pytest.raises(rr.errors.ConfigError, match="average_loss"):
        students("x", average_loss=True, rule="mean_probabilities")


def test_without_soft_loss_it_is_fine_tuning(students, sentiment, tmp_path):
    from safetensors.torch import load_file

    plain = rr.finetune(overrides=sentiment, seed=7, run_dir=tmp_path / "plain")
    gold = students("gold", kd_weight=0.0)
    for name, tensor in load_file(plain.hf_dir / "model.safetensors").items():
        other = load_file(gold.hf_dir / "model.safetensors")[name]
        torch.testing.assert_close(other, tensor, rtol=1e-4, atol=1e-5)


def test_the_names_of_the_public_example_are_understood(sentiment, teachers, pretrained, tmp_path):
    directories = [teachers.directory / f"teacher-{n}" for n in range(3)]
    with rr.Ensemble(directories, task="sst2", host="process") as ensemble:
        run = rr.distill(
            overrides={key: v for key, v in sentiment.items() if key != "init"},
            student=pretrained.directory,
            task="sst2",
            teachers=ensemble,
            temperature=2.0,
            kd_weight=0.5,
            run_dir=tmp_path,
        )
    text = (run.directory / "config.resolved.yaml").read_text()
    assert "temperature: 2.0" in text
    assert "host: process" in text
    with pytest.raises(rr.errors.ConfigError, match="temprature"):
        rr.distill(student="x", temprature=2.0)


def test_a_span_student_learns_too(questions, span_run, tmp_path):
    run = rr.distill(
        overrides=questions, teachers=[span_run.hf_dir], host="process", run_dir=tmp_path
    )
    assert "eval/newsqa/at_threshold_f1" in run.metrics


def test_a_stopped_run_goes_on_only_with_its_teachers(students, teachers, tmp_path):
    whole = students("whole")
    place = tmp_path / "copies"
    for number in range(3):
        shutil.copytree(teachers.directory / f"teacher-{number}" / "hf", place / str(number))
    names = [place / str(number) for number in range(3)]
    run = students("copies", teachers=names)
    assert weights(run) == weights(whole)
    (run.directory / "metrics.json").unlink()
    shutil.copy(place / "0" / "model.safetensors", place / "1" / "model.safetensors")
    with pytest.raises(rr.errors.CheckpointError, match="was trained with other inputs"):
        students("copies", teachers=names)


class TestMistakes:
    """Every one is found before anything starts."""

    @pytest.fixture
    def attempt(self, road, flags, sentiment, tmp_path):
        def run(*names: object, more: tuple[str, ...] = ()):
            teachers = f"distillation.teachers=[{', '.join(map(str, names))}]"
            arguments = [*flags(sentiment), teachers, "distillation.host=process", *more]
            return road("distill", *arguments, "--run-dir", tmp_path / "run")

        return run

    def test_two_teachers_of_three(self, attempt, teachers):
        two = (teachers.directory / "teacher-0", teachers.directory / "teacher-1")
        result = attempt(*two, more=("distillation.num_teachers=3",))
        assert result.code == 2
        assert "distillation.teachers lists 2" in result.err
        assert "expected: 3 (distillation.num_teachers)" in result.err

    def test_none(self, attempt):
        assert "names no teacher" in attempt().err

    def test_a_list_that_is_not_there_or_no_list(self, attempt, tmp_path):
        result = attempt(tmp_path / "teachers.json")
        assert result.code == 2
        assert "teachers.json: no such file" in result.err
        (tmp_path / "teachers.json").write_text('{"a": 1}')
        result = attempt(tmp_path / "teachers.json")
        assert result.code == 2
        assert "no list of teachers" in result.err

    def test_a_teacher_of_another_task(self, attempt, teachers, span_run):
        first = teachers.directory / "teacher-0"
        result = attempt(first, first, span_run.directory)
        assert result.code == 4
        assert "ForSequenceClassification" in result.err

    def test_a_teacher_that_was_never_fine_tuned(self, attempt, teachers, pretrained):
        first = teachers.directory / "teacher-0"
        assert attempt(first, first, pretrained.directory).code == 4

    def test_states_of_a_teacher_with_another_tokenizer(self, attempt, teachers, tmp_path):
        from road_ray.data.tokenizer import train_wordpiece

        first = teachers.directory / "teacher-0"
        other = shutil.copytree(first / "hf", tmp_path / "other")
        train_wordpiece(["other words altogether"], vocab_size=60).save_pretrained(other)
        (other / "road_ray.json").unlink()  # it knows the tokenizer that was there
        states = ("distillation.matching.teacher=2", "distillation.matching.hidden_weight=1")
        result = attempt(first, first, other, more=states)
        assert result.code == 4
        assert "its states are of other tokens" in result.err

    def test_a_directory_that_is_no_model(self, attempt, teachers):
        first = teachers.directory / "teacher-0"
        result = attempt(first, first, teachers.directory)
        assert result.code == 4
        assert f"distillation.teachers: {teachers.directory}: not a model" in result.err
        assert f"(as teachers: {teachers.directory / 'teachers.json'})" in result.err

    def test_a_directory_that_is_not_there(self, attempt, teachers):
        first = teachers.directory / "teacher-0"
        result = attempt(first, first, Path("/nowhere/at/all"))
        assert result.code in (2, 4)
        assert "/nowhere/at/all" in result.err

    def test_weights_beyond_their_range(self, attempt, teachers):
        directories = [teachers.directory / f"teacher-{n}" for n in range(3)]
        result = attempt(*directories, more=("distillation.kd_weight=1.5", "weighting.wrong=-1"))
        assert result.code == 2
        assert "distillation.kd_weight" in result.err
        assert "weighting.wrong" in result.err

    def test_a_schedule_out_of_order(self, attempt):
        result = attempt(more=("distillation.schedule=[[0.5, 1], [0, 0]]",))
        assert result.code == 2
        assert "distillation.schedule = [[0.5, 1], [0, 0]]" in result.err


def test_teachers_with_labels_of_other_names_are_asked_with_a_label_map(
    sentiment, teachers, tmp_path
):
    """The weights are those of teachers whose labels have the task's names."""
    plain = teachers.directory / "teacher-0" / "hf"
    other = shutil.copytree(plain, tmp_path / "other")
    output = json.loads((other / "config.json").read_text())
    names = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    (other / "config.json").write_text(json.dumps(output | names))
    given = {"num_teachers": 1, "host": "process", "training.steps": 2, "console": "quiet"}

    def student(name, teacher, **more):
        chosen = given | {"teachers": [str(teacher)]} | more
        return weights(rr.distill(overrides=sentiment, run_dir=tmp_path / name, **chosen))

    with pytest.raises(CheckpointError) as refused:
        student("refused", other)
    line = "distillation.label_map='{LABEL_0: negative, LABEL_1: positive}'"
    assert str(refused.value).splitlines()[-1].strip() == line
    key, mapped = "distillation.label_map", {"LABEL_0": "negative", "LABEL_1": "positive"}
    first = student("mapped", other, **{key: mapped})
    assert first == student("plain", plain)
    swapped = {"LABEL_0": "positive", "LABEL_1": "negative"}
    assert student("swapped", other, **{key: swapped}) != first


def test_rows_without_labels_are_taught_by_the_teachers_alone(students, tmp_path, caplog):
    more_rows = tmp_path / "more.txt"
    more_rows.write_text(
        "".join(f"a film of number {number} that is fine\n" for number in range(200))
    )
    chosen = {"data.unlabelled": [str(more_rows)], "data.max_rows": 4, "training.steps": 8}
    store = {"distillation.store": str(tmp_path / "store")}
    with caplog.at_level("INFO"):
        run = students("with", **chosen, **store)
    assert "4 labelled + 200 unlabelled rows; 3 teachers, rule correctness" in caplog.text
    rows = [r for r in read_rows(run.directory / "metrics.jsonl") if "train/sst2_soft" in r]
    judged = [sum(row[f"teachers/right_{n}"] for n in range(4)) for row in rows]
    assert sum(judged) <= 4, "only rows with a label tell who was right"
    assert all(row["train/sst2_soft"] > 0 for row in rows)
    again = students("again", **chosen, **store)
    assert weights(again) == weights(run), "logits of the store are those of the teachers"
    recorded = json.loads((run.directory / "inputs.json").read_text())
    assert str(more_rows) in json.dumps(recorded)
    assert weights(students("without", **{"data.max_rows": 4, "training.steps": 8})) != weights(run)
