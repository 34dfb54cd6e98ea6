"""Mixture that a training learns from: its data sets, their rows and batches, and its steps. One
data set is a mixture of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from transformers import PreTrainedTokenizerFast

from road_ray.data.batching import Batch, BatchStream, BatchTotals
from road_ray.data.load_split import Split, find_dataset, load_split
from road_ray.data.mixing import Since, draw_datasets, mixed, probabilities
from road_ray.data.task_and_dataset import Choose, Classify, MultiLabel, Tag
from road_ray.data.training_rows import fold_of
from road_ray.errors import ConfigError, did_you_mean
from road_ray.models.heads import own_head
from road_ray.recipes.train.config import (
    FinetuneDataConfig,
    MixingConfig,
    MultitaskConfig,
    TrainConfig,
)


def mixing_of(config: TrainConfig) -> MixingConfig:
    """Return the composition of a step."""
    if isinstance(config, MultitaskConfig):
        return config.mixing
    return MixingConfig(passes=config.training.passes)


def check_mixture(config: TrainConfig) -> None:
    """Raise ``ConfigError`` for data sets that cannot be mixed or evaluated together."""
    data, names, mixing = config.data, config.data.trained_on, mixing_of(config)
    if len(set(names)) < len(names):
        raise ConfigError(
            f"data.datasets = {', '.join(names)}: one is named twice\n"
            "  allowed: each once; mixing.sampler says how often they are drawn"
        )
    if not mixing.replacement and mixing.passes > len(names):
        raise ConfigError(
            f"mixing.passes = {mixing.passes} without replacement, of {len(names)} data sets\n"
            f"  allowed: at most {len(names)}\n  fix: lower it, or mixing.replacement=true"
        )
    for name, entry in data.sets.items():  # of a mistyped name, above all
        if not (entry.train or entry.dev or entry.test or entry.hub):
            find_dataset(name, data)  # which says so
    for name in names:
        if (head := find_dataset(name, data)[1].head) is not None:
            own_head(head, f"data.sets.{name}.head")
    tasks = {name: find_dataset(name, data)[0].task for name in names}
    for name in mixing.weights:
        if name not in {*tasks, *tasks.values()}:
            raise ConfigError(
                f"mixing.weights.{name}: no data set or task of the mix\n"
                f"  known: {', '.join(sorted({*tasks, *tasks.values()}))}"
            )
    task = find_dataset(names[0], data)[1]
    labels = task.kind.labels if isinstance(task.kind, Classify | MultiLabel | Tag) else ()
    of_one = data if isinstance(data, FinetuneDataConfig) else FinetuneDataConfig()
    weights, smoothed = of_one.class_weights, labels or isinstance(task.kind, Choose)
    for key, value, fits, needs in (
        ("class_weights", weights, labels, "classes, several labels or tags"),
        ("label_smoothing", of_one.label_smoothing, smoothed, "labels"),
    ):
        if value and not fits:
            raise ConfigError(
                f"data.{key} = {value}: {names[0]} is of task {task.name}\n"
                f"  allowed: with tasks of {needs}\n  fix: leave it out; nothing was started"
            )
    for label in weights if isinstance(weights, dict) else ():
        if label not in labels:
            raise ConfigError(
                f"data.class_weights.{label}: no label of {names[0]}"
                f"{did_you_mean(label, labels)}\n  known: {', '.join(labels)}"
            )
    for name in data.evaluated_on:
        if (other := find_dataset(name, data)[0].task) not in tasks.values():
            raise ConfigError(
                f"data.evaluate_on: {name} is of task {other}, {names[0]} of task "
                f"{tasks[names[0]]}\n"
                "  allowed: data sets of one task, because a model has one head\n"
                "  fix: leave it out; nothing was started"
            )


def read(config: TrainConfig, name: str, part: str, tokenizer: PreTrainedTokenizerFast) -> Split:
    """Return ``train`` or ``dev`` of a data set; with ``mixing.heads=dataset``, its task is named
    after the data set.
    """
    held_out = getattr(config.data, "held_out_fold", None) if part == "train" else None
    keep = held_out and (lambda example: fold_of(example, held_out[1]) != held_out[0])
    more = config.data.unlabelled_rows.get(name, ()) if part == "train" else ()
    split = load_split(name, part, config.data, tokenizer, keep=keep, unlabelled=more)
    if mixing_of(config).heads == "task":
        return split
    features = replace(split.features, task=name)
    return replace(split, features=features, task=replace(split.task, name=name))


def draw(
    mixing: MixingConfig, seed: int, splits: Mapping[str, Split], total_steps: int, step: int
) -> list[str]:
    """Return the data sets that are drawn for a step."""
    rows = {name: len(split.features) for name, split in splits.items()}
    tasks = {name: split.dataset.task for name, split in splits.items()}  # also with own heads
    done = min(1.0, step / total_steps)
    shares = probabilities(mixing.sampler, rows, tasks, power=mixing.power, fraction=done)
    of_step = partial(draw_datasets, list(splits), mixing.passes, seed=seed, step=step)
    return of_step(probabilities=shares, replacement=mixing.replacement)


def steps(
    streams: Mapping[str, Since],
    draw: Callable[[int], Sequence[str]],
    total: int | None,
    start: int,
) -> Iterator[list[Batch]]:
    """Yield the batches of step ``start``, ``start + 1``, ...; of several data sets with their
    numbers of examples, as ``mix/<data set>``, and ``teachers/<data set>/right_0`` and so on; of
    ``total`` steps with the ``fraction`` of them that is done, from 0.
    """
    for step, passes in enumerate(mixed(streams, draw, start=start), start):
        for batch in passes:
            if total is not None:
                batch["fraction"] = step / total
            if len(streams) > 1:
                name, stats = batch["dataset"], batch.get("stats", {})
                named = f"teachers/{name}/"
                own = {key.replace("teachers/", named, 1): x for key, x in stats.items()}
                batch["stats"] = own | {f"mix/{name}": float(len(batch["input_ids"]))}
        yield passes


def totals(
    streams: Mapping[str, BatchStream], draw: Callable[[int], Sequence[str]], total_steps: int
) -> BatchTotals:
    """Return the sizes of all batches of ``total_steps`` steps."""
    drawn = Counter(name for step in range(total_steps) for name in draw(step))
    each = [streams[name].totals(count) for name, count in drawn.items()]
    return BatchTotals(*map(sum, zip(*each, strict=True)))
