"""What travels with a job: what git knows and the line names, never too much."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from road_ray.distributed import parcel
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
    names = parcel.packed(repository, tmp_path / "t", named=["mine.yaml"])
    assert names == [".gitignore", "a.py", "mine.yaml", "pack/b.py", "pack/data/c.tsv"]
    assert sent(tmp_path / "t") == set(names)
    assert (tmp_path / "t" / "a.py").read_text() == "changed"


def test_what_the_profile_excludes_stays(repository, tmp_path):
    parcel.packed(repository, tmp_path / "t", exclude=["pack/data", "*.gitignore"])
    assert sent(tmp_path / "t") == {"a.py", "pack/b.py"}


def test_code_that_git_does_not_know_is_told(repository):
    assert parcel.unknown_to_git(repository) == ["mine.yaml", "new.py"]


def test_too_much_is_refused_with_the_largest_named(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(parcel, "LIMIT_BYTES", 20)
    with pytest.raises(ConfigError, match=r"would be sent.*\n.*pack/data/c\.tsv"):
        parcel.packed(repository, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_outside_of_a_repository_only_what_the_line_names_travels(tmp_path):
    source = tmp_path / "plain"
    source.mkdir()
    (source / "a.yaml").write_text("seed: 1\n")
    (source / "b.py").write_text("x")
    words = ["finetune", "a.yaml", "none.yaml", "seed=1"]
    named = parcel.files_of_line(words, source)
    assert parcel.packed(source, tmp_path / "t", named=named) == ["a.yaml"]


def test_a_file_from_elsewhere_is_refused(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "a.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match="lies outside"):
        parcel.files_of_line(["../a.yaml"], tmp_path / "source")
