"""What became of the tests of the table when they were last run, and the figures they gave.

A test gives a figure with pytest's ``record_property("worker killed: longest gap", "9.1 s")``.
"""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("ran.json")
Ran = dict[str, dict[str, Any]]
"""By test as the table names it: ``outcome`` (passed, failed, skipped), ``seconds``, ``day``, and
``figures`` by name.
"""


class Recorder:
    """A pytest plug-in: the outcome of each test, its parameters taken together."""

    def __init__(self) -> None:
        self.ran: Ran = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.split("[")[0].removeprefix("tests/")
        day = datetime.now(UTC).date().isoformat()
        entry = self.ran.setdefault(name, {"outcome": "passed", "seconds": 0.0, "day": day})
        entry["seconds"] = round(entry["seconds"] + report.duration, 1)
        if report.outcome != "passed" and entry["outcome"] != "failed":
            entry["outcome"] = report.outcome
        if report.when == "teardown" and report.user_properties:
            entry.setdefault("figures", {}).update(report.user_properties)

    def pytest_runtest_logfinish(self) -> None:
        """Kept at once: a later test may take the whole process with it."""
        keep(read() | self.ran)


def read() -> Ran:
    """The record as it is kept."""
    ran: Ran = _kept()["tests"]
    return ran


def where() -> str:
    """The machine of the last runs."""
    return str(_kept()["machine"])


def _kept() -> dict[str, Any]:
    if not RECORD.is_file():
        return {"machine": "none yet", "tests": {}}
    original: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return original


def run(names: list[str]) -> None:
    """Run these tests, as the table names them, in one process, and keep what became of them."""
    paths = [str(ROOT / "tests" / name) for name in names]
    # Patient: what is slow on a busy machine is not broken.
    options = ["-q", "-m", "", "-p", "no:cacheprovider", "--timeout=900"]
    pytest.main([*options, *paths], plugins=[Recorder()])


def keep(ran: Ran) -> None:
    """Write the record."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    body = {"machine": machine, "tests": dict(sorted(ran.items()))}
    RECORD.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
