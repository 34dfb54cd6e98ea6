"""Each data set of a mixture has its own teachers, or none; in actors: journeys/test_on_ray.py."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

import road_ray as rr
from road_ray.recipes.train.find_teachers import locate_teachers
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import preset_config


@pytest.fixture(scope="session")
def plain(questions) -> dict[str, object]:
    """Overrides of a mixture without teachers."""
    dropped = ("data.dataset", "data.evaluate_on")
    remaining = {key: value for key, value in questions.items() if key not in dropped}
    chosen = {"data.datasets": ["sst2", "squad_v2", "mnli"], "data.batch_size": 4}
    return remaining | chosen | {"training.steps": 6, "mixing.passes": 2, "data.max_judged_rows": 8}


@pytest.fixture(scope="session")
def with_teachers(plain, teachers, span_run) -> dict[str, object]:
    """The same with three teachers of SST-2, one of SQuAD 2.0 and none of MNLI."""
    return plain | {
        "distillation.host": "process",
        "distillation.teachers.sst2": str(teachers.directory / "teachers.json"),
        "distillation.teachers.squad_v2": [str(span_run.directory)],
    }


def weights(run: rr.Run) -> bytes:
    return (run.hf_dir / "model.safetensors").read_bytes()


@pytest.fixture(scope="session")
def mixture(with_teachers, tmp_path_factory):
    kept = {"training.keep_checkpoints_at_end": 1}
    place = tmp_path_factory.mktemp("runs") / "taught"
    return rr.multitask(overrides=with_teachers | kept, run_dir=place)


def test_the_journal_tells_of_each_data_set_who_was_right(mixture):
    rows = read_rows(mixture.directory / "metrics.jsonl")
    names = {name for row in rows for name in row}
    assert {f"teachers/sst2/right_{n}" for n in range(4)} <= names
    assert {"teachers/squad_v2/right_0", "teachers/squad_v2/right_1"} <= names
    assert not [n for n in names if n.startswith(("teachers/mnli", "teachers/right"))]
    for name, heads in {"sst2": 1, "squad_v2": 2}.items():
        counted = [v for r in rows for n, v in r.items() if n.startswith(f"teachers/{name}/")]
        mixed = [r.get(f"mix/{name}", 0) for r in rows]
        assert sum(counted) == heads * sum(mixed) > 0
    assert {"train/sst2_soft", "train/squad_v2_soft", "train/mnli"} <= names
    assert "train/mnli_soft" not in names


def test_the_model_and_its_checkpoints_name_the_teachers(mixture, span_run):
    state = json.loads(next(mixture.directory.glob("checkpoints/*/state.json")).read_text())
    values = [item["dataset"] for item in state["record"]["teachers"]]
    assert values == ["sst2", "sst2", "sst2", "squad_v2"]
    assert "teachers" in state["identity"]
    manifest = json.loads((mixture.directory / "teachers.json").read_text())["datasets"]
    assert set(manifest) == {"sst2", "squad_v2"}
    card = (mixture.hf_dir / "README.md").read_text()
    assert "- teacher 3: `.../asked/hf`" in card
    assert str(span_run.directory) not in card
    assert "- distillation.temperature: `4.0`" in card


def test_without_soft_loss_it_is_the_plain_mixture(plain, with_teachers, tmp_path):
    first = rr.multitask(overrides=plain, run_dir=tmp_path / "plain")
    other = rr.multitask(
        overrides=with_teachers | {"distillation.kd_weight": 0.0}, run_dir=tmp_path / "gold"
    )
    ours, theirs = (load_file(run.hf_dir / "model.safetensors") for run in (first, other))
    for name, tensor in ours.items():
        assert_close(theirs[name], tensor, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    assert not (first.directory / "teachers.json").exists()


def test_rows_without_labels_are_taught_by_the_teachers_of_their_data_set(with_teachers, tmp_path):
    more_rows = tmp_path / "more.txt"
    more_rows.write_text("".join(f"film number {n} is better than expected\n" for n in range(24)))
    store = {"distillation.store": str(tmp_path / "store"), "data.max_rows": 8}
    chosen = (
        with_teachers | store | {"data.unlabelled.sst2": [str(more_rows)], "training.steps": 12}
    )
    run = rr.multitask(overrides=chosen, run_dir=tmp_path / "run")
    rows = [row for row in read_rows(run.directory / "metrics.jsonl") if "train/sst2" in row]
    judged = sum(row.get(f"teachers/sst2/right_{n}", 0) for row in rows for n in range(4))
    seen = sum(row.get("mix/sst2", 0) for row in rows)
    assert 0 < judged < seen  # rows without labels have no right answer to count


def test_a_stopped_mixture_goes_on_to_the_very_same_weights(mixture, with_teachers, tmp_path):
    ways = {
        "distillation.schedule": "linear",
        "distillation.store": str(tmp_path / "store"),
        "training.save_every_steps": 2,
        "training.keep_checkpoints": 9,
        "training.keep_checkpoints_at_end": 9,
    }
    whole = rr.multitask(overrides=with_teachers | ways, run_dir=tmp_path / "run")
    before = weights(whole)
    assert before != weights(mixture)
    for name in ("step-00000004", "step-00000006"):
        shutil.rmtree(whole.directory / "checkpoints" / name)
    (whole.directory / "metrics.json").unlink()
    again = rr.multitask(overrides=with_teachers | ways, run_dir=tmp_path / "run")
    assert weights(again) == before
    stores = [path.name for path in (tmp_path / "store").iterdir()]
    assert len(stores) == 4
    proven = [e for e in read_rows(tmp_path / "run" / "events.jsonl") if e["kind"] == "resumed"]
    assert len(proven) == 1


def test_a_data_set_keeps_its_weight_under_teachers(with_teachers, mixture, tmp_path):
    run = rr.multitask(overrides=with_teachers | {"mixing.weights.sst2": 0.0}, run_dir=tmp_path)
    head = "heads/sentiment/model.safetensors"
    ours, theirs = load_file(run.hf_dir / head), load_file(mixture.hf_dir / head)
    assert not ours["classifier.out_proj.weight"].equal(theirs["classifier.out_proj.weight"])


def test_a_stopped_mixture_goes_on_only_with_its_teachers(
    with_teachers, teachers, mixture, tmp_path
):
    run = shutil.copytree(mixture.directory, tmp_path / "run")
    (run / "metrics.json").unlink()
    rest = {
        "distillation.teachers.sst2": [str(teachers.directory / f"teacher-{n}") for n in (2, 1)]
    }
    with pytest.raises(rr.errors.RoadError, match=r"distillation\.teachers\.sst2"):
        rr.multitask(overrides=with_teachers | rest, run_dir=run)
    allowed = rest | {"distillation.allow_other_teachers": True}
    rr.multitask(overrides=with_teachers | allowed, run_dir=run)
    assert len(json.loads((run / "teachers.json").read_text())["before"]) == 1


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"distillation.teachers.mnly": "x/y"}, 2, "did you mean 'mnli'?"),
        ({"distillation.num_teachers": 1}, 2, "names none for mnli"),
        (
            {"distillation.num_teachers": 1, "distillation.teachers.mnli": "[]"},
            2,
            "distillation.teachers.sst2 lists 3",
        ),
        ({"distillation.teachers.mnli": "SST2"}, 4, "distillation.teachers.mnli: "),
        ({"distillation.teachers.sst2": "SQUAD"}, 4, "ForSequenceClassification"),
        ({"distillation.teachers.mnli": "/nowhere"}, 4, "distillation.teachers.mnli: /nowhere"),
        ({"distillation.temperature": 0}, 2, "distillation.temperature"),
        ({"data.unlabelled.mnli": "[more.txt]"}, 2, "data.unlabelled.mnli: rows without labels"),
    ],
)
def test_mistakes_are_told(
    road, flags, with_teachers, teachers, span_run, tmp_path, changed, code, message
):
    places = {"SST2": teachers.directory / "teacher-0", "SQUAD": span_run.directory}
    changed = {key: places.get(value, value) for key, value in changed.items()}
    result = road("multitask", *flags(with_teachers | changed), "--run-dir", tmp_path / "run")
    assert result.code == code, result.err
    assert message in result.err
    assert not (tmp_path / "run").exists()


def test_roads_preset_forgets_no_data_set():
    config = preset_config("road_with_kd")
    assert config.distillation.temperature > 3
    with pytest.raises(rr.errors.ConfigError, match="names none for triviaqa, natural_questions"):
        locate_teachers(config)
