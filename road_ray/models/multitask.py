"""One encoder with one head per task, and its export in the format of Hugging Face."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from road_ray.data.batching import Batch, encoder_inputs
from road_ray.data.model_files import OWN_HEAD, locate_model, read_config, stored_head
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    JointSpan,
    Kind,
    MultiLabel,
    Regress,
    Span,
    SpecialHead,
    Tag,
    Task,
    special_head,
)
from road_ray.errors import CheckpointError
from road_ray.models.architectures import (
    FIRST_TOKEN,
    allow_first_token,
    encoder_class,
    input_names,
    model_class,
)
from road_ray.models.attention import use_cpu_kernels
from road_ray.models.encoder import load_encoder
from road_ray.models.heads import OwnHead, TransformersHead, build_head
from road_ray.models.load_weights import (
    LabelMap,
    check_finite,
    label_order,
    load_stored,
    stored_part,
    suppress_logging,
)
from road_ray.system.files import read_json, write_json_atomic

_log = logging.getLogger(__name__)


class MultitaskModel(nn.Module):
    """Encoder with task heads; ``forward(batch)`` returns the logits of the head of
    ``batch["task"]``.

    ``[B, C]`` for classes and several labels, ``[B, 1]`` for a regression, ``[B, 2, L]``
    for spans (joint ones: see their head), ``[B, L, C]`` for tags, ``[B, N]`` for choices (whose
    inputs are ``[B, N, L]``).
    """

    def __init__(self, encoder: PreTrainedModel, tasks: Sequence[Task]) -> None:
        super().__init__()
        use_cpu_kernels(encoder)
        allow_first_token(encoder)
        self.encoder = encoder
        self._inputs = input_names(encoder)
        self.tasks = {task.name: task for task in tasks}
        self.heads, self.head_names = nn.ModuleDict(), dict[str, str]()
        for task in tasks:
            # PyTorch refuses names such as "v1.2" and "train"; no task name has a space.
            refused = "." in task.name or hasattr(nn.ModuleDict(), task.name)
            name = f"task {task.name.replace('.', ' ')}" if refused else task.name
            self.head_names[task.name] = name
            self.heads[name] = build_head(task, encoder.config)
        self._is_told = False  # what transformers cannot load

    def forward(self, batch: Batch) -> Tensor:
        return self.read(self.states(batch).last_hidden_state, batch)

    def read(self, hidden: Tensor, batch: Batch) -> Tensor:
        """Return the same logits from the encoder's ``hidden`` states."""
        logits: Tensor = self.heads[self.head_names[batch["task"]]](hidden, batch)
        kind = self.tasks[batch["task"]].kind
        if isinstance(kind, Regress):
            logits = kind.low + kind.range * logits.float()  # bf16 has steps of 2 at 500
        return logits

    def states(self, batch: Batch, **outputs: bool) -> Any:
        """Return the encoder's output, whose ``last_hidden_state`` is ``[B, L, D]``, or
        ``[B * N, L, D]`` of choices, and may be that of the first token alone if the head of the
        batch reads no other. ``outputs`` are ``output_hidden_states=True`` and
        ``output_attentions=True``.
        """
        head = self.heads[self.head_names[batch["task"]]]
        if not outputs and isinstance(head, TransformersHead) and head.reads_first_token:
            outputs = {FIRST_TOKEN: True}
        return self.encoder(**encoder_inputs(batch, self._inputs), **outputs)

    def export(self, directory: Path, task: str) -> None:
        """Write encoder and head of ``task`` in the format of ``transformers``."""
        kind = self.tasks[task].kind
        labels: tuple[str, ...] = ("score",)  # the names of the outputs
        if isinstance(kind, Classify | MultiLabel | Tag):
            labels = kind.labels
        elif isinstance(kind, Span):
            labels = ("start", "end")
        elif isinstance(kind, Choose):
            labels = tuple(f"choice {number}" for number in range(kind.choices))
        # An encoder fine-tuned on another task has the labels of that task in its configuration.
        problems = {
            Classify: "single_label_classification",
            MultiLabel: "multi_label_classification",
            Regress: "regression",
        }
        changes = {
            "id2label": dict(enumerate(labels)),
            "label2id": {label: index for index, label in enumerate(labels)},
            "problem_type": problems.get(type(kind)),
        }
        special = special_head(self.tasks[task])
        if special is not None:
            self._export_special(directory, task, special, changes)
            return
        config = AutoConfig.for_model(**(self.encoder.config.to_dict() | changes))
        # Random weights would draw from the global generator, while the training goes on.
        with torch.device("meta"):
            exported = model_class(kind, config)(config)
        prefix = exported.base_model_prefix
        state = {f"{prefix}.{name}": x for name, x in self.encoder.state_dict().items()}
        head: Any = self.heads[self.head_names[task]]
        exported.load_state_dict(state | head.model.state_dict(), assign=True)
        if isinstance(kind, Regress):  # transformers has the numbers in the labels' units
            last = _last_layer(exported)
            last.weight = nn.Parameter(last.weight.detach() * kind.range)
            last.bias = nn.Parameter(last.bias.detach() * kind.range + kind.low)
        with suppress_logging():
            exported.save_pretrained(directory)

    def _export_special(
        self, directory: Path, task: str, special: SpecialHead, changes: dict[str, Any]
    ) -> None:
        """Write the encoder in the format of ``transformers``, and the head in a file beside it."""
        with suppress_logging():
            self.encoder.save_pretrained(directory)
        path, kind, own = directory / "config.json", self.tasks[task].kind, self.tasks[task].head
        if special.kind is not JointSpan:  # so that loading can check the labels of the head
            changes |= {} if own is None else {OWN_HEAD: own}
            write_json_atomic(path, read_json(path) | changes)
        head = self.heads[self.head_names[task]]
        state = {part: x.detach().cpu() for part, x in head.state_dict().items()}
        if isinstance(kind, Regress):  # as above
            state["scale"] = state["scale"] * kind.range
            state["shift"] = state["shift"] * kind.range + kind.low
        file = directory / special.file_name
        save_file(state, file)
        if self._is_told:
            return
        self._is_told = True
        _log.warning(
            "%s: transformers has no class for the %s: it loads the encoder; only road_ray reads "
            "%s (%s)",
            directory, special.name, file.name, special.override,
        )  # fmt: skip


