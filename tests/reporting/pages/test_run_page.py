"""Page of one run, with its curves and predictions; run directories, damaged ones included."""

import json
from pathlib import Path

import pytest

from road_ray.config import to_dict
from road_ray.reporting.pages.page import Page, Section, render
from road_ray.reporting.pages.run_page import curves, prediction_figures, run_page
from road_ray.reporting.records.run_record import (
    RunRecord,
    ancestors,
    describe_model,
    is_run,
    read_run,
    runs_below,
)
from road_ray.verbs import VERBS, configure
from tests.row_files import write_rows


def test_every_part_of_a_distillation_is_there(run_directory):
    page = run_page(read_run(run_directory))
    assert [section.title for section in page.sections] == [
        *("Result", "Curves", "Health", "Time", "Teachers", "Faults", "Lineage", "Set-up")
    ]
    html = render(page)
    record = run_directory / "config.resolved.yaml"
    assert f"road distill {record} --run-dir {run_directory}-again" in html  # repeats the run
    assert "None recorded." in html
    assert "91.5 Weighted KD, W = 0.75" in html
    assert "3 of 3" in html


def test_faults_are_listed_and_routine_events_folded_away_of_a_run_that_has_begun(run_directory):
    for name in ("metrics.json", "metrics.jsonl"):
        (run_directory / name).unlink()
    event = {"time": "2026-01-02T03:04:05.678+00:00", "kind": "teacher_replaced", "teacher": 2}
    write_rows(run_directory / "events.jsonl", [event, {"kind": "phase", "step": 3}])
    page = run_page(read_run(run_directory))
    assert "Not finished" in page.about
    told = ("2026-01-02 03:04:05", "teacher_replaced", "teacher: 2", "routine events: 1")
    for text in ("No final metrics.", *told):
        assert text in render(page).replace("<wbr>", "")  # a long name may break


def test_a_label_with_a_slash_keeps_its_name(tmp_path):
    page = run_page(RunRecord(tmp_path, metrics={"eval/mood/f1_of_n/a": 50.0}))
    (result,) = [section for section in page.sections if section.title == "Result"]
    assert [cell.text for cell in result.blocks[0].cells[0]][:2] == ["mood", "f1 of n/a"]


def test_every_verb_has_its_loss_and_main_figures_as_tiles(tmp_path):
    rows = [
        {"step": n, "train/generator": 9.0 - n, "train/detection_auc": 0.5 + n / 10}
        for n in (1, 2, 3)
    ]
    run = RunRecord(tmp_path, {"generator": {}}, rows=rows)
    tiles = {name: (value, remark) for name, value, remark in run_page(run).tiles}
    assert tiles["Detection, area under the ROC curve"][0] == "0.800"
    assert tiles["Loss on generator (nats)"] == ("6.000", "8.000 at the first row")
    run = RunRecord(tmp_path, {"generator": {}}, metrics={"train/lr": 1e-5, "time/mfu": 0.1})
    result = run_page(run).sections[0].blocks[0]
    assert [[cell.text for cell in row] for row in result.cells] == [["Learning rate", "1e-05"]]


def test_a_tile_of_a_cut_run_has_no_paper_beside_it(write_run, tmp_path):
    whole = run_page(read_run(write_run(tmp_path / "a")))
    cut = run_page(read_run(write_run(tmp_path / "b", data={"max_judged_rows": 100})))
    assert whole.tiles[0][2].startswith("paper: 91.5")
    assert cut.tiles[0][2] == "judged on at most 100 rows"
    assert "Weighted KD, W = 0.75" not in render(cut)


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
    (chart,) = curves(RunRecord(tmp_path, rows=rows))
    assert chart.axes.lines[1].get_xydata().tolist() == [[2.0, 80.0]]
    assert chart.note.endswith("the final model is that of the last step.")
    event = {"kind": "stopped_early", "step": 3, "best_step": 2}
    stopped = run_page(RunRecord(tmp_path, rows=rows, events=[event]))
    assert ("steps", "3", "stopped early, the best is step 2") in stopped.tiles


