"""Nothing is reached from other machines without a token; a token has a length."""

from __future__ import annotations

import socket

import pytest

from road_ray.distributed.serving import server
from road_ray.distributed.serving.config import digest_of, refuse_exposed, token_digest
from road_ray.errors import ConfigError
from tests.published import publish

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_this_machine_needs_no_token(host):
    refuse_exposed(host, None)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.nip.io", ""]
)
def test_other_machines_need_one(host):
    with pytest.raises(ConfigError, match="--token-env") as caught:
        refuse_exposed(host, None)
    assert f"host = {host}:" in str(caught.value)
    refuse_exposed(host, digest_of(TOKEN))


def test_a_token_is_read_from_the_environment_and_is_not_short(monkeypatch):
    assert token_digest(None) is None
    monkeypatch.setenv("ROAD_TOKEN", TOKEN)
    # sha256sum of the token
    assert token_digest("ROAD_TOKEN") == (
        "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"
    )
    for value in ("", TOKEN[:-1]):
        monkeypatch.setenv("ROAD_TOKEN", value)
        with pytest.raises(ConfigError, match=f"has {len(value)} characters") as caught:
            token_digest("ROAD_TOKEN")
        assert not value or value not in str(caught.value)


def test_the_body_of_an_answer_does_not_wait_for_the_acknowledgement_of_its_header():
    with (
        server._listener(server.Listening(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_road_serve_refuses_before_anything_starts(road, monkeypatch, tmp_path):
    monkeypatch.delenv("ROAD_TOKEN", raising=False)
    result = road("serve", tmp_path / "none", "--host", "0.0.0.0")
    assert (result.code, "host = 0.0.0.0" in result.err) == (2, True)
    result = road("serve", tmp_path / "none", "--host", "0.0.0.0", "--token-env", "ROAD_TOKEN")
    assert (result.code, "ROAD_TOKEN" in result.err) == (2, True)
    result = road("serve", tmp_path / "none", "max_request_row=3")
    assert (result.code, "max_request_rows" in result.err) == (2, True)
    result = road("serve", publish(tmp_path / "encoder", "electra"))
    assert (result.code, "has no head of a task" in result.err) == (4, True)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        result = road("serve", tmp_path / "encoder", "--port", other.getsockname()[1])
        assert (result.code, "cannot listen there" in result.err) == (2, True)
