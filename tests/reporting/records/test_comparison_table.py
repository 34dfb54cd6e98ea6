"""Published results by the names of our metrics."""

from __future__ import annotations

from road_ray.data import catalog
from road_ray.reporting.records.comparison_table import published_line, published_results


def test_every_metric_is_one_of_a_kind_and_a_percentage():
    assert all(0 < float(row["value"]) < 100 for row in published_results())
    names = [
        (row["dataset"], row["metric"], row["model"], row["source"]) for row in published_results()
    ]
    assert len(set(names)) == len(names)
    assert {row["dataset"] for row in published_results()} <= {*catalog.DATASETS}


def test_a_line_has_the_highest_first():
    assert published_line("newsqa", "f1") == "60.4 ROaD-Large · 58.0 ELECTRA-Large"
    assert published_line("nothing", "f1") == ""
