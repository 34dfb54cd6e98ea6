"""Model, tokenizer, rows, batches and objective of a supervised training."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from road_ray.data.batching import BatchStream
from road_ray.data.catalog import TASKS
from road_ray.data.encode_examples import row_limit
from road_ray.data.examples import UNKNOWN
from road_ray.data.load_split import Split, training_tokenizer
from road_ray.data.model_files import head_for, locate_model, read_config
from road_ray.data.task_and_dataset import Classify, MultiLabel, Tag, Task
from road_ray.data.tokenizer import check_vocabulary, limit_length, pad_id_of
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.distillation.schedule import Schedule
from road_ray.errors import CheckpointError
from road_ray.models.architectures import keep_layers, longest_row, num_layers
from road_ray.models.encoder import build_encoder, load_encoder, model_directory
from road_ray.models.multitask import MultitaskModel, keep_pooler, load_trained
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.preflight_checks import fit_positions, require_init, warn_of_rates
from road_ray.recipes.run_directory.input_files import identity_of
from road_ray.recipes.train.config import DistillConfig, FinetuneConfig, TrainConfig
from road_ray.recipes.train.mixture import draw, mixing_of, read
from road_ray.recipes.train.teachers import Teachers
from road_ray.training.worker import Worker

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """Model, tokenizer and rows of one worker; by data set where they are several."""

    tokenizer: Any
    model: MultitaskModel
    splits: Mapping[str, Split]  # that are trained on
    dev_splits: Mapping[str, Split]  # that are evaluated on
    overlaps: Mapping[str, int]  # dev examples that are trained on too; on rank 0 alone
    streams: Mapping[str, BatchStream]
    draw: Callable[[int], Sequence[str]]  # data sets of a step
    total_steps: int
    identity: dict[str, str]
    heads: Mapping[str, list[str]]  # kept from `init`, and new


def student_tokenizer(config: TrainConfig) -> Any:
    """Return the tokenizer of ``init`` as it is used on the data sets of the training."""
    directory = model_directory(require_init(config.init))
    # By its name: of the hub also a tokenizer without tokenizer.json.
    return training_tokenizer(directory, config.data.trained_on, config.data)


def prepare(config: TrainConfig, worker: Worker) -> Prepared:
    """Return tokenizer, model and rows. Raises the errors of all of them before the training."""
    tokenizer, data = student_tokenizer(config), config.data
    directory = str(locate_model(model_directory(config.init)))
    splits = {name: read(config, name, "train", tokenizer) for name in data.trained_on}
    further = [TASKS[other] for split in splits.values() for other in split.dataset.also]
    every = [*(split.task for split in splits.values()), *further]
    torch.manual_seed(config.seed)  # the new heads, and the encoder with init_weights=none
    model, heads = _model(config, directory, list({task.name: task for task in every}.values()))
    check_vocabulary(model.encoder.config.vocab_size, len(tokenizer), directory)
    longest = longest_row(model.encoder)
    splits = {name: fit_positions(split, longest) for name, split in splits.items()}
    if (kept := kept_layers(config)) is not None:
        keep_layers(model.encoder, kept)
    # Read now, so that missing data fail at once and not after hours of training.
    dev_splits, overlaps = {}, {}
    for name in config.dev_names:
        dev = read(config, name, "dev", tokenizer)
        if worker.is_main:
            overlaps[name] = count_overlap(splits.get(name, splits[data.trained_on[0]]), dev)
        dev_splits[name] = fit_positions(dev, longest)
    tasks = [split.task for split in splits.values()]
    limits = [row_limit(data.max_length_tokens, task) for task in tasks]
    limit_length(tokenizer, longest, max(limits))
    if worker.is_main:
        warn_of_rates(config, str(model.encoder.config.model_type))
    order = (data.batch_size, config.seed)
    share = {"pad_id": pad_id_of(tokenizer), "rank": worker.rank, "size": worker.size}
    streams = {n: BatchStream(split.features, *order, **share) for n, split in splits.items()}
    rows = {name: split.features.fingerprint() for name, split in splits.items()}
    total = config.training.steps or 0  # required of a mixture, which has no epochs
    if isinstance(config, FinetuneConfig):
        rows = {"rows": rows[config.data.dataset]}
        batches = streams[config.data.dataset].batches_per_epoch * config.data.epochs
        total = total or max(1, math.ceil(batches / config.training.passes))
    identity = identity_of(batch=data.batch_size, **rows)
    drawn = partial(draw, mixing_of(config), config.seed, splits, total)
    return Prepared(
        tokenizer, model, splits, dev_splits, overlaps, streams, drawn, total, identity, heads
    )


def _model(
    config: TrainConfig, directory: str, tasks: Sequence[Task]
) -> tuple[MultitaskModel, dict[str, list[str]]]:
    """Return the model of ``init`` with its head for the task, or new ones, and the names of its
    ``kept`` and ``new`` heads.
    """
    finetuned = config if isinstance(config, FinetuneConfig) else None
    if finetuned and finetuned.init_weights == "all" and len(tasks) == 1:
        trained = head_for(Path(directory), tasks[0], finetuned.data.dataset)
        if trained is not None:
            try:
                model = load_trained(str(trained), tasks[0], finetuned.label_map)
            except CheckpointError as error:
                raise CheckpointError(f"{error}, or init_weights=encoder for a new head") from error
            return model, {"kept": [tasks[0].name], "new": []}
    encoder = load_encoder(directory)
    if finetuned and finetuned.init_weights == "none":
        model = MultitaskModel(build_encoder(encoder.config), tasks)
        return model, {"kept": [], "new": list(model.tasks)}
    model = MultitaskModel(encoder, tasks)
    return model, keep_pooler(model, directory)


def kept_layers(config: TrainConfig) -> list[int] | None:
    """Return the indices of the layers of ``init`` that the model has; None for all. Raises
    ``ConfigError`` unless ``init`` has those that ``student.layers`` names.
    """
    if not isinstance(config, FinetuneConfig) or config.student.layers is None:
        return None
    place = locate_model(model_directory(require_init(config.init)), weights=False)
    return list(config.student.chosen(num_layers(read_config(place))))


def count_overlap(train: Split, dev: Split) -> int:
    """Return the number of dev examples that have the texts of a training example; warn of them."""
    seen = {example.texts: example for example in train.examples}
    shared = [example for example in dev.examples if example.texts in seen]
    if shared:
        _log.warning(
            "%s: %d of %d dev examples are in the train split of %s too; their scores flatter\n"
            "  the first: %s, which is %s",
            dev.dataset.name, len(shared), len(dev.examples), train.dataset.name,
            shared[0].where, seen[shared[0].texts].where,
        )  # fmt: skip
    return len(shared)


def build_objective(
    config: TrainConfig, prepared: Prepared, teachers: Mapping[str, Teachers]
) -> Supervised:
    """Return the objective: labels, the teachers' logits, and the hidden states of one teacher if
    ``matching`` is enabled. The factor of the loss of a data set is its own, or that of its task.
    """
    model, given, splits = prepared.model, mixing_of(config).weights, prepared.splits
    factors = {n: given.get(n, given.get(s.dataset.task, 1.0)) for n, s in splits.items()}
    options: dict[str, Any] = {"weights": factors, "one_dataset": len(splits) == 1}
    if isinstance(config, FinetuneConfig):
        if chosen := config.data.class_weights:
            options["class_weights"] = _class_weights(chosen, splits[config.data.dataset])
        options["label_smoothing"] = config.data.label_smoothing
    taught = next(iter(teachers.values()), None)
    if taught is not None:
        settings = taught.config.distillation
        options["kd_weight"] = Schedule(settings.schedule, settings.kd_weight)
        options["temperature"] = settings.temperature
    matching = config.distillation.matching if isinstance(config, DistillConfig) else None
    if taught and matching and matching.enabled:
        directory = taught.models[0]["directory"]
        options["matching"] = StateMatching(
            model.encoder,
            HiddenStatesTeacher(directory, attentions=matching.attention_weight > 0),
            layers=matching.layers,
            hidden_weight=matching.hidden_weight,
            attention_weight=matching.attention_weight,
        )
    return Supervised(model, **options)


def _class_weights(choice: Literal["balanced"] | Mapping[str, float], split: Split) -> Tensor:
    """Return the weight of each label in the loss ``[C]``; 1 is that of an average example. Of
    several labels, balanced weights are the rows without the label by those with it.
    """
    kind = split.task.kind
    assert isinstance(kind, Classify | MultiLabel | Tag)  # others are refused before the start
    if isinstance(choice, Mapping):
        return torch.tensor([choice.get(label, 1.0) for label in kind.labels])
    labels = split.features.gold["labels"]
    if isinstance(kind, MultiLabel):
        have, lack = (labels == 1).sum(0), (labels == 0).sum(0)
        balanced = np.where((have > 0) & (lack > 0), lack / np.maximum(have, 1), 1.0)
        return torch.tensor(balanced, dtype=torch.float32)
    counts = np.bincount(labels[labels != UNKNOWN], minlength=kind.width)
    present = counts > 0
    balanced = counts.sum() / (present.sum() * np.maximum(counts, 1))
    return torch.tensor(np.where(present, balanced, 1.0), dtype=torch.float32)
