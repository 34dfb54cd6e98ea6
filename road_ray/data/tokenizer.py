"""WordPiece tokenizers: read from a file or a model directory, or trained on a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_wordpiece(
    documents: Iterable[str], *, vocab_size: int, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """A tokenizer of at most ``vocab_size`` entries, special tokens first, learnt from text.

    Characters are kept first: a small ``vocab_size`` may leave no room for longer pieces.
    """
    from tokenizers import BertWordPieceTokenizer

    learner = BertWordPieceTokenizer(lowercase=lowercase)
    learner.train_from_iterator(
        documents, vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    # Ids by rank: the learner's map is not ordered.
    entries = sorted(learner.get_vocab().items(), key=lambda entry: entry[1])
    if len(entries) <= len(SPECIAL_TOKENS):
        raise DataError(
            "no WordPiece vocabulary can be learnt: the corpus has no words\n"
            "  fix: check data.corpus; nothing was written"
        )
    return _bert_tokenizer({word: index for index, (word, _) in enumerate(entries)}, lowercase)


def load_tokenizer(path: Path | str) -> PreTrainedTokenizerFast:
    """The tokenizer of a model directory, a ``vocab.txt`` (one entry a line) or a hub name."""
    place = Path(path)
    if place.is_file():
        return _bert_tokenizer(_read_vocabulary(place), lowercase=True)
    if place.is_dir() and not (place / "tokenizer.json").is_file():
        if (place / "vocab.txt").is_file():
            return _bert_tokenizer(_read_vocabulary(place / "vocab.txt"), lowercase=True)
        raise DataError(
            f"{place} holds no tokenizer (tokenizer.json or vocab.txt)\n"
            "  fix: name a vocabulary file, or train one with `road data tokenizer`"
        )
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(path), trust_remote_code=False)
    return tokenizer


def special_ids(tokenizer: PreTrainedTokenizerFast) -> tuple[int, ...]:
    """Ids that are never chosen for prediction: [PAD], [CLS], [SEP], [MASK].

    Source: google electra, pretrain_helpers.py.
    """
    names = ("pad_token", "cls_token", "sep_token", "mask_token")
    missing = [name for name in names if getattr(tokenizer, name, None) is None]
    if missing:
        raise DataError(
            f"the tokenizer has no {', '.join(missing)}\n  needed: [PAD], [CLS], [SEP], [MASK]\n"
            "  fix: use a WordPiece vocabulary with these entries, or `road data tokenizer`"
        )
    return tuple(int(getattr(tokenizer, f"{name}_id")) for name in names)


def _read_vocabulary(path: Path) -> dict[str, int]:
    vocabulary: dict[str, int] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            entry = line.rstrip("\n").rstrip("\r")
            if entry in vocabulary:
                raise DataError(
                    f"{path}:{number}  {entry!r} stands twice, first in line "
                    f"{vocabulary[entry] + 1}\n  fix: delete one; every line is one id"
                )
            vocabulary[entry] = number - 1
    lacking = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if lacking:
        raise DataError(
            f"{path}: not a WordPiece vocabulary: {', '.join(lacking)} missing\n"
            "  fix: name a vocab.txt with one entry a line, or a model directory"
        )
    return vocabulary


def _bert_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> PreTrainedTokenizerFast:
    from transformers import ElectraTokenizerFast

    tokenizer: Any = ElectraTokenizerFast(vocab=vocabulary, do_lower_case=lowercase)
    return tokenizer
