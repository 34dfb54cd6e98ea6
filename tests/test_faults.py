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
def everywhere() -> set[str]:
    """Names of all tests; one that has moved to another file is still there."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(node.name)
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_test_of_the_table_exists(fault):
    for test in fault.tests:
        assert test.rsplit("::", 1)[-1] in everywhere(), test


def test_all_faults_are_there_once_in_their_order():
    assert [fault.name for fault in FAULTS] == [f"F{number:02}" for number in range(1, 53)]


def test_what_is_not_shown_says_why():
    assert [fault.name for fault in FAULTS if not fault.passed and not fault.lacks] == []


def test_the_page_has_every_fault():
    rows = [line for line in page({}).splitlines() if line.startswith("| F")]
    assert len(rows) == 52
    written = [line for line in PAGE.read_text(encoding="utf-8").splitlines()]
    assert [line[:5] for line in written if line.startswith("| F")] == [row[:5] for row in rows]
