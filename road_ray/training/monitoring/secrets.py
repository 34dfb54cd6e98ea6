"""Mappings that may leave the process: without the values of tokens, passwords and keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from road_ray.config.addresses import MASK, masked

# A shorter value ("1", "none") would blot out innocent text when masked wherever it stands.
_SHORTEST_CHARACTERS = 6
_ALWAYS = re.compile(
    r"secret|passw(or)?d|passphrase|credential|(api|access|private|ssh)[_-]?key|authorization|bearer",
    re.IGNORECASE,
)
# `tokenizer`, `num_tokens` and `pad_token` are words of the trade; only strings under these count.
_TOKEN = re.compile(
    r"(?<!pad_)(?<!mask_)(?<!special_)(?<!cls_)(?<!sep_)(?<!unk_)(?<!bos_)(?<!eos_)tokens?(?![a-z])",
    re.IGNORECASE,
)
_KNOWN_SHAPES = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|sk-[A-Za-z0-9_-]{20,}"
    r"|(?i:(?<=token=)|(?<=password=)|(?<=secret=)|(?<=api_key=)|(?<=api-key=))[^\s&]+"
)


def redact(mapping: Mapping[str, object]) -> dict[str, Any]:
    """A copy in which secrets are ``***``: values under telling keys, at any depth, and the same
    values inside any other string; so are values of telling environment variables.
    """
    found = {str(leaf) for leaf in _secrets(mapping)}
    found |= {text for name, text in os.environ.items() if _telling(name)}
    secrets = sorted((s for s in found if len(s) >= _SHORTEST_CHARACTERS), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, secrets))) if secrets else None
    return {key: _masked(value, str(key), pattern) for key, value in mapping.items()}


def _telling(key: str) -> bool:
    return bool(_ALWAYS.search(key) or _TOKEN.search(key))


def _is_secret(key: str, leaf: object) -> bool:
    if leaf is None or leaf == "" or isinstance(leaf, bool):
        return False
    numbers_too = bool(_ALWAYS.search(key))
    return numbers_too or (isinstance(leaf, str | bytes) and bool(_TOKEN.search(key)))


def _secrets(value: object, key: str = "") -> Iterator[Any]:
    """Every leaf under a telling key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, key if _telling(key) else str(name))
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _secrets(item, key)
    elif _is_secret(key, value):
        yield value


def _masked(value: object, key: str, pattern: re.Pattern[str] | None) -> Any:
    if isinstance(value, Mapping):
        inner = {name: key if _telling(key) else str(name) for name in value}
        return {name: _masked(item, inner[name], pattern) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(item, key, pattern) for item in value]
    if _is_secret(key, value):
        return MASK
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = _KNOWN_SHAPES.sub(MASK, masked(str(value)))
    return pattern.sub(MASK, text) if pattern else text
