"""What a line says of a configuration, and what help says of options."""

from __future__ import annotations

from pathlib import Path

from road_ray.cli.options import CommandLine, is_override


def test_a_file_may_have_an_equals_sign_in_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lr=1e-4.yaml").write_text("seed: 4\n")
    for word in ("runs/lr=1e-4/my.yaml", str(tmp_path / "lr=1e-4.yaml"), "lr=1e-4.yaml"):
        assert CommandLine.read([word, "seed=5"]) == CommandLine(None, Path(word), ("seed=5",))
    assert CommandLine.read(["lr=1e-4.yaml"]).config("finetune").seed == 4
    for word in ("data.root=../data", "init=runs/a=b/hf", "data.corpus=s3://b/a=1"):
        assert is_override(word)


def test_the_help_of_serve_names_every_setting(road):
    from road_ray.distributed.serving.config import ServingConfig

    words = (
        road("serve", "--help").out.replace("-", "_").replace(",", " ").replace(".", " ").split()
    )
    left = {*ServingConfig.model_fields} - {word.strip("_") for word in words}
    assert left - {"model"} == set()


def test_the_help_of_reproduce_says_how_comparisons_are_named(road):
    assert "lists the names" in " ".join(road("reproduce", "--help").out.split())
