"""Objectives that choose among candidates: how these are drawn and scored, MC-BERT, TEAMS."""

import pytest
import torch
from torch.testing import assert_close
from transformers import CONFIG_MAPPING, AutoModelForMaskedLM, ElectraForMaskedLM

from road_ray.errors import ConfigError
from road_ray.models.encoder import new_language_model
from road_ray.objectives.pretraining.candidates import MCBert, Teams, without_replacement
from tests.objectives.conftest import MASK, OPTIONS, VOCAB, config_of, rest
from tests.published import publish
from tests.tiny_encoder import TINY


def test_draws_without_replacement_differ_and_follow_the_renormalised_softmax():
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.2, 0.2, 0.1])
    logits = chances.log().expand(40_000, 4)
    drawn = without_replacement(
        logits, torch.zeros(40_000, dtype=torch.long), torch.rand(40_000, 2)
    )
    assert (drawn[:, 0] != drawn[:, 1]).all()
    first = torch.bincount(drawn[:, 0], minlength=4) / 40_000
    assert_close(first, torch.tensor([0.0, 0.4, 0.4, 0.2]), rtol=0, atol=0.01)
    # Second = 3: after 1 or 2 (0.4 each) it has 0.1 of 0.3.
    second = (drawn[:, 1] == 3).float().mean()
    assert_close(second, torch.tensor(0.8 / 3), rtol=0, atol=0.01)


def test_a_generator_that_is_sure_of_the_gold_leaves_no_other():
    logits = torch.tensor([[200.0, 0.0, 0.0, 0.0, 0.0]])
    drawn = without_replacement(logits, torch.tensor([0]), torch.tensor([[0.1, 0.5, 0.9]]))
    assert drawn.tolist() == [[0, 0, 0]]


@pytest.fixture
def mc_bert(generator):
    torch.manual_seed(2)
    model = ElectraForMaskedLM(config_of(32))
    return MCBert(generator, model, **OPTIONS, candidates=4)


def test_losses_equal_a_reference_that_walks_over_positions(mc_bert, wide):
    assert mc_bert.noise_channels == 6
    terms = mc_bert(wide).terms
    tokens, noise = wide["input_ids"], wide["noise"]
    options = rest(wide)
    chosen, masked = mc_bert.hide(mc_bert.prepare(wide))
    assert (masked[chosen] == MASK).all()  # every chosen position is masked
    logits = mc_bert.generator(input_ids=masked, **options).logits
    chances = torch.softmax(logits, -1).cumsum(-1)

    def at(channel):
        return torch.searchsorted(chances, noise[channel][..., None]).squeeze(-1)

    corrupted = torch.where(chosen, at(2), tokens)
    hidden = mc_bert.encoder(input_ids=corrupted, **options).last_hidden_state
    state = mc_bert.model.generator_predictions(hidden)
    table = mc_bert.encoder.embeddings.word_embeddings.weight
    bias = mc_bert.generator.generator_lm_head.bias
    total, count = 0.0, 0
    for row, column in wide["attention_mask"].nonzero().tolist():
        here, gold = state[row, column], int(tokens[row, column])
        replaced = int(corrupted[row, column]) != gold
        listed = [int(at(channel)[row, column]) for channel in (3, 4, 5)]
        others = [c for c in (listed[1:] if replaced else listed) if c != gold]
        listed = [gold, *others] if replaced else others
        scores = torch.stack(
            [here @ mc_bert.none + mc_bert.none_bias[0]]
            + [here @ table[c] + bias[c] for c in listed]
        )
        total = total - torch.log_softmax(scores, 0)[int(replaced)]
        count += 1
    assert int(terms["choice"].count) == count == 57
    assert_close(terms["choice"].total, total, rtol=1e-4, atol=1e-4)
    expected = torch.nn.functional.cross_entropy(logits[chosen], tokens[chosen], reduction="sum")
    assert_close(terms["generator"].total, expected)
    assert terms["choice"].weight == 50.0


