"""Figure files have the right format and are reproducible."""

from __future__ import annotations

import pytest

from road_ray.errors import ConfigError
from road_ray.reporting.plots import files as paper
from road_ray.reporting.plots.chart import (
    Axis,
    Cell,
    Chart,
    Dot,
    Intervals,
    Line,
    Parallel,
)

pytest.importorskip("vl_convert")
FIGURES = [
    Chart(
        "a/b: 5$ and $x$",
        Axis("x", log=True),
        Axis(names=("p", "q")),
        cells=[Cell((1, 0), (2, 1), 0.9, "7")],
        lines=[Line([(1, 0), (2, 1)], "one"), Line([(1, 1), (2, 0)], "two", shade=0.3)],
        dots=[Dot(1, 1, 0.5), Dot(2, 0)],
    ),
    Intervals("Importance", [("wrong", 70.0, None, ()), ("rule", 30.0, None, ())], zero=True),
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


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_every_figure_is_a_file_of_its_kind(tmp_path, kind, start):
    paths = paper.save_figures(FIGURES, tmp_path, kind)
    assert len(paths) == len(FIGURES)
    assert all(path.read_bytes().startswith(start) for path in paths)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_file_has_plain_colours_and_is_xml(figure):
    from xml.etree import ElementTree

    text = paper.standalone(figure)
    ElementTree.fromstring(text)
    assert "var(" not in text
    assert ":is(" not in text


def test_without_the_converter_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(ConfigError, match=r"road-ray\[figures\]"):
        paper.save_figures(FIGURES, tmp_path, "png")
