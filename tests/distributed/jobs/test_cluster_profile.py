"""Shipped clusters are found by name; files of others' formats may carry ours."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from road_ray.distributed.jobs.cluster_profile import SHIPPED, profile_of, shipped
from road_ray.errors import ConfigError


@pytest.mark.parametrize("name", ["aws", "clusters/aws.yaml", "aws.yaml", "aws.profile.yaml"])
def test_a_shipped_cluster_has_several_names(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert profile_of(name).workers == 4


def test_all_shipped_profiles_load():
    assert {"local", "aws", "gcp", "kuberay/raycluster"} <= set(shipped())
    for name in shipped():
        assert profile_of(name).address.startswith("http")


def test_clusters_are_in_the_wheel():
    root = SHIPPED.parents[1]
    data = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    packed = data["package-data"]["road_ray"]
    found = {path for pattern in packed for path in (root / "road_ray").glob(pattern)}
    assert {path for path in SHIPPED.rglob("*") if path.is_file()} <= found


def test_an_address_is_a_profile():
    assert profile_of("http://h:8265").address == "http://h:8265"


def test_a_file_may_carry_a_section_or_have_a_profile_beside(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("cluster_name: x\nx-road:\n  address: http://a:1\n  workers: 3\n")
    assert profile_of(str(file)).workers == 3
    (tmp_path / "mine.profile.yaml").write_text("address: http://b:1\n")
    assert profile_of(str(file)).address == "http://b:1"


def test_a_file_that_says_nothing_and_a_name_that_is_nothing_are_told(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("cluster_name: x\n")
    with pytest.raises(ConfigError, match=r"mine\.profile\.yaml"):
        profile_of(str(file))
    with pytest.raises(ConfigError, match="did you mean 'aws'"):
        profile_of("asw")
    (tmp_path / "odd.profile.yaml").write_text("adress: http://b:1\n")
    with pytest.raises(ConfigError, match="address"):
        profile_of(str(Path(tmp_path / "odd.profile.yaml")))
