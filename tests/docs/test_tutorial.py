"""The tutorial's commands run in their order; the formula page prints what it says."""

from __future__ import annotations

import json
import re

import pytest

from tests.conftest import PRETRAINING
from tests.docs.blocks import ROOT, blocks, commands

TRAINING = ("pretrain", "finetune", "teachers", "distill")
SHORT = ("training.steps=3", "data.batch_size=4", "console=quiet")
TINY = [f"{key}={value}" for key, value in PRETRAINING.items()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.guide
def test_the_tutorial_from_a_csv_to_an_onnx_student(road, folder):
    outputs = {}
    for name, block in blocks("docs/tutorial.md").items():
        for words in commands(block):
            assert words[0] == "road"
            options = TINY if words[1] == "pretrain" else SHORT if words[1] in TRAINING else ()
            process = ("distillation.host=process",) if words[1] == "distill" else ()
            done = road(*words[1:], *options, *process)
            assert done.code == 0, (words, done.err)
            if words[1] == "predict":
                outputs[name] = done.out
    for name in ("classifier", "onnx"):
        rows = [json.loads(line) for line in outputs[name].splitlines()]
        assert len(rows) == 12
        assert all(sum(row["scores"].values()) == pytest.approx(1) for row in rows)
    assert rows[0].keys() == {"id", "label", "score", "scores", "verdict"}
    teachers = json.loads((folder / "runs/teachers/teachers.json").read_text())
    assert len(teachers["teachers"]) == 3
    assert (folder / "runs/student/report.html").is_file()


@pytest.mark.parametrize("name", ["weights", "loss"])
def test_a_formula_prints_what_the_page_says(name, capsys):
    exec(blocks("docs/method.md", "python")[name], {})
    page = (ROOT / "docs/method.md").read_text("utf-8")
    [printed] = re.findall(rf"^```python {name}\n.*?^```\n\n    (.*?)\n", page, flags=re.M | re.S)
    assert capsys.readouterr().out.strip() == printed
