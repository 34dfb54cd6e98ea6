"""The package as it is released: metadata, and a wheel that works without the repository."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from road_ray.distributed.job_client import pack_working_dir

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_citation_and_changelog_have_the_version_of_the_package():
    citation = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    titles = re.findall(r"^## (.+)$", changes, flags=re.M)
    assert titles[0] == "[Unreleased]"
    assert f"[{PROJECT['version']}]" in titles[1]


def test_workflows_run_scripts_and_targets_that_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.M)
    ran = []
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in YAML(typ="safe").load(path.read_text("utf-8"))["jobs"].values():
            ran += [step["run"] for step in job["steps"] if "run" in step]
    assert {".ci/run", "make docs", "make wheel"} <= {*ran}
    for line in ran:
        assert (ROOT / line).is_file() or line.removeprefix("make ") in targets
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert YAML(typ="safe").load(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the files that git tracks, built without a network."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    pack_working_dir(ROOT, source, exclude=("docs", "tests"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place), "."]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert list(place.glob("road_ray-*.tar.gz"))
    (path,) = place.glob("road_ray-*.whl")
    return path, source


@pytest.mark.long
def test_wheel_has_every_file_of_the_package_and_true_metadata(wheel):
    path, source = wheel
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if name.startswith("road_ray/")}
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        about = Parser().parsestr(archive.read(metadata).decode())
    wanted = {
        place.relative_to(source).as_posix()
        for place in (source / "road_ray").rglob("*")
        if place.is_file()
    }
    assert wanted - names == set()
    assert about["Author"] == "The road_ray authors"
    assert about["License-Expression"] == "Apache-2.0"
    assert "example" not in " ".join(about.get_all("Project-URL"))
    assert about.get_payload().startswith("# road_ray")


@pytest.mark.long
def test_wheel_works_in_a_fresh_environment(wheel, tmp_path):
    """Libraries come from this environment, the package from the wheel alone."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "v"], check=True)
    python = tmp_path / "v" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel[0]]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = (tmp_path / "v" / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    def run(*words: object) -> str:
        done = subprocess.run(
            [*map(str, words)],
            cwd=tmp_path,
            env=environment | {"HF_HUB_OFFLINE": "1", "ROAD_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    road = python.with_name("road")
    assert run(road, "--version").strip() == PROJECT["version"]
    assert str(packages) in run(python, "-c", "import road_ray; print(road_ray.__file__)")
    assert "cluster_name" in run(road, "submit", "--cluster", "aws", "show")
    tiny = [f"encoder.{key}" for key in ("layers=1", "hidden_size=32", "heads=2")]
    short = ["training.steps=2", "data.batch_size=4", "data.max_length_tokens=32", "console=quiet"]
    data = ["data.root=miniature", "data.vocab_size=200", "--run-dir", "run"]
    run(python, "-m", "road_ray", "pretrain", *tiny, *short, *data)
    assert (tmp_path / "run" / "report.html").is_file()
    assert (tmp_path / "run" / "hf" / "model.safetensors").is_file()
