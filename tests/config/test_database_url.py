"""A database's password is read from the environment, and nowhere else."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import make_url

from road_ray.config.secrets import PASSWORD, check_database, database_to_open


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://me:secret@db/x",
        "postgresql://me:se/cr?et@db:5432/x",
        "postgresql://db/x?user=me&password=secret",
        "mysql://me@db/x?passwd=secret",
    ],
)
def test_a_password_in_the_url_is_refused(url):
    with pytest.raises(ValueError, match=f"holds a password.*{PASSWORD}"):
        check_database(url)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///study.db",
        "sqlite:////a:b/c@d.db?timeout=5",
        "mysql+pymysql://me@db:3306/x?charset=utf8&ssl_ca=/etc/ca.pem",
        "postgresql+psycopg2://me@db/x?sslmode=require&connect_timeout=5&passfile=/home/me/.pgpass",
    ],
)
def test_a_url_without_one_is_as_it_was(url):
    assert check_database(url) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nothing", "is no URL"),
        ("mssql+pyodbc://me@h/d?driver=/tmp/x.so", "is no URL"),
        ("shillelagh://", "is no URL"),
        ("sqlite://", "in memory"),
        ("sqlite:///", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x.db?timeout=1", "URI"),
        ("sqlite:///x.db?uri=true&vfs=unix-none", "not accepted: uri, vfs"),
        ("mysql+pymysql://me@h/d?local_infile=1", "not accepted: local_infile"),
        ("mysql+pymysql://me@h/d?init_command=DROP+TABLE+x", "not accepted: init_command"),
        ("mysql://me@h/d?read_default_file=/x.cnf", "not accepted: read_default_file"),
        ("mysql://me@h/d?plugin=other", "not accepted: plugin"),
        ("postgresql://me@h/d?options=-csearch_path%3Dx", "not accepted: options"),
    ],
)
def test_a_url_that_does_more_than_name_a_lasting_database_is_refused(url, why):
    with pytest.raises(ValueError, match=why):
        check_database(url)


def test_the_environment_brings_the_password_of_a_user(monkeypatch):
    monkeypatch.delenv(PASSWORD, raising=False)
    assert database_to_open("mysql://me@db/x") == "mysql://me@db/x"
    monkeypatch.setenv(PASSWORD, "p@ss/w:rd ")
    opened = make_url(database_to_open("mysql+pymysql://me@db:3306/x?charset=utf8"))
    assert (opened.username, opened.password) == ("me", "p@ss/w:rd ")
    assert (opened.host, opened.port, opened.database) == ("db", 3306, "x")
    assert opened.query == {"charset": "utf8"}
    for url in ("sqlite:///study.db", "mysql://me:own@db/x"):
        assert database_to_open(url) == url
