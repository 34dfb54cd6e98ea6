"""Redaction of tokens, passwords and keys in mappings that leave the process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from road_ray.config.secrets import MASK, masked

# Shorter values, such as "1", are not masked inside other text, where they occur by chance.
_SHORTEST_CHARACTERS = 6
_ALWAYS = re.compile(
    r"secret|passw(or)?d|passphrase|credential|(api|access|private|ssh)[_-]?key|authorization|bearer",
    re.IGNORECASE,
)
# `tokenizer`, `num_tokens` and `pad_token` are no secrets; only strings under these keys count.
_TOKEN = re.compile(
    r"(?<!pad_)(?<!mask_)(?<!special_)(?<!cls_)(?<!sep_)(?<!unk_)(?<!bos_)(?<!eos_)tokens?(?![a-z])",
    re.IGNORECASE,
)
_KNOWN_SHAPES = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|sk-[A-Za-z0-9_-]{20,}"
    r"|(?i:(?<=token=)|(?<=password=)|(?<=secret=)|(?<=api_key=)|(?<=api-key=))[^\s&]+"
)


def redact(mapping: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy in which secrets are ``***``: values of secret keys at any depth, values of
    secret environment variables, and all occurrences of these values in other strings.
    """
    values = {str(leaf) for leaf in _secrets(mapping)}
    values |= {text for name, text in os.environ.items() if _is_secret_key(name)}
    secrets = sorted((s for s in values if len(s) >= _SHORTEST_CHARACTERS), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, secrets))) if secrets else None
    return {key: _masked(value, str(key), pattern) for key, value in mapping.items()}


def _is_secret_key(key: str) -> bool:
    return bool(_ALWAYS.search(key) or _TOKEN.search(key))


def _is_secret(key: str, leaf: object) -> bool:
    if leaf is None or leaf == "" or isinstance(leaf, bool):
        return False
    numbers_too = bool(_ALWAYS.search(key))
    return numbers_too or (isinstance(leaf, str | bytes) and bool(_TOKEN.search(key)))


def _secrets(value: object, key: str = "") -> Iterator[Any]:
    """Yield every leaf under a secret key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, key if _is_secret_key(key) else str(name))
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _secrets(item, key)
    elif _is_secret(key, value):
        yield value


def _masked(value: object, key: str, pattern: re.Pattern[str] | None) -> Any:
    if isinstance(value, Mapping):
        inner = {name: key if _is_secret_key(key) else str(name) for name in value}
        return {name: _masked(item, inner[name], pattern) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(item, key, pattern) for item in value]
    if _is_secret(key, value):
        return MASK
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = _KNOWN_SHAPES.sub(MASK, masked(str(value)))
    return pattern.sub(MASK, text) if pattern else text
