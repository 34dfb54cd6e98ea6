"""Tiny teachers and tokenizers."""

from __future__ import annotations

import pytest

from tests.tiny_teacher import make_teacher, make_tokenizer


@pytest.fixture
def tokenizer():
    return make_tokenizer()


@pytest.fixture
def teacher():
    """Writes a teacher: ``teacher(directory, seed, kind=, labels=)``."""
    return make_teacher


@pytest.fixture
def tokenizer_of():
    """Makes a tokenizer of other words or options."""
    return make_tokenizer
