"""The laws of the layout: who imports whom, how large things are, what is never called."""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "road_ray"
# A room imports from rows above its own in this list (the architecture counts them from below).
ROWS = [
    {"errors", "config", "system"},
    {"data"},
    {"models"},
    {"distillation"},
    {"objectives"},
    {"training", "evaluation"},
    {"inference"},
    {"distributed", "reporting"},
    {"recipes"},
    {"experiment"},
    {"presets"},
    {"verbs", "testing"},
    {"recipes/sweep"},
    {"cli", "__init__"},
    {"__main__"},
]
ROW_OF = {room: number for number, rooms in enumerate(ROWS) for room in rooms}
MOST_MODULES = 12  # of a folder, its __init__ apart
MOST_IMPORTS = 25  # of modules of the package, in one
MOST_LINES, MOST_FUNCTION_LINES = 500, 60
# Lines of .py in all: more of one thing is paid with less of another. The aim is 33,500 and 36,000.
MOST_IN_ALL = {"road_ray": 34_990, "tests": 35_032}
LOADERS = {"road_ray/data/tokenizer.py", "road_ray/models/load_weights.py"}  # of files of others
# Of libraries that offer no other way.
SWITCHES = {"torch.backends.cudnn.allow_tf32"}


VAGUE_OPENERS = {"What", "Who", "Those", "Of", "Whether", "Where", "Which", "How", "When", "Why"}
VAGUE_OPENERS |= {"From", "By", "For", "With", "In", "To"}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(parts: tuple[str, ...]) -> str:
    """The longest prefix of a dotted or a file path that has a row of its own."""
    nested = "/".join(parts[:2])
    return nested if nested in ROW_OF else parts[0]


def room_at(path: Path) -> str:
    return room_of(path.relative_to(PACKAGE).with_suffix("").parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _walked(module: ast.Module) -> list[ast.AST]:
    return list(ast.walk(module))


def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a file: eight laws look at them."""
    return _walked(tree(path))


def dotted(node: ast.AST) -> str:
    """The name of an expression as it is written, ``""`` in the place of what has none."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imports(path: Path) -> list[tuple[str, int]]:
    """Every module or name of one that a file imports, also inside a function, with the line."""
    names = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            above = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            assert not getattr(node, "level", 0), f"{named(path)}:{node.lineno}: relative"
            names += [(above + alias.name, node.lineno) for alias in node.names]
    return names


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in nodes_of(path) if isinstance(node, kinds)]


def upward_imports(path: Path) -> list[str]:
    room, wrong = room_at(path), []
    if room not in ROW_OF:
        return [f"{room}: a new room; say in ROWS where it stands"]
    for name, line in imports(path):
        other = room_of(tuple(name.split(".")[1:])) if name.startswith("road_ray.") else room
        if other not in ROW_OF or other == room:  # a name of the package itself, such as a verb
            continue
        if ROW_OF[other] >= ROW_OF[room]:
            if {other, room} <= ROWS[0]:
                continue
            wrong.append(f"{named(path)}:{line}: {room} may not import {name}")
    return wrong


def imports_of_ray(path: Path) -> list[str]:
    if room_at(path) == "distributed":
        return []
    lines = [line for name, line in imports(path) if name.split(".")[0] == "ray"]
    return [f"{named(path)}:{line}: only distributed/ may import ray" for line in lines]


def private_ray(path: Path) -> list[str]:
    """Imports and attributes of Ray that it does not promise."""
    if named(path) == "road_ray/distributed/ray_private.py":
        return []
    wrong = [
        f"{named(path)}:{line}: {name}"
        for name, line in imports(path)
        if name.split(".")[0] == "ray" and any(part.startswith("_") for part in name.split("."))
    ]
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and dotted(node).startswith("ray._"):
            wrong.append(f"{named(path)}:{node.lineno}: {ast.unparse(node)}")
    return wrong


def private_optuna(path: Path) -> list[str]:
    """Attributes of Optuna that it does not promise."""
    private = {"_trial_id", "_study_id", "_storage", "_suggest"}
    used = [node for node in nodes_of(path) if isinstance(node, ast.Attribute)]
    wrong = [f"{named(path)}:{node.lineno}: {node.attr}" for node in used if node.attr in private]
    return [] if named(path) == "road_ray/distributed/tune/study.py" else wrong


