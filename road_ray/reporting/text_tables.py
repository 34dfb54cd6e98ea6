"""Plain-text tables for the terminal."""

import re
from collections.abc import Mapping, Sequence

# Metrics that are not principal; others may be a user's own.
_SECONDARY = re.compile(
    "(at_threshold_)?((HasAns|NoAns)_.*|total|subset_accuracy)|at_threshold_(samples_f1|f1_of_.*)"
    "|(best|no_answer|majority|truncated)_.*|(answerability|quac_.*)_accuracy|predicted_labels|lrap"
    "|entity_(precision|recall)|temperature|ece(_calibrated)?|threshold|.*_(deviation|median|best)"
)
# Ends of the names of scores of always predicting the most frequent label.
BASELINES = ("/majority_accuracy", "/majority_micro_f1")
# Control characters, marks that change the reading direction, line and paragraph separators,
# byte order marks, lone surrogates (bytes of a file name that are not UTF-8).
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str, keep: str = "") -> str:
    """Return the text on one line and in reading order: characters that would break lines, tables
    or the reading direction are shown as ``\\n`` or ``\\u202e``, except for those in ``keep``.
    """
    for mark in {*_UNPRINTABLE.findall(text)} - {*keep}:
        text = text.replace(mark, mark.encode("unicode_escape").decode("ascii"))
    return text


def aligned(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows with equal keys as a table with a header; numbers are right-aligned."""
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


def probability(value: float) -> str:
    """Return a p value with four decimals: three would show 0.0495 as 0.050."""
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def duration(seconds: float) -> str:
    """Return a duration as ``95.0 s``, ``12.5 min`` or ``3.4 h``."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def is_principal(name: str) -> bool:
    """Return True for principal metrics and own ones: ``eval/squad_v2/f1``, not ``.../total``."""
    last = name.split("/", 2)[-1].removeprefix("ensemble_")
    return name.startswith("eval/") and not _SECONDARY.fullmatch(last)


def notes(metrics: Mapping[str, object]) -> list[str]:
    """Return what makes principal metrics misleading: a model that predicts one label for every
    row or word, rows that were truncated.
    """
    found = []
    for name, value in metrics.items():
        dataset, _, last = name.removeprefix("eval/").rpartition("/")
        several = f"eval/{dataset}/majority_micro_f1" in metrics
        if last == "predicted_labels" and value in (0, 1):
            what = "one label for every row" if value == 1 else "no label for any row"
            what = "only one of the labels" if several and value == 1 else what
            what = "one tag for every word" if f"eval/{dataset}/entity_f1" in metrics else what
            found.append(f"{dataset}: the model predicts {what}")
        if last == "truncated_rows" and isinstance(value, int | float) and value:
            what = "training rows" if name.startswith("data/") else "rows"
            dataset = dataset.removeprefix("data/")
            share = metrics.get(f"{name.rpartition('/')[0]}/truncated_tokens_percent")
            lost = f", {share:.1f}% of all tokens" if isinstance(share, float) else ""
            found.append(
                f"{dataset}: {value:,.0f} {what} are truncated{lost} (data.max_length_tokens)"
            )
    return found


def metric_title(name: str) -> str:
    """Return the display name of a metric: ``at_threshold_exact`` is ``EM at threshold``."""
    plain = name.removeprefix("at_threshold_").removeprefix("best_")
    title = {"exact": "EM", "f1": "F1"}.get(plain, plain.replace("_", " "))
    if name.startswith("at_threshold_"):
        return f"{title} at threshold"
    return f"best {title}" if name.startswith("best_") else title


def metrics_table(metrics: Mapping[str, float]) -> str:
    """Return the table of metrics that a verb prints at its end: the principal evaluation metrics
    if there are any, those of several runs with their deviation, median and best, and GLUE's.
    """
    evaluated = [name for name in metrics if name.startswith("eval/")]
    chosen = [name for name in evaluated if is_principal(name) or name.endswith(BASELINES)]
    chosen += [name for name in ("glue/electra", "glue/leaderboard") if name in metrics]
    shown = chosen or evaluated or list(metrics)
    if not shown:
        return "no metrics: the split has no labels to compare with"
    spread = ("deviation", "median", "best")
    known = [kind for kind in spread if any(metrics.get(f"{name}_{kind}") for name in shown)]
    rows = [
        {"metric": n, "value": metrics[n]} | {kind: metrics.get(f"{n}_{kind}") for kind in known}
        for n in shown
    ]
    return "\n".join([aligned(rows), *(f"note: {note}" for note in notes(metrics))])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2e}"
    return printable(str(value))
