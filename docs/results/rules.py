"""Tables of rules.md, from the comparisons of rules.sh: scores, tests with Holm's correction over
all of them, and the histogram of right teachers.

Usage: python docs/results/rules.py RUNS     (prints Markdown)
"""

import json
import sys
from pathlib import Path
from typing import Any

from road_ray.evaluation.seed_statistics import holm
from road_ray.reporting.text_tables import probability

METRIC = "sst2/accuracy"
TITLES = {"noisy": "1,000 labels", "few": "300 labels", "folds": "1,000 labels"}


def comparisons(place: Path) -> dict[str, dict[str, Any]]:
    """Return the finished comparisons by name."""
    found = {name: place / name / "table.json" for name in TITLES}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path.is_file()}


def _figure(figure: dict[str, Any]) -> str:
    return f"{figure['mean']:.1f} ± {figure['deviation']:.1f}"


def arms(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row for each arm: its score, and the share of rows by number of right teachers."""
    lines = ["| rows | arm | seeds | accuracy | 0 right | 1 | 2 | 3 |", "|---" * 8 + "|"]
    for name, table in found.items():
        for arm in table["arms"]:
            right = [f"{one:.0%}" for one in arm["teachers_right"] or []] or [""] * 4
            score = _figure(arm["figures"][METRIC])
            cells = [TITLES[name], arm["about"], str(len(arm["seeds"])), score, *right]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def ensembles(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row for the single teachers of a comparison, and one for their ensemble."""
    lines = ["| teachers | rows | accuracy |", "|---" * 3 + "|"]
    for name, table in found.items():
        for one in table["teachers"]:
            figure = one["figures"].get(METRIC)
            if figure is not None:
                score = f"{figure['mean']:.1f}" if figure["deviation"] is None else _figure(figure)
                lines.append("| " + " | ".join([one["name"], TITLES[name], score]) + " |")
    return lines


def tests(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a row for each test; Holm's correction is over all of the page."""
    rows = [(name, test) for name, table in found.items() for test in table["tests"]]
    corrected = holm([test["p_value"] for _, test in rows])
    head = (
        "| rows | arm | against | difference | 95% interval | p | p (Holm) | seeds for 80% power |"
    )
    lines = [head, "|---" * 8 + "|"]
    for (name, test), p_holm in zip(rows, corrected, strict=True):
        about = {arm["name"]: arm["about"] for arm in found[name]["arms"]}
        needed = test["needed_pairs"]
        cells = [
            *(TITLES[name], about[test["arm"]], about[test["against"]]),
            f"{test['difference']:+.2f}",
            f"{test['low']:+.2f} to {test['high']:+.2f}",
            *(probability(test["p_value"]), probability(p_holm)),
            "over 100,000" if needed is None else f"{needed:,}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    read = comparisons(Path(sys.argv[1]))
    print("\n".join([*arms(read), "", *ensembles(read), "", *tests(read)]))
