"""What a row length cuts is told by every command that reads rows."""

from __future__ import annotations

import json

import road_ray as rr


def test_rows_that_are_cut_are_told_by_each_command(road, flags, sentiment, tmp_path, caplog):
    short = sentiment | {"data.max_length_tokens": 8}
    result = road("finetune", *flags(short), "--run-dir", tmp_path / "run")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for start, what in (("eval", "rows"), ("data", "training rows")):
        rows, percent = (
            metrics[f"{start}/sst2/truncated_{of}"] for of in ("rows", "tokens_percent")
        )
        told = f"note: sst2: {rows:,.0f} {what} are truncated, {percent:.1f}% of all tokens"
        assert rows > 0 < percent < 100
        assert told in result.out
    page = road("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert page.code == 0
    assert "training rows are truncated" in (tmp_path / "page.html").read_text()
    judged = json.loads(road("evaluate", tmp_path / "run", "--json").out)["metrics"]
    assert judged["eval/sst2/truncated_rows"] == metrics["eval/sst2/truncated_rows"]

    texts, lengths = tmp_path / "rows.jsonl", (2, 12, 16)
    texts.write_text("".join(json.dumps({"text": "film " * n}) + "\n" for n in lengths))
    tokenizer = rr.load(tmp_path / "run").tokenizer
    tokens = [len(tokenizer("film " * n)["input_ids"]) for n in lengths]
    lost = 100 * sum(max(0, count - 8) for count in tokens) / sum(tokens)
    for words in ([], ["--output", tmp_path / "o.csv"]):
        caplog.clear()
        assert road("predict", tmp_path / "run", texts, *words).code == 0
        assert f"2 rows truncated to 8 tokens, {lost:.1f}% of all tokens" in caplog.text
