"""What a line says of a configuration."""

from __future__ import annotations

from pathlib import Path

from road_ray.cli.options import CommandLine


def test_what_is_no_file_is_an_override():
    assert CommandLine.read(["a=b", "c=d"]) == CommandLine(None, None, ("a=b", "c=d"))
    assert CommandLine.read(["a.yaml", "c=d"]) == CommandLine(None, Path("a.yaml"), ("c=d",))
    assert CommandLine.read([], preset="p") == CommandLine("p", None, ())


def test_flags_that_were_given_count_last():
    line = CommandLine.read(["seed=1"], workers=0, address=None, seed=2)
    assert line.overrides == ("seed=1", "workers=0", "seed=2")
    assert line.config("finetune").seed == 2
