"""The layout as a test: who may import whom, how long things are, what is never called."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "road_ray"
# A room imports from rows above its own in this list (the architecture counts them from below).
ROWS = [
    {"errors", "config", "config_fields", "config_layers", "config_problems", "config_values"}
    | {"addresses", "json_file", "yaml_lines"},
    {"data"},
    {"models"},
    {"distillation"},
    {"objectives"},
    {"training", "evaluation"},
    {"distributed", "reporting"},
    {"recipes"},
    {"presets"},
    {"verbs"},
    {"sweeps"},
    {"commands"},
    {"cli", "__init__"},
    {"__main__"},
]
ROW_OF = {room: number for number, rooms in enumerate(ROWS) for room in rooms}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
FORBIDDEN_CALLS = {"torch.load", "yaml.load", "yaml.unsafe_load", "eval", "exec", "os.system"}
FORBIDDEN_WORDS = {("shell", True), ("trust_remote_code", True), ("weights_only", False)}
# Checks of a machine look at its cluster too, when an address is given.
ALLOWED = {("road_ray/reporting/environment.py", "distributed")}
# Modules of a room that still import each other, at the latest when they are used. To be emptied.
CIRCLES = {
    "distributed": [{"group", "launch"}],
    "training": [{"lamb", "optimizer"}],
}
# Modules that have no test of their own yet. To be emptied.
NOT_YET = {
    "road_ray/__init__.py",
    "road_ray/__main__.py",
    "road_ray/data/catalog/registry.py",
    "road_ray/data/features/types.py",
    "road_ray/data/schema.py",
}

SOURCES = sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> list[tuple[str, int]]:
    """Every module that a file imports, at the top or inside a function, with the line."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}:{node.lineno}: imports are absolute"
            found.append((str(node.module), node.lineno))
            if node.module == "road_ray":
                found += [(f"road_ray.{alias.name}", node.lineno) for alias in node.names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_rooms_import_downwards(path):
    room = room_of(path)
    assert room in ROW_OF, f"{room}: a new room; say in ROWS where it stands"
    for name, line in imports(path):
        if not name.startswith("road_ray."):
            continue
        other = name.split(".")[1]
        if other not in ROW_OF:  # a name of the package itself, such as a verb
            continue
        together = other == room or (other in ROWS[0] and room in ROWS[0])
        allowed = together or ROW_OF[other] < ROW_OF[room] or (named(path), other) in ALLOWED
        assert allowed, f"{named(path)}:{line}: {room} may not import {name}"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_only_distributed_imports_ray(path):
    if room_of(path) == "distributed":
        return
    lines = [line for name, line in imports(path) if name.split(".")[0] == "ray"]
    assert not lines, f"{named(path)}:{lines[0]}: only distributed/ may import ray"


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_files_and_functions_are_short(path):
    length = len(path.read_text(encoding="utf-8").splitlines())
    assert length <= 300, f"{named(path)}: {length} lines; allowed: 300"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= 60, f"{named(path)}:{node.lineno} {node.name}: {length} lines; 60"


def type_checked(path: Path) -> set[int]:
    """The lines that only a type checker reads."""
    return {
        line
        for node in tree(path).body
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in node.body
        for line in range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)
    }


def needed_by(path: Path) -> set[Path]:
    """The modules of its own room that a file imports, type checking apart."""
    skipped, needed = type_checked(path), set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if module_at(name) else str(node.module) for name in inner]
        else:
            continue
        if node.lineno not in skipped:
            needed |= {module_at(name) for name in names if module_at(name)}
    return {other for other in needed if other != path and room_of(other) == room_of(path)}


