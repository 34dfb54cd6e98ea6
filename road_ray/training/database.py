"""The URL of a database: recorded without its password, opened with it."""

from __future__ import annotations

import os
import re

PASSWORD = "ROAD_SWEEP_PASSWORD"
# As SQLAlchemy reads it: a password may hold slashes.
_HOLDS_PASSWORD = re.compile(
    r"^[^:/]+://[^:/]*:[^@]+@|[?&][^=&]*(passw|pwd|secret|token)[^=&]*=", re.IGNORECASE
)


def check_database(url: str) -> str:
    """``url`` itself. Raises ``ValueError`` when it holds a password: configurations are
    recorded.
    """
    if _HOLDS_PASSWORD.search(url):
        raise ValueError(
            "holds a password, and configurations are recorded; leave it out "
            f"(mysql+pymysql://me@host/db) and set {PASSWORD} in the environment"
        )
    return url


def with_password(url: str) -> str:
    """What is opened: ``url``, with the password of ROAD_SWEEP_PASSWORD when it names a user and
    no password of its own.
    """
    password = os.environ.get(PASSWORD)
    if not password:
        return url
    from sqlalchemy.engine import make_url

    place = make_url(url)
    if not place.username or place.password is not None:
        return url
    return place.set(password=password).render_as_string(hide_password=False)
