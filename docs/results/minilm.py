"""Fine-tune a published encoder by road_ray and by Hugging Face's Trainer, with equal settings.

Usage: python docs/results/minilm.py MODEL DATA RUNS [sst2|squad_v2]...   (prints Markdown)

MODEL is a directory in Hugging Face format, such as all-MiniLM-L6-v2. Both learn from the same rows
with AdamW, the same peak rate, warm-up, decay and clipping, in fp32; all models are judged by
`road evaluate`. The Trainer runs with rows grouped by length, which is faster, and, on SQuAD 2.0,
in random order too, as road_ray draws its batches. Time is the CPU time of the process in training.
Finished runs are skipped.
"""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the checkout, which has `tests`

import road_ray as rr
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.evaluation.seed_statistics import compare, summary

SEEDS = (0, 1, 2)
RATE, WARMUP, DECAY, BATCH = 1e-4, 0.1, 0.01, 32
PRECISION = "fp32"
SETTINGS: dict[str, dict[str, Any]] = {
    "sst2": {"data.max_rows": 10_000, "data.max_length_tokens": 128},
    "squad_v2": {
        "data.max_rows": 4_000,
        "data.max_length_tokens": 256,
        "data.evaluate_on": ["squad_v2"],
        "data.max_judged_rows": 1_000,
    },
}
FIGURES = {
    "sst2": ("accuracy",),
    "squad_v2": ("best_f1", "best_exact", "exact", "f1", "HasAns_f1", "NoAns_f1"),
}


def main(model: str, data: str, runs: Path, names: list[str]) -> None:
    for name in names:
        for seed in SEEDS:
            for way in WAYS[name]:
                place = runs / f"{name}-{way.__name__}-{seed}"
                if not (place / "result.json").is_file():
                    place.mkdir(parents=True, exist_ok=True)
                    seconds = way(model, data, place, name, seed)
                    result = figures_of(place / "hf", data, name) | {"cpu_seconds": seconds}
                    (place / "result.json").write_text(json.dumps(result))
        print(table(runs, name), flush=True)


def overrides(data: str, name: str) -> dict[str, Any]:
    shared = {"data.root": data, "data.dataset": name, "data.batch_size": BATCH}
    return shared | SETTINGS[name] | {"console": "quiet"}


def figures_of(model: Path, data: str, name: str) -> dict[str, float]:
    """Return the metrics of `road evaluate` on the dev split."""
    given = overrides(data, name)
    given = {key: given[key] for key in given if "evaluate_on" not in key and "batch" not in key}
    given.pop("data.max_rows"), given.pop("data.dataset")
    config = given | {"init": str(model), "data.datasets": [name]}
    return rr.evaluate(overrides=config, run_dir=model.parent / "evaluation").metrics


def ours(model: str, data: str, place: Path, name: str, seed: int) -> float:
    import road_ray.recipes.train.train  # noqa: F401  # the Trainer's imports do not count either

    chosen = {
        "init": model,
        "data.epochs": 1,
        "training.precision": PRECISION,
        "optimizer.peak_lr": RATE,
        "optimizer.schedule": "warmup_then_decay",
        "optimizer.warmup_steps": WARMUP,
        "optimizer.weight_decay": DECAY,
        "optimizer.layer_decay": 1.0,
        "optimizer.bias_correction": True,
        "data.max_judged_rows": 10,  # judged later, as the other is
        "data.evaluate_on": [name],
    }
    began = time.process_time()
    rr.finetune(overrides=overrides(data, name) | chosen, run_dir=place, seed=seed)
    return time.process_time() - began


def trainer(
    model: str, data: str, place: Path, name: str, seed: int, order: str = "group_by_length"
) -> float:
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    from tests.benchmarks.finetuning import rows_of

    logging.getLogger("accelerate").setLevel(logging.ERROR)
    began = time.process_time()
    given = {key.removeprefix("data."): value for key, value in SETTINGS[name].items()}
    source = SourceConfig(root=data, **{k: v for k, v in given.items() if k != "evaluate_on"})
    tokenizer = load_tokenizer(model)
    split = load_split(name, "train", source, tokenizer)
    set_seed(seed)
    if name == "squad_v2":
        network = AutoModelForQuestionAnswering.from_pretrained(model)
    else:
        labels = split.task.kind.labels
        names = {"id2label": dict(enumerate(labels)), "num_labels": len(labels)}
        network = AutoModelForSequenceClassification.from_pretrained(model, **names)
    arguments = TrainingArguments(
        output_dir=str(place / "trainer"),
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        learning_rate=RATE,
        warmup_steps=WARMUP,
        weight_decay=DECAY,
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        train_sampling_strategy=order,
        seed=seed,
        use_cpu=True,
        bf16=PRECISION == "bf16",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
    )
    Trainer(
        model=network,
        args=arguments,
        train_dataset=rows_of(split),
        data_collator=DataCollatorWithPadding(tokenizer),
    ).train()
    seconds = time.process_time() - began
    network.save_pretrained(place / "hf")
    tokenizer.save_pretrained(place / "hf")
    return seconds


def random_order(model: str, data: str, place: Path, name: str, seed: int) -> float:
    return trainer(model, data, place, name, seed, order="random")


WAYS = {"sst2": (ours, trainer), "squad_v2": (ours, trainer, random_order)}


def table(runs: Path, name: str) -> str:
    """Return a row for each figure: mean and deviation, and the p of a paired test against ours."""
    read = {
        way.__name__: [
            json.loads((runs / f"{name}-{way.__name__}-{seed}" / "result.json").read_text())
            for seed in SEEDS
        ]
        for way in WAYS[name]
    }
    lines = [f"| {name} | {' | '.join(read)} |", "|---" * (len(read) + 1) + "|"]
    for figure in FIGURES[name]:
        values = {way: [row[f"eval/{name}/{figure}"] for row in read[way]] for way in read}
        cells = []
        for way, x in values.items():
            mean, spread = summary(x)
            p_value = None if way == "ours" else compare(values["ours"], x).p_value
            p = "" if p_value is None else f", p {p_value:.2f}"
            cells.append(f"{mean:.2f} +- {spread or 0:.2f}{p}")
        lines.append(f"| {figure} | {' | '.join(cells)} |")
    seconds = [" / ".join(f"{row['cpu_seconds']:.0f}" for row in rows) for rows in read.values()]
    lines.append(f"| CPU seconds | {' | '.join(seconds)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    model, data, runs, *names = sys.argv[1:]
    main(model, data, Path(runs), names or list(SETTINGS))
