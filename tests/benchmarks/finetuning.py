"""Who is compared in fine-tuning: our data path and loop against Hugging Face's ``Trainer`` with
its default collator.

A round is one epoch over the same rows with the same model, so the work is the same; the batches
are each contestant's own.
"""

import logging
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from road_ray.data import miniature
from road_ray.data.batching import BatchStream
from road_ray.data.config import SourceConfig
from road_ray.data.load_split import Split, load_split
from road_ray.data.task_and_dataset import Span
from road_ray.data.tokenizer import load_tokenizer, train_wordpiece
from road_ray.models.config import Attention, EncoderConfig
from road_ray.models.load_weights import suppress_logging
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import TrainingConfig
from tests.benchmarks import shapes
from tests.benchmarks.contestants import learn
from tests.benchmarks.race import gated

_RATE, _MAX_NORM, _SEED = 3e-4, 1.0, 0
_FOR_EVER = 1_000_000
_GOLDS = ("labels", "start_positions", "end_positions")


@dataclass(frozen=True)
class Study:
    """What a contestant is told: the data set, how many of its examples, the encoder's size."""

    dataset: str
    examples: int
    batch_size: int
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    precision: Literal["fp32", "bf16"] = "fp32"
    attention: Attention = "auto"  # ours

    @property
    def place(self) -> Path:
        return Path(os.environ.get("ROAD_DATA") or miniature.cached())

    def tokenizer(self) -> Any:
        """BERT's vocabulary where the data has it; else one learnt from its questions."""
        vocab = self.place / "vocab" / "bert-base-uncased-vocab.txt"
        return load_tokenizer(vocab) if vocab.is_file() else _learnt(self.place)

    def split(self, tokenizer: Any) -> Split:
        source = SourceConfig(root=str(self.place), max_rows=self.examples)
        return load_split(self.dataset, "train", source, tokenizer)


@cache
def _learnt(place: Path) -> Any:
    return train_wordpiece([(place / "squad" / "train-v2.0.json").read_text()], vocab_size=1000)


def ours(study: Study, connection: Connection) -> None:
    """The batches and the loop of `finetune`, with its journal."""
    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    stream = BatchStream(
        split.features, study.batch_size, _SEED, pad_id=int(tokenizer.pad_token_id)
    )

    def steps(start: int) -> Iterator[list[Any]]:
        batches = stream.since(start)
        for _ in gated(connection, count()):  # an epoch
            for _ in range(stream.batches_per_epoch):
                yield [next(batches)]

    objective = Supervised(shapes.model_of(study.encoder, len(tokenizer), split.task))
    config = TrainingConfig(precision=study.precision)
    learn(objective, steps, config, peak_lr=_RATE, attention=study.attention)


def hugging_face(study: Study, connection: Connection) -> None:
    """The same model and rows in ``Trainer``, its arguments as they come but for what is equal."""
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    class Told(TrainerCallback):
        """Lets the referee into the loop."""

        def __init__(self) -> None:
            self.epochs = gated(connection, count())

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            next(self.epochs)

    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    span = isinstance(split.task.kind, Span)
    auto = AutoModelForQuestionAnswering if span else AutoModelForSequenceClassification
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        started = shapes.model_of(study.encoder, len(tokenizer), split.task)
        started.export(Path(directory), split.task.name)
        with suppress_logging():
            model = auto.from_pretrained(directory)
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=directory,
                per_device_train_batch_size=study.batch_size,
                num_train_epochs=_FOR_EVER,
                learning_rate=_RATE,
                lr_scheduler_type="constant",
                max_grad_norm=_MAX_NORM,
                bf16=study.precision == "bf16",
                use_cpu=not torch.cuda.is_available(),
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
            ),
            train_dataset=rows_of(split),
            data_collator=DataCollatorWithPadding(tokenizer),
            callbacks=[Told()],
        )
        trainer.train()


def rows_of(split: Split) -> Any:
    """The encoded rows as a data set of Hugging Face's, unpadded."""
    from datasets import Dataset

    features, columns = split.features, {}
    tokens = [features.row(row) for row in range(len(features))]
    columns["input_ids"] = [row.tolist() for row in tokens]
    columns["attention_mask"] = [[1] * len(row) for row in tokens]
    if (segments := features.segments) is not None:
        columns["token_type_ids"] = [x.tolist() for x in np.split(segments, features.bounds[1:-1])]
    for name in set(_GOLDS) & features.gold.keys():
        columns[name] = features.gold[name].tolist()
    return Dataset.from_dict(columns)


def operations(study: Study) -> float:
    """Floating-point operations of an epoch: products of the encoder only, real tokens only."""
    lengths = study.split(study.tokenizer()).features.lengths
    return 3 * sum(shapes.encoder_flops(study.encoder, int(length)) for length in lengths)
