"""A model card says what the model is and where it comes from, in a form that the Hub reads."""

from __future__ import annotations

import json

import pytest

from road_ray import yaml_lines
from road_ray.reporting.card import write_card

LINEAGE = {
    "task": "mrc",
    "datasets": ["squad_v2"],
    "init": "runs/mtl",
    "seed": 7,
    "no_answer_threshold": -1.5,
    "distillation": {"temperature": 2.0},
    "teachers": [{"directory": "runs/t0/hf", "weights_sha256": "ab" * 32}],
    "metrics": {"eval/squad_v2/f1": 61.25, "eval/squad_v2/total": 11.0},
}


@pytest.fixture
def card(tmp_path):
    def write(architecture: str, lineage: dict[str, object]) -> tuple[str, str]:
        (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
        text = write_card(tmp_path, lineage).read_text(encoding="utf-8")
        _, front, body = text.split("---\n", 2)
        (tmp_path / "front.yaml").write_text(front)
        return tmp_path / "front.yaml", body

    return write


def test_the_front_matter_is_what_the_hub_expects(card):
    front, _ = card("ElectraForQuestionAnswering", LINEAGE)
    assert yaml_lines.read(front).values == {
        "library_name": "transformers",
        "tags": ["road_ray", "electra", "mrc"],
        "pipeline_tag": "question-answering",
        "metrics": ["f1"],
    }


def test_figures_lineage_and_loading_are_told(card):
    _, body = card("ElectraForQuestionAnswering", LINEAGE)
    assert "eval/squad_v2/f1  61.25" in body
    assert "eval/squad_v2/total" not in body
    assert "distilled from several teachers on squad_v2" in body
    for line in (
        "- init: `runs/mtl`",
        "- seed: `7`",
        "- no_answer_threshold: `-1.5`",
        "- distillation.temperature: `2.0`",
        "- teacher 0: `runs/t0/hf`, weights `abababababababab`",
    ):
        assert line in body
    assert "ElectraForQuestionAnswering.from_pretrained" in body


def test_an_encoder_without_a_task_is_a_pre_trained_one(card):
    front, body = card("ElectraForPreTraining", {"corpus": {"rows": 12}, "metrics": {"train/x": 1}})
    assert "pipeline_tag" not in yaml_lines.read(front).values
    assert "pre-trained on a text corpus" in body
    assert "- corpus.rows: `12`" in body


def test_secrets_stay_out(card):
    _, body = card("ElectraForPreTraining", LINEAGE | {"api_key": "very-secret-value"})
    assert "very-secret-value" not in body
