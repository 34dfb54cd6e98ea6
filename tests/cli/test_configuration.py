"""``road presets | check | schema | explain``: what is printed, and what editors make of it."""

import json
import re

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from road_ray.config import json_schema
from road_ray.distributed.job_client import SHIPPED
from road_ray.presets import get_preset
from road_ray.recipes.sweep.config import shipped
from road_ray.verbs import configuration_class


def test_presets_are_listed_and_shown(road):
    rows = json.loads(road("presets", "--json").out)
    assert {"name", "verb", "about"} <= set(rows[0])
    assert "electra_small" in {row["name"] for row in rows}
    assert "electra_small" in road("presets").out
    assert road("presets", "squad_v2_small").out == get_preset("squad_v2_small").text
    as_json = json.loads(road("presets", "squad_v2_small", "--json").out)
    assert as_json["config"]["data"]["dataset"] == "squad_v2"


def test_a_preset_file_lies_beside_the_schema_that_its_first_line_names(road, tmp_path):
    target = tmp_path / "my.yaml"
    assert road("presets", "tiny_mlm", "--output", target).code == 0
    first = target.read_text().splitlines()[0]
    schema = json.loads((tmp_path / first.rpartition("=")[2]).read_text())
    Draft7Validator(schema).validate(YAML(typ="safe").load(target))
    road("presets", "tiny_mlm", "--output", target).refused(2, str(target))
    road("schema", "finetune", "--output", target / "below.json").refused(4, str(target))
    road("schema", "finetune", "--output", ".").refused(4, "cannot be written")


def test_a_schema_names_the_presets_of_its_verb(road):
    properties = json.loads(road("schema", "finetune").out)["properties"]
    assert {"preset", "data", "optimizer", "training", "init"} <= set(properties)
    assert "squad_v2_small" in properties["preset"]["enum"]
    assert "tiny_mlm" not in properties["preset"]["enum"]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *(("sweep", path) for path in shipped().values()),
        *(("submit", path) for path in sorted(SHIPPED.rglob("*.profile.yaml"))),
    ],
)
def test_the_schema_accepts_the_shipped_search_spaces_and_profiles(kind, path):
    schema = json_schema(configuration_class(kind))
    Draft7Validator(schema).validate(YAML(typ="safe").load(path))


def test_road_check_says_what_is_well_and_tells_a_data_root_that_is_not_there(road, world):
    result = road("check", "--root", world, "--json")
    states = {row["what"]: row["state"] for row in json.loads(result.out)}
    assert {"python", "torch", "ray", "devices", "disk", "data"} <= set(states)
    assert result.code == 0 or set(states.values()) != {"ok"}
    result = road("check", "--root", "/nowhere")
    assert (result.code, "/nowhere" in result.out, "PROBLEM" in result.out) == (4, True, True)


def test_a_key_is_explained_once_for_the_verbs_in_which_it_is_alike(road):
    (first,) = json.loads(road("explain", "optimizer.peak_lr", "--json").good().out)
    assert first["allowed"] == "0 < value <= 1"
    assert (first["default"]["pretrain"], first["default"]["finetune"]) == (5e-4, 3e-4)
    assert "Clark" in first["meaning"]
    assert first["presets"]["electra_base"] == 2e-4
    blocks = json.loads(road("explain", "data.batch_size", "--json").out)
    assert len(blocks) > 1
    verbs = [verb for block in blocks for verb in block["default"]]
    assert sorted(verbs) == sorted(set(verbs))
    (only,) = json.loads(road("explain", "data.batch_size", "distill", "--json").out)
    assert list(only["default"]) == ["distill"]


def test_a_key_is_explained_in_words_and_a_section_by_its_keys_one_a_line(road):
    out = road("explain", "optimizer.peak_lr", "finetune").out
    assert re.search(r"(?s)allowed: .*default: .*meaning: ", out)
    assert max(map(len, out.splitlines())) <= 100
    _, _, keys = road("explain", "optimizer", "finetune").out.partition("\n  keys:\n")
    assert {"name", "peak_lr", "schedule"} <= {line.split()[0] for line in keys.splitlines()}


def test_keys_of_sweeps_clusters_and_named_entries_are_explained(road):
    assert "sweep" in road("explain", "space.any.uniform").out
    assert "default:  must be set\n" in road("explain", "space").out
    assert "submit" in road("explain", "entry_cpus").out
    assert road("explain", "data.sets.mine.label", "finetune").code == 0
