"""ELECTRA against a plain reference: Hugging Face's classes on logits of the whole vocabulary; its
detection at fewer positions; REINFORCE: reward, baseline and gradient.
"""

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.testing import assert_close

from road_ray.errors import ConfigError
from road_ray.models.language_model import detection_scores
from road_ray.objectives.masking import choose, mask, sample
from road_ray.objectives.pretraining.electra import (
    Adversarial,
    Electra,
    ElectraMasked,
    area_under_curve,
    detection_losses,
)
from road_ray.objectives.pretraining.generator import Frequencies
from tests.objectives.conftest import MASK, OPTIONS, SPECIAL, VOCAB, rest


@pytest.fixture
def electra(generator, discriminator):
    return Electra(generator, discriminator, **OPTIONS)


def losses(electra, batch):
    return {name: t.weight * t.total / t.count for name, t in electra(batch).terms.items()}


def reference(electra, batch):
    """The two losses as the paper writes them, without sparing anything."""
    tokens, attention, noise = batch["input_ids"], batch["attention_mask"], batch["noise"]
    options = rest(batch)
    chosen = choose(tokens, attention, noise[0], special_ids=SPECIAL)
    masked = mask(tokens, chosen, noise[1], mask_id=MASK)
    labels = tokens.masked_fill(~chosen, -100)
    outputs = electra.generator(input_ids=masked, labels=labels, **options)
    sampled = sample(outputs.logits, noise[2])
    corrupted = tokens.clone()
    corrupted[chosen] = sampled[chosen]
    fake = (corrupted != tokens).long()
    detection = electra.discriminator(input_ids=corrupted, labels=fake, **options)
    return {"generator": outputs.loss, "discriminator": 50 * detection.loss}, corrupted, detection


def gradients(electra, result):
    electra.zero_grad()
    sum(result.values()).backward()
    return {name: p.grad.clone() for name, p in electra.named_parameters()}


def test_losses_and_all_gradients_equal_the_reference(electra, batch):
    ours = losses(electra, batch)
    theirs, corrupted, _ = reference(electra, batch)
    assert (corrupted != batch["input_ids"]).any()
    assert_close(ours, {name: loss.detach() for name, loss in theirs.items()})
    assert_close(gradients(electra, ours), gradients(electra, theirs), rtol=1e-4, atol=1e-6)


def test_in_bf16_the_losses_stay_near_those_in_fp32(electra, batch):
    exact = losses(electra, batch)
    with torch.autocast("cpu", torch.bfloat16):
        near = losses(electra, batch)
    assert near["generator"].dtype == near["discriminator"].dtype == torch.float32
    assert_close(near["generator"], exact["generator"], rtol=0.05, atol=0.05)


def test_metrics_count_hits_of_the_convention_that_1_is_fake(electra, batch):
    metrics = electra(batch).metrics
    _, corrupted, detection = reference(electra, batch)
    real = batch["attention_mask"].bool()
    fake = (corrupted != batch["input_ids"])[real]
    output = (detection.logits > 0)[real]
    counted = {name: (int(total), int(n)) for name, (total, n) in metrics.items()}
    assert counted["detection_accuracy"] == (int((output == fake).sum()), 57)
    assert counted["detection_recall"] == (int((output & fake).sum()), int(fake.sum()))
    assert counted["detection_precision"] == (int((output & fake).sum()), int(output.sum()))
    assert counted["detection_specificity"] == (int((~output & ~fake).sum()), int((~fake).sum()))
    assert counted["replaced_fraction"] == (int(fake.sum()), 57)
    assert counted["generator_accuracy"][1] == 10


