"""The benchmarks by name; each gives the rows of bench.json."""

import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import torch

from road_ray.recipes.config import RunConfig
from road_ray.recipes.run_directory.run import launch
from road_ray.training.run_context import RunContext
from road_ray.training.worker import Worker
from tests.benchmarks import contestants, finetuning
from tests.benchmarks import distil as distilling
from tests.benchmarks.contestants import PRODUCT_FLOPS, Setting
from tests.benchmarks.distil import Lesson
from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan, Row, race_row
from tests.benchmarks.predict import predict
from tests.benchmarks.race import Main, Timing, run
from tests.benchmarks.serving import serve
from tests.benchmarks.shapes import Shape, flops


def pretrain(plan: Plan) -> list[Row]:
    """ELECTRA against ``electra-pytorch`` and the plain recipe, in both precisions."""
    peers = {
        "plain": (contestants.plain, "everywhere"),
        "plain, samples at chosen": (contestants.plain, "chosen"),
    }
    if find_spec("electra_pytorch") is None:
        print("pretrain: electra-pytorch is not installed, so it is left out")
        print("  fix: pip install --no-deps electra-pytorch==0.1.2")
    else:
        peers = {"electra-pytorch": (contestants.electra_pytorch, "everywhere"), **peers}
    return [
        row
        for name, shape in plan.shapes.items()
        for row in _against(name, plan, shape, plan.repeats, peers)
    ]


def pretrain_tiny(plan: Plan) -> list[Row]:
    """Four layers on short rows, where little of a step is products."""
    peers = {"plain": (contestants.plain, "everywhere")}
    return _against("pretrain_tiny", plan, plan.tiny, plan.quick_repeats, peers)


def _against(
    name: str, plan: Plan, shape: Shape, repeats: int, peers: dict[str, tuple[Main, Any]]
) -> list[Row]:
    base = Setting(shape, steps=plan.steps)
    lanes: dict[Any, Any] = {"product": (contestants.product, base)}
    for precision, compiled in product(plan.precisions, plan.compiled):
        setting = replace(base, precision=precision, compiled=compiled)
        lanes["ours", precision, compiled] = contestants.ours, setting
        for peer, (main, sampling) in peers.items():
            lanes[peer, precision, compiled] = main, replace(setting, sampling=sampling)
    timings = plan.race(lanes, repeats=repeats)
    limit = PRODUCT_FLOPS / timings["product"].median
    pairs = plan.pairs(("bf16", "fp32"), ("bf16", "bf16"), ("fp32", "fp32"))
    return [
        _row(
            name,
            f"{peer} ({theirs}{', compiled' if compiled else ''})",
            mine,
            (timings["ours", mine, compiled], timings[peer, theirs, compiled]),
            shape,
            limit,
        )
        for (mine, theirs), compiled, peer in product(pairs, plan.compiled, peers)
    ]


def ray_train(plan: Plan) -> list[Row]:
    """The same loop in one Ray Train worker and in a process of its own, once started."""
    setting = Setting(plan.tiny)
    lanes = {
        "product": (contestants.product, setting),
        "ours": (contestants.ours, setting),
        "alone": (contestants.ours, setting),
    }
    timings = plan.race(lanes, repeats=plan.quick_repeats, ours=_in_ray)
    limit = PRODUCT_FLOPS / timings["product"].median
    both = timings["ours"], timings["alone"]
    return [_row("ray_train", "no Ray", "fp32", both, plan.tiny, limit)]


def _in_ray(main: Main, setting: Any, address: str) -> threading.Thread:
    """Starts a contestant as the one worker of a Ray Train run."""
    # The processes of a cluster of our own inherit it; they must find this package.
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])

    def fit() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            gpus = 1.0 if torch.cuda.is_available() else 0.0
            run = RunConfig(run_dir=Path(scratch), workers=1, gpus_per_worker=gpus)
            launch(_on_ray_worker, run, setting, main, address)

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    return thread


def _on_ray_worker(
    config: Any, worker: Worker, context: RunContext, setting: Any, main: Any, address: str
) -> dict[str, float]:
    run(partial(main, worker=worker), setting, address)
    return {}


