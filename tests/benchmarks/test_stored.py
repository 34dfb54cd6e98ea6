"""The figures of the store have the sizes that arithmetic gives."""

from __future__ import annotations

from tests.benchmarks import stored


def test_the_store_is_measured():
    figures = {name: stored.measured(name, rows=100, length=16) for name in ("mrc", "sentiment")}
    for each in figures.values():
        assert each["read"] > 0
        assert each["written"] > 0
    sizes = [figures[name]["bytes_a_row_and_teacher"] for name in ("mrc", "sentiment")]
    # Of 4 to 16 tokens a row two numbers each, against two numbers: two bytes a number.
    assert 2 * 2 * 4 - 4 < sizes[0] - sizes[1] < 2 * 2 * 16 - 4
