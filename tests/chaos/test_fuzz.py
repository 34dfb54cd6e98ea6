"""Whatever stands in a file, a reader reads it or tells a mistake in an error of ours."""

from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from road_ray.config import load, preset_named_in
from road_ray.config import yaml_files as yaml_lines
from road_ray.data.corpus.documents import Documents
from road_ray.data.encode_examples import encode
from road_ray.data.readers.layouts import read_split
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import RoadError
from road_ray.recipes.train.config import FinetuneConfig
from tests.chaos import fuzz

FEW, MANY = 20, 850  # of each of the layouts, texts and ways to write settings
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
    limits = {"stride_tokens": 8, "max_length_tokens": 32}
    return encode(examples, sample.dataset, sample.task, tokenizer, limits)


def test_every_sample_can_be_read(tmp_path, tokenizer):
    """Else its damaged copies would show nothing."""
    for sample in fuzz.SAMPLES:
        (tmp_path / "a.full.csv").write_text(sample.beside)
        (tmp_path / sample.file).write_text(sample.text)
        examples = read_split(sample.dataset, tmp_path, "train")
        assert len(encoded(sample, examples, tokenizer))


@amounts
@pytest.mark.parametrize("sample", fuzz.SAMPLES, ids=lambda s: f"{s.layout}-{Path(s.file).stem}")
def test_readers_of_data_sets(sample, amount, tmp_path, tokenizer):
    if sample.beside:
        (tmp_path / "a.full.csv").write_text(sample.beside)

    def read(content):
        (tmp_path / sample.file).write_bytes(content)
        for split in ("train", "test"):
            examples = read_split(sample.dataset, tmp_path, split)
            encoded(sample, examples[:4], tokenizer)

    tried(amount, fuzz.written(sample.text), read)


@amounts
@pytest.mark.parametrize(("name", "text"), fuzz.TEXTS, ids=[name for name, _ in fuzz.TEXTS])
def test_readers_of_corpora(name, text, amount, tmp_path):
    def read(content):
        (tmp_path / name).write_bytes(content)
        for document in islice(Documents(tmp_path / name), 4):
            document.encode()

    tried(amount, fuzz.written(text), read)


@amounts
def test_settings_in_files(amount, tmp_path):
    def read(content):
        (tmp_path / "a.yaml").write_bytes(content)
        with suppress(RoadError):
            preset_named_in(tmp_path / "a.yaml")
        load(FinetuneConfig, path=tmp_path / "a.yaml")

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
