"""What a line says of a configuration, what help says of options, and what a shell completes."""

from pathlib import Path

import pytest

from road_ray.cli.options import is_override, sources_of
from road_ray.verbs import configure


def test_a_file_may_have_an_equals_sign_in_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lr=1e-4.yaml").write_text("seed: 4\n")
    for word in ("runs/lr=1e-4/my.yaml", str(tmp_path / "lr=1e-4.yaml"), "lr=1e-4.yaml"):
        assert sources_of([word, "seed=5"]) == (Path(word), ["seed=5"])
    read = sources_of(["a/b-v1.5", "x.csv"], word="init", file="data.file")
    assert read == (None, ["init=a/b-v1.5", "data.file=x.csv"])
    folder = sources_of(["a/b", str(tmp_path)], word="init", file="data.file")
    assert folder == (None, ["init=a/b", f"data.file={tmp_path}"])  # not a YAML file
    read = sources_of(["noisy_labels", "lr=1e-4.yaml", "init=x"], word="comparison")
    compared = configure("reproduce", path=read[0], overrides=read[1])
    assert (compared.comparison, compared.seed, compared.init) == ("noisy_labels", 4, "x")
    for word in ("data.root=../data", "init=runs/a=b/hf", "data.corpus=s3://b/a=1"):
        assert is_override(word)


def test_help_names_every_setting_of_serve_and_says_how_comparisons_are_named(road):
    from road_ray.distributed.serving.config import ServingConfig

    words = (
        road("serve", "--help").out.replace("-", "_").replace(",", " ").replace(".", " ").split()
    )
    left = {*ServingConfig.model_fields} - {word.strip("_") for word in words}
    assert left - {"model"} == set()
    assert "lists the names" in " ".join(road("reproduce", "--help").out.split())


@pytest.fixture
def completed(tmp_path, road, monkeypatch, capfd):
    """``completed("road finetune da")``: what bash offers for the last word of a line."""

    def offer(line: str) -> list[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("_ROAD_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        result = road()
        assert result.err == ""
        return result.out.split()

    return offer


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("road finetune --preset s", ["squad_v2_small", "sst2_small"]),
        ("road presets three", ["three_teachers_squad_v2"]),
        ("road finetune data.datas", ["data.dataset="]),
        ("road plan distill distillation.temp", ["distillation.temperature="]),
        ("road sweep retry", ["retry_failed="]),
        ("road explain optimizer.peak", ["optimizer.peak_lr"]),
        ("road finetune nothing", []),
    ],
)
def test_words_are_offered(completed, line, offered):
    assert completed(line) == offered


def test_files_are_offered_and_runs_left_to_the_shell(completed, tmp_path):
    (tmp_path / "my.yaml").touch()
    (tmp_path / "runs" / "one").mkdir(parents=True)
    assert completed("road finetune my") == ["my.yaml"]
    for command in ("runs show", "report", "predict", "export", "serve", "push"):
        assert completed(f"road {command} runs/") == []  # of which bash completes its own
