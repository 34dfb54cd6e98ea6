"""Before a pre-training: its operations, and its corrupted rows."""

import re

import pytest
import torch

import road_ray as rr
from road_ray.config import override
from road_ray.objectives.pretraining.registry import OBJECTIVES
from road_ray.recipes.pretraining.pretrain import prepare
from road_ray.recipes.pretraining.preview import flops_per_step, peek
from road_ray.training.checkpoint_state import load_weights
from road_ray.training.worker import Worker
from road_ray.verbs import configure, preset_config

LEARNT = {"data.tokenizer": None, "data.vocab_size": 30_522}  # in the place of a file


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("bert_small", 1.419e18),
        ("bert_base", 6.428e19),
        ("electra_small", 1.294e18),
        ("electra_base", 6.425e19),
        ("electra_large", 7.118e20),
    ],
)
def test_presets_cost_what_the_released_script_says(name, published):
    config = override(preset_config(name), LEARNT)
    steps = config.training.steps
    assert flops_per_step(config) * steps == pytest.approx(published, rel=2e-3)


def test_the_vocabulary_is_that_of_the_tokenizer(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    named = override(preset_config("electra_small"), {"data.tokenizer": str(tmp_path)})
    learnt = {"data.tokenizer": None, "data.vocab_size": len(tokenizer)}
    assert flops_per_step(named) == flops_per_step(override(named, learnt))


def test_every_objective_has_a_cost_and_the_order_is_plain():
    small = override(preset_config("electra_small"), LEARNT)
    costs = {n: flops_per_step(override(small, {"objective.name": n})) for n in OBJECTIVES}
    assert costs["mlm"] < costs["replace_mlm"] < costs["all_tokens_mlm"]
    assert costs["electra"] == costs["electra_masked"] == costs["adversarial"]
    assert costs["electra"] < costs["teams"]
    assert costs["electra"] < costs["mc_bert"]


def test_a_frozen_generator_costs_half_and_none_nothing():
    small = override(preset_config("electra_small"), LEARNT)
    joint, frozen, none = (
        flops_per_step(override(small, changed))
        for changed in ({}, {"generator.kind": "frozen"}, {"generator.kind": "unigram"})
    )
    assert joint - frozen == pytest.approx((joint - none) / 2)


HIDDEN = re.compile(r"\[[^\]\s]+( -> [^\]\s]+)?\]|\[MASK: \S+\]")
SPECIAL = {"[CLS]", "[SEP]", "[UNK]"}


def hidden(text: str) -> list[str]:
    marks = [match.group() for match in HIDDEN.finditer(text)]
    return [mark for mark in marks if mark not in SPECIAL]


def test_replacements_are_those_of_the_trained_generator(pretrained, pretraining):
    config = configure("pretrain", overrides=pretraining | {"run_dir": str(pretrained.directory)})
    made = prepare(config, Worker())
    load_weights(made.objective, pretrained.directory / "checkpoints" / "step-00000006")
    with torch.no_grad():
        batch = made.objective.prepare(made.stream[6])
        corrupted = made.objective.eval().corrupted(batch)
    head, *rows = peek(str(pretrained.directory), 100).split("\n\n")
    assert head == "electra, the batch after step 6: 8 of 8 rows"
    shown = [hidden(row) for row in rows]
    assert list(map(len, shown)) == corrupted.chosen.sum(1).tolist()
    arrows = [sum("->" in mark for mark in row) for row in shown]
    assert arrows == corrupted.replaced.sum(1).tolist()


def test_masks_of_a_masked_model(pretraining, tmp_path):
    run = rr.pretrain(
        overrides=pretraining | {"objective.name": "mlm", "training.steps": 1}, run_dir=tmp_path
    )
    marks = hidden(peek(str(run.directory), 3))
    masked = [mark for mark in marks if mark.startswith("[MASK: ")]
    assert 0 < len(masked) <= len(marks)
    assert not any("->" in mark for mark in marks)
