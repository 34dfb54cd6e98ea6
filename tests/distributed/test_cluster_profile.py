"""Cluster profiles: shipped names, profile files."""

from __future__ import annotations

from pathlib import Path

import pytest

from road_ray.distributed.job_client import load_profile, shipped_clusters
from road_ray.errors import ConfigError


@pytest.mark.parametrize("name", ["aws", "clusters/aws.yaml", "aws.yaml", "aws.profile.yaml"])
def test_a_shipped_cluster_has_several_names(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_profile(name).workers == 4


def test_all_shipped_profiles_load():
    assert {"local", "aws", "gcp", "kuberay/raycluster"} <= set(shipped_clusters())
    for name in shipped_clusters():
        assert load_profile(name).address.startswith("http")


def test_an_address_is_a_profile():
    assert load_profile("http://h:8265").address == "http://h:8265"


@pytest.mark.parametrize("name", ["mine.yaml", "mine.profile.yaml", "mine"])
def test_a_profile_stands_beside_its_file(tmp_path, name):
    (tmp_path / "mine.yaml").write_text("cluster_name: x\n")
    (tmp_path / "mine.profile.yaml").write_text("address: http://b:1\n")
    assert load_profile(str(tmp_path / name)).address == "http://b:1"


def test_a_file_that_says_nothing_and_a_name_that_is_nothing_are_told(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("cluster_name: x\n")
    with pytest.raises(ConfigError, match=r"mine\.profile\.yaml"):
        load_profile(str(file))
    with pytest.raises(ConfigError, match="did you mean 'aws'"):
        load_profile("asw")
    (tmp_path / "odd.profile.yaml").write_text("adress: http://b:1\n")
    with pytest.raises(ConfigError, match="address"):
        load_profile(str(Path(tmp_path / "odd.profile.yaml")))