CLASSES = {
    "rows": 10,
    "labels": ["no", "<script>"],
    "confusion": [[4, 1], [2, 3]],
    "calibration": {"ece": 12.5, "bins": [[0.6, 0.5, 4], [0.9, 0.8, 6]]},
    "coverage": [[0.5, 100.0, 70.0], [0.9, 40.0, 100.0]],
    "mistakes": {"rows": 10, "wrong": 1, "what": "not exactly right"}
    | {
        "examples": [{"ask": "a?", "context": [], "gold": "no", "predicted": "<b>", "tag": "row 3"}]
    },
}
SPANS = {
    "rows": 4,
    "threshold": 0.5,
    "thresholds": [[-1.0, 50.0, 50.0, 0.0, 100.0], [0.5, 75.0, 80.0, 60.0, 90.0]],
}


@pytest.fixture
def run(tmp_path):
    def made(**known):
        for name, content in known.items():
            (tmp_path / "predictions" / name).mkdir(parents=True)
            path = tmp_path / "predictions" / name / "diagnostics.json"
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return RunRecord(tmp_path)

    return made


def test_classes_have_a_confusion_matrix_a_reliability_diagram_and_mistakes(run):
    figures, matrix, *mistakes = prediction_figures(run(sst2=CLASSES))
    reliability, coverage = figures
    assert reliability.title == "sst2: reliability, ECE 12.5"
    assert reliability.axes.lines[1].get_xydata().tolist() == [[60.0, 50.0], [90.0, 80.0]]
    assert coverage.axes.lines[0].get_xydata().tolist() == [[100.0, 70.0], [40.0, 100.0]]
    assert [row[1:] for row in matrix.rows] == [[4, 1], [2, 3]]
    html = render(Page("t", sections=[Section("s", [figures, matrix, *mistakes])]))
    assert "sst2: 1 of 10 not exactly right" in html
    assert html.count("<script>") == 1
    assert html.count("<svg") == 2


def test_spans_have_their_scores_by_threshold_with_the_one_in_use_marked(run):
    (figures,) = prediction_figures(run(squad_v2=SPANS))
    (chart,) = figures
    *lines, exact, f1 = chart.axes.lines
    assert [line.get_label() for line in lines] == ["EM", "F1", "EM, with answer", "EM, without"]
    dots = [dot.get_xydata()[0].tolist() for dot in (exact, f1)]
    assert dots == [[0.5, 75.0], [0.5, 80.0]]


@pytest.mark.parametrize(
    "damaged",
    [
        *("", "[]", '{"labels": 5, "confusion": [[1]]}', '{"calibration": {"ece": 1}, "rows": 2}'),
        '{"labels": ["a"], "confusion": [[1]], "calibration": {"ece": 1}, "rows": 2}',
    ],
)
def test_a_damaged_file_is_named_and_the_rest_is_shown(run, damaged):
    figures, prose, *_ = prediction_figures(run(a=damaged, sst2=CLASSES))
    assert [plot.title.split(":")[0] for plot in figures] == ["sst2"] * 2
    assert prose.startswith("a: no plots")


