"""Checkpoints: atomic commits, damage, retention, and the second copy elsewhere."""

import json
import logging
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from road_ray.errors import CheckpointError, ConfigError, ResourceError
from road_ray.system import remote_files
from road_ray.system.files import staged_beside
from road_ray.training.checkpoint_directory import (
    MANIFEST,
    REMOVED,
    Checkpoints,
    RemoteCopy,
    verify,
)
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.runs import python
from tests.training import conftest as tiny

FILES = ["model.safetensors", "state.json", "encoder/config.json"]


def writer(step):
    def write(directory: Path) -> None:
        save_file({"w": torch.full((50,), float(step))}, directory / "model.safetensors")
        (directory / "state.json").write_text(json.dumps({"step": step}))
        (directory / "encoder").mkdir()
        (directory / "encoder" / "config.json").write_text("{}")

    return write


def names(root):
    return sorted(path.name for path in root.iterdir())


@pytest.fixture
def two(tmp_path):
    """Steps 10 and 20, both good."""
    checkpoints = Checkpoints(tmp_path)
    for step in (10, 20):
        checkpoints.save(step, writer(step))
    return checkpoints


def test_a_finished_run_without_checkpoints_is_never_begun_again(two, tmp_path):
    assert two.retire(0) > 0
    assert names(tmp_path) == [REMOVED]
    with pytest.raises(CheckpointError, match="had finished, and its checkpoints were removed"):
        two.newest()
    assert two.retire(0) == 0
    two.save(20, writer(20))  # such as a copy from elsewhere
    assert two.newest() == tmp_path / "step-00000020"


def test_saving_a_committed_step_again_changes_nothing_but_leftovers(two):
    manifest = two.root / "step-00000020" / MANIFEST
    before = manifest.stat().st_mtime_ns
    Checkpoints(two.root, keep=1).save(20, writer(99))  # as after a kill between rename and prune
    assert names(two.root) == ["step-00000020"]
    assert manifest.stat().st_mtime_ns == before


def test_saving_a_damaged_step_again_mends_it(two):
    (two.root / "step-00000020" / "state.json").write_text("{")
    two.save(20, writer(20))
    assert verify(two.root / "step-00000020") == []
    assert names(two.root) == ["step-00000010", "step-00000020"]


