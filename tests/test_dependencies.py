"""Dependencies as declared in pyproject.toml: direct imports, extras, pins."""

import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.test_architecture import imports, sources

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {  # the only modules that may import packages of an extra
    "road_ray/distributed/serving/api.py": ("serve",),
    "road_ray/distributed/serving/deployment.py": ("serve",),
    "road_ray/distributed/serving/server.py": ("serve",),
    "road_ray/inference/load_model.py": ("onnx",),
    "road_ray/models/load_weights.py": ("adapters",),
    "road_ray/recipes/export.py": ("onnx",),
    "road_ray/training/monitoring/trackers.py": ("wandb", "mlflow"),
}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


@cache
def _providers() -> Mapping[str, list[str]]:
    return packages_distributions()  # reads the records of every installed package


def undeclared(path: Path, extras: tuple[str, ...] = ()) -> set[str]:
    """The top-level packages that a module imports and no declared distribution provides."""
    declared, providers = names(PROJECT["dependencies"]), _providers()
    for extra in extras:
        declared |= names(PROJECT["optional-dependencies"][extra])
    packages = {name.partition(".")[0] for name, _ in imports(path)}
    return {
        package
        for package in packages - set(sys.stdlib_module_names) - {"road_ray"}
        if not declared & {canonicalize_name(item) for item in providers.get(package, [package])}
    }


def test_every_import_belongs_to_a_declared_distribution(tmp_path):
    paths = {path.relative_to(ROOT).as_posix(): path for path in sources()}
    wrong = {name: undeclared(path, EXTRAS.get(name, ())) for name, path in paths.items()}
    assert {name: missing for name, missing in wrong.items() if missing} == {}
    (tmp_path / "bad.py").write_text("import pytest, torch, flask")
    assert undeclared(tmp_path / "bad.py") == {"pytest", "flask"}


def test_every_direct_dependency_is_pinned_once():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line]
    assert len(pins) == len(set(pins))
    assert names(PROJECT["dependencies"]) <= set(pins)


def test_every_pin_installs_on_the_oldest_python_that_is_allowed():
    oldest = str(SpecifierSet(PROJECT["requires-python"])).removeprefix(">=") + ".0"
    wrong = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        name, _, pinned = line.partition("==")
        with suppress(PackageNotFoundError):
            about = metadata(name)
            needed = SpecifierSet(about.get("Requires-Python") or "")
            if about["Version"] == pinned and oldest not in needed:
                wrong[line] = str(needed)
    assert wrong == {}