def test_the_area_under_the_curve_is_that_of_scikit_learn(electra, batch):
    torch.manual_seed(0)
    scores = torch.randn(200)
    fake, every = torch.rand(200) < torch.sigmoid(scores - 2), torch.ones(200, dtype=torch.bool)
    expected = roc_auc_score(fake.numpy(), scores.numpy())
    assert float(area_under_curve(scores, fake, every)) == pytest.approx(expected)
    assert float(area_under_curve(scores, every, every)) == 0.5
    assert float(area_under_curve(scores[:0], fake[:0], every[:0])) == 0.5
    total, count = electra(batch).metrics["detection_auc"]
    _, corrupted, detection = reference(electra, batch)
    real = batch["attention_mask"].bool()
    fake = (corrupted != batch["input_ids"])[real]
    expected = roc_auc_score(fake.numpy(), detection.logits.detach()[real].numpy())
    assert float(total / count) == pytest.approx(expected)


def test_only_chosen_positions_count(generator, discriminator, batch):
    terms = ElectraMasked(generator, discriminator, **OPTIONS)(batch).terms
    assert int(terms["discriminator"].count) == int(terms["generator"].count) == 10
    electra = Electra(generator, discriminator, **OPTIONS)
    made = electra.corrupted(electra.prepare(batch))
    scores = detection_scores(discriminator, made.tokens, batch)
    expected = detection_losses(scores, made.replaced)[made.chosen].sum()
    assert_close(terms["discriminator"].total, expected)
    assert_close(terms["generator"].total, electra(batch).terms["generator"].total)
    assert terms["discriminator"].weight == 50.0


def test_rewards_are_the_detectors_losses_at_chosen_positions(generator, discriminator, batch):
    """The policy's loss is ``-log p(sample) * (reward - baseline)``: its gradient, which flows into
    the first factor alone, is that of the expected reward.
    """
    objective = Adversarial(generator, discriminator, **OPTIONS)
    losses = objective(batch)
    terms = losses.terms
    electra = Electra(generator, discriminator, **OPTIONS)
    made = objective.corrupted(electra.prepare(batch))  # the same noise draws the same samples
    scores = detection_scores(discriminator, made.tokens, batch)[made.chosen]
    # -log D where the sample is the original, -log(1 - D) elsewhere; D = P(real) = sigmoid(-score)
    real = torch.sigmoid(-scores)
    rewards = -torch.where(made.replaced[made.chosen], 1 - real, real).log()
    total, count = losses.metrics["generator_reward"]
    assert_close(total, rewards.sum(), rtol=1e-4, atol=1e-5)
    assert int(count) == int(terms["generator"].count) == 10
    assert_close(terms["discriminator"].total, electra(batch).terms["discriminator"].total)
    guessed = torch.nn.functional.logsigmoid(objective.baseline(made.hidden).squeeze(-1))
    log_p = made.logits.log_softmax(-1).gather(1, made.sampled[:, None]).squeeze(1)
    policy = -(log_p * (rewards + guessed).detach()).sum()
    assert_close(terms["generator"].total, policy, rtol=1e-4, atol=1e-5)
    weights = [p for p in generator.parameters() if p.requires_grad]
    ours = torch.autograd.grad(terms["generator"].total, weights, retain_graph=True)
    assert_close(ours, torch.autograd.grad(policy, weights), rtol=1e-4, atol=1e-5)


def test_the_baseline_learns_alone_and_fits_the_chance_to_be_right(generator, discriminator, batch):
    objective = Adversarial(generator, discriminator, **OPTIONS)
    objective(batch).terms["baseline"].total.backward()
    names = {name for name, p in objective.named_parameters() if p.grad is not None}
    assert names == {"baseline.weight", "baseline.bias"}
    objective.zero_grad()
    objective(batch).terms["generator"].total.backward()
    reached = {name for name, p in objective.named_parameters() if p.grad is not None}
    assert not reached & {"baseline.weight", "baseline.bias"}
    assert not any(name.startswith("discriminator.discriminator_pred") for name in reached)


def test_a_generator_that_does_not_learn_is_refused(discriminator):
    with pytest.raises(ConfigError, match="Adversarial needs a generator that learns"):
        Adversarial(Frequencies(torch.ones(VOCAB)), discriminator, **OPTIONS)
