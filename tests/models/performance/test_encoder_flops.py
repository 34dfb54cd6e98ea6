"""The published numbers to three digits."""

from __future__ import annotations

import pytest

from road_ray.models.config import EncoderConfig
from road_ray.models.performance.encoder_flops import (
    choice_head_flops,
    detection_head_flops,
    encoder_flops,
    layer_flops,
    word_head_flops,
)


def size(hidden, layers, embedding=None):
    return EncoderConfig(
        layers=layers,
        hidden_size=hidden,
        heads=max(1, hidden // 64),
        intermediate_size=4 * hidden,
        embedding_size=embedding or hidden,
    )


def mlm(encoder, batch, steps, length, vocab=30522):
    once = encoder_flops(encoder, vocab, length) + word_head_flops(encoder, vocab, length)
    return 2 * batch * steps * once


def electra(encoder, generator, batch, steps, length):
    detector = encoder_flops(encoder, 30522, length) + detection_head_flops(encoder, length)
    return 2 * batch * steps * detector + mlm(generator, batch, steps, length)


SMALL, BASE, LARGE = size(256, 12, 128), size(768, 12), size(1024, 24)


@pytest.mark.parametrize(
    ("flops", "published"),
    [
        (mlm(SMALL, 128, 1.45e6, 128), 1.419e18),
        (mlm(BASE, 256, 1e6, 512), 6.428e19),
        (mlm(LARGE, 256, 1e6, 512), 1.917e20),
        (mlm(LARGE, 8000, 500_000, 512, 50265), 3.187e21),
        (electra(SMALL, size(64, 12, 128), 128, 1e6, 128), 1.294e18),
        (electra(SMALL, size(128, 12, 128), 128, 1e6, 128), 1.424e18),
        (electra(BASE, size(256, 12, 768), 256, 766_000, 512), 6.425e19),
        (electra(LARGE, size(256, 24, 1024), 2048, 400_000, 512), 7.118e20),
        (electra(LARGE, size(256, 24, 1024), 2048, 1.75e6, 512), 3.114e21),
        (encoder_flops(BASE, 30522, 128) + detection_head_flops(BASE, 128), 2.86e10),
        (encoder_flops(SMALL, 30522, 128) + detection_head_flops(SMALL, 128), 3.68e9),
    ],
)
def test_published_numbers(flops, published):
    assert flops == pytest.approx(published, rel=1e-3)


def test_a_layer_by_hand():
    tiny = EncoderConfig(hidden_size=8, heads=1, intermediate_size=8, embedding_size=8)
    # One token: 6*64+24+16 + 10*1 + 16 + 128+8+32+8+5 + 4*64 + 9*8 + 11*8
    assert layer_flops(tiny, 1) == 384 + 24 + 16 + 10 + 16 + 181 + 256 + 72 + 88


def test_a_choice_among_few_is_cheaper_than_among_all():
    few, all_words = (choice_head_flops(SMALL, n, 128, 1.0) for n in (10, 30522))
    assert few < all_words / 50
