"""Provenance of figures: versions, devices, revision."""

from __future__ import annotations

import torch

from road_ray.reporting.provenance import environment, version_of


def test_the_environment_holds_no_arguments(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/road", "finetune", "tracking.key=secret"])
    assert environment()["command"] == ["road", "finetune"]


def test_versions_are_those_that_run():
    assert environment()["packages"]["torch"].startswith(torch.__version__.split("+")[0])
    assert version_of("no-such-package-of-anyone") == "not installed"
