"""``Ensemble`` in a script: without a cluster, and with teachers in process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from road_ray.data.task_and_dataset import Classify, Regress, Task
from road_ray.distillation import weighting
from road_ray.distributed.public_ensemble import Ensemble
from road_ray.errors import CheckpointError, ConfigError, DataError
from tests.cluster import short_directory
from tests.forked_workers import FORKED
from tests.tiny_teacher import make_batch, make_teacher

LABELS = ("negative", "positive")


def batch() -> dict[str, torch.Tensor]:
    return make_batch(0, size=6, length=8) | {"labels": torch.tensor([0, 1] * 3)}


@pytest.fixture
def directories(tmp_path):
    return [make_teacher(tmp_path / str(seed), seed, labels=LABELS) for seed in range(3)]


def test_soft_targets_are_the_weighted_logits(directories):
    first = batch()
    with Ensemble(directories, task="sst2", host="process") as ensemble:
        logits = ensemble.logits(first)
        assert logits.shape == (3, 6, 2)
        for rule, options in (("mean", {}), ("correctness", {"wrong": 0.5, "all_wrong": "mean"})):
            weights = weighting.resolve(rule, **options)(logits, first["labels"])
            expected = weighting.combine(logits, weights)
            assert torch.equal(ensemble.soft_targets(first, weighting=rule, **options), expected)
            stream = ensemble.annotate([first, first], weighting=rule, **options)
            assert all(torch.equal(x["soft_logits"], expected) for x in stream)


def test_numbers_in_a_column_are_numbers(tmp_path):
    place, numbers = make_teacher(tmp_path / "numbers", kind="similarity"), torch.rand(6)
    with Ensemble([place], task=Task("own", Regress(0, 1)), host="process") as ensemble:
        batches = [batch() | {"labels": labels} for labels in (numbers, numbers[:, None])]
        row, column = (ensemble.soft_targets(x) for x in batches)
        assert torch.equal(row, column)
        assert torch.equal(column, ensemble.logits(batches[1])[0])


def test_task_and_labels_are_those_of_the_directories(tmp_path):
    labels = ("complaint", "praise", "question")
    own = [make_teacher(tmp_path / str(seed), seed, labels=labels) for seed in range(2)]
    own += [make_teacher(tmp_path / "turned", 2, labels=labels[::-1])]
    with Ensemble(own, host="process") as ensemble:
        assert ensemble.task.kind == Classify(labels)
        logits = ensemble.logits(batch())
    with Ensemble(own, task=Task("mails", Classify(labels)), host="process") as named:
        assert torch.equal(named.logits(batch()), logits)
    other = make_teacher(tmp_path / "other", 3, labels=LABELS)
    with pytest.raises(CheckpointError, match="label"):
        Ensemble([*own, other], host="process")


def test_with_a_store_each_row_is_asked_once(directories, tmp_path):
    first = batch()
    with Ensemble(directories, task="sst2", host="process") as live:
        expected = live.logits(first)
        with pytest.raises(ConfigError, match="no store"):
            live.label([first])
    with Ensemble(directories, task="sst2", store=tmp_path / "store", host="process") as ensemble:
        with pytest.raises(DataError, match=r"ensemble\.label"):
            ensemble.logits(first)
        assert ensemble.label([first, first]) == 6
        output = ensemble.logits(first)
        torch.testing.assert_close(output, expected, rtol=2**-10, atol=1e-4)
        assert torch.equal(ensemble.soft_targets(first, weighting="mean"), output.mean(0))
    with Ensemble(directories, task="sst2", store=tmp_path / "store") as again:
        assert again.label([first]) == 0  # in actors, but none was started
        assert torch.equal(again.logits(first), output)


def test_what_cannot_be_done_is_refused_before_anything_starts(directories, tmp_path):
    with pytest.raises(ConfigError, match="'actors', 'process'"):
        Ensemble(directories, task="sst2", host="cloud")
    with pytest.raises(ConfigError, match=r"precision is 'int8'\n.*'fp32', 'bf16'"):
        Ensemble(directories, task="sst2", precision="int8")
    with pytest.raises(ConfigError, match="a list of directories"):
        Ensemble([], task="sst2")
    with pytest.raises(ConfigError, match="did you mean 'sst2'"):
        Ensemble(directories, task="sst3")
    with pytest.raises(CheckpointError, match="task 'nli' has 3"):
        Ensemble(directories, task="mnli")


# Ray comes first: it reads RAY_AUTH_MODE when it is imported.
SCRIPT = """
import sys, ray
from pathlib import Path
from road_ray.distributed.public_ensemble import Ensemble
from road_ray.recipes.run_directory.run import launch
from road_ray.recipes.config import RunConfig
from tests.distributed.test_public_ensemble import batch
from tests.distributed.train.test_launch import report
from tests.forked_workers import use_forked_workers
use_forked_workers()
assert not ray.is_initialized()
with Ensemble(sys.argv[2:], task="sst2") as ensemble:  # three, also on two cores
    assert ensemble.logits(batch()).shape == (3, 6, 2)
    print(launch(report, RunConfig(workers=1, run_dir=Path(sys.argv[1]))))
assert not ray.is_initialized()
"""


@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "workers",
    [pytest.param("forked", marks=pytest.mark.guide), pytest.param("cold", marks=pytest.mark.long)],
)
def test_without_a_cluster_it_brings_its_own_and_takes_it_away(
    shared_cluster, directories, tmp_path, workers
):
    """A script as README has it, that has imported Ray first. ``cold``: in processes as users have
    them, teachers and a worker beside them that are no forks.
    """
    scratch = tmp_path / "scratch"
    removed = {"RAY_ADDRESS", "RAY_AUTH_MODE"} | ({FORKED} if workers == "cold" else set())
    unset = {k: v for k, v in os.environ.items() if k not in removed}
    with short_directory() as place:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(scratch), *map(str, directories)],
            cwd=Path(__file__).parents[2],
            env=unset | {"RAY_TMPDIR": place},
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert done.returncode == 0, done.stderr
    assert str({"rank": 0, "size": 1, "extra": 0}) in done.stdout
    assert list(scratch.iterdir()) == []
