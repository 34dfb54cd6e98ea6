"""Dependencies as declared in pyproject.toml: direct imports, extras, pins."""

import ast
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


def packages(tree: ast.Module) -> set[str]:
    """Return the top-level packages that a module imports, those of Python and its own apart."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"road_ray"}


@cache
def _providers() -> Mapping[str, list[str]]:
    return packages_distributions()  # reads the records of every installed package


def undeclared(tree: ast.Module, extras: tuple[str, ...] = ()) -> set[str]:
    declared = names(PROJECT["dependencies"])
    for extra in extras:
        declared |= names(PROJECT["optional-dependencies"][extra])
    providers = _providers()
    return {
        package
        for package in packages(tree)
        if not declared & {canonicalize_name(item) for item in providers.get(package, [package])}
    }


def test_every_import_belongs_to_a_declared_distribution():
    wrong = {}
    for path in sorted((ROOT / "road_ray").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if missing := undeclared(ast.parse(path.read_text("utf-8")), EXTRAS.get(name, ())):
            wrong[name] = missing
    assert not wrong
    assert undeclared(ast.parse("import pytest, torch, flask")) == {"pytest", "flask"}


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
