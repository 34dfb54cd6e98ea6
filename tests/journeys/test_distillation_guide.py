"""The guide to distillation names what there is, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

from road_ray.config import load
from road_ray.distillation import weighting as rules
from road_ray.recipes.train.config import DistillConfig, MultitaskConfig, TeachersConfig

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "distillation.md").read_text("utf-8")


def test_every_rule_is_in_the_table():
    table = GUIDE[GUIDE.index("| `mean` |") :].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(named) == sorted(rules.RULES)


def test_every_setting_is_understood():
    pattern = r"(?:distillation|weighting)\.[\w.]+=(?:\[\[.*?\]\]|[\w.:]+)"
    keys = re.findall(pattern, GUIDE)
    assert len(keys) >= 12
    for setting in keys:
        mixed = setting.startswith("distillation.teachers.")  # each data set's own
        load(MultitaskConfig if mixed else DistillConfig, overrides=[setting])
    for setting in re.findall(r"road teachers (num_folds=\d+)", GUIDE):
        load(TeachersConfig, overrides=[setting])
