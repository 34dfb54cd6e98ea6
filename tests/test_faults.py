"""The table of faults names tests that exist; the page is what became of them."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS.parent))
from tests.chaos.__main__ import FAULTS, PAGE, lacking, page, recorded  # noqa: E402
from tests.docs.test_links import definitions  # noqa: E402


def test_every_test_of_the_table_exists():
    tests = [test.split("::", 1) for fault in FAULTS.values() for test in fault["tests"]]
    defined = [name.replace("::", ".") in definitions(TESTS / path) for path, name in tests]
    assert [test for test, is_there in zip(tests, defined, strict=True) if not is_there] == []
    assert all(fault["tests"] for fault in FAULTS.values())


def test_all_faults_are_there_once_in_their_order():
    assert [*FAULTS] == [f"F{number:02}" for number in range(1, 97)]


def test_the_page_is_that_of_the_last_runs():
    """Made anew without running anything: ``python -m tests.chaos page``."""
    assert PAGE.read_text(encoding="utf-8") == page(*recorded())


def test_a_fault_is_passed_only_when_all_its_tests_were_seen_to_pass():
    fault = "a.py::test_b", "a.py::test_c"
    good, bad = {"outcome": "passed"}, {"outcome": "failed"}
    assert lacking(fault, {"a.py::test_b": good, "a.py::test_c": good}) == ""
    assert lacking(fault, {"a.py::test_b": good, "a.py::test_c": bad}) == "`test_c` failed"
    assert lacking(fault, {"a.py::test_b": good}) == "`test_c` not run"
