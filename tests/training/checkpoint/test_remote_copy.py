"""Copies on an S3 server of the test's own: whole or not at all, and enough to go on from."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
import torch
from pyarrow import fs

from road_ray.data.mixing import accumulated
from road_ray.errors import CheckpointError, ConfigError, InterruptedRunError, ResourceError
from road_ray.training.checkpoint.atomic_commit import MANIFEST, Checkpoints, verify
from road_ray.training.checkpoint.remote_copy import RemoteCopy
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.worker import Worker
from tests.object_store import object_store

ALONE = Worker()


@pytest.fixture(scope="module")
def server():
    """``host:port`` of an S3-compatible server with a bucket ``runs``, and its file system."""
    with object_store("runs") as host:
        yield host, fs.S3FileSystem(endpoint_override=host, scheme="http", region="us-east-1")


@pytest.fixture
def url(server, request):
    name = request.node.name.replace("[", "-").strip("]")
    return f"s3://runs/{name}?endpoint_override={server[0]}&scheme=http&region=us-east-1"


def committed(root, steps, keep=9):
    made = Checkpoints(root, keep=keep)

    def write(directory):
        (directory / "a.txt").write_text("a" * 3000)
        (directory / "hf").mkdir()
        (directory / "hf" / "b.txt").write_text("b")

    return [made.save(step, write) for step in steps]


def test_a_copy_comes_back_as_it_was_and_only_the_newest_are_kept(url, tmp_path):
    mirror = RemoteCopy(url, keep=2)
    for directory in committed(tmp_path / "one", (1, 2, 3)):
        mirror.push(directory)
    assert mirror._names() == ["step-00000003", "step-00000002"]
    (tmp_path / "two").mkdir()
    fetched = mirror.pull(tmp_path / "two")
    assert fetched == tmp_path / "two" / "step-00000003"
    assert verify(fetched) == []
    assert (fetched / "hf" / "b.txt").read_text() == "b"
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["step-00000003"]


def test_a_copy_that_was_cut_short_or_damaged_is_passed_over(url, server, tmp_path, caplog):
    mirror, files = RemoteCopy(url, keep=9), server[1]
    for directory in committed(tmp_path / "one", (1, 2, 3))[1:]:
        mirror.push(directory)
    base = mirror._base
    (tmp_path / "two").mkdir()
    files.delete_file(f"{base}/step-00000003/{MANIFEST}")
    with files.open_output_stream(f"{base}/step-00000002/a.txt") as sink:
        sink.write(b"x" * 3000)
    with pytest.raises(ResourceError, match="every copy is damaged"):
        mirror.pull(tmp_path / "two")
    mirror.push(tmp_path / "one" / "step-00000001")
    assert mirror.pull(tmp_path / "two").name == "step-00000001"
    assert "step-00000002" in caplog.text


def test_a_storage_that_fails_is_told_without_its_settings(tmp_path):
    mirror = RemoteCopy(f"file://{tmp_path}/a?x=1")
    (tmp_path / "a").write_text("in the way")
    (directory,) = committed(tmp_path / "one", (1,))
    with pytest.raises(ResourceError, match="the storage fails") as caught:
        mirror.push(directory)
    assert "kept:" in str(caught.value)
    with pytest.raises(ConfigError, match="no storage of that address"):
        RemoteCopy("nope://bucket/run")


def test_a_run_whose_disk_is_gone_goes_on_from_the_copy(tiny, url, tmp_path):
    def steps(start):
        return accumulated(tiny.stream(tiny.rows()).since(start), 1)

    def interrupted(start):
        for number, passes in enumerate(steps(start), start):
            if number == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            yield passes

    straight = tiny.supervised()
    train(straight, steps, tiny.training(tmp_path / "straight"), ALONE)
    with pytest.raises(InterruptedRunError):
        train(tiny.supervised(), interrupted, tiny.training(tmp_path / "run", mirror=url), ALONE)
    shutil.rmtree(tmp_path / "run")
    again = tiny.supervised()
    train(again, steps, tiny.training(tmp_path / "run", mirror=url), ALONE)
    ours, theirs = again.state_dict(), straight.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    events = read_rows(tmp_path / "run" / "events.jsonl")
    assert [event["kind"] for event in events] == ["fetched_from_mirror", "resumed"]


RUN = {"configuration": {"verb": "finetune", "seed": 1}, "identity": {"rows": "ab"}}


def pulled(tmp_path, state, run):
    """A copy with this state, fetched for this run."""
    made, mirror = Checkpoints(tmp_path / "one"), RemoteCopy(str(tmp_path / "mirror"))
    mirror.push(
        made.save(3, lambda place: (place / "state.json").write_text(json.dumps(state)) and None)
    )
    root = tmp_path / "two"
    root.mkdir()
    try:
        return mirror.pull(root, run)
    finally:
        assert not [*root.glob(".step-*")]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (RUN | {"configuration": {"verb": "finetune", "seed": 2}}, "seed: there 2, asked 1"),
        (RUN | {"configuration": {"verb": "distill", "seed": 1}}, "verb: there 'distill', asked"),
        (RUN | {"identity": {"rows": "cd"}}, "rows: there 'cd', asked 'ab'"),
        (RUN | {"identity": {}}, "rows: there None, asked 'ab'"),
    ],
)
def test_a_copy_of_another_run_is_refused_and_stays_where_it_is(tmp_path, state, message):
    with pytest.raises(CheckpointError, match=message) as refused:
        pulled(tmp_path, state, RUN)
    assert str(refused.value).startswith(f"{tmp_path}/mirror/step-00000003: ")
    assert "training.mirror" in str(refused.value)
    assert not [*(tmp_path / "two").iterdir()]
    assert verify(tmp_path / "mirror" / "step-00000003") == []


def test_a_key_of_another_version_does_not_make_another_run(tmp_path):
    later = {"verb": "finetune", "seed": 1, "new": True}
    fetched = pulled(tmp_path, RUN, RUN | {"configuration": later})
    assert fetched == tmp_path / "two" / "step-00000003"


def test_a_mirror_that_fails_does_not_stop_the_training(tiny, tmp_path, monkeypatch):
    def down(*_):
        raise ResourceError("down")

    def steps(start):
        return accumulated(tiny.stream(tiny.rows()).since(start), 1)

    monkeypatch.setattr(RemoteCopy, "push", down)
    options = {"save_every_steps": 3, "mirror": str(tmp_path / "mirror")}
    train(tiny.supervised(), steps, tiny.training(tmp_path / "run", **options), ALONE)
    kinds = [event["kind"] for event in read_rows(tmp_path / "run" / "events.jsonl")]
    assert kinds == ["mirror_failed", "mirror_failed"]
