"""Table and pictures of the overview (README.md), from the stored figures in overview.json.

Usage: python docs/results/overview.py     (writes the table into README.md, overview-*.png, and
road-distillation.png from road-distillation.json)

A figure of a claim is one of: ``left`` and ``right``, the scores of each seed; ``difference`` with
``p_value`` of a paired t-test and ``seeds``; or ``left`` and ``right`` as [mean, deviation] with
``seeds``, without pairs. ``pending`` names a campaign that has not finished; ``learnt: false`` is a
comparison of models that learnt nothing, from whose deviation no number of seeds follows; ``unit``
is what a pair is, where it is no seed.
"""

import json
import re
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from road_ray.evaluation.seed_statistics import compare, needed_pairs

HERE = Path(__file__).parent
BEGIN, END = "<!-- directions: overview.py writes this table -->", "<!-- end of directions -->"
GOOD, BAD, OPEN, PUBLISHED = "#12855f", "#b8334a", "#5c6878", "#d1600a"


@dataclass(frozen=True)
class Effect:
    """A measured difference with its 95% interval, and the standard deviation of the differences
    between two seeds' runs.
    """

    difference: float
    low: float
    high: float
    deviation: float


def effect(row: dict[str, Any]) -> Effect:
    """Return the effect of one figure."""
    from scipy.stats import t

    if "p_value" in row:  # the t statistic of a rounded p: the interval is approximate
        count, gap = row["seeds"], row["difference"]
        error = abs(gap) / float(t.isf(row["p_value"] / 2, count - 1))
        half = error * float(t.ppf(0.975, count - 1))
        return Effect(gap, gap - half, gap + half, error * sqrt(count))
    left, right = row["left"], row["right"]
    if "seeds" in row:  # means and deviations: an unpaired test with equal numbers of seeds
        gap, count = left[0] - right[0], row["seeds"]
        spread = sqrt(left[1] ** 2 + right[1] ** 2)
        half = float(t.ppf(0.975, 2 * count - 2)) * spread / sqrt(count)
        return Effect(gap, gap - half, gap + half, spread)
    test = compare(left, right)
    spread = float((np.asarray(left) - np.asarray(right)).std(ddof=1))
    return Effect(test.difference, test.low, test.high, spread)


def verdict(found: Effect, published: float) -> str:
    """Return ``agrees`` or ``disagrees`` for an interval without zero, else ``cannot tell``."""
    if found.low <= 0 <= found.high:
        return "cannot tell"
    return "agrees" if found.difference * published > 0 else "disagrees"


def seeds_needed(found: Effect, published: float) -> str:
    """Return the seeds that show an effect of the published size with 80% power."""
    count = needed_pairs(published / found.deviation) if found.deviation else 2
    return f"{count:,}" if count else "over 100,000"


def table(figures: dict[str, Any]) -> str:
    """Return a row for each claim and each place where it was tested."""
    lines = [
        "| claim | published | where we tested it | ours, 95% interval | | seeds needed |",
        "|---|---|---|---|---|---|",
    ]
    for claim in figures["claims"]:
        size = claim["published"]["difference"]
        head = [claim["claim"], claim["published"]["text"]]
        for row in claim["ours"]:
            where = f"[{row['where']}]({row['page']})"
            if "pending" in row:
                cells = [where, f"not run to its end: `{row['pending']}`", "", ""]
            else:
                one = effect(row)
                if "unit" not in row:
                    where += f", {row.get('seeds') or len(row['left'])} seeds"
                around = f"{one.difference:+.1f} [{one.low:+.1f}, {one.high:+.1f}]"
                needed = seeds_needed(one, size) if row.get("learnt", True) else ""
                cells = [where, around, verdict(one, size), needed]
            lines.append("| " + " | ".join([*head, *cells]) + " |")
            head = ["", ""]
    return "\n".join(lines)


def with_table(page: str, figures: dict[str, Any]) -> str:
    """Return the page with its table written anew."""
    inner = f"{BEGIN}\n{table(figures)}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: inner, page, flags=re.DOTALL)


# Pictures.


def draw_effects(figures: dict[str, Any], path: Path) -> None:
    """Draw each measured effect with its interval, beside the published one."""
    rows = [
        (f"{claim['claim']}\n{row['where']}", effect(row), claim["published"]["difference"])
        for claim in figures["claims"]
        for row in claim["ours"]
        if "pending" not in row
    ]
    colors = {"agrees": GOOD, "disagrees": BAD, "cannot tell": OPEN}
    figure, axis = _drawn((8.6, 0.52 * len(rows) + 1.1))
    for place, (_, one, published) in enumerate(reversed(rows)):
        color = colors[verdict(one, published)]
        axis.plot([one.low, one.high], [place, place], color=color, lw=2)
        axis.plot(one.difference, place, "o", color=color)
        axis.plot(published, place, "D", color=PUBLISHED, mfc="none")
    axis.axvline(0, color="#20242a", lw=0.8)
    axis.set_yticks(range(len(rows)), [name for name, *_ in reversed(rows)], fontsize=7.5)
    axis.set_xlabel("points; line: 95% interval; diamond: published, on large models")
    axis.set_ylim(-0.7, len(rows) - 0.3)
    _legend(axis, colors)
    _saved(figure, path)


