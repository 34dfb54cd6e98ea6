"""MC-BERT: candidates, the reject option, duplicates of the gold."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import CONFIG_MAPPING, AutoModelForMaskedLM, ElectraForMaskedLM

from road_ray.objectives.pretraining.mc_bert import MCBert, choices
from tests.objectives.conftest import MASK, SPECIAL, VOCAB, config_of

DRAWN = torch.tensor([[7, 5, 9], [7, 5, 9]])
GOLD = torch.tensor([5, 5])
REPLACED = torch.tensor([True, False])


def test_the_gold_stands_in_slot_1_where_replaced_and_its_duplicates_do_not_count():
    candidates, counts = choices(DRAWN, GOLD, REPLACED, faithful=False)
    assert candidates.tolist() == [[5, 5, 9], [7, 5, 9]]
    assert counts.tolist() == [[True, False, True], [True, False, True]]


def test_the_released_code_keeps_duplicates():
    candidates, counts = choices(DRAWN, GOLD, REPLACED, faithful=True)
    assert candidates.tolist() == [[5, 5, 9], [7, 5, 9]]
    assert counts.all()


def test_the_unchanged_token_is_no_candidate_where_rejecting_is_right():
    candidates, counts = choices(
        torch.tensor([[5, 7]]), torch.tensor([5]), torch.tensor([False]), faithful=False
    )
    assert (candidates.tolist(), counts.tolist()) == ([[5, 7]], [[False, True]])


@pytest.fixture
def objective(generator):
    torch.manual_seed(2)
    model = ElectraForMaskedLM(config_of(32))
    return MCBert(generator, model, special_ids=SPECIAL, mask_id=MASK, candidates=4)


@pytest.fixture
def wide(batch):
    return batch | {"noise": torch.rand(6, 5, 24, generator=torch.Generator().manual_seed(4))}


def test_losses_equal_a_reference_that_walks_over_positions(objective, wide):
    assert objective.noise_channels == 6
    terms = objective(wide).terms
    tokens, noise = wide["input_ids"], wide["noise"]
    options = {k: wide[k] for k in ("attention_mask", "token_type_ids")}
    chosen, masked = objective.hide(objective.prepare(wide))
    assert (masked[chosen] == MASK).all()  # every chosen position is masked
    logits = objective.generator(input_ids=masked, **options).logits
    chances = torch.softmax(logits, -1).cumsum(-1)

    def at(channel):
        return torch.searchsorted(chances, noise[channel][..., None]).squeeze(-1)

    corrupted = torch.where(chosen, at(2), tokens)
    hidden = objective.encoder(input_ids=corrupted, **options).last_hidden_state
    state = objective.model.generator_predictions(hidden)
    table = objective.encoder.embeddings.word_embeddings.weight
    bias = objective.generator.generator_lm_head.bias
    total, count = 0.0, 0
    for row, column in wide["attention_mask"].nonzero().tolist():
        here, gold = state[row, column], int(tokens[row, column])
        replaced = int(corrupted[row, column]) != gold
        listed = [int(at(channel)[row, column]) for channel in (3, 4, 5)]
        rest = [c for c in (listed[1:] if replaced else listed) if c != gold]
        listed = [gold, *rest] if replaced else rest
        scores = torch.stack(
            [here @ objective.none + objective.none_bias[0]]
            + [here @ table[c] + bias[c] for c in listed]
        )
        total = total - torch.log_softmax(scores, 0)[int(replaced)]
        count += 1
    assert int(terms["choice"].count) == count == 57
    assert_close(terms["choice"].total, total, rtol=1e-4, atol=1e-4)
    expected = torch.nn.functional.cross_entropy(logits[chosen], tokens[chosen], reduction="sum")
    assert_close(terms["generator"].total, expected)
    assert terms["choice"].weight == 50.0


def test_one_table_and_one_bias_serve_both_networks(objective, tmp_path):
    ours, theirs = objective.model.generator_lm_head, objective.generator.generator_lm_head
    assert ours.weight is theirs.weight
    assert ours.bias is theirs.bias
    objective.export(tmp_path)
    assert ElectraForMaskedLM.from_pretrained(tmp_path).config.vocab_size == VOCAB


@pytest.mark.parametrize("family", ["bert", "albert", "roberta"])
def test_the_bias_of_the_generator_is_that_of_every_module_of_the_head(batch, tmp_path, family):
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"vocab_size": VOCAB, "hidden_size": 16, "embedding_size": 16, "pad_token_id": 0}
    config = CONFIG_MAPPING[family](**sizes)
    generator, model = (AutoModelForMaskedLM.from_config(config) for _ in range(2))
    settings = {"special_ids": SPECIAL, "mask_id": MASK, "candidates": 2}
    objective = MCBert(generator, model, **settings)
    terms = objective(batch | {"noise": torch.rand(4, 5, 24)}).terms.values()
    sum(term.total for term in terms).backward()
    assert [n for n, p in objective.named_parameters() if p.requires_grad and p.grad is None] == []
    trained = torch.nn.init.normal_(generator.get_output_embeddings().bias)
    objective.export(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path).state_dict().values()
    biases = [tensor for tensor in loaded if tensor.shape == (VOCAB,)]
    assert len(biases) == 2
    assert all(torch.equal(bias, trained) for bias in biases)
