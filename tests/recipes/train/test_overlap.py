"""Examples of the dev split that are in the train split too."""

from __future__ import annotations

import logging
from dataclasses import replace

from road_ray.data.config import SourceConfig
from road_ray.data.features.examples_and_features import SpanExample, TextExample
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.recipes.train.prepare import count_overlap


def row(*texts: str, label: str | None = "0") -> TextExample:
    return TextExample("1", texts, label, "train.tsv:2")


def test_examples_in_both_train_and_dev_are_counted(world, pretrained, caplog):
    tokenizer = load_tokenizer(pretrained.hf_dir)
    dev = load_split("mnli", "dev", SourceConfig(root=str(world)), tokenizer)
    train = replace(dev, examples=dev.examples[:3])
    assert count_overlap(train, dev) == 3
    assert f"mnli: 3 of {len(dev.examples)} dev examples are in the train split" in caplog.text
    assert f"the first: {dev.examples[0].where}, which is {train.examples[0].where}" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert count_overlap(replace(dev, examples=[]), dev) == 0
    assert caplog.text == ""
    train = replace(dev, examples=[row("a", "b"), row("c", "d")])
    dev = replace(dev, examples=[row("c", "d", label="1"), row("c", "d"), row("b", "a")])
    assert count_overlap(train, dev) == 2
    spans = replace(dev, examples=[SpanExample("1", "q", "c", (), "f")])
    assert count_overlap(spans, spans) == 1
