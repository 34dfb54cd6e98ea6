"""Figure files have the right format and are reproducible."""

from __future__ import annotations

import pytest

from road_ray.errors import ConfigError
from road_ray.reporting.plots import matplotlib as paper
from road_ray.reporting.plots.chart import (
    Axis,
    Bars,
    Cell,
    Chart,
    Dot,
    Intervals,
    Line,
    Parallel,
)

pytest.importorskip("matplotlib")
FIGURES = [
    Chart(
        "a/b: 5$ and $x$",
        Axis("x", log=True),
        Axis(names=("p", "q")),
        cells=[Cell((1, 0), (2, 1), 0.9, "7")],
        lines=[Line([(1, 0), (2, 1)], "one"), Line([(1, 1), (2, 0)], "two", shade=0.3)],
        dots=[Dot(1, 1, 0.5), Dot(2, 0, hollow=True)],
    ),
    Bars("Importance", [("wrong", 70.0), ("rule", 30.0)], "%"),
    Intervals("F1", [("none", 62.0, (61.0, 63.0), [61.0, 62.0, 63.0]), ("kd", 64.0, None, [64.0])]),
    Parallel("All", [Axis("a"), Axis("b")], [(0, 0.5, [1.0, 2.0]), (1, None, [2.0, None])]),
]


def test_one_file_a_figure_and_the_same_again(tmp_path):
    first = paper.save_figures(FIGURES, tmp_path / "a", "svg")
    again = paper.save_figures(FIGURES, tmp_path / "b", "svg")
    assert [path.name for path in first] == [
        "01-a-b-5-and-x.svg",
        "02-importance.svg",
        "03-f1.svg",
        "04-all.svg",
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_png_is_png(tmp_path):
    (path,) = paper.save_figures(FIGURES[1:2], tmp_path, "png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"road-ray\[figures\]"):
        paper.save_figures(FIGURES, tmp_path, "png")
