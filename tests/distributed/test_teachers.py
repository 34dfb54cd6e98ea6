"""Teachers in actors give the logits of teachers in process, also when actors are killed, frozen or
broken (every fault is asserted to have happened); their resources, refusal without room.
"""

import os
import shutil
import signal
import time
from contextlib import suppress
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from road_ray.data.catalog import task
from road_ray.distillation import weighting
from road_ray.distillation.annotate import annotate
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.distillation.stored_ensemble import rounded
from road_ray.distillation.teacher import TeacherOptions
from road_ray.distributed.teachers import start_teachers
from road_ray.errors import CheckpointError, ClusterError, RoadError
from tests.cluster import alive, until
from tests.tiny_teacher import LABELS, make_batch, make_teacher

pytestmark = pytest.mark.ray
NLI, MRC = task("nli"), task("mrc")
SMALL = {"num_cpus": 0.25, "start_timeout_seconds": 180}
FLOAT16 = {"rtol": 2**-11, "atol": 1e-6}  # what rounding to float16 may change


def batches(count: int) -> list[dict]:
    return [make_batch(number) for number in range(count)]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Three teachers on disk. Not to be written to."""
    root = tmp_path_factory.mktemp("teachers")
    return [make_teacher(root / str(seed), seed) for seed in range(3)]


@pytest.fixture(scope="module")
def three(cluster, directories):
    """Three teachers for the tests that leave them working."""
    with start_teachers(directories, NLI, num_cpus=0.5, start_timeout_seconds=180) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def local(directories):
    return LocalEnsemble(directories, NLI)


def hasty(ensemble, **changes):
    """Another client of the same teachers, in more of a hurry."""
    other = ensemble.part(range(ensemble.size))
    for name, seconds in ({"timeout_seconds": 2.0} | changes).items():
        setattr(other, name, seconds)
    return other


def all_answers(ensemble, stream):
    requests = [ensemble.submit(item) for item in stream]
    return [ensemble.gather(request) for request in requests]


def same(some, others):
    return len(some) == len(others) and all(map(torch.equal, some, others))


def test_actors_answer_as_teachers_in_this_process_do(three, local):
    assert three.size == local.size == 3
    for batch in batches(3):
        logits = three.gather(three.submit(batch))
        assert logits.dtype == torch.float32
        assert_close(logits, local.gather(local.submit(batch)), **FLOAT16)
    assert three.stats["time/teacher_busy_seconds"] > 0
    assert not three._open, "answers that were read are held no longer"


@pytest.mark.parametrize(("size", "puts"), [(4, 0), (600, 1)])
def test_a_large_batch_is_sent_to_the_cluster_once(cluster, three, monkeypatch, size, puts):
    """Each teacher had its own copy of the inputs."""
    put = Mock(wraps=cluster.put)
    monkeypatch.setattr(cluster, "put", put)
    logits = three.gather(three.submit(make_batch(0, size=size, length=32)))
    assert (put.call_count, logits.shape) == (puts, (3, size, 3))
    three.submit({"texts": [("as large as it may be",)]})  # whose size is not looked at
    assert put.call_count == puts + 1


def test_another_process_asks_the_same_teachers(cluster, three):
    (single,) = batches(1)

    @cluster.remote(num_cpus=0)
    def ask(ensemble, batch):
        with ensemble:
            return ensemble.gather(ensemble.submit(batch)).numpy()

    answer = cluster.get(ask.remote(three, single), timeout=120)
    expected = three.gather(three.submit(single))  # still alive: a copy does not own them
    assert torch.equal(torch.tensor(answer), expected)


def test_a_teacher_killed_in_mid_stream_changes_nothing(three):
    stream = batches(8)
    weigh = weighting.resolve("correctness")
    undisturbed = [softened["soft_logits"] for softened in annotate(stream, three, weigh)]
    victim = three.health()[1]
    disturbed = []
    for step, softened in enumerate(annotate(stream, three, weigh)):
        disturbed.append(softened["soft_logits"])
        if step == 2:
            os.kill(victim, signal.SIGKILL)
    assert not alive(victim)
    assert three.health()[1] != victim
    assert same(disturbed, undisturbed)


def test_a_frozen_teacher_is_replaced_and_costs_the_others_no_time(three, record_property):
    """To start anew takes it longer than the time that an answer of the others may take."""
    stream = batches(4)
    expected, pids = all_answers(three, stream), three.health()
    os.kill(pids[0], signal.SIGSTOP)
    client, events = hasty(three, timeout_seconds=1.0), []
    client.on_event = lambda kind, **fields: events.append((kind, fields["teachers"]))
    answers = all_answers(client, stream)
    record_property("teacher hangs", "replaced after the time-out (1 s here), the same answers")
    assert events == [("teacher_replaced", [0])]
    assert until(lambda: not alive(pids[0]), 10)
    assert three.health()[1:] == pids[1:]
    assert same(answers, expected)


def test_replicas_answer_in_turn_also_after_one_is_killed(cluster, directories, monkeypatch):
    """Of a relative directory, whose labels a relative map names."""
    monkeypatch.chdir(directories[0].parent)
    label_map = {directories[0].name: {label: label for label in LABELS}}
    options = TeacherOptions(label_map=label_map)
    how = {"replicas": 2, "teacher": options} | SMALL
    with start_teachers([directories[0].name], NLI, **how) as ensemble:
        stream = batches(6)
        expected = all_answers(ensemble, stream)
        pids = ensemble.health()
        assert len(set(pids)) == 2
        requests = [ensemble.submit(item) for item in stream]
        assert {actor for ((actor, _),) in requests} == {*ensemble.actors[0]}
        os.kill(pids[0], signal.SIGKILL)
        assert same([ensemble.gather(request) for request in requests], expected)
        assert same(all_answers(ensemble, stream), expected)
        assert not alive(pids[0])
    with pytest.raises(ClusterError, match="the ensemble is closed"):
        ensemble.submit(stream[0])


def test_a_teacher_that_cannot_come_back_stops_the_run(cluster, tmp_path):
    place = make_teacher(tmp_path / "lost", 0)
    (first,) = batches(1)
    with start_teachers([place], NLI, **SMALL) as ensemble:
        ensemble.gather(ensemble.submit(first))
        shutil.rmtree(place)
        os.kill(ensemble.health()[0], signal.SIGKILL)
        with pytest.raises(RoadError, match=r"teacher 0 of 1 .*lost\): .*lost"):
            ensemble.gather(ensemble.submit(first))


def test_a_teacher_that_never_answers_is_replaced_once_and_then_reported(cluster, tmp_path):
    (first,) = batches(1)
    with start_teachers([make_teacher(tmp_path / "slow", 0)], NLI, **SMALL) as ensemble:
        client = hasty(ensemble, timeout_seconds=0.01, start_timeout_seconds=0.01)
        os.kill(pid := ensemble.health()[0], signal.SIGSTOP)
        with pytest.raises(ClusterError, match=r"(?s)replaced and did not answer again.*kept:"):
            client.gather(client.submit(first))
    with suppress(ProcessLookupError):  # Ray may not outlive the time it gives a stopped process
        os.kill(pid, signal.SIGKILL)


def test_a_mistake_in_the_batch_names_the_teacher(three):
    (first,) = batches(1)
    with pytest.raises(ClusterError, match="teacher 0"):
        three.gather(three.submit(first | {"input_ids": first["input_ids"] + 1000}))
    assert_close(three.gather(three.submit(first)), three.gather(three.submit(first)))


def test_numbers_keep_their_precision_and_large_logits_are_refused():
    large = torch.tensor([[1e6]])
    assert rounded(large, task("similarity").kind).dtype == np.float32
    with pytest.raises(CheckpointError, match="do not fit float16"):
        rounded(large, NLI.kind)


@pytest.mark.parametrize(
    ("options", "count", "expected"),
    [
        (
            {"num_cpus": 1.5, "num_gpus": 0.25, "resources": {"teacher": 1}},
            3,
            {"CPU": 1.5, "GPU": 0.25, "teacher": 1},
        ),
        ({}, 3, {"CPU": 1, "GPU": 0.0}),
        ({"replicas": 2}, 6, {"CPU": 0.66, "GPU": 0.0}),  # together half of the cluster
        ({"other_teachers": 5}, 8, {"CPU": 0.5, "GPU": 0.0}),
        ({"other_teachers": 5, "num_cpus": 2}, 8, {"CPU": 2, "GPU": 0.0}),
    ],
)
def test_an_actor_asks_for_what_its_teachers_need(monkeypatch, options, count, expected):
    room = Mock(side_effect=ClusterError("asked"))
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 8.0})
    monkeypatch.setattr("road_ray.distributed.teachers.room", room)
    with pytest.raises(ClusterError, match="asked"):
        start_teachers(["a", "b", "c"], NLI, **options)
    assert room.call_args.args[1:] == (count, expected)


@pytest.mark.parametrize("requested", [{"num_cpus": 64}, {"resources": {"moon": 1}}])
def test_teachers_without_a_place_fail_at_once(cluster, directories, requested, record_property):
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"(?s)asked.*available.*3 x"):
        start_teachers(directories, NLI, **requested)
    seconds = time.monotonic() - begin
    record_property("64 cores asked of 2", f"an error after {seconds:.1f} s, asked and available")
    assert seconds < 10


def test_a_teacher_that_does_not_load_is_named_at_the_start(cluster, directories, tmp_path):
    broken = make_teacher(tmp_path / "broken", 0)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(CheckpointError, match=r"teacher 0 of 1 .*broken\): .*cannot be"):
        start_teachers([broken], NLI, num_cpus=0.5)
