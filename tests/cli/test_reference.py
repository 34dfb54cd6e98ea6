"""The configuration reference of the docs."""

import re
from pathlib import Path

from tools.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == reference(), "make reference"


MOST_KEYS = 200
"""Distinct keys of the page. Beyond it, a key more is paid with one that goes."""


def test_no_key_is_added_without_one_that_goes():
    keys = set(re.findall(r"^- \*\*`([^`]+)`", reference(), re.MULTILINE))
    assert len(keys) <= MOST_KEYS
