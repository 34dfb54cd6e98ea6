"""``python -m tests.chaos [F08 chaos/test_nodes ...]`` runs the tests of these faults or names (all
without arguments) and writes docs/reliability.md from the results. ``page`` writes it from the last
results; ``soak MINUTES`` trains under random faults.
"""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.chaos import record
from tests.chaos.damage import FREE
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.subjects import SUBJECTS

MUTATIONS = "chaos/test_mutations.py::test_a_damaged_file_changes_no_result_and_is_named"
BESIDES = {  # no faults, but as long as those
    "FS": "chaos/test_secrets.py::test_no_secret_is_in_what_runs_and_reports_leave",
    "FT": "distributed/test_connection.py::test_an_open_cluster_is_refused_unless_that_is_meant",
    "FF": "distributed/test_connection.py::test_a_token_that_others_can_read_is_closed",
}
PAGE = record.ROOT / "docs" / "reliability.md"


def lacking(fault: Fault, ran: record.Ran) -> str:
    """Return the reason why a fault does not count as survived; empty if it does."""
    if fault.lacks or not fault.tests:
        return fault.lacks or "no test yet"
    odd = {test: ran.get(test, {}).get("outcome", "not run") for test in fault.tests}
    return "; ".join(
        f"`{test.rsplit('::', 1)[-1]}` {outcome}"
        for test, outcome in odd.items()
        if outcome != "passed"
    )


def page(ran: record.Ran, machine: str) -> str:
    """Return the page in Markdown."""
    why = {fault.name: lacking(fault, ran) for fault in FAULTS}
    rows = [
        f"| {fault.name} | {fault.what} | {fault.expected} | "
        + (f"**no**: {why[fault.name]}" if why[fault.name] else "yes")
        + f" | {'<br>'.join(f'`{test}`' for test in fault.tests)} |"
        for fault in FAULTS
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


def mutations(ran: record.Ran) -> str:
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


def _days(ran: record.Ran) -> str:
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
        names = [(fault.name, test) for fault in FAULTS for test in fault.tests]
        names += BESIDES.items()
        tests = [test for name, test in names if any(word in f"{name} {test}" for word in chosen)]
        record.run(list(dict.fromkeys(tests)))
    ran = record.read()
    PAGE.write_text(page(ran, record.where()), encoding="utf-8")
    for fault in FAULTS:
        if why := lacking(fault, ran):
            print(f"{fault.name}: {why}")
    print(f"{PAGE}: {sum(not lacking(fault, ran) for fault in FAULTS)} of {len(FAULTS)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
