"""A tokenizer of letters."""

import pytest
from transformers import BertTokenizer


@pytest.fixture(scope="session")
def letters():
    """Some letters may also go on within a word."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *"abcdefghijklqrs", "##b", "##c", "##x", "##y"]
    return BertTokenizer(vocab={word: number for number, word in enumerate(words)})
