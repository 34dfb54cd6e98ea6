"""Fine-tuning against Hugging Face: examples a second."""

from dataclasses import replace
from importlib.util import find_spec

import torch

from tests.benchmarks import contestants, finetuning
from tests.benchmarks.contestants import PRODUCT_FLOPS, Setting
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row, race_row
from tests.benchmarks.race import Contestant


def finetune(plan: Plan) -> list[Row]:
    """SST-2 and SQuAD 2.0 against Hugging Face's Trainer; rows without padding against padded."""
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
    flash = plan.precisions[-1] == "bf16" and torch.cuda.is_available() and find_spec("flash_attn")
    attention = "flash_attention_2" if flash else "unpadded"
    variant = replace(study, precision=plan.precisions[-1], attention=attention)
    lanes[attention] = Contestant(finetuning.ours, variant, plan.start)
    timings = plan.race(lanes, repeats=plan.few_repeats, warmup=1)
    rate = PRODUCT_FLOPS / timings["product"].median
    races = [
        (f"Trainer ({theirs}), {study.dataset}", mine, f"ours {mine}", f"Trainer {theirs}")
        for mine, theirs in plan.pairs(("bf16", "bf16"), ("fp32", "fp32"), ("bf16", "fp32"))
    ]
    last = variant.precision
    races.append((f"padded, {study.dataset} by {attention}", last, attention, f"ours {last}"))
    return [
        race_row(
            "finetune",
            peer,
            "examples/s",
            study.examples,
            timings[mine],
            timings[theirs],
            limit_seconds=finetuning.operations(study) / rate,
            precision=precision,
        )
        for peer, precision, mine, theirs in races
    ]
