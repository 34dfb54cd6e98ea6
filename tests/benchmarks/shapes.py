"""What is trained: the size of the models, the batches, and the arithmetic that they need."""

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import ElectraForMaskedLM, ElectraForPreTraining, ElectraModel

from road_ray.data.task_and_dataset import Task
from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import hugging_face_config, initialize, scale_encoder
from road_ray.models.multitask import MultitaskModel

PAD, CLS, SEP, MASK = 0, 101, 102, 103
SPECIAL = (PAD, CLS, SEP, MASK)
FIRST_WORD = 104
CHOOSE_FRACTION, MASK_FRACTION, DISCRIMINATOR_WEIGHT = 0.15, 0.85, 50.0
GENERATOR_SCALE = 0.25


@dataclass(frozen=True)
class Shape:
    """Models and batches of one benchmark. The default: ELECTRA-Small, dropout as published."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    vocab_size: int = 30522
    batch_size: int = 16
    length: int = 128

    def lengths(self) -> list[int]:
        """Tokens of every row: one in eight is half as long, the others full."""
        return [self.length // 2 if row % 8 == 7 else self.length for row in range(self.batch_size)]

    @property
    def tokens(self) -> int:
        return sum(self.lengths())


TOY = Shape(  # the code runs in a second and the figures mean nothing
    EncoderConfig(layers=1, hidden_size=32, heads=2, intermediate_size=64, embedding_size=16),
    vocab_size=200,
    batch_size=8,
    length=16,
)
QUESTIONS = TOY.encoder.model_copy(update={"max_length_tokens": 512})


def batches(shape: Shape, on: torch.device | None = None) -> list[dict[str, Any]]:
    """Four of random words between [CLS] and [SEP], padded; None: on the device of training."""
    chance = torch.Generator().manual_seed(0)
    lengths = torch.tensor(shape.lengths())
    size = (shape.batch_size, shape.length)
    made = []
    for _ in range(4):
        attention = (torch.arange(shape.length) < lengths[:, None]).long()
        tokens = torch.randint(FIRST_WORD, shape.vocab_size, size, generator=chance) * attention
        tokens[:, 0] = CLS
        tokens[torch.arange(shape.batch_size), lengths - 1] = SEP
        batch = {
            "input_ids": tokens,
            "attention_mask": attention,
            "token_type_ids": torch.zeros_like(tokens),
            "noise": torch.rand(3, *size, generator=chance),
        }
        made.append({name: tensor.to(on or device()) for name, tensor in batch.items()})
    return made


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def models(shape: Shape) -> tuple[ElectraForMaskedLM, ElectraForPreTraining]:
    """Generator and discriminator as plain Hugging Face models that share their embeddings."""
    torch.manual_seed(0)
    generator = ElectraForMaskedLM(
        hugging_face_config(scale_encoder(shape.encoder, GENERATOR_SCALE), shape.vocab_size)
    )
    discriminator = ElectraForPreTraining(hugging_face_config(shape.encoder, shape.vocab_size))
    for model in (generator, discriminator):
        initialize(model, shape.encoder.initializer_std)
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.generator_lm_head.weight = discriminator.electra.embeddings.word_embeddings.weight
    return generator.to(device()).train(), discriminator.to(device()).train()


def model_of(size: EncoderConfig, vocab_size: int, task: Task, seed: int = 0) -> MultitaskModel:
    """An encoder with random weights and the head of a task."""
    torch.manual_seed(seed)
    return MultitaskModel(ElectraModel(hugging_face_config(size, vocab_size)), [task])


def flops(shape: Shape) -> float:
    """Floating-point operations that one step needs: products only, real tokens only, the
    vocabulary at chosen positions only, backwards twice as much as forwards.
    """
    small = scale_encoder(shape.encoder, GENERATOR_SCALE)
    total = 0.0
    for tokens in shape.lengths():
        chosen = max(1, round(CHOOSE_FRACTION * tokens))
        total += encoder_flops(small, tokens) + encoder_flops(shape.encoder, tokens)
        width, embedding = shape.encoder.hidden_size, shape.encoder.embedding_size
        total += 2 * tokens * (width * width + width)
        total += 2 * chosen * embedding * (small.hidden_size + shape.vocab_size)
    return 3 * total


def encoder_flops(size: EncoderConfig, tokens: int) -> float:
    width = size.hidden_size
    linear = 4 * width * width + 2 * width * size.intermediate_size
    layer = 2 * tokens * linear + 4 * tokens * tokens * width
    differs = size.embedding_size != width
    return size.layers * layer + (2 * tokens * size.embedding_size * width if differs else 0)
