"""Secrets in addresses (URLs) and in mappings that leave the process: configurations, which are
recorded, refuse them; output masks them."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

MASK = "***"
# `hdfs://host:8020/a@b` has a port, `[::1]:8265` is an IPv6 host; a password may hold slashes. A
# `Path` of an address has one slash left.
_START = r"(?:(?<=:/)|(?<=://))"
_USER = re.compile(_START + r"[^/?#@:\[\s]*:(?!\d*(?:[/?#\s]|$))[^@\s]+(?=@)")
_WEB_USER = re.compile(r"(?i:(?<=http://)|(?<=https://))(?!\*\*\*@)[^/?#@\s]+(?=@)")
_PARAMETER = re.compile(
    r"(?P<start>[?&;#](?P<name>[^=?&;#\s/]{1,80})=)(?!\*\*\*)(?P<value>[^&;#\s\"']+)"
)
_ADDRESS = re.compile(r"[\w+:]+:/[^\s\"']+")
_WORDS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|\d+")
_SECRET_WORDS = {
    *("key", "apikey", "accesskey", "accountkey", "secretkey", "token", "sig", "signature", "sas"),
    *("pwd", "pass", "auth", "authorization", "bearer", "credential", "credentials", "jwt"),
}
_SECRET_PARTS = re.compile(r"secret|passw|passphrase|token(?!i)|api_?key", re.IGNORECASE)
_NO_SECRETS = (  # words that together name something else: a path, an entry of a vocabulary, a mode
    ({"key"}, {"ssl", "tls"}),
    ({"token"}, {"pad", "mask", "special", "cls", "sep", "unk", "bos", "eos"}),
    ({"auth"}, {"mode"}),
)
# Shorter values, such as "1", are not masked inside other text, where they occur by chance.
_SHORTEST_CHARACTERS = 6
_KNOWN_SHAPES = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|sk-[A-Za-z0-9_-]{20,}"
    r"|(?i:(?<=token=)|(?<=password=)|(?<=secret=)|(?<=api_key=)|(?<=api-key=))[^\s&]+"
)


def secret_in(address: str) -> str | None:
    """Return a description of the secret in an address: `the user and password before "@"`, or a
    parameter such as ``token``, ``X-Amz-Signature`` or ``AccountKey``; None if there is none.
    """
    if ":/" not in address:
        return None
    for text in (address, unquote(address)):  # an escape may be intended to hide a secret
        if _USER.search(text) or _WEB_USER.search(text):
            return 'the user and password before "@"'
        for match in _PARAMETER.finditer(text):
            if _is_secret(match["name"]):
                return f"the parameter {unquote(match['name'])!r}"
    return None


def masked(text: str) -> str:
    """Return a text with the secrets of every address in it replaced by ``***``."""

    def mask(match: re.Match[str]) -> str:
        hidden = _is_secret(match["name"]) or secret_in(f"x://x?{unquote(match['value'])}")
        return match["start"] + (MASK if hidden else match["value"])

    text = _PARAMETER.sub(mask, _WEB_USER.sub(MASK, _USER.sub(MASK, text)))
    return _ADDRESS.sub(lambda match: MASK if secret_in(match[0]) else match[0], text)


def _is_secret(name: str) -> bool:
    """Return True for a parameter, key or environment variable whose value is a secret."""
    name = unquote(name)
    words = {word.lower() for word in _WORDS.findall(name)}
    if any(words & secret and words & other for secret, other in _NO_SECRETS):
        return False
    return bool(words & _SECRET_WORDS or _SECRET_PARTS.search(name))


def redact(mapping: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy in which secrets are ``***``: values of secret keys at any depth, values of
    secret environment variables, and all occurrences of these values in other strings.
    """
    found = {text for name, text in os.environ.items() if _is_secret(name) and name != "PWD"}
    hidden = _without_secrets(mapping, "", found)
    secrets = sorted((s for s in found if len(s) >= _SHORTEST_CHARACTERS), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, secrets))) if secrets else None
    redacted: dict[str, Any] = _masked_texts(hidden, pattern)
    return redacted


def _without_secrets(value: object, key: str, found: set[str]) -> Any:
    """Return a value in which ``***`` stands for every value of a secret key, which is added to
    ``found``; ``key`` is the outermost secret one, or else the innermost.
    """
    if isinstance(value, Mapping):
        inner = {name: key if _is_secret(key) else str(name) for name in value}
        return {name: _without_secrets(item, inner[name], found) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets(item, key, found) for item in value]
    if value is None or value == "" or isinstance(value, bool) or not _is_secret(key):
        return value
    if not isinstance(value, str | bytes) and "token" in key.lower():  # numbers of tokens
        return value
    found.add(str(value))
    return MASK


def _masked_texts(value: object, secrets: re.Pattern[str] | None) -> Any:
    """Return a value whose texts have ``***`` for everything that looks like a secret or is one."""
    if isinstance(value, dict):
        return {name: _masked_texts(item, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked_texts(item, secrets) for item in value]
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = _KNOWN_SHAPES.sub(MASK, masked(str(value)))
    return secrets.sub(MASK, text) if secrets else text
