"""Who teaches, as the record of a run tells it."""

from __future__ import annotations

import json

from road_ray.data.catalog import task
from road_ray.distillation.teacher_identity import fingerprint_tokenizer
from road_ray.distillation.teacher_manifest import identity_only, teacher_manifest

NLI = task("nli")


def test_the_manifest_tells_teachers_apart(tmp_path, teacher, tokenizer):
    directories = [teacher(tmp_path / str(seed), seed) for seed in range(2)]
    manifest = json.loads(json.dumps(teacher_manifest(directories, NLI)))
    first, second = manifest["teachers"]
    assert manifest["task"] == "nli"
    assert first["weights_sha256"] != second["weights_sha256"]
    assert first["config_sha256"] == second["config_sha256"]
    assert (
        first["tokenizer_sha256"] == second["tokenizer_sha256"] == fingerprint_tokenizer(tokenizer)
    )
    assert first["labels"] == ["contradiction", "entailment", "neutral"]


def test_a_teacher_of_ours_brings_its_figures_and_where_it_comes_from(tmp_path, teacher):
    directory = teacher(tmp_path / "a")
    record = {"metrics": {"eval/mnli/accuracy": 0.8}, "seed": 3, "init": "runs/p", "other": 1}
    (directory / "road_ray.json").write_text(json.dumps(record))
    (entry,) = teacher_manifest([directory], NLI)["teachers"]
    assert entry["metrics"] == {"eval/mnli/accuracy": 0.8}
    assert (entry["seed"], entry["init"]) == (3, "runs/p")
    assert "other" not in entry


def test_a_teacher_stays_itself_when_it_moves_or_is_judged_again(tmp_path, teacher):
    before = teacher(tmp_path / "a")
    after = teacher(tmp_path / "b")
    (after / "road_ray.json").write_text('{"metrics": {"x": 1}}')
    config = after / "config.json"
    changed = json.loads(config.read_text()) | {"transformers_version": "9"}
    config.write_text(json.dumps(changed))
    first, two = (teacher_manifest([place], NLI) for place in (before, after))
    assert first != two
    assert identity_only(first) == identity_only(two)


def test_other_label_names_or_another_shape_make_another_teacher(tmp_path, teacher):
    first = teacher(tmp_path / "a")
    renamed = teacher(tmp_path / "b", labels=("entailment", "neutral", "contradiction"))
    shaped = teacher(tmp_path / "c")
    config = shaped / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_attention_heads": 4}))
    who = [identity_only(teacher_manifest([place], NLI)) for place in (first, renamed, shaped)]
    hashes = {first["teachers"][0]["weights_sha256"] for first in who}
    assert len(hashes) == 1
    assert who[0] != who[1]
    assert who[0] != who[2]
