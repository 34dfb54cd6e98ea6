"""Generators: draws, loss, gradient and samples against PyTorch's own; and the base class."""

import pytest
import torch
from torch.nn import functional
from torch.testing import assert_close
from transformers import ElectraForMaskedLM

from road_ray.errors import ConfigError
from road_ray.models.language_model import vocabulary_logits
from road_ray.objectives.masking import sample
from road_ray.objectives.pretraining.electra import Electra
from road_ray.objectives.pretraining.generator import Frequencies, draw
from tests.objectives.conftest import OPTIONS, VOCAB, config_of


def drawn_by(generator, hidden, gold, noise, *, temperature=1.0, disallow_correct=False):
    if isinstance(generator, Frequencies):
        return generator.draw(gold, noise, temperature, disallow_correct=disallow_correct)
    options = {"temperature": temperature, "disallow_correct": disallow_correct}
    return draw(vocabulary_logits(generator, hidden), gold, noise, **options)


def test_frequencies_are_drawn_by_their_share_and_know_the_gold_by_it():
    torch.manual_seed(0)
    generator = Frequencies(torch.tensor([0.0, 1.0, 3.0]))
    gold = torch.ones(40_000, dtype=torch.long)
    loss, sampled, num_correct, entropy = drawn_by(generator, None, gold, torch.rand(40_000))
    shares = torch.bincount(sampled, minlength=3) / 40_000
    assert_close(shares, torch.tensor([0.0, 0.25, 0.75]), rtol=0, atol=0.01)
    assert float(loss) == pytest.approx(40_000 * 1.386294, rel=1e-4)  # log 4
    assert float(entropy) / 40_000 == pytest.approx(0.562335, rel=1e-4)
    assert int(num_correct) == 0
    assert not [*generator.parameters()]


@pytest.mark.parametrize("kind", ["model", "frequencies"])
def test_the_gold_is_never_drawn_when_disallowed(generator, kind):
    torch.manual_seed(0)
    gold = torch.randint(0, VOCAB, (200,))
    used = generator if kind == "model" else Frequencies(torch.ones(VOCAB))
    hidden = torch.randn(200, 16)
    _, sampled, *_ = drawn_by(used, hidden, gold, torch.rand(200), disallow_correct=True)
    assert not (sampled == gold).any()
    loss, *_ = drawn_by(used, torch.randn(200, 16), sampled, torch.rand(200))
    assert torch.isfinite(loss)


def test_the_temperature_changes_the_samples_and_not_the_loss(generator):
    torch.manual_seed(0)
    hidden, gold, noise = torch.randn(50, 16), torch.zeros(50, dtype=torch.long), torch.rand(50)
    plain, sampled, *_ = drawn_by(generator, hidden, gold, noise)
    hot, tempered, *_ = drawn_by(generator, hidden, gold, noise, temperature=5.0)
    logits = generator.generator_lm_head(generator.generator_predictions(hidden))
    assert torch.equal(tempered, sample(logits, noise, temperature=5.0))
    assert torch.equal(sampled, sample(logits, noise))
    assert_close(plain, hot)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spread", [1.0, 10.0, 100.0])
def test_loss_and_gradient_are_those_of_cross_entropy(dtype, spread):
    torch.manual_seed(0)
    logits = (torch.randn(40, VOCAB) * spread).to(dtype)
    gold = torch.randint(0, VOCAB, (40,))
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss, _, right, entropy = draw(ours, gold, torch.rand(40))
    reference = functional.cross_entropy(theirs.float(), gold, reduction="sum")
    assert_close(loss, reference, rtol=1e-5, atol=1e-4)
    (3 * loss).backward()
    (3 * reference).backward()
    assert ours.grad.dtype == dtype
    rounding = 1e-5 if dtype == torch.float32 else 2**-7
    assert_close(ours.grad, theirs.grad, rtol=rounding, atol=1e-6)
    assert right == (logits.argmax(-1) == gold).sum()
    expected = torch.distributions.Categorical(logits=logits.float()).entropy().sum()
    assert_close(entropy, expected, rtol=1e-4, atol=1e-2)


def test_a_logit_that_is_not_finite_makes_a_loss_that_is_not_finite():
    logits = torch.zeros(2, 5)
    logits[0, 1] = float("nan")
    loss, sampled, *_ = draw(logits, torch.tensor([0, 1]), torch.rand(2))
    assert not loss.isfinite()
    assert (sampled < 5).all()  # the discriminator looks them up before the loss is judged


def test_generators_of_another_size_share_neither_all_nor_embeddings(generator, discriminator):
    with pytest.raises(ConfigError, match=r"tying = all.*differ in size"):
        Electra(generator, discriminator, tying="all", **OPTIONS)
    narrow = ElectraForMaskedLM(config_of(16, embedding_size=8))
    with pytest.raises(ConfigError, match=r"\(60, 8\) and \(60, 16\)"):
        Electra(narrow, discriminator, **OPTIONS)


def test_a_frozen_generator_draws_and_does_not_learn(discriminator, batch):
    generator = ElectraForMaskedLM(config_of(16, hidden_dropout_prob=0.5)).requires_grad_(False)
    electra = Electra(generator, discriminator, tying="none", **OPTIONS).train()
    assert not electra.generator.training
    assert electra.discriminator.training
    losses = electra(batch)
    terms = losses.terms
    assert set(terms) == {"discriminator"}
    terms["discriminator"].total.backward()
    assert all(p.grad is None for p in generator.parameters())
    assert float(losses.metrics["replaced_fraction"][0]) > 0
    with pytest.raises(ConfigError, match=r"frozen generator with generator\.tying = embeddings"):
        Electra(generator, discriminator, **OPTIONS)
