"""Teachers in actors give what teachers in this process give, also when killed or frozen."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from road_ray.data.catalog import task
from road_ray.distillation import weighting
from road_ray.distillation.ensemble import LocalEnsemble, annotate
from road_ray.errors import ClusterError, ConfigError

pytestmark = pytest.mark.ray

NLI, MRC = task("nli"), task("mrc")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrs"]
FLOAT16 = {"rtol": 2**-11, "atol": 1e-6}  # what rounding to float16 may change


def make_teacher(directory: Path, seed: int, *, kind: str = "nli") -> Path:
    from transformers import (
        ElectraConfig,
        ElectraForQuestionAnswering,
        ElectraForSequenceClassification,
        ElectraTokenizer,
    )

    labels = NLI.kind.labels if kind == "nli" else ("start", "end")
    config = ElectraConfig(
        vocab_size=len(WORDS),
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    torch.manual_seed(seed)
    model = (ElectraForSequenceClassification if kind == "nli" else ElectraForQuestionAnswering)(
        config
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(directory)
    vocab = {word: index for index, word in enumerate(WORDS)}
    ElectraTokenizer(vocab=vocab).save_pretrained(directory)
    return directory


def batches(count: int, *, kind: str = "nli", size: int = 4, length: int = 10) -> list[dict]:
    generator = torch.Generator().manual_seed(count)
    made = []
    for _ in range(count):
        ids = torch.randint(5, len(WORDS), (size, length), generator=generator)
        mask = torch.ones_like(ids)
        mask[-1, length // 2 :] = 0
        one = {"input_ids": ids, "attention_mask": mask, "token_type_ids": mask.cumsum(1) // 5 % 2}
        gold = torch.randint(3, (size,), generator=generator)
        names = ["labels"] if kind == "nli" else ["start_positions", "end_positions"]
        made.append(one | {name: gold.clone() for name in names})
    return made


def gone(pid: int) -> bool:
    """True when the process has ended (a zombie that waits for its parent has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def cluster():
    import ray

    place = tempfile.mkdtemp(prefix="rr", dir="/tmp")  # short: sockets have a length limit
    ray.init(
        address="local",
        _temp_dir=place,
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
    )
    yield ray
    ray.shutdown()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    root = tmp_path_factory.mktemp("teachers")
    return [make_teacher(root / str(seed), seed) for seed in range(3)]


@pytest.fixture(scope="module")
def pool(cluster, directories):
    """Three teachers for the tests that leave them working."""
    from road_ray.distributed import teachers

    with teachers.start(directories, NLI, num_cpus=1, start_timeout_seconds=90) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def local(directories):
    return LocalEnsemble.load(directories, NLI)


def test_actors_answer_as_teachers_in_this_process_do(pool, local):
    assert pool.size == local.size == 3
    for one in batches(3):
        logits = pool.gather(pool.submit(one))
        assert logits.dtype == torch.float32
        assert_close(logits, local.gather(local.submit(one)), **FLOAT16)


def test_spans_travel_too(cluster, tmp_path):
    from road_ray.distributed import teachers

    places = [make_teacher(tmp_path / "mrc", 0, kind="mrc")]
    here = LocalEnsemble.load(places, MRC)
    (one,) = batches(1, kind="mrc")
    with teachers.start(places, MRC, num_cpus=0.5) as there:
        logits = there.gather(there.submit(one))
    assert logits.shape == (1, 4, 2, 10)
    assert_close(logits, here.gather(here.submit(one)), **FLOAT16)


def test_another_process_asks_the_same_teachers(cluster, pool):
    (one,) = batches(1)

    @cluster.remote(num_cpus=0)
    def ask(handles, ensemble, batch):
        from road_ray.distributed.teachers import attach

        with attach(handles) as attached:
            first = attached.gather(attached.submit(batch))
        return first.numpy(), ensemble.gather(ensemble.submit(batch)).numpy()

    first, second = cluster.get(ask.remote(pool.handles, pool, one), timeout=120)
    expected = pool.gather(pool.submit(one))  # still alive: attached ensembles do not own them
    assert torch.equal(torch.tensor(first), expected)
    assert torch.equal(torch.tensor(second), expected)


def test_a_full_queue_is_waited_for(pool):
    from road_ray.distributed.teachers import MAX_PENDING_CALLS

    (one,) = batches(1)
    handles = [pool.submit(one) for _ in range(MAX_PENDING_CALLS + 30)]
    expected = pool.gather(handles[0])
    assert all(torch.equal(pool.gather(handle), expected) for handle in handles[-5:])


def test_a_teacher_killed_in_mid_stream_changes_nothing(pool):
    stream = batches(8)
    weigh = weighting.resolve("correctness")
    undisturbed = [softened["soft_logits"] for softened in annotate(stream, pool, weigh)]
    victim = pool.health()[1]
    disturbed = []
    for step, softened in enumerate(annotate(stream, pool, weigh)):
        disturbed.append(softened["soft_logits"])
        if step == 2:
            os.kill(victim, signal.SIGKILL)
    assert gone(victim)
    assert pool.health()[1] != victim
    assert len(disturbed) == len(stream)
    assert all(torch.equal(a, b) for a, b in zip(disturbed, undisturbed, strict=True))


def test_a_frozen_teacher_is_replaced_after_the_timeout(pool):
    from road_ray.distributed.teachers import attach

    stream = batches(4)
    expected = [pool.gather(pool.submit(one)) for one in stream]
    hasty = attach(dataclasses.replace(pool.handles, timeout_seconds=2.0))
    victim = pool.health()[2]
    os.kill(victim, signal.SIGSTOP)
    begin = time.monotonic()
    requests = [hasty.submit(one) for one in stream]
    answers = [hasty.gather(request) for request in requests]
    assert time.monotonic() - begin < 60
    assert hasty.replacements == 1
    assert gone(victim)
    assert pool.health()[2] != victim
    assert all(torch.equal(a, b) for a, b in zip(answers, expected, strict=True))


def test_a_teacher_that_cannot_come_back_stops_the_run(cluster, tmp_path):
    from road_ray.distributed import teachers

    place = make_teacher(tmp_path / "lost", 0)
    (one,) = batches(1)
    with teachers.start([place], NLI, num_cpus=0.5) as ensemble:
        ensemble.gather(ensemble.submit(one))
        shutil.rmtree(place)
        os.kill(ensemble.health()[0], signal.SIGKILL)
        with pytest.raises(ClusterError, match=r"teacher 0 of 1 .*lost\) is gone for good"):
            ensemble.gather(ensemble.submit(one))


def test_a_teacher_that_never_answers_is_replaced_once_and_then_reported(cluster, tmp_path):
    from road_ray.distributed import teachers

    place = make_teacher(tmp_path / "slow", 0)
    (one,) = batches(1)
    with teachers.start([place], NLI, num_cpus=0.5) as ensemble:
        hasty = teachers.attach(
            dataclasses.replace(ensemble.handles, timeout_seconds=0.01, start_timeout_seconds=0.01)
        )
        os.kill(ensemble.health()[0], signal.SIGSTOP)
        with pytest.raises(ClusterError, match=r"(?s)replaced and did not answer again.*kept:"):
            hasty.gather(hasty.submit(one))
        assert hasty.replacements == 1


def test_a_teacher_that_does_not_load_is_named_at_the_start(cluster, directories, tmp_path):
    from road_ray.distributed import teachers

    broken = make_teacher(tmp_path / "broken", 0)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(ClusterError, match=r"teacher 1 of 2 .*broken\) cannot load: .*cannot be"):
        teachers.start([directories[0], broken], NLI, num_cpus=0.5)


def test_a_mistake_in_the_batch_names_the_teacher(pool):
    (one,) = batches(1)
    with pytest.raises(ClusterError, match="teacher 0"):
        pool.gather(pool.submit(one | {"input_ids": one["input_ids"] + 1000}))
    assert_close(pool.gather(pool.submit(one)), pool.gather(pool.submit(one)))


@pytest.mark.parametrize("asked", [{"num_cpus": 64}, {"num_gpus": 1}, {"resources": {"moon": 1}}])
def test_teachers_without_a_place_fail_at_once(cluster, directories, asked):
    from road_ray.distributed import teachers

    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"(?s)asked.*available.*3 x"):
        teachers.start(directories, NLI, **asked)
    assert time.monotonic() - begin < 10