def truncated(path):
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("harm", [truncated, Path.unlink])
def test_a_damaged_file_is_seen_and_the_older_one_taken(two, caplog, name, harm, record_property):
    harm(two.root / "step-00000020" / name)
    events = []
    with caplog.at_level(logging.WARNING):
        event = lambda kind, **fields: events.append({"kind": kind, **fields})  # noqa: E731
        newest = Checkpoints(two.root, on_event=event).newest()
    assert newest == two.root / "step-00000010"
    assert [event["kind"] for event in events] == ["checkpoint_damaged"]
    assert name in events[0]["problems"][0]
    assert "step-00000020" in caplog.text
    record_property(
        "newest checkpoint truncated", "seen, named and passed over; the older one loads"
    )


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_every_flipped_bit_is_seen(two, name):
    path = two.root / "step-00000020" / name
    good = path.read_bytes()
    stride = max(1, len(good) * 8 // 150)
    unseen = []
    for bit in range(0, len(good) * 8, stride):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        if not verify(path.parent if "/" not in name else path.parent.parent):
            unseen.append(bit)
    assert unseen == []
    path.write_bytes(good)
    assert two.newest() == two.root / "step-00000020"


def test_all_damaged_stops_instead_of_starting_afresh(two):
    for path in two.root.iterdir():
        (path / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match=r"(?s)every checkpoint.*00000020.*00000010.*fix:"):
        two.newest()
    assert names(two.root) == ["step-00000010", "step-00000020"]


def test_a_newer_format_is_named(two):
    manifest = two.root / "step-00000020" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    assert verify(manifest.parent) == [f"{MANIFEST} has format 2; this road_ray reads 1"]


def test_a_renamed_directory_is_not_another_step(two):
    (two.root / "step-00000020").rename(two.root / "step-00000030")
    assert two.newest() == two.root / "step-00000010"


def test_a_failing_writer_leaves_nothing_behind(two):
    def write(directory):
        writer(30)(directory)
        raise KeyError("a bug of the caller")

    with pytest.raises(KeyError):
        two.save(30, write)
    assert names(two.root) == ["step-00000010", "step-00000020"]


CHILD = """
import os, signal, sys, resource
from pathlib import Path
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.errors import ResourceError
root, mode, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def write(directory):
    for name in ("a", "sub/b"):
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb", buffering=0) as file:
            for at in range(10):
                if mode == "kill" and file.tell() + 500 * (name != "a") >= number:
                    os.kill(os.getpid(), signal.SIGKILL)
                file.write(bytes([at]) * 50)

if mode == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
try:
    Checkpoints(root).save(30, write)
except ResourceError as error:
    print(error)
    sys.exit(4)
"""


@pytest.mark.parametrize("number", [0, 950])
def test_a_kill_in_the_midst_of_writing_costs_nothing(two, number):
    done = python(CHILD, two.root, "kill", number)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(names(two.root)) == 3
    assert two.newest() == two.root / "step-00000020"
    two.save(30, writer(30))
    assert names(two.root) == ["step-00000020", "step-00000030"]
    assert two.newest() == two.root / "step-00000030"


def test_a_staged_directory_of_another_host_is_judged_by_its_age(two):
    """On a shared file system the process table of this machine knows nothing of it; that of a
    living process of this one stays.
    """
    here, gone = staged_beside(two.root / "step-00000030"), 2**22 + 1
    living = here.with_name(here.name.replace(f"-{os.getpid()}", f"-{os.getppid()}"))
    new, old = (two.root / f".step-{step:08d}.tmp-elsewhere_1-{gone}" for step in (30, 31))
    for path in (living, new, old):
        path.mkdir()
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    two.save(40, writer(40))
    assert [path.is_dir() for path in (living, new, old)] == [True, True, False]


def test_a_file_size_limit_keeps_the_old_checkpoint(two):
    done = python(CHILD, two.root, "limit", 200)
    assert done.returncode == 4, done.stderr
    assert str(two.root) in done.stdout
    assert "File too large" in done.stdout
    assert f"kept: {two.root / 'step-00000020'}" in done.stdout
    assert names(two.root) == ["step-00000010", "step-00000020"]


def test_a_full_disk_keeps_the_old_checkpoint(small_disk, record_property):
    disk = small_disk(300)
    checkpoints = Checkpoints(disk)
    checkpoints.save(10, writer(10))

    def write(directory):
        save_file({"w": torch.zeros(100_000)}, directory / "model.safetensors")

    with pytest.raises(ResourceError, match=r"(?s)No space left on device.*kept: .*00000010"):
        checkpoints.save(20, write)
    record_property("disk full", "path and what is kept are told; the old one loads")
    assert names(disk) == ["step-00000010"]
    assert checkpoints.newest() == disk / "step-00000010"
    checkpoints.save(20, writer(20))
    assert names(disk) == ["step-00000010", "step-00000020"]


def test_a_read_only_file_system_is_refused_at_the_start(small_disk):
    disk = small_disk(300)
    Checkpoints(disk).save(10, writer(10))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(
        ResourceError, match=r"(?s)Read-only.*make it writable.*kept: .*step-00000010"
    ):
        Checkpoints(disk).prepare()


@pytest.fixture
def url(server, request):
    name = request.node.name.replace("[", "-").strip("]")
    return f"s3://texts/{name}?endpoint_override={server}&scheme=http&region=us-east-1"


def committed(root, steps):
    made = Checkpoints(root, keep=9)
    return [made.save(step, writer(step)) for step in steps]


def test_a_copy_comes_back_as_it_was_and_only_the_newest_are_kept(url, tmp_path):
    mirror = RemoteCopy(url, keep=2)
    for directory in committed(tmp_path / "one", (1, 2, 3)):
        mirror.push(directory)
    assert mirror._names() == ["step-00000003", "step-00000002"]
    (tmp_path / "two").mkdir()
    fetched = mirror.pull(tmp_path / "two", {})
    assert fetched == tmp_path / "two" / "step-00000003"
    assert verify(fetched) == []
    assert (fetched / "encoder" / "config.json").read_text() == "{}"
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["step-00000003"]


def test_a_copy_that_was_cut_short_or_damaged_is_passed_over(url, tmp_path, caplog):
    mirror = RemoteCopy(url, keep=9)
    for directory in committed(tmp_path / "one", (1, 2, 3))[1:]:
        mirror.push(directory)
    files, base = mirror._files, mirror._base
    (tmp_path / "two").mkdir()
    files.delete_file(f"{base}/step-00000003/{MANIFEST}")
    with files.open_output_stream(f"{base}/step-00000002/state.json") as sink:
        sink.write(b"x" * len('{"step": 2}'))
    with pytest.raises(ResourceError, match="every copy is damaged"):
        mirror.pull(tmp_path / "two", {})
    mirror.push(tmp_path / "one" / "step-00000001")
    assert mirror.pull(tmp_path / "two", {}).name == "step-00000001"
    assert "step-00000002" in caplog.text


def test_a_storage_that_fails_is_told_without_its_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "_GIVE_UP_SECONDS", 0.0)
    mirror = RemoteCopy(f"file://{tmp_path}/a?x=1")
    (tmp_path / "a").write_text("in the way")
    (directory,) = committed(tmp_path / "one", (1,))
    with pytest.raises(ResourceError, match=r"a/step-00000001: cannot be written") as caught:
        mirror.push(directory)
    assert "kept:" in str(caught.value)
    with pytest.raises(ConfigError, match="no storage of that address"):
        RemoteCopy("nope://bucket/run")


