"""``road explain``: one key in words."""

from __future__ import annotations

import json


def test_a_key_is_explained_for_each_verb_that_has_it(road):
    result = road("explain", "optimizer.peak_lr", "--json")
    assert result.code == 0
    (first,) = json.loads(result.out)
    assert first["allowed"] == "0 < value <= 1"
    assert (first["default"]["pretrain"], first["default"]["finetune"]) == (5e-4, 3e-4)
    assert first["meaning"]
    assert "Clark" in first["meaning"]
    assert first["presets"]["electra_base"] == 2e-4


def test_verbs_in_which_a_key_differs_are_explained_apart(road):
    blocks = json.loads(road("explain", "data.batch_size", "--json").out)
    assert len(blocks) > 1
    verbs = [verb for block in blocks for verb in block["default"]]
    assert sorted(verbs) == sorted(set(verbs))
    (only,) = json.loads(road("explain", "data.batch_size", "distill", "--json").out)
    assert list(only["default"]) == ["distill"]


def test_the_text_has_every_part_of_the_explanation(road):
    out = road("explain", "optimizer.peak_lr", "finetune").out
    for part in ("allowed:", "default:", "meaning:"):
        assert part in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_section_lists_its_keys_one_a_line(road):
    lines = road("explain", "optimizer", "finetune").out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line == "  keys:"]
    names = [line.split()[0] for line in lines[at + 1 :]]
    assert {"name", "peak_lr", "schedule"} <= set(names)


def test_keys_of_sweeps_clusters_and_named_entries_are_explained(road):
    assert "sweep" in road("explain", "space.any.uniform").out
    assert "submit" in road("explain", "entry_cpus").out
    assert road("explain", "data.sets.mine.label", "finetune").code == 0


def test_the_names_of_a_registry_are_allowed_values(road):
    assert '"correctness"' in road("explain", "weighting.rule", "distill").out


def test_an_unknown_key_is_a_mistake_with_the_nearest_ones(road):
    result = road("explain", "peak_lr")
    assert result.code == 2
    assert "road explain optimizer.peak_lr" in result.err
    result = road("explain", "optimizer.peek_lr", "finetune")
    assert (result.code, "optimizer.peak_lr" in result.err) == (2, True)
    assert road("explain", "zzzqq").code == 2
    assert road("explain", "seed", "nonsense").code == 2
