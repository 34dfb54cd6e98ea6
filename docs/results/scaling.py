"""Communication and teacher traffic on paper: the table of docs/results/scaling.md.

``python docs/results/scaling.py``; nothing is measured here, every assumption is a constant below.
"""

from __future__ import annotations

from road_ray.distributed.plan import communication_seconds
from road_ray.models.encoder import EncoderConfig
from road_ray.models.flops import encoder_flops, layer_parameters
from road_ray.presets import named

GPU_FLOPS = 990e12 * 0.35  # bf16 peak of an H100 and the share of it that small models reach
GRADIENT_BYTES = 4  # fp32
GIGABYTES_PER_SECOND = 40.0  # a GPU's share of eight 400 Gbit/s links at 80 %
GPUS = (8, 64, 512)
VOCABULARY = 30522
PRESETS = ("electra_small", "electra_base", "electra_large")
TEACHERS, BATCH, LENGTH = 3, 32, 512


def parameters(size: EncoderConfig) -> float:
    """Weights of layers and embeddings."""
    return size.layers * layer_parameters(size) + VOCABULARY * size.embedding_size


def rows() -> list[str]:
    """A line of the table each."""
    lines = []
    for name in PRESETS:
        config = named(name).make()
        size, scale = config.encoder, config.generator.scale
        length, batch = config.data.max_length_tokens, config.data.batch_size
        # The generator costs about the square of its scale; backward is twice the forward.
        forward = encoder_flops(size, VOCABULARY, length, sparse=True) * (1 + scale**2)
        alone = 3 * forward * batch / GPU_FLOPS
        gradient = GRADIENT_BYTES * parameters(size) * (1 + scale**2)
        cells = []
        for gpus in GPUS:
            if gpus > batch:
                cells.append("no row each")
                continue
            talk = communication_seconds(gradient, gpus, gigabytes_per_second=GIGABYTES_PER_SECOND)
            cells.append(f"{talk / (talk + alone / gpus):.0%}")
        lines.append(
            f"| {name} | {batch} x {length} | {gradient / 1e6:.0f} | {' | '.join(cells)} |"
        )
    return lines


def traffic() -> list[str]:
    """Bytes a step and student that teachers cost, by kind of task."""
    ids = BATCH * LENGTH * (4 + 1 + 1)  # int32 ids, int8 mask and segments
    logits = {"classify, 3 labels": 3, "span": 2 * LENGTH, "tags, 9 labels": 9 * LENGTH}
    return [
        f"| {name} | {TEACHERS * ids / 1e3:.0f} | {TEACHERS * BATCH * count * 2 / 1e3:.1f} |"
        for name, count in logits.items()
    ]


if __name__ == "__main__":
    print("\n".join([*rows(), "", *traffic()]))