RUN = {"configuration": {"verb": "finetune", "seed": 1}, "identity": {"rows": "ab"}}


def test_a_copy_of_another_run_is_refused_and_stays_where_it_is(tmp_path):
    made, mirror = Checkpoints(tmp_path / "one"), RemoteCopy(str(tmp_path / "mirror"))
    mirror.push(
        made.save(3, lambda place: (place / "state.json").write_text(json.dumps(RUN)) and None)
    )
    root = tmp_path / "two"
    root.mkdir()
    for identity, message in (
        ({"rows": "cd"}, "rows: then 'ab', now 'cd'"),
        ({"rows": "ab", "more": "x"}, "more: then None, now 'x'"),
    ):
        with pytest.raises(CheckpointError, match=message) as refused:
            mirror.pull(root, RUN | {"identity": identity})
        assert str(refused.value).startswith(f"{tmp_path}/mirror/step-00000003: ")
        assert "training.mirror" in str(refused.value)
        assert not [*root.iterdir()]
    assert verify(tmp_path / "mirror" / "step-00000003") == []
    later = {"verb": "finetune", "seed": 1, "new": True}  # a key of another version
    assert mirror.pull(root, RUN | {"configuration": later}) == root / "step-00000003"
    assert not [*root.glob(".step-*")]


def test_a_mirror_that_fails_does_not_stop_the_training(tmp_path, monkeypatch):
    def down(*_):
        raise ResourceError("down")

    monkeypatch.setattr(RemoteCopy, "push", down)
    options = {"save_every_steps": 3, "mirror": str(tmp_path / "mirror")}
    train(
        tiny.supervised(), tiny.passes_of(tiny.rows()), tiny.training(tmp_path / "run", **options)
    )
    kinds = [event["kind"] for event in read_rows(tmp_path / "run" / "events.jsonl")]
    assert kinds == ["mirror_failed", "mirror_failed"]
