"""A plan tells what the run itself then does, and leaves nothing behind."""

from types import SimpleNamespace

import pytest
from safetensors.torch import load_file

import road_ray as rr
from road_ray.errors import ClusterError, ConfigError
from road_ray.recipes import plan as module
from road_ray.recipes.plan import plan
from road_ray.recipes.train import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.verbs import VERBS, configure


def planned(verb, overrides):
    return plan(verb, configure(verb, overrides=overrides), VERBS[verb].run)


def test_a_plan_of_fine_tuning_agrees_with_the_run(sentiment, tmp_path):
    untold = {"tracking.mlflow_uri": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    estimate = planned("finetune", sentiment | untold | {"run_dir": str(tmp_path / "run")})
    assert not [*tmp_path.iterdir()]
    assert (estimate["steps"], estimate["batch_size"]) == (6, 16)
    assert 80 <= estimate["rows"] <= 96  # the last batch of an epoch is smaller
    memory = estimate["memory_bytes"]
    assert memory["parameters"] == 4 * estimate["parameters"] == memory["gradients"]
    assert memory["optimizer"] >= 2 * memory["parameters"]  # two moments
    assert memory["activations"] > 0
    assert estimate["measured_step_seconds"] > estimate["measured_data_seconds"] >= 0
    assert estimate["hours"] == pytest.approx(6 * estimate["step_seconds"] / 3600)
    low, high = estimate["measured_step_range"]
    assert 0 < low <= estimate["measured_step_seconds"] <= high
    assert estimate["rows_per_epoch"] == 150
    kept = {"run_dir": str(tmp_path / "run"), "training.keep_checkpoints_at_end": 1}
    run = rr.finetune(overrides=sentiment | kept | {"training.log_every_steps": 6})
    rows = read_rows(run.directory / "metrics.jsonl")
    row = next(one for one in rows if "time/tokens_per_second" in one)
    trained = row["time/tokens_per_second"] * 6 * row["time/step_seconds"]
    assert estimate["tokens"] == pytest.approx(trained, rel=1e-5)
    (checkpoint,) = (run.directory / "checkpoints").glob("step-*")
    tensors = [
        tensor for path in checkpoint.rglob("*.safetensors") for tensor in load_file(path).values()
    ]
    assert estimate["disk_bytes"]["checkpoint"] == sum(tensor.nbytes for tensor in tensors)
    weights = load_file(checkpoint / "model.safetensors").values()
    assert sum(tensor.numel() for tensor in weights) == estimate["parameters"]


def test_sharded_workers_need_their_part_of_the_memory(sentiment, monkeypatch):
    monkeypatch.setattr("road_ray.distributed.room.available_resources", lambda: {"CPU": 8.0})
    estimate = planned("finetune", sentiment | {"workers": 4, "training.fsdp": True})
    memory = estimate["memory_bytes"]
    assert memory["parameters"] == estimate["parameters"] == memory["gradients"]
    assert 2 * memory["parameters"] <= memory["optimizer"] < 2.1 * memory["parameters"]


@pytest.mark.parametrize("verb", ["distill", "multitask"])
def test_teachers_are_measured_in_this_process(sentiment, teachers, tmp_path, monkeypatch, verb):
    monkeypatch.setattr(train, "connected", None)
    chosen = sentiment | {"run_dir": str(tmp_path / "run")}
    named: object = [str(teachers.directory / "teachers.json")]
    if verb == "multitask":
        chosen["data.datasets"] = [chosen.pop("data.dataset")]
        named = {"sst2": named}
    estimate = planned(verb, chosen | {"distillation.teachers": named})
    assert estimate["steps"] == 6


@pytest.mark.parametrize(
    ("verb", "changes", "runs", "models", "checkpoints"),
    [
        ("finetune", {}, 1, 1, 3),  # two, and one that is being written
        ("teachers", {"num_teachers": 5}, 5, 5, 3),  # those of finished runs are removed
        ("teachers", {"num_teachers": 5, "max_concurrent": 2}, 5, 5, 6),
        ("teachers", {"num_teachers": 5, "training.keep_checkpoints_at_end": 1}, 5, 5, 3 + 4),
        ("multitask", {"data.datasets": ["mnli", "snli", "cola"]}, 1, 1 + 3, 3),
    ],
)
def test_the_disk_holds_models_and_the_checkpoints_of_runs_in_progress(
    verb, changes, runs, models, checkpoints
):
    config = configure(verb, overrides=changes)
    measured = SimpleNamespace(parameter_bytes=1, checkpoint_bytes=100)
    most = module._most_bytes(config, measured, runs)
    assert most == models + 100 * checkpoints


def test_what_cannot_be_placed_is_told_before_anything_is_built(sentiment, monkeypatch):
    monkeypatch.setattr(module, "measured_steps", lambda *_: pytest.fail("was built"))
    with pytest.raises(ConfigError, match="batch_size = 16 is less"):
        planned("distill", sentiment | {"workers": 10_000})
    options = sentiment | {"workers": 10_000, "data.batch_size": 20_000}
    with pytest.raises(ClusterError, match="no room for 10000 processes"):
        planned("distill", options)


def test_the_tokens_of_epochs_do_not_depend_on_the_seed(sentiment):
    whole = sentiment | {"training.steps": None, "data.epochs": 2}
    found = [planned("finetune", whole | changes) for changes in ({"seed": 1}, {"num_seeds": 3})]
    assert found[0]["tokens"] == found[1]["tokens"]
    assert [estimate["runs"] for estimate in found] == [1, 3]
    with pytest.raises(ConfigError, match="no preset with a pool"):
        planned("finetune", whole | {"pool": {"sst2": {}}})


def test_a_plan_builds_no_corpus_knows_the_model_and_wants_a_row_for_each_worker(
    pretraining, tmp_path
):
    shards = tmp_path / "shards"
    chosen = pretraining | {"data.shards": str(shards)}
    estimate = planned("pretrain", chosen)
    assert not shards.exists()
    built = planned("pretrain", pretraining)  # the shards of other tests, or a sample again
    assert estimate["parameters"] == built["parameters"]
    assert (estimate["steps"], estimate["batch_size"], estimate["rows"]) == (6, 8, 48)
    assert 0 < estimate["tokens"] <= 6 * 8 * 32
    with pytest.raises(ConfigError, match=r"data\.batch_size = 4 is less than"):
        planned("pretrain", pretraining | {"workers": 8, "data.batch_size": 4})
