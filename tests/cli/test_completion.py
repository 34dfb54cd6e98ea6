"""Completion in a shell, as the shell asks for it."""

from __future__ import annotations

import pytest

from road_ray.cli.options import complete_run


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


def test_files_and_runs_are_offered(completed, tmp_path):
    (tmp_path / "my.yaml").touch()
    for run in ("runs/one", "runs/deep/two"):
        (tmp_path / run).mkdir(parents=True)
    assert completed("road finetune my") == ["my.yaml"]
    for command in ("runs show", "report", "predict", "export", "serve", "push"):
        assert completed(f"road {command} runs/") == ["runs/deep/", "runs/one/"]
    assert complete_run("nowhere/") == []
