"""Print the table of multitask.md from the runs of multitask.sh.

Usage: python docs/results/multitask.py RUNS   (prints Markdown)
"""

import json
import sys
from pathlib import Path

from road_ray.evaluation.seed_statistics import compare, summary

ARMS = ("none", "mtdnn", "passes-1", "passes-2", "passes-4", "passes-8")
FIGURES = (
    ("sst2", "eval/sst2/accuracy", "SST-2 accuracy"),
    ("mnli", "eval/mnli/accuracy", "MNLI accuracy"),
    ("mnli", "eval/snli/accuracy", "SNLI accuracy"),
    ("squad_v2", "eval/squad_v2/best_f1", "SQuAD 2.0 F1 (best)"),
    ("squad_v2", "eval/newsqa/f1", "NewsQA F1"),
)


def scores(runs: Path, arm: str, name: str, figure: str) -> dict[int, float]:
    """Return the metric of an arm by seed."""
    found = {}
    for path in sorted(runs.glob(f"{arm}-[0-9]*-{name}/metrics.json")):
        seed = int(path.parent.name.removeprefix(f"{arm}-").removesuffix(f"-{name}"))
        found[seed] = float(json.loads(path.read_text(encoding="utf-8"))[figure])
    return found


def cell(ours: dict[int, float], base: dict[int, float]) -> str:
    """Return mean, deviation, and the paired test against the arm without a multi-task stage."""
    if not ours:
        return "-"
    mean, spread = summary(list(ours.values()))
    text = f"{mean:.2f}"
    text += "" if spread is None else f" ± {spread:.2f} (n={len(ours)})"
    both = sorted(ours.keys() & base.keys())
    if ours is not base and len(both) > 1:
        test = compare([ours[seed] for seed in both], [base[seed] for seed in both])
        p = "equal for every seed" if test.p_value is None else f"p={test.p_value:.2f}"
        text += f", {test.difference:+.2f}, {p}"
    return text


def main(runs: Path) -> None:
    """Print one row per arm."""
    print("| arm | " + " | ".join(title for *_, title in FIGURES) + " |")
    print("|---" * (1 + len(FIGURES)) + "|")
    bases = [scores(runs, "none", name, figure) for name, figure, _ in FIGURES]
    for arm in ARMS:
        found = [
            base if arm == "none" else scores(runs, arm, name, figure)
            for base, (name, figure, _) in zip(bases, FIGURES, strict=True)
        ]
        cells = [cell(ours, base) for ours, base in zip(found, bases, strict=True)]
        print(f"| {arm} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
