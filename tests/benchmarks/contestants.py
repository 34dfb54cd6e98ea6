"""Who is compared: our loop, ``electra-pytorch``, the plain Hugging Face recipe, a bare product.

All train the same two models on the same batches with fused AdamW and clipped gradients.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from road_ray.models.config import Attention
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.electra import Electra
from road_ray.training.checkpoint_directory import Checkpoints
from road_ray.training.config import OptimizerConfig, TrainingConfig
from road_ray.training.loop import Steps, train
from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.run_context import Training
from road_ray.training.worker import Worker
from tests.benchmarks import shapes
from tests.benchmarks.race import gated
from tests.benchmarks.shapes import Shape

_RATE, _DECAY, _EPSILON, _MAX_NORM = 5e-4, 0.01, 1e-6, 1.0


@dataclass(frozen=True)
class Setting:
    """What a contestant is told."""

    shape: Shape
    precision: Literal["fp32", "bf16"] = "fp32"
    sampling: Literal["everywhere", "chosen"] = "everywhere"  # of the plain recipe
    steps: int = 1  # of a round
    compiled: bool = False


def ours(setting: Setting, connection: Connection, worker: Worker | None = None) -> None:
    """The loop that every recipe runs, with its journal."""
    generator, discriminator = shapes.models(setting.shape)
    objective = Electra(generator, discriminator, special_ids=shapes.SPECIAL, mask_id=shapes.MASK)
    given = shapes.batches(setting.shape, on=torch.device("cpu"))
    stream = gated(connection, given, setting.steps)
    learn(
        objective,
        lambda _: ([batch] for batch in stream),
        TrainingConfig(precision=setting.precision, torch_compile=setting.compiled),
        peak_lr=_RATE,
        worker=worker,
    )


def learn(
    objective: Objective,
    steps: Steps,
    config: TrainingConfig,
    *,
    peak_lr: float,
    worker: Worker | None = None,
    attention: Attention = "auto",
) -> None:
    """The loop that every recipe runs, with its journal, in a directory of its own that goes with
    it, until the steps say that it is over.
    """
    with tempfile.TemporaryDirectory() as place:
        training = Training(
            config=config,
            optimizer=OptimizerConfig(peak_lr=peak_lr, warmup_steps=1, schedule="constant"),
            total_steps=1_000_000,
            seed=0,
            checkpoints=Checkpoints(Path(place) / "checkpoints"),
            journal=Journal(Path(place), console="quiet"),
            identity={},
            worker=worker or Worker.alone(),
            attention=attention,
        )
        train(objective, steps, training)


def electra_pytorch(setting: Setting, connection: Connection) -> None:
    """``electra-pytorch`` around the two models, as its own pre-training script sets it up."""
    from electra_pytorch import Electra as Peer

    generator, discriminator = shapes.models(setting.shape)
    model = Peer(
        _Logits(generator),
        _Logits(discriminator),
        num_tokens=setting.shape.vocab_size,
        mask_token_id=shapes.MASK,
        pad_token_id=shapes.PAD,
        mask_ignore_token_ids=[shapes.CLS, shapes.SEP],
        mask_prob=shapes.CHOOSE_FRACTION,
        replace_prob=shapes.MASK_FRACTION,
        disc_weight=shapes.DISCRIMINATOR_WEIGHT,
    )
    _train(model, lambda batch: model(batch["input_ids"], **_rest(batch)).loss, setting, connection)


class _Logits(nn.Module):
    """A Hugging Face model that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any, **more: Any) -> Tensor:
        return self.model(*inputs, **more).logits


def plain(setting: Setting, connection: Connection) -> None:
    """Two Hugging Face models, their own losses, logits over the vocabulary at every position.

    The sample is drawn with Gumbel noise at every position, or drawn at chosen positions only.
    """
    generator, discriminator = shapes.models(setting.shape)
    special = torch.tensor(shapes.SPECIAL, device=shapes.device())

    def loss(batch: dict[str, Tensor]) -> Tensor:
        tokens = batch["input_ids"]
        chosen = torch.rand(tokens.shape, device=tokens.device) < shapes.CHOOSE_FRACTION
        chosen &= ~torch.isin(tokens, special)
        hidden = chosen & (torch.rand(tokens.shape, device=tokens.device) < shapes.MASK_FRACTION)
        predicted = generator(
            tokens.masked_fill(hidden, shapes.MASK),
            labels=tokens.masked_fill(~chosen, -100),
            **_rest(batch),
        )
        with torch.no_grad():
            if setting.sampling == "everywhere":
                noise = -torch.log(-torch.log(torch.rand_like(predicted.logits) + 1e-9) + 1e-9)
                sampled = (predicted.logits + noise).argmax(-1)
            else:
                chances = torch.softmax(predicted.logits[chosen].float(), -1)
                sampled = tokens.masked_scatter(chosen, torch.multinomial(chances, 1).squeeze(1))
            corrupted = torch.where(chosen, sampled, tokens)
        detected = discriminator(corrupted, labels=(corrupted != tokens).long(), **_rest(batch))
        return predicted.loss + shapes.DISCRIMINATOR_WEIGHT * detected.loss

    _train(nn.ModuleList([generator, discriminator]), loss, setting, connection)


def _rest(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: batch[name] for name in ("attention_mask", "token_type_ids")}


def _train(
    model: nn.Module,
    loss: Callable[[dict[str, Tensor]], Tensor],
    setting: Setting,
    connection: Connection,
) -> None:
    """The loop that one writes by hand."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=_RATE, eps=_EPSILON, weight_decay=_DECAY, fused=True
    )
    kind, low = shapes.device().type, setting.precision == "bf16"
    for network in model.children() if setting.compiled else ():
        network.compile()
    given = shapes.batches(setting.shape)
    for batch in gated(connection, given, setting.steps):
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=low):
            value = loss(batch)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), _MAX_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def product(setting: Setting, connection: Connection) -> None:
    """Nothing but ``PRODUCTS`` products of square matrices, ``PRODUCT_SIZE`` wide."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[setting.precision]
    matrix = torch.randn(PRODUCT_SIZE, PRODUCT_SIZE, device=shapes.device(), dtype=dtype)
    out = torch.empty_like(matrix)
    for _ in gated(connection, [None]):
        for _ in range(PRODUCTS):
            torch.mm(matrix, matrix, out=out)


# On a device, smaller ones would take less time than their start.
PRODUCT_SIZE, PRODUCTS = 8192 if torch.cuda.is_available() else 1024, 10
PRODUCT_FLOPS = 2.0 * PRODUCT_SIZE**3 * PRODUCTS
