"""``road presets | check | schema``."""

from __future__ import annotations

import json

from road_ray.recipes.run import Run


def test_presets_are_listed_and_shown_as_yaml_that_runs(road, recipe, tmp_path):
    rows = json.loads(road("presets", "--json").out)
    assert {"name", "verb", "about"} <= set(rows[0])
    assert "electra_small" in {row["name"] for row in rows}
    assert "electra_small" in road("presets").out
    shown = road("presets", "squad_v2_small").out
    assert shown.startswith("# road finetune: ")
    (tmp_path / "a.yaml").write_text(shown)
    seen = []
    recipe(lambda config: seen.append(config) or Run(tmp_path, {}))
    road("finetune", tmp_path / "a.yaml")
    road("finetune", "--preset", "squad_v2_small")
    assert seen[0] == seen[1]


def test_schemas_know_every_key(road):
    schema = json.loads(road("schema", "finetune").out)
    assert {"preset", "data", "optimizer", "training", "init"} <= set(schema["properties"])


class TestCheck:
    """``road check``."""

    def test_all_is_well(self, road, world):
        said = road("check", "--root", world, "--json")
        states = {row["what"]: row["state"] for row in json.loads(said.out)}
        assert {"python", "torch", "ray", "devices", "disk", "data"} <= set(states)
        if set(states.values()) == {"ok"}:
            assert said.code == 0

    def test_a_root_that_is_not_there_is_a_problem(self, road):
        said = road("check", "--root", "/nowhere")
        assert said.code == 4
        assert "/nowhere" in said.out
        assert "PROBLEM" in said.out
