"""Whatever stands in a file, a reader reads it or tells a mistake in an error of ours."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from road_ray.config import load, preset_named_in
from road_ray.config import read as yaml_lines
from road_ray.data.corpus.documents import read_corpus
from road_ray.data.features.encode_examples import encode
from road_ray.data.readers.layouts import read_split
from road_ray.data.readers.sentence_tables import read_table
from road_ray.data.task_and_dataset import Columns, Span
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import RoadError
from road_ray.recipes.finetuning.config import FinetuneConfig
from tests.chaos import fuzz

# 18 layouts, 2 kinds of text, tables of Arrow, and 3 ways to write settings: 24 of them.
FEW = 20
MANY = 850  # 20,400 together
AMOUNTS = (
    pytest.param(FEW, id="few"),
    pytest.param(MANY, id="many", marks=[pytest.mark.chaos, pytest.mark.timeout(900)]),
)
amounts = pytest.mark.parametrize("amount", AMOUNTS)


def tried(amount, strategy, act):
    """``act`` on so many examples, always the same ones; errors of ours are answers."""

    @settings(
        max_examples=amount,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(example):
        with suppress(RoadError):
            act(example)

    one()


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(["the red apple fell what is it a b c d e yes no"], vocab_size=60)


def encoded(sample, examples, tokenizer):
    limits = {"stride_tokens": 8, "max_question_tokens": 8} if sample.kind == Span() else {}
    return encode(examples, sample.dataset, sample.task, tokenizer, max_length_tokens=32, **limits)


def test_every_sample_can_be_read(tmp_path, tokenizer):
    """Else its damaged copies would show nothing."""
    for sample in fuzz.SAMPLES:
        (tmp_path / "a.full.csv").write_text(sample.beside)
        fuzz.put(tmp_path / sample.file, sample.text.encode())
        examples = read_split(sample.dataset, tmp_path, "train")
        assert len(encoded(sample, examples, tokenizer))


@amounts
@pytest.mark.parametrize("sample", fuzz.SAMPLES, ids=lambda s: f"{s.layout}-{Path(s.file).stem}")
def test_readers_of_data_sets(sample, amount, tmp_path, tokenizer):
    if sample.beside:
        (tmp_path / "a.full.csv").write_text(sample.beside)

    def read(example):
        kind, content = example
        path = fuzz.put(tmp_path / f"{sample.file}{kind}", content)
        try:
            for split in ("train", "test"):
                examples = read_split(sample.dataset, tmp_path, split)
                encoded(sample, examples[:4], tokenizer)
        finally:
            path.unlink()

    tried(amount, fuzz.packed(sample.text, ("", ".gz")), read)


@amounts
@pytest.mark.parametrize(("name", "text"), fuzz.TEXTS, ids=[name for name, _ in fuzz.TEXTS])
def test_readers_of_corpora(name, text, amount, tmp_path):
    def read(example):
        kind, content = example
        path = fuzz.put(tmp_path / f"{name}{kind}", content)
        for document in islice(read_corpus(path), 4):
            document.encode()

    tried(amount, fuzz.packed(text, tuple(fuzz.PACKED)), read)


@amounts
def test_readers_of_arrow(amount, tmp_path):
    def read(example):
        suffix, content = example
        path = fuzz.put(tmp_path / f"a{suffix}", content)
        with suppress(RoadError):
            list(read_corpus(path))
        read_table(path, Columns(("text",), "label"))

    tried(amount, fuzz.tables(), read)


@amounts
def test_settings_in_files(amount, tmp_path):
    def read(content):
        path = fuzz.put(tmp_path / "a.yaml", content)
        with suppress(RoadError):
            preset_named_in(path)
        load(FinetuneConfig, path=path)

    tried(amount, fuzz.written(fuzz.SETTINGS), read)


@amounts
def test_settings_in_a_line(amount):
    lines = fuzz.changed("data.sets.mine={train: a.csv, labels: [a, b], text: [a, 1.5e3]}")
    rest = fuzz.changed("optimizer.peak_lr=5e-5") | fuzz.changed("training.steps=10")
    tried(amount, lines | rest, lambda line: load(FinetuneConfig, overrides=[line]))


@amounts
def test_values_of_yaml(amount):
    pieces = st.text(max_size=30) | fuzz.changed("[1, 1e-4, {a: b}, 'c', 2026-01-01]")
    tried(amount, pieces, lambda text: yaml_lines.parse_value(text, "a line"))
