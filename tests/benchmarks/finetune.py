"""Fine-tuning against Hugging Face: examples a second, building features, finding answers."""

from __future__ import annotations

import statistics
from dataclasses import replace

from tests.benchmarks import contestants, finetuning
from tests.benchmarks.contestants import PRODUCT_FLOPS, Setting
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row
from tests.benchmarks.race import Contestant, Timing, peak_memory_mb

AIM_WINDOWS_A_SECOND = 12_000 / 5.0


def finetune(plan: Plan) -> list[Row]:
    """SST-2 and SQuAD 2.0 against Hugging Face's Trainer and run_qa; answers of 12k windows."""
    rows = [row for study in plan.studies for row in _trained(study, plan)]
    return [*rows, *(_built(study, plan) for study in plan.building), _answered(plan)]


def _trained(study: Study, plan: Plan) -> list[Row]:
    """``limit_share``: products of the encoder over real tokens, over the fp32 rate of products."""
    study = replace(study, clock=plan.clock)
    product = Setting(plan.tiny, clock=plan.clock)
    lanes = {"product": Contestant(contestants.product, product, plan.start)}
    for precision in plan.precisions:
        variant = replace(study, precision=precision)
        lanes[f"ours {precision}"] = Contestant(finetuning.ours, variant, plan.start)
        lanes[f"Trainer {precision}"] = Contestant(finetuning.hugging_face, variant, plan.start)
    timings = plan.race(lanes, repeats=plan.few_repeats, warmup=1)
    rate = PRODUCT_FLOPS / timings["product"].median
    share = finetuning.operations(study) / rate
    return [
        _row(study, mine, theirs, timings[f"ours {mine}"], timings[f"Trainer {theirs}"], share)
        for mine, theirs in plan.pairs(("bf16", "bf16"), ("fp32", "fp32"), ("bf16", "fp32"))
    ]


def _row(
    study: Study, mine: str, theirs: str, ours: Timing, trainer: Timing, limit_seconds: float
) -> Row:
    peer = f"Trainer ({theirs}), {study.dataset}"
    row = epoch_row("finetune", study, peer, ours, trainer, limit_seconds)
    return row | {"precision": mine}


def epoch_row(
    name: str, study: Study, peer: str, ours: Timing, theirs: Timing, limit_seconds: float
) -> Row:
    """Examples a second of two contestants whose rounds are epochs of the same rows."""
    return {
        "name": name,
        "precision": study.precision,
        "peer": peer,
        "unit": "examples/s",
        "ours": study.examples / ours.median,
        "theirs": study.examples / theirs.median,
        "ratio": theirs.median / ours.median,
        "repeats": len(ours.seconds),
        "peak_memory_mb": ours.peak_memory_mb,
        "their_peak_memory_mb": theirs.peak_memory_mb,
        "limit_share": limit_seconds / ours.median,
    }


def _built(study: Study, plan: Plan) -> Row:
    """``limit_share``: of our time, what the tokenizer alone needs for every distinct text."""
    result = finetuning.built(replace(study, clock=plan.clock), plan.few_repeats)
    ours, theirs, least = map(statistics.median, (result.ours, result.mapped, result.tokenised))
    return {
        "name": "finetune",
        "precision": "-",
        "peer": f"datasets.map, features of {study.dataset}",
        "unit": "examples/s",
        "ours": result.examples / ours,
        "theirs": result.examples / theirs,
        "ratio": theirs / ours,
        "repeats": len(result.ours),
        "peak_memory_mb": peak_memory_mb(),
        "their_peak_memory_mb": 0.0,
        "limit_share": least / ours,
    }


def _answered(plan: Plan) -> Row:
    windows, seconds = finetuning.answering(
        replace(plan.answering, clock=plan.clock), plan.few_repeats
    )
    ours = statistics.median(seconds)
    return {
        "name": "finetune",
        "precision": "-",
        "peer": f"the aim, answers of {windows} windows of {plan.answering.dataset}",
        "unit": "windows/s",
        "ours": windows / ours,
        "theirs": AIM_WINDOWS_A_SECOND,
        "ratio": windows / ours / AIM_WINDOWS_A_SECOND,
        "repeats": len(seconds),
        "peak_memory_mb": peak_memory_mb(),
        "their_peak_memory_mb": 0.0,
        "limit_share": 1.0,
    }
