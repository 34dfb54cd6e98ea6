"""Loading of finished models for predictions: ``load(MODEL)`` returns a ``Predictor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.data.encode_examples import row_lengths
from road_ray.data.model_files import head_directory, model_record, read_config, stored_head
from road_ray.data.task_and_dataset import (
    HEADS,
    SPECIAL_HEADS,
    Choose,
    Classify,
    JointSpan,
    Kind,
    MultiLabel,
    Reason,
    Regress,
    Span,
    Tag,
    Task,
)
from road_ray.data.tokenizer import check_vocabulary, load_tokenizer
from road_ray.errors import CheckpointError, ConfigError, require
from road_ray.evaluation.metrics import stored_threshold
from road_ray.inference.predictor import Predictor
from road_ray.models.architectures import longest_row
from road_ray.models.encoder import model_directory
from road_ray.models.multitask import load_trained
from road_ray.models.precision import autocast_dtype, default_device, precision_of

if TYPE_CHECKING:
    from road_ray.models.config import Precision

ONNX = "onnx"  # the part of road_ray.json on an exported model
_ERRORS_ONLY = 3  # severity of ONNX Runtime's log


def load(
    model: str | Path,
    *,
    head: str | None = None,
    device: str | None = None,
    precision: Precision = "fp32",
    max_length_tokens: int | None = None,
    threshold: float | None = None,
    n_best: int = 1,
    min_confidence: float = 0.0,
) -> Predictor:
    """Load a model with its head for predictions.

    ``model`` is a run directory, a directory in the format of Hugging Face or of `road export`, or
    a name of the hub. ``head`` selects one of several heads. ``precision`` is ``fp32`` (always of
    numbers), ``bf16`` or ``auto`` (bf16 where the device gains by it). ``max_length_tokens``
    defaults to that of the training, for other models to all positions (answers: 384).
    ``threshold`` is the no-answer threshold, by default the stored one; ``inf``, as a model without
    one, always answers, ``-inf`` never does. Of several labels it is the probability above which
    each is predicted. ``n_best`` is the number of answers listed. Below ``min_confidence``, a class
    or choice is None. A stored temperature divides logits.

    Raises ``CheckpointError`` for a directory without a head that predicts.

    >>> import road_ray as rr
    >>> sorted(rr.load("runs/finetune")("a fine film")["scores"])
    ['negative', 'positive']
    """
    place, record, task = _head(str(model), head)
    own = any((place / name).is_file() for name in ("tokenizer.json", "vocab.txt"))
    tokenizer = load_tokenizer(place if own else place.parents[1])  # of all heads of a model
    where, dtype = torch.device(device) if device else default_device(), None
    runnable: Callable[[Batch], Tensor]
    if isinstance(facts := record.get(ONNX), dict):
        _check_onnx_options(place, device, precision)
        where, runnable = torch.device("cpu"), OnnxModel(place / Path(str(facts.get("file"))).name)
        positions, vocab_size = int(facts["longest_row_tokens"]), read_config(place).vocab_size
    else:
        runnable = trained = load_trained(str(place), task).to(where).eval()
        width = trained.encoder.config.hidden_size
        dtype = autocast_dtype(precision_of(task.kind, precision), where, width)
        positions, vocab_size = longest_row(trained.encoder), trained.encoder.config.vocab_size
    check_vocabulary(vocab_size, len(tokenizer), str(place))
    length, longest = row_lengths(record, task, tokenizer, positions)
    return Predictor(
        model=runnable,
        tokenizer=tokenizer,
        task=task,
        device=where,
        dtype=dtype,
        max_length_tokens=max_length_tokens or length,
        longest_row_tokens=longest,
        threshold=stored_threshold(record) if threshold is None else threshold,
        n_best=n_best,
        record=record,
        min_confidence=min_confidence,
    )


def task_of(model: str | Path) -> Task:
    """Return the task of a model with one head, with the labels of its ``config.json``."""
    return _head(str(model), None)[2]


def _head(model: str, head: str | None) -> tuple[Path, dict[str, Any], Task]:
    """Return the directory of a head, its record and its task, whose name is that of the directory
    in a multi-task model, else that of the record, else that of the model.
    """
    place = head_directory(model_directory(model, "model"), head)
    record = model_record(place)
    name = record.get("task") or Path(model).expanduser().resolve().name
    if place.parent.name == "heads":
        name = place.name
    return place, record, Task(str(name), _kind_of(place), stored_head(place))


def _kind_of(place: Path) -> Kind:
    """Return the kind of head in a model directory, with its labels, by its configuration."""
    config = read_config(place)
    labels = tuple(str(config.id2label[number]) for number in sorted(config.id2label))
    for special in SPECIAL_HEADS:
        if (place / special.file_name).is_file():
            return JointSpan() if special.kind is JointSpan else Reason(labels)
    own = stored_head(place) is not None  # then the architecture is that of the encoder
    name = HEADS[Classify] if own else (config.architectures or [""])[0]
    kinds = [kind for kind, suffix in HEADS.items() if name.endswith(suffix)]
    if Span in kinds:
        return Span()
    if Tag in kinds:
        return Tag(labels)
    if Choose in kinds:
        return Choose(len(labels))
    if not kinds:
        raise CheckpointError(
            f"{place}: {name or 'its config.json'} has no head of a task\n"
            f"  allowed: models {', '.join(dict.fromkeys(HEADS.values()))}\n"
            "  fix: fine-tune it with `road finetune`, or name the directory of a fine-tuned model"
        )
    if config.problem_type == "multi_label_classification":
        return MultiLabel(labels)
    if len(labels) == 1:
        return Regress(0.0, 1.0)  # unscaled: the model gives the task's numbers
    if config.problem_type not in (None, "single_label_classification"):
        raise CheckpointError(
            f"{place / 'config.json'}: problem_type = {config.problem_type!r} with {len(labels)} "
            "labels: only labels or one number of a row are predicted\n"
            "  allowed: single_label_classification, or multi_label_classification\n"
            "  fix: name such a model, or fine-tune one with `road finetune`"
        )
    return Classify(labels)


def _check_onnx_options(place: Path, device: str | None, precision: Precision) -> None:
    if device not in (None, "cpu") or precision == "bf16":
        key, value = ("device", device) if precision != "bf16" else ("precision", precision)
        raise ConfigError(
            f"{key} = {value}: {place} is an ONNX model, which runs in its own precision on the "
            f"CPU\n  fix: leave {key} out, or name the model that was exported"
        )


class OnnxModel:
    """A model in ONNX Runtime on the CPU; ``model(batch)`` returns its logits.

    It uses as many threads as PyTorch, so ``OMP_NUM_THREADS`` counts. Raises ``ConfigError`` if
    ONNX Runtime is not installed, ``CheckpointError`` for a file that it cannot read.
    """

    def __init__(self, path: Path) -> None:
        require("ONNX", "onnx", "onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise CheckpointError(
                f"{path}: ONNX Runtime cannot read it: {' '.join(str(error).split())[:200]}\n"
                "  fix: repeat `road export`"
            ) from error
        self._inputs = [tensor.name for tensor in self._session.get_inputs()]
        size = self._session.get_inputs()[0].shape[1:-1]
        self.choices = next((n for n in size if isinstance(n, int)), None)  # of earlier exports

    def __call__(self, batch: Batch) -> Tensor:
        tensors: Mapping[str, Any] = batch
        # The exported model has an input for segments, also where the tokenizer gives none.
        zeros = torch.zeros_like(batch["input_ids"])
        inputs = {name: tensors.get(name, zeros).numpy() for name in self._inputs}
        (logits,) = self._session.run(None, inputs)
        return torch.from_numpy(logits)
