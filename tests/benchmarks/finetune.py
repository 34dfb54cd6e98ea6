"""Fine-tuning against Hugging Face: examples a second, building features, finding answers."""

from __future__ import annotations

import statistics
from dataclasses import replace

from tests.benchmarks import contestants, finetuning
from tests.benchmarks.contestants import PRODUCT_FLOPS, Setting
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row, race_row, row
from tests.benchmarks.race import Contestant

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
    return [
        race_row(
            "finetune",
            f"Trainer ({theirs}), {study.dataset}",
            "examples/s",
            study.examples,
            timings[f"ours {mine}"],
            timings[f"Trainer {theirs}"],
            limit_seconds=finetuning.operations(study) / rate,
            precision=mine,
        )
        for mine, theirs in plan.pairs(("bf16", "bf16"), ("fp32", "fp32"), ("bf16", "fp32"))
    ]


def _built(study: Study, plan: Plan) -> Row:
    """``limit_share``: of our time, what the tokenizer alone needs for every distinct text."""
    result = finetuning.built(replace(study, clock=plan.clock), plan.few_repeats)
    ours, theirs, least = map(statistics.median, (result.ours, result.mapped, result.tokenised))
    return row(
        "finetune",
        f"datasets.map, features of {study.dataset}",
        "examples/s",
        result.examples / ours,
        result.examples / theirs,
        repeats=len(result.ours),
        limit_share=least / ours,
        precision="-",
    )


def _answered(plan: Plan) -> Row:
    windows, seconds = finetuning.answering(
        replace(plan.answering, clock=plan.clock), plan.few_repeats
    )
    ours = statistics.median(seconds)
    return row(
        "finetune",
        f"the aim, answers of {windows} windows of {plan.answering.dataset}",
        "windows/s",
        windows / ours,
        AIM_WINDOWS_A_SECOND,
        repeats=len(seconds),
        limit_share=1.0,
        precision="-",
    )
