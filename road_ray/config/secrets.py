"""Secrets in addresses (URLs) and in URLs of databases: configurations, which are recorded, refuse
them; output masks them.
"""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path
from urllib.parse import parse_qsl, unquote

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


PASSWORD = "ROAD_SWEEP_PASSWORD"
# As SQLAlchemy parses it: a password may contain slashes.
_HOLDS_PASSWORD = re.compile(r"^[^:/]+://[^:/]*:[^@]+@")
# Dialects that Optuna supports. Others, such as ODBC, load libraries that the URL names.
_DIALECTS = ("sqlite", "mysql", "mariadb", "postgresql")
# Options of the connection. Others can run statements, send local files or load plugins.
_OPTION = re.compile(
    r"charset|user|host|port|unix_socket|ssl\w*|passfile|application_name|(\w+_)?timeout"
)


def check_database(url: str) -> str:
    """Return ``url``. Raises ``ValueError`` for a URL with a password, because configurations are
    recorded, and for a database that is in memory or that Optuna does not support.
    """
    if _HOLDS_PASSWORD.search(url) or secret_in(url):
        raise ValueError(
            "holds a password, and configurations are recorded; leave it out "
            f"(mysql+pymysql://me@host/db) and set {PASSWORD} in the environment"
        )
    scheme, separator, rest = url.partition("://")
    dialect = scheme.partition("+")[0]
    if not separator or dialect not in _DIALECTS:
        raise ValueError(
            f"is no URL of a database that Optuna supports\n    allowed: {', '.join(_DIALECTS)}, "
            "as in sqlite:///study.db or mysql+pymysql://me@host/db"
        )
    place, _, query = rest.partition("?")
    unknown = [
        name for name, _ in parse_qsl(query, keep_blank_values=True) if not _OPTION.fullmatch(name)
    ]
    if unknown:
        raise ValueError(
            f"has options that are not accepted: {', '.join(unknown)}\n"
            "    allowed: charset, timeouts, ssl..., passfile, application_name, unix_socket, "
            "user, host, port"
        )
    if dialect == "sqlite" and place in ("", "/", "/:memory:"):
        raise ValueError(
            "is a database in memory, which ends with its process\n    allowed: a file, as in "
            "sqlite:///study.db"
        )
    if dialect == "sqlite" and place.startswith("/file:"):
        raise ValueError("is a URI within a URL\n    allowed: a path, as in sqlite:///study.db")
    return url


def with_password(url: str) -> str:
    """Return ``url`` with the password of ROAD_SWEEP_PASSWORD, if it has a user and no password."""
    password = os.environ.get(PASSWORD)
    if not password:
        return url
    from sqlalchemy.engine import make_url

    place = make_url(url)
    if not place.username or place.password is not None:
        return url
    return place.set(password=password).render_as_string(hide_password=False)


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite URL, or None for other databases."""
    scheme, _, rest = url.partition("://")
    local = scheme.startswith("sqlite") and rest.startswith("/")
    return Path(rest[1:].partition("?")[0]) if local else None


def foreign_tables(url: str) -> list[str]:
    """Return the tables of an SQLite file of another application. Empty for a study of Optuna, a
    new file, or another kind of database.
    """
    path = sqlite_file(url)
    if path is None or not path.is_file() or not path.stat().st_size:
        return []
    opened = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        names = [str(name) for (name,) in opened.execute("SELECT name FROM sqlite_master")]
    finally:
        opened.close()
    return [] if "studies" in names and "trials" in names else names