def draw_costs(figures: dict[str, Any], path: Path) -> None:
    """Draw the speed of training with teachers, relative to none."""
    costs = figures["costs"]
    figure, axis = _drawn((8.6, 3.2))
    for place, (_, short, long) in enumerate(reversed(costs["rows"])):
        axis.barh(place + 0.19, short, 0.36, color="#0b63c5", label="SST-2's shape")
        axis.barh(place - 0.19, long, 0.36, color="#9cc3ee", label="SQuAD's shape")
        for value, gap in ((short, 0.19), (long, -0.19)):
            axis.text(value + 1, place + gap, f"{value}%", va="center", fontsize=7.5)
    axis.set_yticks(range(len(costs["rows"])), [row[0] for row in reversed(costs["rows"])])
    axis.axvline(100, color="#20242a", lw=0.8)
    axis.set(title=costs["title"], xlabel=costs["note"], xlim=(0, 118))
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(handles[:2], labels[:2], loc="lower right", frameon=False)
    _saved(figure, path)


def draw_speeds(figures: dict[str, Any], path: Path) -> None:
    """Draw how many times as fast as another program each part is."""
    speeds = figures["speeds"]
    rows = [*reversed(speeds["rows"])]
    figure, axis = _drawn((8.6, 0.34 * len(rows) + 1.0))
    values = [row[1] for row in rows]
    axis.barh(range(len(rows)), values, color=[GOOD if one >= 1 else BAD for one in values])
    for place, value in enumerate(values):
        axis.text(value + 0.04, place, f"{value:.2f}x", va="center", fontsize=7.5)
    axis.set_yticks(range(len(rows)), [row[0] for row in rows])
    axis.axvline(1, color="#20242a", lw=0.8)
    axis.set(title=speeds["title"], xlim=(0, 1.12 * max(values)))
    _saved(figure, path)


def draw_domains(runs: list[dict[str, Any]], path: Path) -> None:
    """Draw each arm's F1 on SQuAD 1.1 against that on NewsQA, with 95% intervals over seeds."""
    from scipy.stats import t

    figure, axis = _drawn((5.6, 4.2))
    arms = (("none", "no teachers", OPEN), ("mean", "mean of three", GOOD))
    for arm, name, color in (*arms, ("weighted_0.75", "Weighted, W = 0.75", "#0b63c5")):
        scores = np.array(
            [
                [run["metrics"]["eval/squad_v1/f1"], run["metrics"]["eval/newsqa/f1"]]
                for run in runs
                if run["run"].startswith(f"{arm}/seed-") and run["run"].endswith("/student")
            ]
        )
        count = len(scores)
        half = t.ppf(0.975, count - 1) * scores.std(0, ddof=1) / sqrt(count)
        axis.plot(*scores.T, ".", color=color, alpha=0.45)
        x, y = scores.mean(0)
        axis.errorbar(x, y, half[1], half[0], "o", color=color, capsize=3, label=name)
    axis.set(xlabel="F1, SQuAD 1.1 (in domain)", ylabel="F1, NewsQA (out of domain)")
    axis.legend(frameon=False, fontsize=8)
    _saved(figure, path)


def _legend(axis: Any, colors: dict[str, str]) -> None:
    for name, color in colors.items():
        axis.plot([], [], "o-", color=color, label=name)
    axis.plot([], [], "D", color=PUBLISHED, mfc="none", label="published")
    axis.legend(loc="lower center", bbox_to_anchor=(0.3, 1.0), ncol=4, frameon=False, fontsize=8)


def _drawn(size: tuple[float, float]) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=size)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
    return figure, axis


def _saved(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(path)


def main() -> None:
    figures = json.loads((HERE / "overview.json").read_text("utf-8"))
    page = HERE / "README.md"
    page.write_text(with_table(page.read_text("utf-8"), figures), encoding="utf-8")
    for name, draw in (("effects", draw_effects), ("costs", draw_costs), ("speeds", draw_speeds)):
        draw(figures, HERE / f"overview-{name}.png")
    runs = json.loads((HERE / "road-distillation.json").read_text("utf-8"))
    draw_domains(runs, HERE / "road-distillation.png")


if __name__ == "__main__":
    main()
