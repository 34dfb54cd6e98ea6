"""Tiny generators, discriminators and batches."""

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from road_ray.objectives.pretraining.generator import MaskingObjective
from tests.tiny_encoder import padded_batch, small_config

VOCAB, PAD, CLS, SEP, MASK = 60, 0, 2, 3, 4
SPECIAL = (PAD, CLS, SEP, MASK)
OPTIONS = {"special_ids": SPECIAL, "mask_id": MASK}


def rest(batch):
    """What a model of transformers takes of a batch beside its tokens."""
    return {name: batch[name] for name in ("attention_mask", "token_type_ids")}


def config_of(hidden: int, **options):
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.2,  # so that predictions differ from position to position
    }
    return small_config(**(sizes | options))


@pytest.fixture(autouse=True)
def prepared():
    """Batches reach ``forward`` prepared, as those of the loop."""

    def prepare(module, arguments):
        return (module.prepare(*arguments),) if isinstance(module, MaskingObjective) else None

    hook = register_module_forward_pre_hook(prepare)
    yield
    hook.remove()


@pytest.fixture
def generator():
    torch.manual_seed(1)
    return ElectraForMaskedLM(config_of(16))


@pytest.fixture
def discriminator():
    torch.manual_seed(2)
    return ElectraForPreTraining(config_of(32))


@pytest.fixture
def wide(batch):
    """The batch with noise for all that an objective may draw."""
    return batch | {"noise": torch.rand(6, 5, 24, generator=torch.Generator().manual_seed(4))}


@pytest.fixture
def batch():
    """Five rows of unequal length with their noise, the second segment from the sixth token on."""
    lengths = (24, 17, 9, 4, 3)
    made = padded_batch(*lengths)
    made["input_ids"][:, 0] = CLS
    made["input_ids"][torch.arange(5), torch.tensor(lengths) - 1] = SEP
    noise = torch.rand(3, 5, 24, generator=torch.Generator().manual_seed(3))
    return made | {"noise": noise, "task": "", "dataset": "corpus"}
