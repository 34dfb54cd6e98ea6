"""Plots as inline SVG, and as files."""

from xml.etree import ElementTree

import pytest

from road_ray.reporting.plots import (
    add_legend,
    inline_svg,
    intervals,
    link_trials,
    new_plot,
    rank_colors,
    save_plots,
)

EVIL = "$\\frac$<script>alert(1)</script>\u202e"
XML = 'xmlns:xlink="http://www.w3.org/1999/xlink"'


def marks():
    plot = new_plot(EVIL, EVIL, EVIL)
    dots = plot.axes.scatter([0.0, 0.5, 1.0], [0.0, 0.5, 1.0], color=rank_colors([0.0, None, 1.0]))
    link_trials(dots, [3, 5, 8])
    for name in (EVIL, "b"):
        plot.axes.plot([0.0, 1.0], [1.0, 2.0], label=name)
    add_legend(plot)
    return plot


def bars():
    rows = [(EVIL, 62.0, (61.0, 63.5), [61.0, 63.0]), ("b", 64.0, None, [64.0])]
    return intervals("F1: a/b", rows, zero=True)


def test_a_legend_fits_its_plot():
    plot = new_plot("t", "step")
    for number in range(8):
        plot.axes.plot([1.0, 2.0], [1.0, 2.0], label=f"fold-{number}/teacher-of-it")
    add_legend(plot)
    inline_svg(plot)  # draws it
    (legend,) = plot.figure.legends
    assert legend.get_window_extent().width < plot.figure.bbox.width
    assert all(place == round(place) for place in plot.axes.get_xticks())


@pytest.mark.parametrize("make", [marks, bars])
def test_text_of_others_is_text(make):
    svg = str(inline_svg(make()))
    ElementTree.fromstring(svg.replace("<svg", f"<svg {XML}", 1))
    assert "<script" not in svg
    assert "$\\frac$" in svg
    assert "\u202e" not in svg


def test_marks_of_trials_carry_their_numbers_in_order():
    root = ElementTree.fromstring(str(inline_svg(marks())).replace("<svg", f"<svg {XML}", 1))
    links = [link for link in root.iter() if link.tag.endswith("a")]
    assert [[*link.attrib.values()] for link in links] == [["#trial-3"], ["#trial-5"], ["#trial-8"]]
    across = [float(mark.get("x")) for link in links for mark in link.iter() if mark.get("x")]
    assert across == sorted(across)


def test_intervals_are_at_their_values():
    axes = bars().axes
    (bar,) = [c.get_segments()[0] for c in axes.collections if hasattr(c, "get_segments")]
    assert [point[0] for point in bar] == [61.0, 63.5]
    assert [label.get_text() for label in axes.get_yticklabels()][1] == "b"
    assert axes.get_xlim()[0] < 0.0 < axes.get_xlim()[1]


def test_files_are_named_after_their_titles_and_are_the_same_again(tmp_path):
    first, again = (save_plots([marks(), bars()], tmp_path / name, "svg") for name in "ab")
    assert first[1].name == "02-f1-a-b.svg"
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert "F1: a/b" in first[1].read_text()
    for kind, start in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        for path in save_plots([marks(), bars()], tmp_path, kind):
            assert path.read_bytes().startswith(start)
