"""Working directory of a job: tracked files, named files, size limit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from road_ray.distributed import job_client
from road_ray.distributed.job_client import pack_working_dir
from road_ray.errors import ConfigError


@pytest.fixture
def repository(tmp_path):
    source = tmp_path / "source"
    source.mkdir()

    def git(*words):
        call = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(call, cwd=source, check=True, capture_output=True)

    git("init", "-q")
    (source / ".gitignore").write_text("runs/\n")
    for name in ("a.py", "pack/b.py", "pack/data/c.tsv", "runs/big.bin", "gone.py"):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    git("add", ".")
    git("commit", "-qm", "x")
    (source / "gone.py").unlink()
    (source / "a.py").write_text("changed")
    (source / "mine.yaml").write_text("seed: 1\n")
    (source / "new.py").write_text("x")
    (source / "link").symlink_to("pack")
    return source


def sent(target: Path) -> set[str]:
    return {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()}


def test_tracked_files_travel_as_they_lie_there(repository, tmp_path):
    (repository / ".env").write_text("TOKEN=secret")  # neither tracked nor ignored
    names = pack_working_dir(repository, tmp_path / "t", words=["finetune", "mine.yaml"])
    assert sorted(names) == [".gitignore", "a.py", "mine.yaml", "pack/b.py", "pack/data/c.tsv"]
    assert sent(tmp_path / "t") == set(names)
    assert (tmp_path / "t" / "a.py").read_text() == "changed"


def test_too_much_is_refused_with_the_largest_named(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(job_client, "LIMIT_BYTES", 20)
    with pytest.raises(ConfigError, match=r"would be sent.*largest: pack/data/c\.tsv"):
        pack_working_dir(repository, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_outside_of_a_repository_only_what_the_line_names_travels(tmp_path):
    source = tmp_path / "plain"
    source.mkdir()
    (source / "a.yaml").write_text("seed: 1\n")
    (source / "b.py").write_text("x")
    words = ["finetune", "a.yaml", "none.yaml", "seed=1"]
    assert pack_working_dir(source, tmp_path / "t", words=words) == ["a.yaml"]


def test_a_file_from_elsewhere_is_refused(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "a.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match="is outside"):
        pack_working_dir(tmp_path / "source", tmp_path / "t", words=["../a.yaml"])


@pytest.fixture
def tracked(repository):
    """``tracked(name)``: git tracks what lies there under that name."""

    def add(name):
        subprocess.run([b"git", b"add", os.fsencode(name)], cwd=repository, check=True)

    return add


@pytest.mark.parametrize("away", ["../secret.txt", "/{tmp}/secret.txt", "out/secret.txt"])
def test_a_file_outside_of_the_tree_to_which_a_link_leads_is_not_sent(
    repository, tmp_path, tracked, away
):
    (tmp_path / "secret.txt").write_text("canary")
    (repository / "out").symlink_to("..")  # a chain of links
    (repository / "notes.txt").symlink_to(away.format(tmp=tmp_path))
    tracked("notes.txt")
    (repository / "pack").rename(tmp_path / "pack")  # a directory that became a link
    (repository / "pack").symlink_to(tmp_path / "pack")
    assert pack_working_dir(repository, tmp_path / "t") == [".gitignore", "a.py"]


def test_links_within_the_tree_travel_as_files_and_broken_ones_stay(repository, tmp_path, tracked):
    for name, target in (("inside", "a.py"), ("broken", "nowhere"), ("circle", "circle")):
        (repository / name).symlink_to(target)
        tracked(name)
    names = pack_working_dir(repository, tmp_path / "t")
    assert "inside" in names
    assert not {"broken", "circle"} & set(names)
    assert (tmp_path / "t" / "inside").read_text() == "changed"


def test_models_that_stay_here_are_refused(repository, tmp_path):
    for word in (
        "init=runs/big.bin",
        "generator.init=runs",
        "distillation.teachers=[pack, 'runs/big.bin']",
        "distillation.teachers.sst2=[runs/]",
    ):
        with pytest.raises(ConfigError, match="nothing was sent"):
            pack_working_dir(repository, tmp_path / "t", words=["distill", word])
    assert not (tmp_path / "t").exists()
    here = ["init=google/electra-small", f"init={repository}/runs", "init=pack", "data.root=runs"]
    pack_working_dir(repository, tmp_path / "t", words=here)