def too_long(path: Path) -> list[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    wrong = [f"{named(path)}: {lines} lines"] if lines > MOST_LINES else []
    for node in functions(path):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > MOST_FUNCTION_LINES:
            wrong.append(f"{named(path)}:{node.lineno} {node.name}: {lines} lines")
    return wrong


def foreign_loaders(path: Path) -> list[str]:
    """Loaders of transformers outside the two modules that check what they load."""
    wrong = []
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and dotted(node.func).endswith(".from_pretrained"):
            words = {word.arg: ast.unparse(word.value) for word in node.keywords}
            safe = words.get("trust_remote_code"), words.get("local_files_only")
            if named(path) not in LOADERS or safe != ("False", "True"):
                wrong.append(f"{named(path)}:{node.lineno}: {ast.unparse(node)[:80]}")
    return wrong


@cache
def mutable_classes() -> set[str]:
    """Names of the package's classes whose instances can change: neither frozen dataclasses nor
    configurations nor enumerations.
    """
    nodes = (node for path in sources() for node in nodes_of(path))
    names = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    bases = {name: {ast.unparse(base) for base in node.bases} for name, node in names.items()}
    immutable = {"Config", "Enum", "StrEnum", "IntEnum", "NamedTuple"}
    for name, node in names.items():
        if "frozen=True" in " ".join(map(ast.unparse, node.decorator_list)):
            immutable.add(name)
    while derived := {name for name in bases if bases[name] & immutable} - immutable:
        immutable |= derived
    return set(names) - immutable


def ambient_state(path: Path) -> list[str]:
    """State of a whole process: what a run knows of its surroundings is in its ``RunContext``.

    ``global`` statements, context variables, module-level objects that can change, and assignments
    to attributes of imported modules.
    """
    nodes, wrong = nodes_of(path), []
    aliases = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules = {alias.asname or alias.name.split(".")[0] for alias in aliases}
    for node in nodes:
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else targets
        places = {
            ast.unparse(place) for place in targets if isinstance(place, ast.Attribute)
        } - SWITCHES
        foreign = {place for place in places if place.split(".")[0] in modules and "(" not in place}
        variable = isinstance(node, ast.Call) and dotted(node.func).endswith("ContextVar")
        if isinstance(node, ast.Global) or variable or foreign:
            wrong.append(node)
    for node in tree(path).body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Call) and dotted(value.func) in mutable_classes():
            wrong.append(node)
    return [f"{named(path)}:{node.lineno}: {ast.unparse(node)[:80]}" for node in wrong]


def vague_docstrings(path: Path) -> list[str]:
    """Docstrings that do not open with what a thing does or is."""
    wrong = []
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if text.split(" ")[0] in VAGUE_OPENERS:
                wrong.append(f"{named(path)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}")
    return wrong


LAWS = [
    *(upward_imports, imports_of_ray, private_ray, private_optuna, too_long),
    *(foreign_loaders, ambient_state, vague_docstrings),
]


@pytest.mark.parametrize("law", LAWS)
def test_every_module_keeps_the_law(law):
    assert [wrong for path in sources() for wrong in law(path)] == []


def test_a_folder_has_few_modules_and_opens_with_a_docstring():
    wrong = []
    for folder in sorted({path.parent for path in sources()}):
        modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        if len(modules) > MOST_MODULES:
            wrong.append(f"{named(folder)}: {len(modules)} modules")
        if len(ast.get_docstring(tree(folder / "__init__.py")) or "") < 60:
            wrong.append(f"{named(folder)}: __init__.py does not say what lives here")
    assert wrong == []


@pytest.mark.parametrize("room", MOST_IN_ALL)
def test_there_are_no_more_lines_than_the_budget(room):
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in (ROOT / room).rglob("*.py"))
    assert lines <= MOST_IN_ALL[room], f"remove {lines - MOST_IN_ALL[room]} lines elsewhere"


