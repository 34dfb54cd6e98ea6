"""Print the tables of distillation.md and first-light.md from the runs of distillation.sh.

Usage: python docs/results/distillation.py RUNS   (prints Markdown)
"""

import json
import sys
from pathlib import Path

from road_ray.evaluation.seed_statistics import compare, summary
from road_ray.training.monitoring.metrics_journal import read_rows

VARIANTS = {
    "scratch": "no pre-training",
    "none": "no KD",
    "single": "one teacher",
    "mean": "mean of three",
    "correctness-0.5": "Weighted, W = 0.5",
    "correctness": "Weighted, W = 0.75",
    "correctness-0.9": "Weighted, W = 0.9",
    "annealing": "annealing, mean of three",
    "folds": "Weighted, out of fold",
    "born": "born again, second generation",
}
FIGURES = {
    "sst2": {"accuracy": "eval/sst2/accuracy"},
    "squad_v2": {
        "F1 at 0": "eval/squad_v2/f1",
        "best F1": "eval/squad_v2/best_f1",
        "best EM": "eval/squad_v2/best_exact",
        "HasAns F1": "eval/squad_v2/HasAns_f1",
        "NewsQA F1, stored threshold": "eval/newsqa/at_threshold_f1",
        "NewsQA F1, answering all": "eval/newsqa/f1",
    },
}
# The metric of the paired tests.
TESTED = {"sst2": "eval/sst2/accuracy", "squad_v2": "eval/squad_v2/best_f1"}


def metrics(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    return found


def seeds_of(place: Path, variant: str) -> dict[str, dict[str, float]]:
    """Return the metrics of a variant's finished runs by seed."""
    return {
        run.parent.name.removeprefix(f"{variant}-"): metrics(run.parent)
        for run in sorted(place.glob(f"{variant}-*/metrics.json"))
        if run.parent.name.removeprefix(f"{variant}-").isdigit()
    }


def cell(values: list[float]) -> str:
    mean, spread = summary(values)
    deviation = "" if spread is None else f" ± {spread:.1f}"
    return f"{mean:.1f}{deviation}"


def table(place: Path, dataset: str) -> str:
    """Return mean and deviation over seeds of every variant; teachers and their ensemble first."""
    figures = FIGURES[dataset]
    lines = ["| model | seeds | " + " | ".join(figures) + " |", "|---" * (len(figures) + 2) + "|"]

    def line(title: str, found: list[dict[str, float]], prefix: str = "") -> None:
        if not found:
            return
        cells = [cell([one[_prefixed(key, prefix)] for one in found]) for key in figures.values()]
        lines.append(f"| {title} | {len(found)} | " + " | ".join(cells) + " |")

    for name, title in (
        ("teachers", "teachers"),
        ("teachers-of-folds", "teachers of half the rows"),
    ):
        line(
            title,
            [metrics(p.parent) for p in sorted(place.glob(f"{name}/**/teacher-*/metrics.json"))],
        )
    if (place / "teachers" / "metrics.json").is_file():
        line("the ensemble of three", [metrics(place / "teachers")], "ensemble_")
    for variant, title in VARIANTS.items():
        line(title, list(seeds_of(place, variant).values()))
    return "\n".join(lines)


def _prefixed(key: str, prefix: str) -> str:
    head, _, metric = key.rpartition("/")
    return f"{head}/{prefix}{metric}"


def differences(place: Path, dataset: str) -> str:
    """Return paired t-tests over the common seeds, and how often teachers were right."""
    key = TESTED[dataset]
    values = {
        variant: {seed: found[key] for seed, found in seeds_of(place, variant).items()}
        for variant in VARIANTS
    }
    pairs = [
        ("none", "scratch"),
        *((variant, "none") for variant in VARIANTS if variant not in ("none", "scratch")),
    ]
    pairs += [("correctness", "mean"), ("folds", "correctness")]
    lines = []
    for one, other in pairs:
        seeds = sorted(values[one].keys() & values[other].keys())
        if len(seeds) > 1:
            test = compare(*([values[name][seed] for seed in seeds] for name in (one, other)))
            p = "equal for every seed" if test.p_value is None else f"p = {test.p_value:.2f}"
            lines.append(
                f"- {VARIANTS[one]} against {VARIANTS[other]}: {test.difference:+.2f} "
                f"over {test.pairs} seeds, {p}"
            )
    for variant in ("correctness", "folds"):
        rows = [r for p in place.glob(f"{variant}-*/metrics.jsonl") for r in read_rows(p)]
        counts = [sum(row.get(f"teachers/right_{n}", 0) for row in rows) for n in range(4)]
        if sum(counts):
            share = ", ".join(f"{n}: {count / sum(counts):.1%}" for n, count in enumerate(counts))
            lines.append(f"- teachers right on training rows, {VARIANTS[variant]}: {share}")
    return "\n".join(lines)


if __name__ == "__main__":
    runs = Path(sys.argv[1])
    for folder, dataset in (("sst2-8k", "sst2"), ("squad-2k", "squad_v2")):
        if (runs / folder).is_dir():
            place = runs / folder
            print(f"\n## {dataset}\n\n{table(place, dataset)}\n\n{differences(place, dataset)}")
