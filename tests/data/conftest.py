"""What tests of data share: a tokenizer of the miniature world, and one of letters."""

import pytest
from transformers import BertTokenizer

from tests.tiny_encoder import tokenizer_of_world


@pytest.fixture(scope="session")
def tokenizer(world):
    return tokenizer_of_world(world)


@pytest.fixture(scope="session")
def letters():
    """Some letters may also go on within a word."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *"abcdefghijklqrs", "##b", "##c", "##x", "##y"]
    return BertTokenizer(vocab={word: number for number, word in enumerate(words)})