def test_tests_mirror_the_folders():
    """A folder of tests has the name of the folder whose modules it tests."""
    rest = {
        "benchmarks",
        "chaos",
        "clusters",
        "contracts",
        "docs",
        "fixtures",
        "gpu",
        "journeys",
        "real",
    }
    folders = {
        path.parent.relative_to(ROOT / "tests")
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.relative_to(ROOT / "tests").parts[0] not in rest
    }
    assert [str(folder) for folder in folders if not (PACKAGE / folder).is_dir()] == []


def type_checked(path: Path) -> set[int]:
    """The lines that only a type checker reads."""
    tests = [node for node in tree(path).body if isinstance(node, ast.If)]
    typed = [node for node in tests if ast.unparse(node.test).endswith("TYPE_CHECKING")]
    return {line for node in typed for line in range(node.lineno, int(node.end_lineno or 0) + 1)}


def module_at(name: str) -> Path | None:
    """The module of the package that has this name, or that a name in it is of."""
    place = PACKAGE.parent.joinpath(*name.split("."))
    candidates = [
        path
        for at in (place, place.parent)
        for path in (at.with_suffix(".py"), at / "__init__.py")
        if at.is_relative_to(PACKAGE)
    ]
    return next((path for path in candidates if path.is_file()), None)


def needed_by(path: Path) -> set[Path]:
    """The modules of the package that a file imports, type checking apart."""
    skipped = type_checked(path)
    names = (name for name, line in imports(path) if line not in skipped)
    return {module for name in names if (module := module_at(name))} - {path}


def circle(needs: dict[Path, set[Path]]) -> list[Path]:
    """Modules each of which needs the next, the last the first; none if there is no circle."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_too_much_of_the_package():
    assert {
        named(path): n for path in sources() if (n := len(needed_by(path))) > MOST_IMPORTS
    } == {}


def test_modules_do_not_import_each_other_in_a_circle():
    assert circle({path: needed_by(path) for path in sources()}) == []


def test_the_checks_see_what_they_forbid(tmp_path, monkeypatch):
    """A checker that finds nothing anywhere would be green as well."""
    bad = tmp_path / "road_ray" / "data" / "bad.py"
    bad.parent.mkdir(parents=True)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "road_ray")
    checks = {
        "def f():\n    from road_ray.models import encoder\n": upward_imports,
        "from road_ray import recipes\n": upward_imports,
        "def f():\n    import ray.train\n": imports_of_ray,
        "from ray.train.v2._internal import constants\n": private_ray,
        "import ray\nray._private.state\n": private_ray,
        "study._storage.x(trial._trial_id)\n": private_optuna,
        "x = 1\n" * 501: too_long,
        "def f():\n" + "    x = 1\n" * 60: too_long,
        "A.from_pretrained('x', trust_remote_code=False)\n": foreign_loaders,
        "def f():\n    global x\n    x = 1\n": ambient_state,
        "from contextvars import ContextVar\nx = ContextVar('x')\n": ambient_state,
        "class A:\n    pass\nx = A()\n": ambient_state,
        "import torch\ndef f():\n    torch.x = 1\n": ambient_state,
        'def f():\n    """Whether it is."""\n': vague_docstrings,
    }
    for source, check in checks.items():
        bad.write_text(source)
        tree.cache_clear()
        mutable_classes.cache_clear()
        assert check(bad) != []
    tree.cache_clear()
    mutable_classes.cache_clear()


def test_a_circle_is_seen_and_one_for_type_checkers_alone_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path / "road_ray")
    room = tmp_path / "road_ray" / "data"
    room.mkdir(parents=True)
    first, two, three = (room / f"{name}.py" for name in ("one", "two", "three"))
    first.write_text("from road_ray.data import two\n")
    two.write_text("from road_ray.data.three import x\n")
    lazy, typed = "def f():\n    ", "if TYPE_CHECKING:\n    "
    for start, expected in ((lazy, {first, two, three}), (typed, set())):
        three.write_text(f"{start}from road_ray.data.one import y\n")
        tree.cache_clear()
        assert {*circle({path: needed_by(path) for path in (first, two, three)})} == expected
    tree.cache_clear()
