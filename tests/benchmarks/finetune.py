"""Fine-tuning against Hugging Face: examples a second."""

from __future__ import annotations

from dataclasses import replace

from tests.benchmarks import contestants, finetuning
from tests.benchmarks.contestants import PRODUCT_FLOPS, Setting
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row, race_row
from tests.benchmarks.race import Contestant


def finetune(plan: Plan) -> list[Row]:
    """SST-2 and SQuAD 2.0 against Hugging Face's Trainer."""
    return [row for study in plan.studies for row in _trained(study, plan)]


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
