"""Plain-text tables for the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PRINCIPAL = {
    "f1",
    "exact",
    "accuracy",
    "entity_f1",
    "matthews",
    "pearson",
    "spearman",
    "at_threshold_f1",
    "at_threshold_exact",
}


# Control characters, marks that turn the direction of what follows, line and paragraph separators,
# byte order marks, halves of surrogate pairs (bytes of a file name that are no UTF-8).
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, keep: str = "") -> str:
    """Return the text on one line and in the order it is written: other characters than those in
    ``keep`` that would break lines, tables or the reading direction are shown as ``\\n`` or
    ``\\u202e``.
    """

    def shown(found: re.Match[str]) -> str:
        mark = found[0]
        return mark if mark in keep else mark.encode("unicode_escape").decode("ascii")

    return _UNPRINTABLE.sub(shown, text)


def aligned(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of equal keys as a table with a header; numbers to the right."""
    if not rows:
        return "(none)"
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    right = [all(isinstance(row[name], int | float) for row in rows) for name in names]
    names = [printable(name) for name in names]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    lines = [names, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def demo_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows whose ``X`` may come with its deviation ``X +-``, both in one column."""
    shown = []
    for row in rows:
        names = [name for name in row if not name.endswith(" +-")]
        shown.append({name: mean_with_deviation(row, name) for name in names})
    return aligned(shown)


def mean_with_deviation(row: Mapping[str, Any], name: str) -> str:
    """``58.3 ± 0.6``, or the mean alone where there is one seed."""
    value, deviation = row[name], row.get(f"{name} +-")
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" + (f" ± {deviation:.1f}" if isinstance(deviation, float) else "")


def is_principal(name: str) -> bool:
    """Whether a figure is one that papers print: ``eval/squad_v2/f1``, not ``.../total``."""
    last = name.rsplit("/", 1)[-1].removeprefix("ensemble_")
    return name.startswith("eval/") and last in _PRINCIPAL


def metric_title(name: str) -> str:
    """``at_threshold_exact`` as people say it."""
    plain = name.removeprefix("at_threshold_").removeprefix("best_")
    said = {"exact": "EM", "f1": "F1"}.get(plain, plain.replace("_", " "))
    if name.startswith("at_threshold_"):
        return f"{said} at threshold"
    return f"best {said}" if name.startswith("best_") else said


def percent(value: float) -> str:
    """A score as papers print it, with one digit more than they do."""
    return f"{value:.2f}"


def setting(value: Any) -> str:
    """A value of a configuration as it was given: 0.999 in two digits would be another one."""
    if value is None:
        return "-"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def figures(metrics: Mapping[str, float]) -> str:
    """The figures that a verb ends with: evaluations first, the principal ones only."""
    judged = {name: value for name, value in metrics.items() if name.startswith("eval/")}
    chosen = {name: value for name, value in judged.items() if is_principal(name)}
    shown = chosen or judged or metrics
    if not shown:
        return "no figures: the split has no gold to compare with"
    return aligned([{"figure": name, "value": value} for name, value in shown.items()])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2e}"
    return printable(str(value))
