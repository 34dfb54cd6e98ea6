"""Labels of a table: as text, and the numbers that stand for a hidden one."""

from __future__ import annotations

import json


def label_text(value: object) -> str:
    """Return a label as text: truth values, numbers and lists as JSON has them; decimals, dates and
    all else as Python has them.
    """
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, default=str)
    return str(value)


def below_zero(label: str) -> bool:
    """Return True for a number below 0, by which data sets hide a label."""
    try:
        return float(label) < 0
    except ValueError:
        return False
