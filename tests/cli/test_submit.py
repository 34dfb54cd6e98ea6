"""The command's own mistakes; nothing is contacted for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cluster", "asw", "list"), "did you mean 'aws'"),
        (("--cluster", "asw", "show"), "did you mean 'aws'"),
        (("nope", "x"), "no such verb"),
        (("stop",), "name one run or job"),
        (("status", "a", "b"), "name one run or job"),
    ],
)
def test_mistakes_are_usage(road, words, told):
    said = road("submit", *words)
    assert said.code == 2
    assert told in said.err


def test_a_cluster_that_is_not_there_is_a_cluster_error(road):
    said = road("submit", "--cluster", "http://127.0.0.1:9", "list")
    assert said.code == 4
    assert "http://127.0.0.1:9" in said.err
    assert "fix:" in said.err


@pytest.mark.parametrize("name", ["local", "clusters/aws.yaml", "kuberay/raycluster"])
def test_a_shipped_cluster_file_is_printed(road, name):
    said = road("submit", "--cluster", name, "show")
    assert said.code == 0
    (file, profile) = [Path(line.removeprefix("# ")) for line in said.err.splitlines()]
    assert said.out == file.read_text()
    assert profile.name.endswith(".profile.yaml")
    assert YAML(typ="safe").load(said.out)
