"""Tokenizers: read from a file or a model directory, or trained on a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.data.model_files import check_hashes, check_tokenizer_files, locate_model, read_config
from road_ray.errors import CheckpointError, DataError
from road_ray.system.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ALPHABET_SIZE = 1000  # characters; rarer ones are read as [UNK]


def train_wordpiece(
    documents: Iterable[str], *, vocab_size: int, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """Train a WordPiece tokenizer of at most ``vocab_size`` entries, special tokens first.

    The same text gives the same vocabulary. All characters are kept, so a small ``vocab_size`` may
    be exceeded. The documents are read three times, so they are no iterator.
    """
    from tokenizers import BertWordPieceTokenizer

    normalizer = BertWordPieceTokenizer(lowercase=lowercase).normalizer
    written = Counter(chain.from_iterable(documents))
    counts: Counter[str] = Counter()
    for character, count in written.items():
        for part in normalizer.normalize_str(character).split():
            counts.update(dict.fromkeys(part, count))
    by_frequency = sorted(counts, key=lambda character: (-counts[character], character))
    alphabet = sorted(by_frequency[:_ALPHABET_SIZE])

    def learnt(size: int, first: list[str]) -> list[str]:
        learner: Any = BertWordPieceTokenizer(lowercase=lowercase)
        learner.train_from_iterator(
            # By lines, as the trainer holds 256 texts in memory and normalizes one for each core.
            (line for document in documents for line in document.split("\n")),
            vocab_size=size,
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            special_tokens=first,
            show_progress=False,
        )
        ids = learner.get_vocab()
        return sorted(ids.keys() - set(SPECIAL_TOKENS), key=lambda entry: int(ids[entry]))

    # The trainer numbers characters inside words in the order of a hash map and breaks ties by
    # these numbers (huggingface/tokenizers issue 1794): they are found first and fixed.
    inner = sorted(set(learnt(0, [*SPECIAL_TOKENS])) - set(alphabet))
    words = [*SPECIAL_TOKENS, *learnt(vocab_size, [*SPECIAL_TOKENS, *inner])]
    return _bert_tokenizer({word: index for index, word in enumerate(words)}, lowercase)


def load_tokenizer(path: Path | str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a model directory, a ``vocab.txt`` (one entry a line) or a hub name.

    A ``vocab.txt`` is cased if the ``tokenizer_config.json`` beside it says so, or, without one, if
    an entry has a capital letter. The file may also set ``strip_accents`` and
    ``tokenize_chinese_chars``.
    """
    place = Path(path)
    if place.is_file():
        return _from_vocabulary(place)
    if place.suffix == ".txt" and not place.is_dir():
        raise CheckpointError(f"{place}: no such vocabulary file\n  fix: check the path")
    directory = locate_model(place, weights=False)
    if (directory / "tokenizer.json").is_file() or not place.is_dir():
        return read_tokenizer(directory)
    if (directory / "vocab.txt").is_file():
        return _from_vocabulary(directory / "vocab.txt")
    raise DataError(
        f"{directory} holds no tokenizer (tokenizer.json or vocab.txt); a slow one has no offsets\n"
        "  fix: if it has a fast form, transformers' AutoTokenizer.from_pretrained(DIRECTORY)"
        ".save_pretrained(DIRECTORY) writes it; or train one with `road data tokenizer`"
    )


def read_tokenizer(directory: Path | str) -> PreTrainedTokenizerFast:
    """Return the tokenizer that ``transformers`` reads from a local model directory. Raises
    ``CheckpointError`` for files that could load anything else, ``DataError`` for a damaged
    tokenizer.
    """
    from transformers import AutoTokenizer, PreTrainedConfig

    place = Path(directory)
    check_tokenizer_files(place)
    check_hashes(place, weights=False)
    # Passed on, so that config.json is read in the same way as for a model.
    config = read_config(place) if (place / "config.json").is_file() else PreTrainedConfig()
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            str(place), config=config, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:  # tokenizers and transformers raise many types
        message = " ".join(str(error).split())[:200]
        raise DataError(
            f"{place}: no tokenizer can be loaded from there: {message}\n"
            "  fix: restore tokenizer.json and tokenizer_config.json"
        ) from error
    return tokenizer


def special_ids(tokenizer: PreTrainedTokenizerFast) -> tuple[int, ...]:
    """Return the ids that are never chosen for prediction: [PAD], [CLS], [SEP], [MASK].

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


def pad_id_of(tokenizer: PreTrainedTokenizerFast) -> int:
    """Return the id that fills batches. It is masked, so a tokenizer without one gets 0."""
    return int(tokenizer.pad_token_id or 0)


def gives_segments(tokenizer: Any) -> bool:
    """Return True if a tokenizer tells the second text from the first by token types."""
    return any(tokenizer("a", "b").get("token_type_ids") or ())


def limit_length(
    tokenizer: PreTrainedTokenizerFast, longest_row: int, trained: int | None = None
) -> int:
    """Set ``model_max_length``, where plain ``transformers`` truncates, and return it: the longest
    row of the model, or a lower limit of the tokenizer, but no less than the ``trained`` length.
    """
    own = tokenizer.model_max_length if tokenizer.model_max_length > 0 else longest_row
    tokenizer.model_max_length = int(min(longest_row, max(own, trained or 0)))
    return int(tokenizer.model_max_length)


def check_vocabulary(vocab_size: int, tokenizer_size: int, where: str) -> None:
    """Raise ``CheckpointError`` if token ids would be outside the embedding table."""
    if tokenizer_size > vocab_size:
        raise CheckpointError(
            f"{where}: the tokenizer has {tokenizer_size} entries, "
            f"the embedding table {vocab_size}\n"
            "  fix: use the tokenizer that the model was trained with"
        )


def _from_vocabulary(path: Path) -> PreTrainedTokenizerFast:
    text = path.read_text(encoding="utf-8", errors="replace")
    words = [word.rstrip("\r") for word in text.removesuffix("\n").split("\n")]
    vocabulary = {word: index for index, word in enumerate(words)}
    if lacking := [token for token in SPECIAL_TOKENS if token not in vocabulary]:
        raise DataError(
            f"{path}: not a WordPiece vocabulary: {', '.join(lacking)} missing\n"
            "  fix: name a vocab.txt with one entry a line, or a model directory"
        )
    beside = path.parent / "tokenizer_config.json"
    config = read_json(beside) if beside.is_file() else {}
    lowercase = config.get("do_lower_case")
    if not isinstance(lowercase, bool):
        lowercase = all(word == word.lower() for word in words if not word.startswith("["))
    names = ("strip_accents", "tokenize_chinese_chars")
    options = {name: config[name] for name in names if isinstance(config.get(name), bool)}
    return _bert_tokenizer(vocabulary, lowercase, **options)


def _bert_tokenizer(
    vocabulary: dict[str, int], lowercase: bool, **options: bool
) -> PreTrainedTokenizerFast:
    from transformers import ElectraTokenizerFast

    tokenizer: Any = ElectraTokenizerFast(vocab=vocabulary, do_lower_case=lowercase, **options)
    return tokenizer
