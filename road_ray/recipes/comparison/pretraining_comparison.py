"""Reproduction of a published comparison of pre-training methods at the user's scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.data.load_split import find_dataset
from road_ray.distributed.parallel_runs import run_all
from road_ray.errors import RoadError
from road_ray.evaluation.glue import electra_figure
from road_ray.evaluation.seed_statistics import holm, means, paired_test, summary
from road_ray.recipes.comparison.config import ArmConfig, ReproduceConfig
from road_ray.recipes.comparison.failures import failure, reason_of
from road_ray.recipes.comparison.pretraining_arms import COMPARISONS, Arm, Comparison
from road_ray.recipes.finetuning.finetune import finetune
from road_ray.recipes.preflight_checks import require_splits
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.pretraining.pretraining_flops import cost
from road_ray.recipes.run_directory.resume_identity import mirrored_below
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.system.json_file import write_json_atomic, write_text_atomic
from road_ray.training.run_context import RunContext

Scores = dict[int, Mapping[str, float]]
"""Figures of one arm by seed."""


def reproduce(config: ReproduceConfig, context: RunContext | None = None) -> Run:
    """Train and probe all arms; write ``comparison.md`` with published and measured scores.

    Figures are ``eval/<arm>/score`` with its ``_deviation``, and those of each data set. An arm
    that fails leaves the others as they are; the error comes after the table of the rest.
    """
    return load_finished_run(config) or _run(config, context)


def _run(config: ReproduceConfig, context: RunContext | None) -> Run:
    comparison = COMPARISONS[config.comparison]
    planned = plan(config)
    require_probe_data(planned)
    with open_run_directory(config) as directory:
        runs: list[Run | RoadError] = run_all(
            train_arm, planned, config, context, return_errors=True
        )
        scores: dict[str, Scores] = {arm.name: {} for arm in comparison.arms}
        failed: list[tuple[str, RoadError]] = []
        for arm, run in zip(planned, runs, strict=True):
            name = arm.run_dir.parent.name
            if isinstance(run, RoadError):
                failed.append((f"{name}, seed {arm.seed}", run))
            else:
                scores[name][arm.seed] = run.metrics
        lines = [f"{name}: {reason_of(error)}" for name, error in failed]
        table = comparison_table(comparison, scores, config.probe_on, lines)
        write_text_atomic(directory / "comparison.md", table)
        if failed:
            raise failure(directory, len(runs), failed, "comparison.md")
        figures = _figures(scores)
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def plan(config: ReproduceConfig) -> list[ArmConfig]:
    """Return every arm with every seed, in the order of the arms, with steps for equal budgets."""
    comparison = COMPARISONS[config.comparison]
    reference = _stages(config, comparison.arms[0], None)[0].training.steps
    fixed = reference if comparison.equal == "steps" else None
    return [
        _planned(config, arm, config.seed + number, fixed)
        for arm in comparison.arms
        for number in range(config.num_seeds)
    ]


def require_probe_data(planned: Sequence[ArmConfig]) -> None:
    """Raise ``DataError`` if a data set that scores the arms has no files: else the first error
    would come after the first pre-training.
    """
    require_splits(
        (split for arm in planned for probe in arm.probes for split in probe.data.splits()),
        "name data sets that are there: probe_on=[...]",
    )


def _stages(config: ReproduceConfig, arm: Arm, steps: int | None) -> list[PretrainConfig]:
    """Return the stages of an arm, with ``steps`` steps or as many as the budget allows."""
    stages = []
    for changes in arm.stages:
        stage = override(config.pretrain, changes)
        if stage.data.root is None:
            stage = override(stage, {"data.root": config.root})
        share = arm.budget / len(arm.stages)
        count = steps or max(1, round(config.flops * share / cost(stage).step_paper))
        warmup = max(1, count // 10)
        saves = max(1, count // 4)
        lengths = {"training.steps": count, "training.save_every_steps": saves}
        stages.append(override(stage, lengths | {"optimizer.warmup_steps": warmup}))
    return stages


def _planned(config: ReproduceConfig, arm: Arm, seed: int, steps: int | None) -> ArmConfig:
    place = config.run_dir / arm.name / f"seed-{seed}"
    stages: list[PretrainConfig] = []
    for number, stage in enumerate(_stages(config, arm, steps)):
        changes: dict[str, Any] = {"run_dir": place / f"stage-{number}", "seed": seed}
        if number:
            before = str(stages[-1].run_dir)
            generator = stage.generator.model_copy(update={"init": before})
            changes |= {"init": before, "generator": generator}
        training = mirrored_below(stage.training, _inside(config, changes["run_dir"]))
        changes |= {"console": config.console, "tracking": config.tracking, "training": training}
        stages.append(stage.model_copy(update=changes))
    probes = [
        config.probe.model_copy(
            update={
                "run_dir": place / name,
                "seed": seed,
                "init": str(stages[-1].run_dir),
                "console": config.console,
                "tracking": config.tracking,
                "training": mirrored_below(config.probe.training, _inside(config, place / name)),
                "data": config.probe.data.model_copy(
                    update={"dataset": name, "root": config.probe.data.root or config.root}
                ),
            }
        )
        for name in config.probe_on
    ]
    return ArmConfig(
        run_dir=place,
        seed=seed,
        console=config.console,
        stages=tuple(stages),
        probes=tuple(probes),
    )


def _inside(config: ReproduceConfig, run_dir: Path) -> Path:
    return run_dir.relative_to(config.run_dir)


def train_arm(config: ArmConfig, context: RunContext | None = None) -> Run:
    """Run the stages and probes of an arm, each resumable; return the metrics of the probes."""
    for stage in config.stages:
        pretrain(stage, context)
    figures: dict[str, float] = {}
    for probe in config.probes:
        metrics = finetune(probe, context).metrics
        dataset, _ = find_dataset(probe.data.dataset, probe.data)
        figures[dataset.name] = electra_figure(dataset, metrics)
    figures["score"] = sum(figures.values()) / len(figures)
    write_json_atomic(config.run_dir / "metrics.json", figures)
    return Run(config.run_dir, figures)


def _figures(scores: Mapping[str, Scores]) -> dict[str, float]:
    return {
        f"eval/{arm}/{name}": value
        for arm, runs in scores.items()
        for name, value in means([*runs.values()]).items()
    }


def comparison_table(
    comparison: Comparison,
    scores: Mapping[str, Scores],
    probe_on: Sequence[str],
    failed: Sequence[str] = (),
) -> str:
    """Return the table of published and measured scores in Markdown: means and standard deviations
    over seeds, a test of each arm against the first, paired by seed and corrected for the number of
    tests, and the runs that failed.
    """
    head = ["method", "published", "score", "against the first", *probe_on]
    lines = [
        f"# {comparison.about[0].upper()}{comparison.about[1:]}",
        "",
        f"Published: {comparison.source}. Means and standard deviations over seeds; p values of "
        "paired t-tests, corrected by Holm.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    first = scores[comparison.arms[0].name]
    others = comparison.arms[1:]
    corrected = _corrected([scores[arm.name] for arm in others], first)
    p_values = {arm.name: p_value for arm, p_value in zip(others, corrected, strict=True)}
    for arm in comparison.arms:
        runs = scores[arm.name]
        cells = [arm.about, "-" if arm.published is None else f"{arm.published:.1f}"]
        cells.append(_spread([run["score"] for run in runs.values()]))
        cells.append(
            "-" if arm is comparison.arms[0] else _difference(runs, first, p_values[arm.name])
        )
        cells += [_spread([run[name] for run in runs.values()]) for name in probe_on]
        lines.append(f"| {' | '.join(cells)} |")
    if failed:
        lines += ["", "Failed:", "", *(f"- {line}" for line in failed)]
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    spread = summary(values)
    return f"{spread.mean:.2f}" + ("" if spread.deviation is None else f" ± {spread.deviation:.2f}")


def _corrected(arms: Sequence[Scores], first: Scores) -> list[float | None]:
    """Return the p value of each arm against the first, corrected for the number of arms that are
    tested; None where there is no test, or none with a p value.
    """
    pairs = [sorted(runs.keys() & first.keys()) for runs in arms]
    tested = [number for number, seeds in enumerate(pairs) if len(seeds) > 1]
    p_values = [
        paired_test(
            *([by[seed]["score"] for seed in pairs[number]] for by in (runs, first))
        ).p_value
        for number, runs in enumerate(arms)
        if number in tested
    ]
    corrected = dict(zip(tested, holm(p_values), strict=True))
    return [corrected.get(number) for number in range(len(arms))]


def _difference(runs: Scores, baseline: Scores, p_value: float | None) -> str:
    seeds = sorted(runs.keys() & baseline.keys())
    if not seeds:
        return "-"
    arm_scores, first = ([by[seed]["score"] for seed in seeds] for by in (runs, baseline))
    mean = sum(arm_scores) / len(arm_scores) - sum(first) / len(first)
    if len(arm_scores) < 2:
        return f"{mean:+.2f}"
    shown = "equal for every seed" if p_value is None else f"p = {p_value:.2f}"
    return f"{mean:+.2f} ({shown})"