def write_config(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.resolved.yaml").write_text("seed: 0")
    return directory


def test_runs_are_found_below_a_folder_also_without_a_journal(write_run, tmp_path):
    write_run(tmp_path / "deep" / "a-1")
    write_run(tmp_path / "deep" / "a-1" / "checkpoints" / "c")
    assert is_run(tmp_path / "deep" / "a-1")
    assert not is_run(tmp_path)
    (write_config(tmp_path / "evaluate" / "hf-model-1") / "predictions" / "sst2").mkdir(
        parents=True
    )
    write_run(write_config(tmp_path / "teachers") / "teacher-0")
    write_config(write_config(tmp_path / "pairs") / "pair-0")
    write_config(write_config(tmp_path / "a" / "b" / "deep") / "c" / "d")  # too deep itself
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "metrics.json").write_text("{}")
    assert [str(path.relative_to(tmp_path)) for path in runs_below(tmp_path)] == [
        *("deep/a-1", "evaluate/hf-model-1", "pairs/pair-0", "teachers/teacher-0")
    ]
    assert runs_below(tmp_path, deepest=1) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", "null\n"),
        ("metrics.jsonl", '{"step": "one"}\n'),
        ("metrics.json", "[]"),
        ("metrics.json", "{"),
        ("config.resolved.yaml", "a: ["),
        ("environment.json", "null"),
    ],
)
def test_a_record_of_the_wrong_kind_is_told(run_directory, name, content):
    (run_directory / name).write_text(content)
    run = read_run(run_directory)
    assert name == "metrics.jsonl" or run.steps == 8  # the rest is read
    (problem,) = run.problems
    assert problem.startswith(name)
    assert "left out" in problem


@pytest.mark.parametrize("verb", VERBS)
def test_the_verb_follows_from_the_configuration_not_from_who_started_the_run(verb):
    config = to_dict(configure(verb))
    run = RunRecord(Path("r"), config, environment={"command": ["road", "sweep"]})
    assert run.verb == verb


def write_record(directory, **facts):
    (directory / "hf").mkdir(parents=True)
    (directory / "hf" / "road_ray.json").write_text(json.dumps(facts))


def test_it_goes_back_to_the_corpus_and_names_teachers(run_directory, tmp_path):
    corpus = {"tokens": 1200, "source": "wiki.txt, 5 bytes"}
    start = {"init": str(tmp_path / "mtl")}
    write_record(tmp_path / "pre", objective="electra", corpus=corpus, init="")
    write_record(tmp_path / "mtl", datasets=["mnli", "qqp"], seed=0, init=str(tmp_path / "pre"))
    teacher = {"directory": "gone/hf", "weights_sha256": "ab" * 32}
    write_record(run_directory, datasets=["squad_v2"], teachers=[teacher], **start)
    sections = run_page(read_run(run_directory)).sections
    (lineage,) = [section.blocks[0] for section in sections if section.title == "Lineage"]
    assert [(row[0], row[2], row[3]) for row in lineage.rows] == [
        ("this model", "distilled on squad_v2", None),
        ("initialised from", "trained on mnli, qqp, seed 0", None),
        ("initialised from", "electra on 1,200 tokens of wiki.txt", None),
        ("teacher 0", "no details", "ab" * 6),
    ]


def test_an_evaluation_is_no_model(tmp_path):
    run = RunRecord(tmp_path, {"init": "gone", "data": {"datasets": ["sst2", "rte"]}})
    page = run_page(run)
    assert page.about.startswith("Data: sst2, rte.")
    (lineage,) = [section.blocks[0] for section in page.sections if section.title == "Lineage"]
    assert [row[:2] for row in lineage.rows] == [["initialised from", "gone"]]


def test_a_circle_ends(run_directory, tmp_path):
    write_record(tmp_path / "a", datasets=["x"], init=str(tmp_path / "a"))
    write_record(run_directory, init=str(tmp_path / "a"))
    assert len(ancestors(read_run(run_directory))) == 8


def test_a_relative_name_counts_from_above_the_run_too(write_run, tmp_path, monkeypatch):
    write_record(tmp_path / "runs" / "mtl", datasets=["mnli"], init="runs/plain")
    (tmp_path / "runs" / "plain").mkdir()
    run = read_run(write_run(tmp_path / "runs" / "student", init="runs/mtl"))
    monkeypatch.chdir("/")
    assert [describe_model(facts) for _, _, facts in ancestors(run)] == [
        "trained on mnli",
        "not made by road_ray",
    ]
