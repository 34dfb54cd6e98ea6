"""Pool specifications: resources of actors, refusal of pools without room."""

from __future__ import annotations

import time

import pytest

from road_ray.distillation.teacher import TeacherOptions
from road_ray.distributed.teachers.pool import _absolute, _absolute_labels, start_teachers
from road_ray.errors import ClusterError, ConfigError
from tests.distributed.small import NLI
from tests.tiny_teacher import make_teacher


class Asked(Exception):
    """What was asked of the cluster: a number of actors, and the resources of each."""


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
    def check(actors, number, resources, **_):
        raise Asked(number, resources)

    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 8.0})
    monkeypatch.setattr("road_ray.distributed.teachers.pool.room", check)
    with pytest.raises(Asked) as asked:
        start_teachers(["a", "b", "c"], NLI, **options)
    assert asked.value.args == (count, expected)


@pytest.mark.parametrize(
    ("directories", "options", "message"),
    [
        ([], {}, "is empty"),
        (["a"], {"replicas": 0}, "replicas is 0"),
        (["a"], {"timeout_seconds": 0.0}, "timeout_seconds"),
        (["a"], {"timeout_seconds": float("nan")}, "timeout_seconds"),
        (["a"], {"start_timeout_seconds": float("inf")}, "start_timeout_seconds"),
    ],
)
def test_what_makes_no_pool_is_refused(directories, options, message):
    with pytest.raises(ConfigError, match=message):
        start_teachers(directories, NLI, **options)


@pytest.mark.ray
@pytest.mark.parametrize(
    "requested",
    [{"num_cpus": 64}, {"resources": {"moon": 1}}],
)
def test_teachers_without_a_place_fail_at_once(cluster, directories, requested, record_property):
    from road_ray.distributed.teachers import pool

    begin = time.monotonic()
    with pytest.raises(ClusterError, match=r"(?s)asked.*available.*3 x"):
        pool.start_teachers(directories, NLI, **requested)
    seconds = time.monotonic() - begin
    record_property("64 cores asked of 2", f"an error after {seconds:.1f} s, asked and available")
    assert seconds < 10


@pytest.mark.ray
def test_a_teacher_that_does_not_load_is_named_at_the_start(cluster, directories, tmp_path):
    from road_ray.distributed.teachers import pool

    broken = make_teacher(tmp_path / "broken", 0)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(ClusterError, match=r"teacher 0 of 1 .*broken\) cannot load: .*cannot be"):
        pool.start_teachers([broken], NLI, num_cpus=0.5)


def test_directories_and_those_in_the_map_of_labels_are_absolute(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    label_map = {"model": {"a": "b"}, "org/name": {"c": "d"}, "docs": "e"}
    place = str(tmp_path / "model")
    assert _absolute("model") == place
    assert _absolute("org/name") == "org/name"
    found = _absolute_labels(TeacherOptions(label_map=label_map)).label_map
    assert found == {place: {"a": "b"}, "org/name": {"c": "d"}, "docs": "e"}
