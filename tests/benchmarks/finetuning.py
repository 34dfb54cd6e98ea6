"""Who is compared in fine-tuning: our data path and loop against Hugging Face's ``Trainer`` with
its default collator; our feature building against the ``datasets.map`` of ``run_qa``.

A round is one epoch over the same rows with the same model, so the work is the same; the batches
are each contestant's own.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from road_ray.data import catalog, miniature
from road_ray.data.batching import Batching, BatchStream
from road_ray.data.config import SourceConfig
from road_ray.data.features.encode_examples import encode
from road_ray.data.features.examples_and_features import SpanExample, TextExample
from road_ray.data.load_split import Split, load_split
from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import Classify, Span
from road_ray.data.tokenizer import load_tokenizer, train_wordpiece
from road_ray.evaluation.evaluate_split import evaluate_logits
from road_ray.models.config import EncoderConfig
from road_ray.models.encoder import hugging_face_config
from road_ray.models.load_weights import suppress_logging
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.supervised import Supervised
from road_ray.training.config import TrainingConfig
from tests.benchmarks import shapes
from tests.benchmarks.learning import learn
from tests.benchmarks.race import gated

_RATE, _MAX_NORM, _SEED = 3e-4, 1.0, 0
_MAX_LENGTH, _OVERLAP = 384, 128
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
    clock: str = "wall"
    root: Path | None = None  # None: ROAD_DATA, or the miniature world

    @property
    def place(self) -> Path:
        settings = self.root or os.environ.get("ROAD_DATA")
        return Path(settings) if settings else miniature.cached()

    def tokenizer(self) -> Any:
        """BERT's vocabulary where the data has it; else one learnt from the data set."""
        vocab = self.place / "vocab" / "bert-base-uncased-vocab.txt"
        return load_tokenizer(vocab) if vocab.is_file() else _learnt(self.place, self.dataset)

    def split(self, tokenizer: Any) -> Split:
        source = SourceConfig(root=str(self.place), max_rows=self.examples, cache="off")
        return load_split(self.dataset, "train", source, tokenizer)


@cache
def _learnt(place: Path, dataset: str) -> Any:
    examples = read_split(catalog.dataset(dataset), place, "train")
    texts = [
        " ".join(e.texts) if isinstance(e, TextExample) else f"{e.question} {e.context}"
        for e in examples
        if isinstance(e, TextExample | SpanExample)
    ]
    return train_wordpiece(texts, vocab_size=1000)


def ours(study: Study, connection: Connection) -> None:
    """The batches and the loop of `finetune`, with its journal."""
    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    stream = BatchStream(
        split.features,
        Batching(study.batch_size, _SEED),
        pad_id=int(tokenizer.pad_token_id),
    )

    def steps(start: int) -> Iterator[list[Any]]:
        batches = stream.since(start)
        for _ in gated(connection, count(), study.clock):  # an epoch
            for _ in range(stream.batches_per_epoch):
                yield [next(batches)]

    objective = Supervised(model_of(study, split, tokenizer))
    learn(objective, steps, TrainingConfig(precision=study.precision), peak_lr=_RATE)


def model_of(study: Study, split: Split, tokenizer: Any, seed: int = _SEED) -> MultitaskModel:
    """A new model of the study's size with the head of its task."""
    from transformers import ElectraModel

    torch.manual_seed(seed)
    return MultitaskModel(
        ElectraModel(hugging_face_config(study.encoder, len(tokenizer))), [split.task]
    )


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
            self.epochs = gated(connection, count(), study.clock)

        def on_epoch_begin(self, *_: Any, **__: Any) -> None:
            next(self.epochs)

    tokenizer = study.tokenizer()
    split = study.split(tokenizer)
    span = isinstance(split.task.kind, Span)
    auto = AutoModelForQuestionAnswering if span else AutoModelForSequenceClassification
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        model_of(study, split, tokenizer).export(Path(directory), split.task.name)
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


@dataclass(frozen=True)
class Built:
    """Seconds of each round of building features of the same examples."""

    examples: int
    ours: list[float]
    mapped: list[float]
    tokenised: list[float]  # the tokenizer alone, every distinct text once


