"""Labels of any type as text, and those that hide one."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from road_ray.data.readers.parts.labels import below_zero, label_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((True, "true"), (3, "3"), (2.5, "2.5"), ("no", "no"), ([1, "a"], '[1, "a"]')),
        *((Decimal("4"), "4"), (date(2026, 1, 2), "2026-01-02"), (b"x", "b'x'")),
    ],
)
def test_label_text_of_every_type(value, text):
    assert label_text(value) == text


def test_below_zero_is_a_number():
    assert [below_zero(text) for text in ("-1", "-1.0", "0", "-0.0", "-", "", "no", "1-2")] == [
        *(True, True, False, False, False, False, False, False),
    ]
