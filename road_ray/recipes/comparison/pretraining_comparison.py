"""A published comparison of pre-training methods again, at a scale of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from road_ray.config import override
from road_ray.distributed.parallel import run_all
from road_ray.evaluation.glue import electra_figure
from road_ray.evaluation.metrics import means, paired_test, summary
from road_ray.recipes.comparison.config import ArmConfig, ReproduceConfig
from road_ray.recipes.comparison.pretraining_catalog import COMPARISONS, Arm, Comparison
from road_ray.recipes.finetuning.finetune import finetune
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.flops import cost
from road_ray.recipes.pretraining.pretrain import pretrain
from road_ray.recipes.run_directory.resume_identity import mirrored_below
from road_ray.recipes.run_directory.run import Run, load_finished_run, open_run_directory
from road_ray.system.json_file import write_json_atomic
from road_ray.training.context import RunContext


def reproduce(config: ReproduceConfig, context: RunContext | None = None) -> Run:
    """Train all arms, probe them, and write ``comparison.md``: published beside measured.

    Figures are ``eval/<arm>/score`` with its ``_deviation``, and those of each data set.
    """
    return load_finished_run(config) or _run(config, context)


def _run(config: ReproduceConfig, context: RunContext | None) -> Run:
    comparison = COMPARISONS[config.comparison]
    planned = plan(config)
    with open_run_directory(config) as directory:
        runs = run_all(train_arm, planned, config, context)
        seeds = config.num_seeds
        scores: dict[str, list[Mapping[str, float]]] = {
            arm.name: [run.metrics for run in runs[number * seeds : (number + 1) * seeds]]
            for number, arm in enumerate(comparison.arms)
        }
        figures = _figures(scores)
        table = comparison_table(comparison, scores, config.probe_on)
        (directory / "comparison.md").write_text(table, encoding="utf-8")
        write_json_atomic(directory / "metrics.json", figures)
    return Run(directory, figures)


def plan(config: ReproduceConfig) -> list[ArmConfig]:
    """Every arm with every seed, the arms in their order; steps such that the budgets are equal."""
    comparison = COMPARISONS[config.comparison]
    reference = _stages(config, comparison.arms[0], None)[0].training.steps
    fixed = reference if comparison.equal == "steps" else None
    return [
        _planned(config, arm, config.seed + number, fixed)
        for arm in comparison.arms
        for number in range(config.num_seeds)
    ]


def _stages(config: ReproduceConfig, arm: Arm, steps: int | None) -> list[PretrainConfig]:
    """The stages of an arm, with as many steps as the budget buys, or ``steps`` of them."""
    made = []
    for changes in arm.stages:
        stage = override(config.pretrain, changes)
        if stage.data.root is None:
            stage = override(stage, {"data.root": config.root})
        share = arm.budget / len(arm.stages)
        count = steps or max(1, round(config.flops * share / cost(stage).step_paper))
        warmup = max(1, count // 10)
        saves = max(1, count // 4)
        told = {"training.steps": count, "training.save_every_steps": saves}
        made.append(override(stage, told | {"optimizer.warmup_steps": warmup}))
    return made


def _planned(config: ReproduceConfig, arm: Arm, seed: int, steps: int | None) -> ArmConfig:
    place = config.run_dir / arm.name / f"seed-{seed}"
    stages: list[PretrainConfig] = []
    for number, stage in enumerate(_stages(config, arm, steps)):
        told: dict[str, Any] = {"run_dir": place / f"stage-{number}", "seed": seed}
        if number:
            before = str(stages[-1].run_dir)
            generator = stage.generator.model_copy(update={"init": before})
            told |= {"init": before, "generator": generator}
        own = mirrored_below(stage.training, _inside(config, told["run_dir"]))
        told |= {"console": config.console, "training": own}
        stages.append(stage.model_copy(update=told))
    probes = [
        config.probe.model_copy(
            update={
                "run_dir": place / name,
                "seed": seed,
                "init": str(stages[-1].run_dir),
                "console": config.console,
                "training": mirrored_below(config.probe.training, _inside(config, place / name)),
                "data": config.probe.data.model_copy(
                    update={"dataset": name, "root": config.probe.data.root or config.root}
                ),
            }
        )
        for name in config.probe_on
    ]
    told = {"run_dir": place, "seed": seed, "console": config.console}
    return ArmConfig(**told, stages=tuple(stages), probes=tuple(probes))


def _inside(config: ReproduceConfig, run_dir: Path) -> Path:
    return run_dir.relative_to(config.run_dir)


def train_arm(config: ArmConfig, context: RunContext | None = None) -> Run:
    """Run the stages and probes of an arm, each resumable; return the metrics of the probes."""
    for stage in config.stages:
        pretrain(stage, context)
    figures: dict[str, float] = {}
    for probe in config.probes:
        metrics = finetune(probe, context).metrics
        figures[probe.data.dataset] = electra_figure(probe.data.dataset, metrics)
    figures["score"] = sum(figures.values()) / len(figures)
    write_json_atomic(config.run_dir / "metrics.json", figures)
    return Run(config.run_dir, figures)


def _figures(scores: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, float]:
    return {
        f"eval/{arm}/{name}": value
        for arm, runs in scores.items()
        for name, value in means(runs).items()
    }


def comparison_table(
    comparison: Comparison,
    scores: Mapping[str, Sequence[Mapping[str, float]]],
    probe_on: Sequence[str],
) -> str:
    """Published beside measured, in Markdown: means and standard deviations over seeds, and whether
    an arm differs from the first one, paired seed by seed.
    """
    head = ["method", "published", "score", "against the first", *probe_on]
    lines = [
        f"# {comparison.about[0].upper()}{comparison.about[1:]}",
        "",
        f"Published: {comparison.source}. Means and standard deviations over seeds.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    first = [run["score"] for run in scores[comparison.arms[0].name]]
    for arm in comparison.arms:
        runs = scores[arm.name]
        own = [run["score"] for run in runs]
        cells = [arm.about, "-" if arm.published is None else f"{arm.published:.1f}"]
        cells += [_spread(own), _difference(own, first) if arm is not comparison.arms[0] else "-"]
        cells += [_spread([run[name] for run in runs]) for name in probe_on]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    found = summary(values)
    return f"{found.mean:.2f}" + ("" if found.deviation is None else f" ± {found.deviation:.2f}")


def _difference(own: Sequence[float], first: Sequence[float]) -> str:
    mean = sum(own) / len(own) - sum(first) / len(first)
    if len(own) < 2:
        return f"{mean:+.2f}"
    return f"{mean:+.2f} (p = {paired_test(own, first).p_value:.2f})"