def distil(plan: Plan) -> list[Row]:
    """Teachers in actors on their own cores, in a store, in process and in TextBrewer, by task."""
    hosts: dict[str, Any] = {"actors": "actors", "warm store": "store", "in process": "process"}
    pairs = [(mine, "no teachers") for mine in hosts]
    has_peer = find_spec("textbrewer") is not None
    if has_peer:
        pairs += [(mine, "textbrewer") for mine in ("actors", "in process")]
    else:
        print("distil: textbrewer is not installed, so it is left out")
        print("  fix: pip install --no-deps textbrewer==0.2.1.post1")
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    rows = []
    for task, shape in plan.lessons.items():
        for precision in plan.precisions:
            lesson = Lesson(
                task,
                shape,
                precision=precision,
                steps=plan.lesson_steps,
                student_cores=tuple(cores[:1]),
                teacher_cores=tuple(cores[half:]),
            )
            lanes: dict[str, Any] = {"no teachers": (distilling.no_teachers, lesson)}
            for name, host in hosts.items():
                lanes[name] = distilling.taught, replace(lesson, host=host)
            if has_peer:
                lanes["textbrewer"] = distilling.in_textbrewer, lesson
            timings = plan.race(lanes, repeats=plan.repeats, warmup=1)
            rows += [_lesson_row(lesson, mine, peer, timings) for mine, peer in pairs]
    return rows


def _lesson_row(lesson: Lesson, mine: str, peer: str, timings: dict[str, Timing]) -> Row:
    """``limit_share`` is the share of the speed that the student has without teachers."""
    named, both = f"{peer}; ours {mine}, {lesson.task}", (timings[mine], timings[peer])
    limit = timings["no teachers"].median
    return race_row("distil", named, lesson.precision, both, "tokens/s", lesson.shape.tokens, limit)


def finetune(plan: Plan) -> list[Row]:
    """SST-2 and SQuAD 2.0 against Hugging Face's Trainer; rows without padding against padded."""
    return [row for study in plan.studies for row in _trained(study, plan)]


def _trained(study: Study, plan: Plan) -> list[Row]:
    """``limit_share``: products of the encoder over real tokens, over the fp32 rate of products."""
    lanes: dict[str, Any] = {"product": (contestants.product, Setting(plan.tiny))}
    for precision in plan.precisions:
        variant = replace(study, precision=precision)
        lanes[f"ours {precision}"] = finetuning.ours, variant
        lanes[f"Trainer {precision}"] = finetuning.hugging_face, variant
    flash = plan.precisions[-1] == "bf16" and torch.cuda.is_available() and find_spec("flash_attn")
    attention = "flash_attention_2" if flash else "unpadded"
    variant = replace(study, precision=plan.precisions[-1], attention=attention)
    lanes[attention] = finetuning.ours, variant
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
            precision,
            (timings[mine], timings[theirs]),
            "examples/s",
            study.examples,
            finetuning.operations(study) / rate,
        )
        for peer, precision, mine, theirs in races
    ]


def matrix_rate(plan: Plan) -> list[Row]:
    """What one thread multiplies in a second, bf16 against fp32: the limit of the others."""
    if not plan.pairs(("bf16", "fp32")):
        return []
    base = Setting(plan.tiny)
    lanes = {
        precision: (contestants.product, replace(base, precision=precision))
        for precision in plan.precisions
    }
    timings = plan.race(lanes, repeats=plan.quick_repeats)
    both, amount = (timings["bf16"], timings["fp32"]), PRODUCT_FLOPS / 1e9
    return [race_row("matrix_rate", "fp32", "bf16", both, "GFLOP/s", amount, both[0].median)]


def _row(
    name: str, peer: str, precision: str, both: tuple[Timing, Timing], shape: Shape, limit: float
) -> Row:
    seconds = flops(shape) / limit
    return race_row(name, peer, precision, both, "tokens/s", shape.tokens, seconds)


SUITE: dict[str, Callable[[Plan], list[Row]]] = {
    "matrix_rate": matrix_rate,
    "pretrain": pretrain,
    "pretrain_tiny": pretrain_tiny,
    "ray_train": ray_train,
    "distil": distil,
    "finetune": finetune,
    "predict": predict,
    "serve": serve,
}
