"""URLs of databases: their validation, and the password that configurations leave out."""

from __future__ import annotations

import os
import re
import sqlite3
from pathlib import Path
from urllib.parse import parse_qsl

from road_ray.config.url_secrets import secret_in

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
    unknown = [name for name, _ in parse_qsl(query, keep_blank_values=True) if not _known(name)]
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


def _known(name: str) -> bool:
    return _OPTION.fullmatch(name) is not None
