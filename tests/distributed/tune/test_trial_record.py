"""Trial records: atomic writes, one report per step."""

from __future__ import annotations

import json

from road_ray.distributed.tune import trial_record
from road_ray.distributed.tune.trial_record import Record, Report


def test_a_record_comes_back_as_it_was(tmp_path):
    record = Record(3, {"x": 1}, "complete", values=(0.5,), deviation=(None,), figures={"a": 0.5})
    trial_record.write(tmp_path, record)
    assert trial_record.read(tmp_path, 3) == record
    assert record.ended
    assert not Record(4, {}).ended
    assert trial_record.trial_numbers(tmp_path) == [3]


def test_a_damaged_record_is_none(tmp_path):
    trial_record.write(tmp_path, Record(0, {}))
    path = trial_record.trial_directory(tmp_path, 0) / "trial.json"
    for text in ("", path.read_text()[:20], "[]", "{}", "7"):
        path.write_text(text)
        assert trial_record.read(tmp_path, 0) is None
    assert trial_record.read(tmp_path, 9) is None


def test_reports_of_a_trial_that_went_back_count_once(tmp_path):
    for step, value in ((2, 0.1), (4, 0.2), (2, 0.3)):
        trial_record.add_report(tmp_path, Report(step, step * 10.0, value))
    with (tmp_path / "reports.jsonl").open("a") as file:
        file.write(json.dumps({"step": 6})[:5])  # torn
    assert trial_record.read_reports(tmp_path) == [Report(2, 20.0, 0.3), Report(4, 40.0, 0.2)]
    assert trial_record.read_reports(tmp_path / "nowhere") == []