@pytest.mark.parametrize("family", ["bert", "albert", "roberta"])
def test_the_bias_of_the_generator_is_that_of_every_module_of_the_head(batch, tmp_path, family):
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"vocab_size": VOCAB, "hidden_size": 16, "embedding_size": 16, "pad_token_id": 0}
    config = CONFIG_MAPPING[family](**sizes)
    generator, model = (AutoModelForMaskedLM.from_config(config) for _ in range(2))
    objective = MCBert(generator, model, **OPTIONS, candidates=2)
    terms = objective(batch | {"noise": torch.rand(4, 5, 24)}).terms.values()
    sum(term.total for term in terms).backward()
    assert [n for n, p in objective.named_parameters() if p.requires_grad and p.grad is None] == []
    trained = torch.nn.init.normal_(generator.get_output_embeddings().bias)
    objective.export(tmp_path)
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path).state_dict().values()
    biases = [tensor for tensor in loaded if tensor.shape == (VOCAB,)]
    assert len(biases) == 2
    assert all(torch.equal(bias, trained) for bias in biases)


def teams_of(**options):
    torch.manual_seed(2)
    generator = ElectraForMaskedLM(config_of(32))
    model = ElectraForMaskedLM(config_of(32))
    settings = {"candidates": 4, "shared_layers": 1} | options
    return Teams(generator, model, **OPTIONS, **settings)


@pytest.fixture
def teams():
    return teams_of()


def test_counts_and_weights_and_the_lowest_layer_is_one_and_the_others_are_not(teams, wide):
    ours, theirs = teams.encoder.encoder.layer, teams.generator.electra.encoder.layer
    assert (ours[0] is theirs[0], ours[1] is theirs[1]) == (True, False)
    terms = teams(wide).terms
    counts = {name: (int(term.count), term.weight) for name, term in terms.items()}
    assert counts == {"generator": (10, 1.0), "discriminator": (57, 5.0), "selection": (10, 2.0)}


def test_detection_passes_its_own_last_layer_only(teams, wide):
    teams(wide).terms["discriminator"].total.backward()
    last = teams.encoder.encoder.layer[-1]
    assert all(p.grad is None for p in last.parameters())
    assert all(p.grad is not None for p in teams.detection_layer.parameters())
    teams.zero_grad()
    teams(wide).terms["selection"].total.backward()
    assert all(p.grad is not None for p in last.parameters())
    assert all(p.grad is None for p in teams.detection_layer.parameters())


@pytest.mark.parametrize("family", ["deberta-v2", "mpnet", "roberta"])
def test_a_family_of_init_runs_its_last_layer_twice(family, batch, tmp_path):
    publish(tmp_path, family, "ForMaskedLM", layers=3)
    generator, model = (AutoModelForMaskedLM.from_pretrained(tmp_path) for _ in range(2))
    objective = Teams(generator, model, **OPTIONS, candidates=3, shared_layers=1)
    tokens = batch["input_ids"] % model.config.vocab_size
    batch = batch | {"input_ids": tokens, "noise": torch.rand(5, 5, 24)}
    terms = objective(batch).terms.values()
    sum(term.total for term in terms).backward()
    assert [n for n, p in objective.named_parameters() if p.requires_grad and p.grad is None] == []
    objective.eval()
    objective.detection_layer.load_state_dict(objective.encoder.encoder.layer[-1].state_dict())
    hidden, branched = objective._both_last_layers(tokens, batch)
    assert_close(hidden, branched)


def test_candidates_that_are_alike_are_selected_alike(teams, wide):
    tokens = wide["input_ids"]
    terms = teams(wide).terms
    chosen, _ = teams.hide(teams.prepare(wide))
    # Candidates alike score alike: the mean loss of a model that knows nothing is log 4.
    with torch.no_grad():
        teams.model.generator_predictions.LayerNorm.weight.zero_()
        teams.model.generator_predictions.LayerNorm.bias.zero_()
    even = teams(wide).terms["selection"]
    assert float(even.total.detach() / even.count) == pytest.approx(torch.tensor(4.0).log().item())
    assert int(terms["selection"].count) == len(tokens[chosen])


def test_layers_that_cannot_be_shared_are_refused(generator):
    with pytest.raises(ConfigError, match="shared_layers = 3"):
        teams_of(shared_layers=3)
    with pytest.raises(ConfigError, match=r"generator\.scale=1\.0"):
        Teams(generator, ElectraForMaskedLM(config_of(32)), **OPTIONS, shared_layers=1)
    albert = new_language_model(TINY.model_copy(update={"family": "albert"}), VOCAB)
    with pytest.raises(ConfigError, match="no stack of layers"):
        Teams(ElectraForMaskedLM(config_of(32)), albert, **OPTIONS, shared_layers=0)