def built(study: Study, repeats: int) -> Built:
    """Training features of the first examples: ours, and by ``datasets.map`` with one process."""
    import datasets

    tokenizer = study.tokenizer()
    entry = catalog.dataset(study.dataset)
    task = catalog.task(entry.task)
    examples = list(read_split(entry, study.place, "train")[: study.examples])
    table, prepare = _as_examples_scripts(study, examples, tokenizer, entry, task)
    texts = list(dict.fromkeys(text for e in examples for text in _texts_of(e)))
    contests: dict[str, Callable[[], Any]] = {
        "ours": partial(encode, examples, entry, task, tokenizer, train=True),
        "mapped": partial(
            table.map,
            prepare,
            batched=True,
            remove_columns=table.column_names,
            load_from_cache_file=False,
        ),
        "tokenised": partial(_tokenised, tokenizer, texts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contests}
    now = {"wall": time.perf_counter, "cpu": time.process_time}[study.clock]
    datasets.disable_progress_bars()
    try:
        for turn in range(repeats + 1):
            for name, make in contests.items():
                began = now()
                make()
                if turn:
                    seconds[name].append(now() - began)
    finally:
        datasets.enable_progress_bars()
    return Built(len(examples), **seconds)


def _tokenised(tokenizer: Any, texts: list[str]) -> None:
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # a call of the tokenizer leaves its limits behind
    backend.encode_batch(texts, add_special_tokens=False)


def _texts_of(example: Any) -> tuple[str, ...]:
    if isinstance(example, SpanExample):
        return (example.question, example.context)
    return tuple(example.texts)


def _as_examples_scripts(
    study: Study, examples: Sequence[Any], tokenizer: Any, entry: Any, task: Any
) -> tuple[Any, Callable[[Any], Any]]:
    """The examples as an Arrow table, and what ``run_qa`` or ``run_glue`` does with its rows."""
    from datasets import Dataset

    if isinstance(task.kind, Span):
        rows = {
            "question": [e.question for e in examples],
            "context": [e.context for e in examples],
            "answers": [
                {
                    "text": [a.text for a in e.answers],
                    "answer_start": [a.start for a in e.answers],
                }
                for e in examples
            ],
        }
        return Dataset.from_dict(rows), partial(_windows_as_run_qa, tokenizer)
    assert isinstance(task.kind, Classify)
    known = {name: number for number, name in enumerate(task.kind.labels)}
    known |= {output: known[name] for output, name in entry.label_map.items()}
    texts = {f"text{n}": [e.texts[n] for e in examples] for n in range(len(entry.columns.text))}
    names = list(texts)

    def prepare(batch: Any) -> Any:
        return tokenizer(*(batch[name] for name in names), max_length=128, truncation=True)

    return Dataset.from_dict(texts | {"label": [known[e.label] for e in examples]}), prepare


def _windows_as_run_qa(tokenizer: Any, batch: Any) -> Any:
    """Windows with gold positions, row by row. Source: huggingface/transformers, run_qa.py."""
    result = tokenizer(
        [question.lstrip() for question in batch["question"]],
        batch["context"],
        truncation="only_second",
        max_length=_MAX_LENGTH,
        stride=_OVERLAP,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    starts, ends = [], []
    examples = result.pop("overflow_to_sample_mapping")
    for row, offsets in enumerate(result.pop("offset_mapping")):
        ids, sides = result["input_ids"][row], result.sequence_ids(row)
        none = ids.index(tokenizer.cls_token_id)
        answer = batch["answers"][examples[row]]
        if not answer["answer_start"]:
            starts.append(none)
            ends.append(none)
            continue
        begin = answer["answer_start"][0]
        stop = begin + len(answer["text"][0])
        first, last = 0, len(ids) - 1
        while sides[first] != 1:
            first += 1
        while sides[last] != 1:
            last -= 1
        if not (offsets[first][0] <= begin and offsets[last][1] >= stop):
            starts.append(none)
            ends.append(none)
            continue
        while first < len(offsets) and offsets[first][0] <= begin:
            first += 1
        starts.append(first - 1)
        while offsets[last][1] >= stop:
            last -= 1
        ends.append(last + 1)
    result["start_positions"], result["end_positions"] = starts, ends
    return result


def answering(study: Study, repeats: int) -> tuple[int, list[float]]:
    """Windows, and the seconds of each round from their logits to all figures of SQuAD 2.0.

    Random logits, of which no window has an obvious best span: the most that there is to sort.
    """
    tokenizer = study.tokenizer()
    source = SourceConfig(root=str(study.place), max_judged_rows=study.examples, cache="off")
    split = load_split(study.dataset, "dev", source, tokenizer)
    chance = np.random.default_rng(_SEED)
    lengths = split.features.lengths.tolist()
    now = {"wall": time.perf_counter, "cpu": time.process_time}[study.clock]
    actual = []
    for _ in range(repeats):
        # New ones each round: the scores of an answer that was seen before are kept.
        logits = [chance.standard_normal((2, length), np.float32) for length in lengths]
        began = now()
        evaluate_logits(split, logits)
        actual.append(now() - began)
    return len(split.features), actual