class LikeTransformers(nn.Module):
    """A model with the head of one task, called as a classifier of ``transformers`` is."""

    def __init__(self, model: MultitaskModel, task: str) -> None:
        super().__init__()
        self.model: Any = model
        self.task, self.base_model, self.config = task, model.encoder, model.encoder.config

    def forward(
        self, input_ids: Tensor, attention_mask: Any = None, token_type_ids: Any = None
    ) -> SequenceClassifierOutput:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        batch = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": token_type_ids}
        return SequenceClassifierOutput(logits=self.model(batch | {"task": self.task}))


def _last_layer(model: nn.Module) -> nn.Linear:
    """Return the last layer of a head, whose outputs are the labels."""
    layers = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    known = [name for name in layers if name.partition(".")[0] == "classifier"]
    return layers[(known or list(layers))[-1]]


@torch.no_grad()
def _put_in_order(head: nn.Module, order: Sequence[int] | None, kind: Kind) -> None:
    """Put the outputs of a loaded head into the task's order, or in units of its range."""
    if isinstance(head, OwnHead):
        if order is not None:
            head.order.copy_(head.order[list(order)])
        if isinstance(kind, Regress):
            head.scale.div_(kind.range)
            head.shift.sub_(kind.low).div_(kind.range)
        return
    last = _last_layer(head)
    if order is not None:
        last.weight.copy_(last.weight[list(order)])
        last.bias.copy_(last.bias[list(order)])
    if isinstance(kind, Regress):
        last.weight.div_(kind.range)
        last.bias.sub_(kind.low).div_(kind.range)


def keep_pooler(model: MultitaskModel, directory: str) -> dict[str, list[str]]:
    """Load the pooler of a stored encoder, which BERT and ALBERT train on pairs of sentences, into
    the heads that read it. Return ``kept`` and ``new`` as ``load_parts`` does.
    """
    given = [x.model.base_model for x in model.heads.values() if isinstance(x, TransformersHead)]
    poolers = [part.pooler for part in given if part.pooler is not None]
    stored = stored_part(locate_model(directory), "pooler") if poolers else {}
    if not all(part.state_dict().keys() == stored.keys() for part in poolers):
        poolers = []
    for part in poolers:
        part.load_state_dict(stored)
    return {"kept": ["pooler"] if poolers else [], "new": list(model.tasks)}


def load_trained(directory: str, task: Task, label_map: LabelMap | None = None) -> MultitaskModel:
    """Load encoder *and* head of a fine-tuned model, for evaluation or further training; the labels
    are put into the order of the task's, by name.
    """
    place = locate_model(directory)
    config, own = read_config(place), stored_head(place)
    if task.head not in (None, own):
        raise CheckpointError(
            f"{directory}: its head is {own or 'of transformers'}, that of task {task.name} is "
            f"{task.head}\n  fix: fine-tune it with data.sets.NAME.head={task.head}"
        )
    task = replace(task, head=own)
    special = special_head(task)
    if special is not None:
        return _load_special(str(place), task, special, label_map)
    _, without_pooler = encoder_class(config)
    trained, missing = load_stored(model_class(task.kind, config), place)
    if missing:
        raise CheckpointError(
            f"{directory}: holds no head for task {task.name}; missing: {', '.join(missing)}\n"
            f"  fix: fine-tune it first, or name a model of task {task.name}"
        )
    # A choice has one logit, for any number of labels in its configuration.
    counted = not isinstance(task.kind, Choose)
    if counted and trained.config.num_labels != task.kind.width:
        raise CheckpointError(
            f"{directory}: its head gives {trained.config.num_labels} numbers, "
            f"task {task.name} wants {task.kind.width}\n  fix: name a model of task {task.name}"
        )
    state = trained.state_dict()
    encoder: Any = trained.base_model
    if without_pooler:  # it is the head's
        encoder.pooler = None
    model = MultitaskModel(encoder, [task])
    head: Any = model.heads[model.head_names[task.name]]
    head.model.load_state_dict({name: state[name] for name in head.model.state_dict()})
    order = label_order(place, trained.config.id2label, task, label_map)
    _put_in_order(head, order, task.kind)
    return model


def _load_special(
    directory: str, task: Task, special: SpecialHead, label_map: LabelMap | None
) -> MultitaskModel:
    model = MultitaskModel(load_encoder(directory), [task])
    path = Path(directory) / special.file_name
    try:
        state = load_file(path)
        check_finite(path, state)
        head = model.heads[model.head_names[task.name]]
        head.load_state_dict(state)
        order = label_order(Path(directory), model.encoder.config.id2label, task, label_map)
        _put_in_order(head, order, task.kind)
    except (CheckpointError, OSError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"{directory}: holds no head for task {task.name}: {error}\n"
            f"  fix: fine-tune it with {special.override}, or evaluate without that key"
        ) from error
    return model