def test_teachers_that_would_wait_for_others_give_up_in_time(cluster, pool, directories):
    from road_ray.distributed import teachers

    with pytest.raises(ClusterError, match=r"not there after 3 s; free in the cluster: CPU \d"):
        teachers.start(directories, NLI, num_cpus=1, start_timeout_seconds=3)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(seconds):
    from road_ray.distributed import teachers

    with pytest.raises(ConfigError, match="timeout_seconds"):
        teachers.start(["a"], NLI, timeout_seconds=seconds)


def test_the_public_ensemble_is_the_same_in_actors_and_in_this_process(cluster, directories, local):
    from road_ray.distributed.ensemble import Ensemble

    (one,) = batches(1)
    soft = {}
    for host in ("actors", "process"):
        options = {"num_cpus": 0.3} if host == "actors" else {}
        with Ensemble(directories, task="mnli", host=host, **options) as ensemble:
            assert ensemble.size == 3
            expected = local.gather(local.submit(one))
            assert_close(ensemble.logits(one), expected, **FLOAT16)
            soft[host] = ensemble.soft_targets(one, weighting="correctness", wrong=0.5)
            (softened,) = ensemble.annotate([one], lookahead=2, wrong=0.5)
            assert torch.equal(softened["soft_logits"], soft[host])
    # A sum that cancels keeps the rounding of its summands: relative to the largest, boost 2.
    assert_close(soft["actors"], soft["process"], rtol=0, atol=2**-10 * float(expected.abs().max()))
    assert cluster.is_initialized()  # a cluster that was there stays there
