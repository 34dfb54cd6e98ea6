"""Mixture that a training learns from: its data sets, their rows and batches, and its steps. One
data set is a mixture of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from transformers import PreTrainedTokenizerFast

from road_ray.data.batching import Batch, Batching, BatchStream, BatchTotals
from road_ray.data.load_split import Split, find_dataset, load_split, tasks_of
from road_ray.data.mixing import Stream, draw_datasets, mixed, probabilities
from road_ray.data.task_and_dataset import Choose, Classify, MultiLabel, Tag, Task
from road_ray.errors import ConfigError, did_you_mean
from road_ray.models.heads import own_head
from road_ray.recipes.train.config import (
    FinetuneDataConfig,
    MixingConfig,
    MultitaskConfig,
    TrainConfig,
    TrainDataConfig,
)
from road_ray.training.worker import Worker


@dataclass(frozen=True)
class Mixture:
    """Data sets of a training, and how its steps draw from them."""

    data: TrainDataConfig
    names: tuple[str, ...]  # that are trained on, and evaluated on while training
    evaluated: tuple[str, ...]  # at the end; those that are trained on come first
    mixing: MixingConfig
    seed: int

    @classmethod
    def of(cls, config: TrainConfig) -> Mixture:
        names = config.data.trained_on
        evaluated = tuple(sorted(config.data.evaluated_on, key=lambda name: name not in names))
        mixing = MixingConfig(passes=config.training.passes)
        if isinstance(config, MultitaskConfig):
            mixing = config.mixing
        return cls(config.data, names, evaluated, mixing, config.seed)

    def check(self) -> None:
        """Raise ``ConfigError`` for data sets that cannot be mixed or evaluated together."""
        names, mixing = self.names, self.mixing
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
        for name, entry in self.data.sets.items():  # of a mistyped name, above all
            if not (entry.train or entry.dev or entry.test or entry.hub):
                find_dataset(name, self.data)  # which says so
        for name in names:
            if (head := find_dataset(name, self.data)[1].head) is not None:
                own_head(head, f"data.sets.{name}.head")
        tasks = self._tasks_by_dataset()
        for name in mixing.weights:
            if name not in {*tasks, *tasks.values()}:
                raise ConfigError(
                    f"mixing.weights.{name}: no data set or task of the mix\n"
                    f"  known: {', '.join(sorted({*tasks, *tasks.values()}))}"
                )
        task = find_dataset(names[0], self.data)[1]
        labels = task.kind.labels if isinstance(task.kind, Classify | MultiLabel | Tag) else ()
        data = self.data if isinstance(self.data, FinetuneDataConfig) else FinetuneDataConfig()
        weights, smoothed = data.class_weights, labels or isinstance(task.kind, Choose)
        for key, value, fits, needs in (
            ("class_weights", weights, labels, "classes, several labels or tags"),
            ("label_smoothing", data.label_smoothing, smoothed, "labels"),
        ):
            if value and not fits:
                raise ConfigError(
                    f"data.{key} = {value}: {data.dataset} is of task {task.name}\n"
                    f"  allowed: with tasks of {needs}\n  fix: leave it out; nothing was started"
                )
        for label in weights if isinstance(weights, dict) else ():
            if label not in labels:
                raise ConfigError(
                    f"data.class_weights.{label}: no label of {data.dataset}"
                    f"{did_you_mean(label, labels)}\n  known: {', '.join(labels)}"
                )
        for name in self.evaluated:
            if (other := find_dataset(name, self.data)[0].task) not in tasks.values():
                raise ConfigError(
                    f"data.evaluate_on: {name} is of task {other}, {names[0]} of task "
                    f"{tasks[names[0]]}\n"
                    "  allowed: data sets of one task, because a model has one head\n"
                    "  fix: leave it out; nothing was started"
                )

    def read(self, name: str, part: str, tokenizer: PreTrainedTokenizerFast) -> Split:
        """Return ``train`` or ``dev`` of a data set; with ``mixing.heads=dataset``, its task is
        named after the data set.
        """
        keep = self.data.learns_from if part == "train" else None
        more = self.data.unlabelled_rows.get(name, ()) if part == "train" else ()
        split = load_split(name, part, self.data, tokenizer, keep=keep, unlabelled=more)
        if self.mixing.heads == "task":
            return split
        features = replace(split.features, task=name)
        return replace(split, features=features, task=replace(split.task, name=name))

    def tasks(self, splits: Mapping[str, Split]) -> list[Task]:
        """Return every task once: those of the data sets, then their further ones."""
        further = [task for name in splits for task in tasks_of(name, self.data)[1:]]
        tasks = [*(split.task for split in splits.values()), *further]
        return list({task.name: task for task in tasks}.values())

    def stream(self, split: Split, worker: Worker, pad_id: int) -> BatchStream:
        """Return the batches of a worker."""
        return BatchStream(
            split.features,
            Batching(self.data.batch_size, self.seed, self.data.max_batch_tokens),
            pad_id=pad_id,
            rank=worker.rank,
            size=worker.size,
        )

    def steps(
        self,
        splits: Mapping[str, Split],
        streams: Mapping[str, Stream],
        start: int,
        total_steps: int,
    ) -> Iterator[list[Batch]]:
        """Yield the batches of step ``start``, ``start + 1``, ...; of several data sets with their
        numbers of examples, as ``mix/<data set>``.
        """
        for passes in mixed(streams, self._draw(splits, total_steps), start=start):
            for batch in passes if len(self.names) > 1 else ():
                count = {f"mix/{batch['dataset']}": float(len(batch["input_ids"]))}
                batch["stats"] = {**batch.get("stats", {}), **count}
            yield passes

    def totals(
        self, splits: Mapping[str, Split], streams: Mapping[str, BatchStream], total_steps: int
    ) -> BatchTotals:
        """Return the sizes of all batches of ``total_steps`` steps."""
        draw = self._draw(splits, total_steps)
        drawn = Counter(name for step in range(total_steps) for name in draw(step))
        each = [streams[name].totals(count) for name, count in drawn.items()]
        return BatchTotals(*map(sum, zip(*each, strict=True)))

    def _draw(
        self, splits: Mapping[str, Split], total_steps: int
    ) -> Callable[[int], Sequence[str]]:
        """Return the function that draws the data sets of a step."""
        mixing, tasks = self.mixing, self._tasks_by_dataset()
        rows = {name: len(split.features) for name, split in splits.items()}
        drawn = partial(draw_datasets, list(splits), mixing.passes, seed=self.seed)

        def draw(step: int) -> list[str]:
            done = min(1.0, step / total_steps)
            shares = probabilities(mixing.sampler, rows, tasks, power=mixing.power, fraction=done)
            return drawn(step=step, probabilities=shares, replacement=mixing.replacement)

        return draw

    def loss_weights(self) -> dict[str, float]:
        """Return the factor of the loss of each data set: its own, or that of its task."""
        weights = self.mixing.weights
        return {
            name: weights.get(name, weights.get(task, 1.0))
            for name, task in self._tasks_by_dataset().items()
        }

    def _tasks_by_dataset(self) -> dict[str, str]:
        """Return the task of each data set, also where each has its own head."""
        return {name: find_dataset(name, self.data)[0].task for name in self.names}
