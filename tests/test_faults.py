"""The table of faults names tests that exist, and the page is made of it."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS.parent))
from tests.chaos.__main__ import PAGE, page  # noqa: E402
from tests.chaos.faults import FAULTS  # noqa: E402


@cache
def names(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            found |= {f"{node.name}::{one.name}" for one in inner}
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_test_of_the_table_exists(fault):
    for test in fault.tests:
        path, _, name = test.partition("::")
        assert (TESTS / path).is_file(), test
        assert name in names(TESTS / path), test


def test_all_faults_are_there_once_in_their_order():
    assert [fault.name for fault in FAULTS] == [f"F{number:02}" for number in range(1, 53)]


def test_what_is_not_shown_says_why():
    assert [fault.name for fault in FAULTS if not fault.passed and not fault.lacks] == []


def test_the_page_is_that_of_the_table():
    rows = [line for line in page({}).splitlines() if line.startswith("| F")]
    assert len(rows) == 52
    written = PAGE.read_text(encoding="utf-8")
    assert all(row in written for row in rows), "run python -m tests.chaos"
