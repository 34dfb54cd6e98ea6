"""Marks of fields decide which keys may differ when a run is resumed."""

from typing import Annotated

from pydantic import Field

from road_ray.config import Config
from road_ray.config.base import ByContent, Free, FreeOnResume, marked, resume_identity
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.train.config import DistillConfig
from road_ray.training.config import EarlyStoppingConfig, TrainingConfig


class _Inner(Config):
    every: Annotated[int, FreeOnResume(unless="patience")] = 1
    patience: int | None = None
    place: Annotated[str, ByContent(unless="hub")] = "here"
    hub: str | None = None


class _Run(Config):
    workers: Free[int] = 0
    seed: int = 0
    inner: _Inner = _Inner()
    sets: dict[str, _Inner] = Field({})
    weights: dict[str, float] = Field({})


def test_a_field_without_a_mark_decides():
    run = _Run(sets={"my.set": _Inner()}, weights={"a": 1.0})
    assert marked(run, FreeOnResume) == {"workers", "inner.every", "sets.my.set.every"}
    none = ("inner.patience", "inner.hub", "sets.my.set.patience", "sets.my.set.hub")
    rest = {"verb": "_run", "seed": 0, "weights.a": 1.0}
    assert resume_identity(run) == rest | dict.fromkeys(none)


def test_a_mark_does_not_hold_where_the_key_that_it_names_is_set():
    run = _Run(inner=_Inner(patience=2, hub="org/name"))
    assert marked(run, FreeOnResume) == {"workers"}
    identity = resume_identity(run)
    assert (identity["inner.every"], identity["inner.place"]) == (1, "here")
    stopping = TrainingConfig(early_stopping=EarlyStoppingConfig(patience=2))
    free = marked(DistillConfig(training=stopping), FreeOnResume)
    assert "training.evaluate_every_steps" not in free  # they may end the training


def test_what_may_differ_in_a_distillation_and_a_pretraining():
    shared = {"run_dir", "workers", "min_workers", "gpus_per_worker", "address", "console"}
    shared |= {"tracking", "training.log_every_steps", "training.evaluate_every_steps"}
    shared |= {"training.save_every_steps", "training.keep_checkpoints", "training.mirror"}
    shared |= {"training.keep_checkpoints_at_end", "training.activation_checkpointing"}
    shared |= {"training.fsdp"}
    teaching = """host lookahead replicas resources num_teachers
        timeout_seconds answers store check_parity"""
    teachers = {f"distillation.{name}" for name in teaching.split()}
    assert marked(DistillConfig(), FreeOnResume) == shared | teachers
    shards = {"data.shard_cache", "data.shard_cache_gb"}
    assert marked(PretrainConfig(), FreeOnResume) == shared | shards
