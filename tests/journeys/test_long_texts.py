"""Texts that are longer than a row: what is cut is told by every command that reads rows; with
``data.windows`` nothing is cut.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

import road_ray as rr
from tests.published import TEXTS
from tests.row_files import write_rows
from tests.runs import plain_logits

LENGTH = 8


def test_rows_that_are_cut_are_told_by_each_command(road, flags, sentiment, tmp_path, caplog):
    short = sentiment | {"data.max_length_tokens": LENGTH}
    result = road("finetune", *flags(short), "--run-dir", tmp_path / "run").good()
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for start, what in (("eval", "rows"), ("data", "training rows")):
        rows, percent = (
            metrics[f"{start}/sst2/truncated_{of}"] for of in ("rows", "tokens_percent")
        )
        told = f"note: sst2: {rows:,.0f} {what} are truncated, {percent:.1f}% of all tokens"
        assert rows > 0 < percent < 100
        assert told in result.out
    road("report", tmp_path / "run", "--output", tmp_path / "page.html").good()
    assert "training rows are truncated" in (tmp_path / "page.html").read_text()
    judged = json.loads(road("evaluate", tmp_path / "run", "--json").out)["metrics"]
    assert judged["eval/sst2/truncated_rows"] == metrics["eval/sst2/truncated_rows"]

    texts, lengths = tmp_path / "rows.jsonl", (2, 12, 16)
    write_rows(texts, ({"text": "film " * n} for n in lengths))
    tokenizer = rr.load(tmp_path / "run").tokenizer
    tokens = [len(tokenizer("film " * n)["input_ids"]) for n in lengths]
    lost = 100 * sum(max(0, count - 8) for count in tokens) / sum(tokens)
    for words in ([], ["--output", tmp_path / "o.csv"]):
        caplog.clear()
        assert road("predict", tmp_path / "run", texts, *words).code == 0
        assert f"2 rows truncated to 8 tokens, {lost:.1f}% of all tokens" in caplog.text


@pytest.fixture(scope="module")
def windowed(sentiment, tmp_path_factory):
    """A fine-tuning on SST-2 in windows, of which most texts have several."""
    chosen = {"data.max_length_tokens": LENGTH, "data.windows": "mean"}
    run_dir = tmp_path_factory.mktemp("windows") / "run"
    return rr.finetune(overrides=sentiment | chosen, run_dir=run_dir)


@pytest.mark.parametrize("join", ["mean", "max"])
def test_a_long_text_has_the_joined_logits_of_its_windows(windowed, join):
    loaded = rr.load(windowed.directory)
    predictor = replace(loaded, record=loaded.record | {"windows": join})
    whole = replace(loaded, record=loaded.record | {"windows": "none"})
    texts = ["fine", *(f"{text} " * n for n, text in enumerate(TEXTS, start=1))]
    for told, cut, text in zip(predictor(texts), whole(texts), texts, strict=True):
        window = {"truncation": True, "max_length": LENGTH, "return_overflowing_tokens": True}
        logits = plain_logits(windowed.hf_dir, text, **window).numpy()
        shares = softmax(getattr(logits, join)(0))
        np.testing.assert_allclose(list(told["scores"].values()), shares, atol=1e-5)
        if text == "fine":
            assert told["scores"] == pytest.approx(cut["scores"], abs=1e-6)
    assert [row["score"] for row in predictor(texts)] != [row["score"] for row in whole(texts)]


def test_every_command_reads_the_windows_of_the_training(road, windowed, world, tmp_path):
    metrics = windowed.metrics
    assert not [name for name in metrics if "truncated" in name]
    again = json.loads(road("evaluate", windowed.directory, "--json").out)["metrics"]
    assert again == {k: v for k, v in metrics.items() if k.startswith("eval/")}
    files = (windowed.directory, tmp_path / "evaluated")
    other = road("evaluate", files[0], "data.windows=none", "--run-dir", files[1], "--json")
    assert json.loads(other.out)["metrics"]["eval/sst2/truncated_rows"] > 0

    texts = tmp_path / "rows.jsonl"
    write_rows(texts, ({"text": f"{text} " * 5} for text in TEXTS))
    assert road("export", windowed.directory, "--output", tmp_path / "onnx").code == 0
    told = [road("predict", model, texts).out for model in (files[0], tmp_path / "onnx")]
    pytorch, onnx = ([json.loads(line)["score"] for line in text.splitlines()] for text in told)
    assert pytorch == pytest.approx(onnx, abs=1e-4)


def test_a_student_learns_from_teachers_window_by_window(
    road, flags, sentiment, teachers, tmp_path
):
    chosen = sentiment | {"data.max_length_tokens": LENGTH, "data.windows": "max"}
    chosen |= {"distillation.teachers": str(teachers.directory / "teachers.json")}
    runs = {}
    for answers in ("live", "once"):
        chosen |= {"distillation.answers": answers, "distillation.host": "process"}
        road("distill", *flags(chosen), "--run-dir", tmp_path / answers).good()
        runs[answers] = json.loads((tmp_path / answers / "metrics.json").read_text())
    assert runs["live"] == pytest.approx(runs["once"])
