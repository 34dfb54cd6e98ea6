"""The command's own mistakes; nothing is contacted for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cluster", "asw", "list"), "did you mean 'aws'"),
        (("--cluster", "asw", "show"), "did you mean 'aws'"),
        (("nope", "x"), "no such verb"),
        (("stop",), "name one run or job"),
        (("status", "a", "b"), "name one run or job"),
    ],
)
def test_mistakes_are_usage(road, words, message):
    result = road("submit", *words)
    assert result.code == 2
    assert message in result.err


def test_a_cluster_that_is_not_there_is_a_cluster_error(road):
    result = road("submit", "--cluster", "http://127.0.0.1:9", "list")
    assert result.code == 4
    assert "http://127.0.0.1:9" in result.err
    assert "fix:" in result.err


@pytest.mark.parametrize("name", ["local", "clusters/aws.yaml", "kuberay/raycluster"])
def test_a_shipped_cluster_file_is_printed(road, name):
    result = road("submit", "--cluster", name, "show")
    assert result.code == 0
    (file, profile) = [Path(line.removeprefix("# ")) for line in result.err.splitlines()]
    assert result.out == file.read_text()
    assert profile.name.endswith(".profile.yaml")
    assert YAML(typ="safe").load(result.out)
