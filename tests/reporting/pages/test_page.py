"""A page is self-contained and escapes foreign text."""

import re

import pytest

from road_ray.errors import ResourceError
from road_ray.reporting.pages.page import (
    Cell,
    Example,
    Folded,
    Page,
    Section,
    Table,
    render,
)
from road_ray.reporting.plots import new_plot
from road_ray.system.files import write_atomic

EVIL = "<script>alert(1)</script>"
PLOT = new_plot(EVIL, EVIL, note=EVIL)
BLOCKS = [
    Table([EVIL], [[EVIL], [Cell(EVIL, EVIL, strong=True)]], live=True, trials=[1, 2], note=EVIL),
    [PLOT],
    EVIL,
    [EVIL],
    Table([EVIL], [[Cell(EVIL, state="fair")]]),
    [Cell(EVIL, state="good")],
    [Example(EVIL, [EVIL, EVIL, EVIL], EVIL, EVIL, EVIL)],
    Folded(EVIL, EVIL),
]


def test_text_of_others_is_text_in_every_block_and_nothing_is_asked_of_a_network():
    page = Page(EVIL, EVIL, EVIL, [(EVIL, EVIL, EVIL)], [Section(EVIL, BLOCKS, EVIL)])
    html = render(page)
    assert html.count("<script>") == 1  # our own
    assert "alert(1)</script>" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 20
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", html.replace("http-equiv", ""))
    assert "default-src 'none'" in html


def test_paths_and_keys_break_between_their_parts():
    html = render(Page("t", sections=[Section("s", [Table(["a"], [["a/b.c_d & 0.5"]])])]))
    assert "<td>a/<wbr>b.<wbr>c_<wbr>d &amp; 0.5</td>" in html


def test_tables_sort_by_value_and_link_to_figures():
    html = render(Page("t", sections=[Section("s", [Table(["a"], [[0.5]], True, [7])])]))
    assert '<tr id="trial-7"><td data-v="0.5" class="n">0.50</td></tr>' in html


def test_a_page_that_finds_no_room_leaves_nothing(small_disk):
    place = small_disk(64)
    (place / "filler").write_bytes(bytes(40_000))
    with pytest.raises(ResourceError, match="No space left"):
        write_atomic(place / "report.html", render(Page("t", about="a" * 100_000)))
    assert [path.name for path in place.iterdir()] == ["filler"]