def module_at(name: str) -> Path | None:
    if not name.startswith("road_ray."):
        return None
    place = PACKAGE.parent.joinpath(*name.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((path for path in found if path.is_file()), None)


def circles(needs: dict[Path, set[Path]]) -> list[set[Path]]:
    """Groups of modules each of which needs, by way of others, all others of its group."""
    reached = {path: set(others) for path, others in needs.items()}
    for middle in needs:
        for path in needs:
            if middle in reached[path]:
                reached[path] |= reached[middle]
    groups = {
        frozenset(other for other in reached[path] if path in reached[other])
        for path in needs
        if path in reached[path]
    }
    return [set(group) for group in groups]


@pytest.mark.parametrize("room", sorted({room_of(path) for path in SOURCES}))
def test_modules_of_a_room_do_not_import_each_other_in_a_circle(room):
    needs = {path: needed_by(path) for path in SOURCES if room_of(path) == room}
    found = [{path.stem for path in group} for group in circles(needs)]
    assert [group for group in found if group not in CIRCLES.get(room, [])] == []


def places_for(path: Path) -> list[Path]:
    """Where the tests of a module may be; parts of a package inside a room share those of it."""
    inside = path.relative_to(PACKAGE)
    places = [ROOT / "tests" / inside.parent / f"test_{inside.stem.strip('_')}.py"]
    if len(inside.parts) > 2:
        places.append(ROOT / "tests" / inside.parent.parent / f"test_{inside.parent.name}.py")
    return places


def is_bare(path: Path) -> bool:
    """A module that defines nothing: docstring and imports at most."""
    plain = ast.Import | ast.ImportFrom | ast.Expr
    return all(isinstance(node, plain) for node in tree(path).body)


def test_every_module_has_a_test_of_its_name():
    lacking = {
        named(path)
        for path in SOURCES
        if not is_bare(path) and not any(place.is_file() for place in places_for(path))
    }
    assert sorted(lacking - NOT_YET) == []


def test_every_test_of_a_room_has_its_module():
    rooms = [path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name in ROW_OF]
    orphans = [
        named(test)
        for room in rooms
        for test in (ROOT / "tests" / room).glob("test_*.py")
        if not (PACKAGE / room / f"{test.stem.removeprefix('test_')}.py").is_file()
        and not (PACKAGE / room / test.stem.removeprefix("test_")).is_dir()
    ]
    assert orphans == []


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_nothing_runs_code_that_comes_from_outside(path):
    wrong = [
        f"{named(path)}:{line}: {name}"
        for name, line in imports(path)
        if name.split(".")[0] in FORBIDDEN_MODULES
    ]
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        words = {
            (word.arg, word.value.value)
            for word in node.keywords
            if isinstance(word.value, ast.Constant) and isinstance(word.value.value, bool)
        }
        if called in FORBIDDEN_CALLS or words & FORBIDDEN_WORDS:
            wrong.append(f"{named(path)}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert wrong == []


# Where transformers may read what others wrote; all else goes by these two.
LOADERS = {"road_ray/data/tokenizer.py", "road_ray/models/weights.py"}


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_models_and_tokenizers_are_loaded_in_one_place_and_without_foreign_code(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".from_pretrained"):
            where = f"{named(path)}:{node.lineno}"
            assert named(path) in LOADERS, f"{where}: by read_tokenizer or load_stored"
            said = {word.arg: ast.unparse(word.value) for word in node.keywords}
            assert said.get("trust_remote_code") == "False", f"{where}: trust_remote_code=False"
            assert said.get("local_files_only") == "True", f"{where}: local_files_only=True"


@pytest.mark.parametrize("module", ["road_ray", "road_ray.config", "road_ray.errors"])
def test_importing_the_package_is_quick(module):
    """Neither torch nor ray nor anything else that takes a second."""
    heavy = ["torch", "ray", "transformers", "datasets", "pyarrow", "scipy", "sklearn"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_circle_is_seen_and_one_for_type_checkers_alone_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "road_ray")
    room = tmp_path / "road_ray" / "data"
    room.mkdir(parents=True)
    one, two, three = (room / f"{name}.py" for name in ("one", "two", "three"))
    one.write_text("from road_ray.data import two\n")
    two.write_text("from road_ray.data.three import x\n")
    lazy, typed = "def f():\n    ", "if TYPE_CHECKING:\n    "
    for start, expected in ((lazy, [{one, two, three}]), (typed, [])):
        three.write_text(f"{start}from road_ray.data.one import y\n")
        tree.cache_clear()
        assert circles({path: needed_by(path) for path in (one, two, three)}) == expected
    tree.cache_clear()


def test_the_checks_see_what_they_forbid(tmp_path, monkeypatch):
    """A checker that finds nothing anywhere would be green as well."""
    bad = tmp_path / "road_ray" / "data" / "bad.py"
    bad.parent.mkdir(parents=True)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "road_ray")
    checks = {
        "def f():\n    from road_ray.models import encoder\n": test_rooms_import_downwards,
        "from road_ray import recipes\n": test_rooms_import_downwards,
        "def f():\n    import ray.train\n": test_only_distributed_imports_ray,
        "x = 1\n" * 301: test_files_and_functions_are_short,
        "def f():\n" + "    x = 1\n" * 60: test_files_and_functions_are_short,
        "import pickle\n": test_nothing_runs_code_that_comes_from_outside,
        "import torch\ntorch.load('x')\n": test_nothing_runs_code_that_comes_from_outside,
        "eval('1')\n": test_nothing_runs_code_that_comes_from_outside,
        "run('ls', shell=True)\n": test_nothing_runs_code_that_comes_from_outside,
        "A.from_pretrained('x', trust_remote_code=False)\n": (
            test_models_and_tokenizers_are_loaded_in_one_place_and_without_foreign_code
        ),
        "load('x', trust_remote_code=True)\n": test_nothing_runs_code_that_comes_from_outside,
    }
    for source, check in checks.items():
        bad.write_text(source)
        tree.cache_clear()
        with pytest.raises(AssertionError):
            check(bad)
    tree.cache_clear()
