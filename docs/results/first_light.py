"""Draw the picture of first-light.md from the runs of first-light.sh.

distillation.py prints the tables of that page.

Usage: python docs/results/first_light.py RUNS   (writes first-light.png beside itself)
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from road_ray.training.monitoring.metrics_journal import read_rows


def curves(runs: Path) -> None:
    """Draw MLM loss, MLM accuracy and detection AUC over tokens."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6))
    panels = (("loss of the masked language model", "mlm", "generator"),
              ("its accuracy", "mlm_accuracy", "generator_accuracy"),
              ("detection: area under the ROC curve", None, "detection_auc"))  # fmt: skip
    for axis, (title, first, second) in zip(axes, panels, strict=True):
        for stage, name, per_step in (
            ("mlm-256", first, 16 * 64),
            ("electra-256", second, 16 * 128),
        ):
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


if __name__ == "__main__":
    curves(Path(sys.argv[1]))
