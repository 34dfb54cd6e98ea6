"""Places that cannot be are told with the key that names them, never a traceback."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from road_ray.data import miniature
from road_ray.data.features.cache import cache_directory
from road_ray.data.load_split import resolve_root
from road_ray.distributed.cluster_token import token_path
from road_ray.errors import ClusterError, ConfigError, ResourceError
from road_ray.recipes.preflight_checks import require_init
from road_ray.system.paths import cache_home, path_of


@pytest.fixture
def homeless(monkeypatch):
    """As ``docker --user 12345``: no HOME, and a number that no user has."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("ROAD_CACHE", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)


def test_a_home_is_written_out_and_other_paths_are_left(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROAD_CACHE", raising=False)
    assert path_of("~/a", "data.root") == tmp_path / "a"
    assert path_of("a/b", "data.root") == Path("a/b")
    assert cache_home() == tmp_path / ".cache" / "road_ray"


@pytest.mark.parametrize("text", ["x" * 5000, "~nobody-of-this-name/x", "/a\x00b" * 2])
def test_a_path_that_cannot_be_looked_at_is_told_with_its_key(text, monkeypatch):
    if "\x00" not in text:
        monkeypatch.setenv("ROAD_DATA", text)
        with pytest.raises(ConfigError, match="ROAD_DATA = ") as caught:
            resolve_root(None)
        assert len(str(caught.value)) < 400
    with pytest.raises(ConfigError, match=r"data\.root = .*"):
        resolve_root(text)


def test_without_a_home_the_cache_must_be_named(homeless, caplog, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match=r"(?s)ROAD_CACHE is not set.*no home.*fix: ROAD_CACHE="):
        resolve_root("miniature")
    assert cache_directory(None) is None
    assert "features are not kept: ROAD_CACHE is not set" in caplog.text
    with pytest.raises(ConfigError, match=r"data\.root = ~/x"):
        resolve_root("~/x")
    monkeypatch.setenv("ROAD_CACHE", str(tmp_path))
    assert cache_directory(None) == tmp_path / "features"


def test_other_places_below_a_home_are_told_too(homeless, monkeypatch):
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with pytest.raises(ConfigError, match=r"init = ~/x: Could not determine home"):
        require_init("~/x")
    with pytest.raises(ClusterError, match=r"(?s)no home directory for Ray's token.*fix: RAY_AUTH"):
        token_path()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc", "/proc/nothing"])
def test_a_cache_that_cannot_be_written_is_told(place, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROAD_CACHE", str(tmp_path / place))
    with pytest.raises(ResourceError, match=r"(?s)cannot be unpacked.*ROAD_CACHE="):
        miniature.cached()
