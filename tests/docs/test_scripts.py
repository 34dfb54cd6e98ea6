"""The commands of pages and scripts name keys that exist, and the scripts of the results load;
the overview of the results is what its script makes of the stored figures.
"""

import ast
import json
import re
import runpy
import subprocess
from importlib import import_module
from importlib.util import find_spec

import pytest
from pydantic import BaseModel

from road_ray.config.schema import at
from road_ray.recipes.sweep.config import SweepConfig
from road_ray.verbs import VERBS
from tests.docs.blocks import ROOT

DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
TEXTS = [ROOT / "README.md", *sorted(p for p in DOCS.rglob("*") if p.suffix in {".md", ".sh"})]
CLASSES: tuple[type[BaseModel], ...] = (*(verb.config for verb in VERBS.values()), SweepConfig)
SECTIONS = sorted({name for kind in CLASSES for name in kind.model_fields})
# Sections of a sweep, or of a reproduction, that hold keys of another configuration.
_OTHERS = re.compile(r"^(then\.overrides|overrides|space|pretrain)\.")
_KEY = re.compile(rf"(?<![\w./$-])((?:{'|'.join(SECTIONS)})(?:\.[a-z0-9_]+)+)=")


def is_known(key: str) -> bool:
    """Return whether some configuration has a dotted key."""
    inner = _OTHERS.sub("", key)
    if key.startswith("space."):
        inner = inner.rpartition(".")[0]  # without the kind of the range
    return any(at(kind, tuple(inner.split("."))) is not None for kind in CLASSES)


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_key_of_a_command_is_a_configuration_key(text):
    keys = _KEY.findall(text.read_text("utf-8"))
    assert sorted({key for key in keys if not is_known(key)}) == []


def test_a_renamed_key_is_found():
    assert is_known("training.early_stopping.patience")
    assert is_known("overrides.distillation.store")
    assert is_known("space.encoder.hidden_size.choice")
    assert is_known("distillation.teachers.sst2")
    assert not is_known("training.patience")
    assert not is_known("space.training.sharded.choice")


@pytest.mark.parametrize("script", sorted(RESULTS.glob("*.py")), ids=lambda path: path.stem)
def test_a_script_imports_what_exists(script):
    """One that imports tests says where they are: an installed road_ray has none."""
    text = script.read_text("utf-8")
    assert "from tests." not in text or "sys.path.insert(0, str(Path(__file__)" in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and re.match(r"(road_ray|tests)\b", str(node.module)):
            module = import_module(str(node.module))
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                assert hasattr(module, alias.name) or find_spec(name), name


@pytest.mark.parametrize("script", sorted(RESULTS.glob("*.sh")), ids=lambda path: path.stem)
def test_a_shell_script_parses(script):
    subprocess.run(["bash", "-n", str(script)], check=True, capture_output=True)


OVERVIEW = runpy.run_path(str(RESULTS / "overview.py"), run_name="overview")
FIGURES = json.loads((RESULTS / "overview.json").read_text("utf-8"))


def test_the_page_has_the_table_of_the_stored_figures():
    page = (RESULTS / "README.md").read_text("utf-8")
    assert OVERVIEW["with_table"](page, FIGURES) == page
    assert "@@" not in page


def test_paired_scores_a_p_value_and_deviations_give_the_same_interval():
    left, right = [3.0, 5.0, 7.0], [2.0, 3.0, 4.0]  # deviation of differences 1
    effect, p_value = OVERVIEW["effect"], 0.0741799
    paired = effect({"left": left, "right": right})
    assert (paired.difference, paired.deviation) == (2.0, pytest.approx(1.0))
    assert paired.high - paired.difference == pytest.approx(4.302653 / 3**0.5)
    tested = effect({"difference": 2.0, "p_value": p_value, "seeds": 3})
    assert (tested.low, tested.high) == pytest.approx((paired.low, paired.high), abs=1e-4)
    assert tested.deviation == pytest.approx(1.0, abs=1e-4)
    apart = effect({"left": [5.0, 3.0], "right": [3.0, 4.0], "seeds": 5})  # deviation 5, 8 degrees
    assert apart.high - apart.difference == pytest.approx(2.306004 * 5 / 5**0.5)
