"""SVG marks are at their positions, and foreign text is escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from road_ray.reporting.plots.chart import (
    Axis,
    Cell,
    Chart,
    Dot,
    Intervals,
    Line,
    Parallel,
)
from road_ray.reporting.plots.svg import draw

EVIL = "<script>alert(1)</script>"
FIGURES = [
    Chart(
        EVIL,
        Axis(EVIL),
        Axis(EVIL, names=(EVIL, "b")),
        cells=[Cell((0, 0), (1, 1), 0.9, EVIL)],
        lines=[Line([(0.0, 0.0), (1.0, 1.0)], EVIL, 1, trial=3)],
        dots=[Dot(0.5, 0.5, 0.3, trial=3), Dot(1.0, 0.0)],
    ),
    Intervals(EVIL, [(EVIL, 62.0, (61.0, 63.0), [61.0, 63.0]), ("b", 64.0, None, [64.0])]),
    Parallel(
        EVIL, [Axis(EVIL), Axis(names=(EVIL,))], [(3, 0.5, [1.0, 0.0]), (4, None, [2.0, None])]
    ),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: type(figure).__name__)
def test_text_of_others_is_text(figure):
    drawn = draw(figure)
    assert "<script" not in drawn
    assert "&lt;script" in drawn
    ElementTree.fromstring(drawn)  # well-formed


def test_marks_of_a_trial_carry_its_number():
    assert draw(FIGURES[0]).count('data-t="3"') == 2
    assert draw(FIGURES[-1]).count("data-t=") == 2


def test_a_line_spans_the_frame():
    drawn = ElementTree.fromstring(
        draw(Chart("t", Axis(), Axis(), lines=[Line([(0, 1.0), (10, 3.0)])]))
    )
    (line,) = drawn.iter("polyline")
    (x0, y0), (x1, y1) = (map(float, pair.split(",")) for pair in line.get("points").split())
    assert 48 < x0 < 70
    assert 370 < x1 < 388
    assert y0 > 200 > 30 > y1


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (2.0, float("nan"))]])
def test_little_to_draw_is_no_trouble(points):
    ElementTree.fromstring(draw(Chart("t", Axis(), Axis(log=True), lines=[Line(points)])))


def test_names_of_dots_do_not_cover_each_other_and_stay_inside_the_figure():
    dots = [Dot(1.0, 50.0, name="a"), Dot(1.0, 50.1, name="b"), Dot(9.0, 60.0, name="c")]
    drawn = str(draw(Chart("t", Axis(), Axis(), dots=dots)))
    names = re.findall(r'class="tick (\w*)" x="([\d.]+)" y="([\d.]+)">([abc])<', drawn)
    assert [name for *_, name in names] == ["c", "b", "a"]
    (side, x, _, _), (_, _, upper, _), (_, _, lower, _) = names
    assert (side, float(lower) - float(upper)) == ("end", pytest.approx(12.0))
    assert float(x) < 388


def test_a_line_at_zero_is_drawn_where_a_difference_may_have_either_sign():
    drawn = str(draw(Intervals("t", [("a against b", 2.0, (1.0, 3.0), ())], zero=True, wide=True)))
    (zero,) = re.findall(r'class="line s1" d="M([\d.]+) ', drawn)
    (value,) = re.findall(r'class="dot s0" cx="([\d.]+)"', drawn)
    assert float(zero) < float(value)


def test_an_error_bar_is_on_the_scale_of_the_dots():
    rows = [("a", 50.0, (40.0, 60.0), [40.0, 60.0]), ("b", 50.0, None, [50.0])]
    drawn = str(draw(Intervals("t", rows)))
    (bar,) = re.findall(r'class="bar-error" d="M([\d.]+) [\d.]+H([\d.]+)M', drawn)
    circles = [float(x) for x in re.findall(r'hollow s1" cx="([\d.]+)"', drawn)]
    assert [float(x) for x in bar] == circles
    means = [float(x) for x in re.findall(r'class="dot s0" cx="([\d.]+)"', drawn)]
    assert means == pytest.approx([sum(circles) / 2] * 2, abs=0.1)
