"""The blocks of the guide to predictions run as they are printed, in a folder that has what they
name: two finished models and files of rows.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from tests.docs.blocks import ROOT, blocks, commands
from tests.published import publish

PAGE = "docs/guides/inference.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("guide")
    publish(place / "runs/films", "electra", "ForSequenceClassification", labels=("bad", "good"))
    publish(place / "runs/answers", "bert", "ForQuestionAnswering")
    (place / "rows.csv").write_text("text\na fine film\na dull one\n")
    (place / "reviews.csv").write_text("number,review\n7,a fine film\n8,a dull one\n")
    return place


@pytest.mark.guide
def test_the_blocks_run_in_their_order(road, place, monkeypatch, capfd):
    monkeypatch.chdir(place)
    for line in blocks(PAGE)["files"].splitlines():
        if line.startswith("road"):
            done = road(*shlex.split(line, comments=True)[1:])
            assert done.code == 0, done.err
    assert (place / "predictions.csv").read_text().startswith("id,label,score,score_bad,score_good")
    rows = [json.loads(line) for line in (place / "predictions.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["7", "8"]
    exec(blocks(PAGE, "python")["load"], {})
    for words in commands(blocks(PAGE)["export"]):
        if words[0] == "road":
            assert road(*words[1:]).code == 0, words
    exported = (place / "onnx.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in exported] == [
        line.split(",")[:2] for line in (place / "predictions.csv").read_text().splitlines()
    ]
    names: dict[str, object] = {}
    exec(blocks(PAGE, "python")["runtime"], names)
    assert getattr(names["logits"], "shape", None) == (1, 2)


@pytest.mark.guide
def test_a_pipe_of_text_is_predicted(place):
    (line,) = [line for line in blocks(PAGE)["files"].splitlines() if line.startswith("echo")]
    line = line.replace("road ", f"{shlex.quote(sys.executable)} -m road_ray ", 1)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["label"] in ("bad", "good")
