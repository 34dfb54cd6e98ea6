"""The pictures and the tables of first-light.md from the run directories that first-light.sh left.

Usage: python docs/results/first_light.py RUNS   (writes first-light.png beside itself, prints
Markdown)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from road_ray.evaluation.metrics import paired_test, summary
from road_ray.training.journal import read_rows

KINDS = {
    "none": "no KD",
    "mean": "mean KD",
    "correctness": "Weighted KD",
    "scratch": "no pre-training",
}
FIGURES = {
    "sst2": {"accuracy": "eval/sst2/accuracy"},
    "squad": {
        "SQuAD F1": "eval/squad_v2/f1",
        "best F1": "eval/squad_v2/best_f1",
        "best EM": "eval/squad_v2/best_exact",
        "HasAns F1": "eval/squad_v2/HasAns_f1",
        "NewsQA F1 at stored threshold": "eval/newsqa/at_threshold_f1",
        "NewsQA F1 answering all": "eval/newsqa/f1",
    },
}


def curves(runs: Path) -> None:
    """Generator, detector and speed over tokens seen."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6))
    panels = (("loss of the masked language model", "mlm", "generator"),
              ("its accuracy", "mlm_accuracy", "generator_accuracy"),
              ("detection: area under the ROC curve", None, "detection_auc"))  # fmt: skip
    for axis, (title, first, second) in zip(axes, panels, strict=True):
        for stage, name, per_step in (("mlm", first, 32 * 32), ("electra", second, 16 * 128)):
            if name is None:
                continue
            rows = [r for r in read_rows(runs / stage / "metrics.jsonl") if f"train/{name}" in r]
            tokens = [row["step"] * per_step / 1e6 for row in rows]
            axis.plot(tokens, [row[f"train/{name}"] for row in rows], label=stage)
        axis.set(title=title, xlabel="million tokens of the stage")
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("first-light.png"), dpi=110)


def table(runs: Path, name: str) -> str:
    """Mean and deviation over seeds of every kind of model, as Markdown."""
    figures = FIGURES[name]
    lines = ["| model | seeds | " + " | ".join(figures) + " |", "|---" * (len(figures) + 2) + "|"]
    for number in range(3):
        lines.append(
            _line(f"teacher {number}", [runs / name / "teachers" / f"teacher-{number}"], figures)
        )
    for kind, title in KINDS.items():
        found = sorted(p for p in (runs / name).glob(f"{kind}-*") if (p / "metrics.json").is_file())
        if found:
            lines.append(_line(title, found, figures))
    return "\n".join(lines)


def _line(title: str, runs: list[Path], figures: dict[str, str]) -> str:
    metrics = [json.loads((run / "metrics.json").read_text()) for run in runs]
    cells = []
    for figure in figures.values():
        spread = summary([one[figure] for one in metrics])
        cells.append(
            f"{spread.mean:.1f}"
            + ("" if spread.deviation is None else f" ± {spread.deviation:.1f}")
        )
    return f"| {title} | {len(runs)} | " + " | ".join(cells) + " |"


def tests(runs: Path, name: str) -> str:
    """Paired t-tests over the seeds both have, and how many teachers were right."""
    figure = next(iter(FIGURES[name].values()))
    values: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for found in (runs / name).glob(f"{kind}-*/metrics.json"):
            seed = found.parent.name.rpartition("-")[2]
            values[kind][seed] = json.loads(found.read_text())[figure]
    pairs = (
        ("mean", "none"),
        ("correctness", "none"),
        ("correctness", "mean"),
        ("none", "scratch"),
    )
    lines = []
    for one, other in pairs:
        seeds = sorted(values[one].keys() & values[other].keys())
        if len(seeds) > 1:
            left, right = ([values[kind][seed] for seed in seeds] for kind in (one, other))
            test = paired_test(left, right)
            lines.append(
                f"- {KINDS[one]} against {KINDS[other]}: {test.difference:+.2f} over {test.pairs} "
                f"seeds, p = {test.p_value:.2f} (paired t-test)"
            )
    journals = (runs / name).glob("correctness-*/metrics.jsonl")
    rows = [row for journal in journals for row in read_rows(journal)]
    counts = [sum(row.get(f"teachers/right_{n}", 0) for row in rows) for n in range(4)]
    share = ", ".join(f"{n}: {count / max(sum(counts), 1):.1%}" for n, count in enumerate(counts))
    waits = [
        row["time/teacher_wait_seconds"] / row["time/step_seconds"]
        for row in rows
        if "time/teacher_wait_seconds" in row
    ]
    lines.append(f"- teachers right on training rows: {share}")
    lines.append(f"- share of a step spent in the teachers: {sum(waits) / max(len(waits), 1):.0%}")
    return "\n".join(lines)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    curves(place)
    for task in FIGURES:
        if (place / task).is_dir():
            print(f"\n## {task}\n\n{table(place, task)}\n\n{tests(place, task)}")
