"""Detection of secrets in addresses (URLs). Configurations, which are recorded, refuse them; output
masks them.
"""

from __future__ import annotations

import re
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


def refuse_secret(address: str) -> None:
    """Raise ``ValueError`` if an address holds a secret."""
    if secret := secret_in(address):
        raise ValueError(
            f"the address holds a key ({secret}), and configurations are recorded\n"
            "    allowed: an address without user, password, token, key or signature; credentials "
            "come from the environment (AWS_*, GOOGLE_APPLICATION_CREDENTIALS, "
            "MLFLOW_TRACKING_TOKEN, ROAD_SWEEP_PASSWORD) or the storage's credentials file"
        )


def _is_secret(name: str) -> bool:
    name = unquote(name)
    words = {word.lower() for word in _WORDS.findall(name)}
    if words & {"ssl", "tls"} and "key" in words:
        return False  # the path of a key file
    return bool(words & _SECRET_WORDS or _SECRET_PARTS.search(name))
