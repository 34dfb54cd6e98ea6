"""The run page has a section for each recorded subject, and no empty ones."""

from __future__ import annotations

import json

from road_ray.reporting.pages.page import render
from road_ray.reporting.pages.run_page import curves, run_page
from road_ray.reporting.records.run_record import RunRecord, read_run


def titles(directory):
    return [section.title for section in run_page(read_run(directory)).sections]


def test_every_part_of_a_distillation_is_there(run_directory):
    assert titles(run_directory) == [
        *("Result", "Curves", "Health", "Time", "Teachers", "Faults", "Lineage", "Set-up")
    ]
    html = render(run_page(read_run(run_directory)))
    assert "None recorded." in html
    assert "91.5 Weighted KD, W = 0.75" in html
    assert "3 of 3" in html


def test_a_run_that_has_only_begun_says_so(run_directory):
    for name in ("metrics.json", "metrics.jsonl"):
        (run_directory / name).unlink()
    page = run_page(read_run(run_directory))
    assert "Not finished" in page.about
    assert "No final metrics." in render(page)


def test_faults_are_listed(run_directory):
    event = {"time": "2026-01-02T03:04:05.678+00:00", "kind": "teacher_replaced", "teacher": 2}
    (run_directory / "events.jsonl").write_text(json.dumps(event) + "\n")
    html = render(run_page(read_run(run_directory)))
    for text in ("2026-01-02 03:04:05", "teacher_replaced", "teacher: 2"):
        assert text in html


def test_figures_of_a_pretraining_have_titles_and_digits_and_no_empty_column(tmp_path):
    metrics = {"train/generator_accuracy": 0.597, "train/lr": 5e-7}
    (result,) = [
        section for section in run_page(RunRecord(tmp_path, metrics=metrics)).sections
        if section.title == "Result"
    ]  # fmt: skip
    table = result.blocks[0]
    assert table.names == ["metric", "value"]
    shown = [[cell.text for cell in row] for row in table.cells]
    assert shown == [["Generator accuracy", "0.60"], ["Learning rate", "5e-07"]]


def test_every_verb_has_its_loss_and_main_figures_as_tiles(tmp_path):
    rows = [
        {"step": n, "train/generator": 9.0 - n, "train/detection_auc": 0.5 + n / 10}
        for n in (1, 2, 3)
    ]
    run = RunRecord(tmp_path, {"generator": {}}, rows=rows)
    tiles = {name: (value, remark) for name, value, remark in run_page(run).tiles}
    assert tiles["Detection, area under the ROC curve"][0] == "0.800"
    assert tiles["Generator loss (nats)"] == ("6.000", "8.000 at the first row")


def test_a_tile_of_a_cut_run_has_no_paper_beside_it(write_run, tmp_path):
    whole = run_page(read_run(write_run(tmp_path / "a")))
    cut = run_page(read_run(write_run(tmp_path / "b", data={"max_judged_rows": 100})))
    assert whole.tiles[0][2].startswith("paper: 91.5")
    assert cut.tiles[0][2] == "judged on at most 100 rows"
    assert "Weighted KD, W = 0.75" not in render(cut)
    assert "Not comparable with published results" in render(cut)


def test_exact_match_is_split_by_questions_with_and_without_answer(run_directory):
    metrics = {
        "eval/squad_v2/exact": 50.0,
        "eval/squad_v2/HasAns_exact": 40.0,
        "eval/squad_v2/HasAns_f1": 45.0,
        "eval/squad_v2/HasAns_total": 6,
        "eval/squad_v2/NoAns_exact": 60.0,
        "eval/squad_v2/NoAns_f1": 60.0,
        "eval/squad_v2/NoAns_total": 4,
    }
    (run_directory / "metrics.json").write_text(json.dumps(metrics))
    table = run_page(read_run(run_directory)).sections[0].blocks[1]
    assert [[cell.text for cell in row] for row in table.cells] == [
        ["squad_v2", "with answer", "6", "40.00", "45.00"],
        ["squad_v2", "without answer", "4", "60.00", "60.00"],
    ]


def test_the_best_checkpoint_is_marked(tmp_path):
    rows = [{"step": s, "eval/sst2/accuracy": v} for s, v in ((1, 60.0), (2, 80.0), (3, 70.0))]
    run = RunRecord(tmp_path, rows=rows, events=[{"kind": "best_checkpoint", "step": 2}])
    (chart,) = curves(run)
    assert chart.axes.lines[1].get_xydata().tolist() == [[2.0, 80.0]]
    assert "best checkpoint, step 2: the final model" in chart.note
    (plain,) = curves(RunRecord(tmp_path, rows=rows))
    assert "the final model is that of the last step" in plain.note


def test_a_run_that_stopped_early_tells_the_steps_that_it_made(tmp_path):
    rows = [{"step": 30, "train/sst2": 1.0}, {"step": 60, "eval/sst2/accuracy": 50.0}]
    run = RunRecord(tmp_path, rows=rows, events=[{"kind": "stopped_early", "step": 30}])
    assert ("steps", "30", "stopped early, 60 planned") in run_page(run).tiles


def test_routine_events_are_folded_away_and_are_no_faults(run_directory):
    events = [{"kind": "phase", "step": 3}, {"kind": "initialized", "init": "x"}]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (run_directory / "events.jsonl").write_text(lines)
    html = render(run_page(read_run(run_directory)))
    assert "None recorded." in html
    assert "routine events: 2" in html


def test_the_command_that_repeats_a_run_is_there(run_directory):
    record = run_directory / "config.resolved.yaml"
    command = f"road distill {record} --run-dir {run_directory}-again"
    assert command in render(run_page(read_run(run_directory)))
