"""``road report`` writes a page or figures, and says where."""

from __future__ import annotations

import json


def run_in(directory):
    directory.mkdir()
    rows = [{"step": step, "train/sst2": 1.0 / step} for step in (1, 2, 3)]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory


def test_a_page_is_written_and_named(road, tmp_path):
    run = run_in(tmp_path / "run")
    result = road("report", run)
    assert (result.code, result.out.strip()) == (0, str(run / "report.html"))
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_figures_for_a_paper(road, tmp_path):
    result = road(
        "report", run_in(tmp_path / "run"), "--format", "svg", "--out", tmp_path, "--json"
    )
    assert json.loads(result.out) == [str(tmp_path / "01-loss-on-sst2-nats.svg")]


def test_an_unknown_baseline_is_a_mistake_of_the_user(road, tmp_path):
    runs = [run_in(tmp_path / name) for name in ("none", "mean")]
    out = tmp_path / "page.html"
    result = road("report", *runs, "--baseline", "nnoe", "--out", out)
    assert result.code == 2
    assert "--baseline nnoe: no such group; did you mean 'none'?" in result.err
    assert not out.exists()
