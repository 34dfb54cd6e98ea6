"""``python -m tests.chaos [F08 chaos/test_nodes ...]`` runs the tests of these faults or names (all
without arguments) and writes docs/reliability.md from the results. ``page`` writes it from the last
results; ``soak MINUTES`` trains under random faults.
"""

import json
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chaos.damage import FREE
from tests.chaos.subjects import SUBJECTS

FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
"""What road_ray is held to, by name: ``what`` happens, what is ``expected``, ``tests``."""

MUTATIONS = "chaos/test_mutations.py::test_a_damaged_file_changes_no_result_and_is_named"
BESIDES = {  # no faults, but as long as those
    "FS": "chaos/test_secrets.py::test_no_secret_is_in_what_runs_and_reports_leave",
    "FT": "distributed/test_connection.py::test_an_open_cluster_is_refused_unless_that_is_meant",
    "FF": "distributed/test_connection.py::test_a_token_that_others_can_read_is_closed",
}
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
RECORD = Path(__file__).with_name("ran.json")
Ran = dict[str, dict[str, Any]]
"""By test as the table names it: ``outcome`` (passed, failed, skipped), ``seconds``, ``day``, and
``figures`` by name.
"""


class Recorder:
    """A pytest plug-in: the outcome of each test, its parameters taken together, and its figures,
    as ``record_property("worker killed: longest gap", "9.1 s")`` gives them.
    """

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
        ran = recorded()[0] | self.ran
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        body = {"machine": machine, "tests": dict(sorted(ran.items()))}
        RECORD.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def recorded() -> tuple[Ran, str]:
    """The record as it is kept, and the machine of the last runs."""
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    return kept["tests"], kept["machine"]


def run(names: list[str]) -> None:
    """Run these tests, as the table names them, in one process, and keep what became of them."""
    paths = [str(ROOT / "tests" / name) for name in names]
    # Patient: what is slow on a busy machine is not broken.
    options = ["-q", "-m", "", "-p", "no:cacheprovider", "--timeout=900"]
    pytest.main([*options, *paths], plugins=[Recorder()])


def lacking(tests: Sequence[str], ran: Ran) -> str:
    """Return the reason why a fault with these tests does not count as survived; empty if it
    does.
    """
    odd = {test: ran.get(test, {}).get("outcome", "not run") for test in tests}
    return "; ".join(
        f"`{test.rsplit('::', 1)[-1]}` {outcome}"
        for test, outcome in odd.items()
        if outcome != "passed"
    )


def page(ran: Ran, machine: str) -> str:
    """Return the page in Markdown."""
    why = {name: lacking(fault["tests"], ran) for name, fault in FAULTS.items()}
    rows = [
        f"| {name} | {fault['what']} | {fault['expected']} | "
        + (f"**no**: {why[name]}" if why[name] else "yes")
        + f" | {'<br>'.join(f'`{test}`' for test in fault['tests'])} |"
        for name, fault in FAULTS.items()
    ]
    figures: dict[str, Any] = defaultdict(lambda: "not measured yet")
    for entry in ran.values():
        figures |= entry.get("figures", {})
    return (
        (Path(__file__).with_name("page.md"))
        .read_text(encoding="utf-8")
        .format(
            passed=sum(not reason for reason in why.values()),
            count=len(FAULTS),
            faults="\n".join(rows),
            machine=machine,
            days=_days(ran),
            mutations=mutations(ran),
            free="\n".join(f"- `{name}`: {why}" for name, why in FREE.items()),
            figures=figures,
        )
    )


def mutations(ran: Ran) -> str:
    """Return the table of damaged files: a row for each object, a column for each damage."""
    figures = ran.get(MUTATIONS, {}).get("figures", {})
    damages = list(dict.fromkeys(name.split(": ")[1] for name in figures))
    lines = [
        f"| {' | '.join(['', *damages])} |",
        f"|{'---|' * (1 + len(damages))}",
        *(
            f"| {what} | "
            + " | ".join(figures.get(f"{subject}: {damage}", "-") for damage in damages)
            + " |"
            for subject, what in SUBJECTS.items()
        ),
    ]
    return "\n".join(lines) if figures else "Not run yet."


def _days(ran: Ran) -> str:
    days = sorted({entry["day"] for entry in ran.values()})
    return "never" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def main(*words: str) -> None:
    """Run the chosen tests, then write the page."""
    if words[:1] == ("soak",):
        from tests.chaos.soak import main as soak

        soak(float(words[1]))
        return
    if words != ("page",):
        chosen = words or ("F",)
        names = [(name, test) for name, fault in FAULTS.items() for test in fault["tests"]]
        names += BESIDES.items()
        tests = [test for name, test in names if any(word in f"{name} {test}" for word in chosen)]
        run(list(dict.fromkeys(tests)))
    ran, machine = recorded()
    PAGE.write_text(page(ran, machine), encoding="utf-8")
    odd = {name: why for name in FAULTS if (why := lacking(FAULTS[name]["tests"], ran))}
    print(*(f"{name}: {why}" for name, why in odd.items()), sep="\n")
    print(f"{PAGE}: {len(FAULTS) - len(odd)} of {len(FAULTS)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
