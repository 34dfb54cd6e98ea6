"""Every objective, tiny, with a batch: pre-training, each kind of head, distillation."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraForSequenceClassification,
    ElectraModel,
)

from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    JointSpan,
    Kind,
    Reason,
    Regress,
    Span,
    Tag,
    Task,
)
from road_ray.distillation.hidden_state_matching import HiddenStatesTeacher, StateMatching
from road_ray.models.multitask import MultitaskModel
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.generator import Frequencies
from road_ray.objectives.pretraining.registry import OBJECTIVES, models_of, objective_class
from road_ray.objectives.supervised import Supervised
from tests.tiny_encoder import small_config

KINDS = (*OBJECTIVES, "second_stage")
_OF_KIND = {
    "teams": {"shared_layers": 1, "candidates": 3},
    "mc_bert": {"candidates": 4},
    "second_stage": {"tying": "none"},
    "temperature": {"temperature": 2.0},
    "disallow_correct": {"disallow_correct": True},
}
_MASK = 4
VOCAB, TEACHERS, CHOICES = 60, 2, 3
HEADS: dict[str, Kind] = {
    "classes": Classify(("a", "b", "c")),
    "score": Regress(0, 5),
    "span": Span(),
    "joint_span": JointSpan(),
    "tags": Tag(("O", "B-x", "I-x")),
    "choices": Choose(CHOICES),
    "pair": Reason(("a", "b")),
}
OPTIONS = ("temperature", "disallow_correct", "frequencies")
PRETRAINED = (*KINDS, *OPTIONS)
SUPERVISED = tuple(f"{head} head" for head in HEADS)
DISTILLED = tuple(
    f"{head} {how}"
    for head in ("classes", "score", "span", "tags", "choices")
    for how in ("distilled", "each teacher")
)
INTERMEDIATE = {"hidden states": False, "attention maps": True}
CASES = (*PRETRAINED, *SUPERVISED, *DISTILLED, *INTERMEDIATE)


def case_of(
    name: str,
    directory: Path,
    *,
    length: int = 16,
    rows: int = 6,
    dropout: float = 0.1,
    layers: int = 2,
) -> tuple[Objective, dict[str, Any]]:
    """The objective ``name`` and a batch of ``rows`` rows, padded to ``length``."""
    made = _objective_of(name, directory, dropout, layers)
    return made.train(), batch_of(name, made, length=length, rows=rows)


def _objective_of(name: str, directory: Path, dropout: float, layers: int) -> Objective:
    if name in PRETRAINED:
        return objective_of(name, dropout=dropout, layers=layers)
    if name in INTERMEDIATE:
        return _intermediate(directory, dropout, layers, attentions=INTERMEDIATE[name])
    head = name.split(" ")[0]
    torch.manual_seed(0)
    size = config_of(32, dropout, layers)
    model = MultitaskModel(ElectraModel(size), [Task(head, HEADS[head])])
    return Supervised(model)


def _intermediate(directory: Path, dropout: float, layers: int, *, attentions: bool) -> Objective:
    size = config_of(32, dropout, layers)
    torch.manual_seed(1)
    ElectraForSequenceClassification(size).save_pretrained(directory)
    torch.manual_seed(0)
    model = MultitaskModel(ElectraModel(size), [Task("classes", HEADS["classes"])])
    teacher = HiddenStatesTeacher(directory, attentions=attentions)
    weights = {"hidden_weight": 0.5, "attention_weight": 0.5 if attentions else 0.0}
    return Supervised(model, matching=StateMatching(model.encoder, teacher, **weights))


def batch_of(name: str, objective: Objective, *, length: int, rows: int) -> dict[str, Any]:
    """Rows of unequal length, the last three as short as can be, one label unknown."""
    chance = torch.Generator().manual_seed(3)
    head = name.split(" ")[0] if name.split(" ")[0] in HEADS else "classes"
    count = rows * CHOICES if head == "choices" else rows
    lengths = torch.randint(length // 2, length + 1, (count,), generator=chance)
    lengths[0], lengths[-3:] = length, torch.tensor([5, 4, 3])
    tokens = torch.randint(5, VOCAB, (count, length), generator=chance)
    attention = (torch.arange(length) < lengths[:, None]).long()
    tokens[:, 0], tokens[torch.arange(count), lengths - 1] = 2, 3
    batch: dict[str, Any] = {
        "input_ids": tokens * attention,
        "attention_mask": attention,
        "token_type_ids": (torch.arange(length) >= 3).long() * attention,
    }
    if head == "choices":
        batch = {key: value.view(rows, CHOICES, length) for key, value in batch.items()}
    batch |= {"task": head, "dataset": "d", "rows": torch.arange(rows)}
    if name in PRETRAINED:
        noise = torch.rand(objective.noise_channels, rows, length, generator=chance)
        return batch | {"noise": noise}
    batch |= _labels(HEADS[head], lengths, attention, chance)
    if name.endswith(" head"):
        return batch
    return batch | _soft(HEADS[head], batch, chance, each=name.endswith("each teacher"))


def _labels(kind: Kind, lengths: Any, attention: Any, chance: Any) -> dict[str, Any]:
    rows = len(lengths) // (CHOICES if isinstance(kind, Choose) else 1)
    if isinstance(kind, Span):
        ends = lengths - 1
        starts = torch.full_like(ends, 3).minimum(ends)
        starts[1] = ends[1] = -100
        impossible = torch.zeros_like(ends)
        return {"start_positions": starts, "end_positions": ends, "impossible": impossible}
    if isinstance(kind, Regress):
        labels = 5 * torch.rand(rows, generator=chance)
    elif isinstance(kind, Tag):
        labels = torch.randint(0, kind.width, attention.shape, generator=chance)
        labels = labels.masked_fill(attention == 0, -100)
        labels[:, 0] = -100
    else:
        labels = torch.randint(0, kind.width, (rows,), generator=chance)
    labels[1] = -100
    return {"labels": labels}


def _soft(kind: Kind, batch: dict[str, Any], chance: Any, *, each: bool) -> dict[str, Any]:
    rows, length = len(batch["input_ids"]), batch["input_ids"].shape[-1]
    sizes = {Span: (rows, 2, length), Tag: (rows, length, kind.width)}
    size = sizes.get(type(kind), (rows, kind.width))
    logits = torch.randn(TEACHERS, *size, generator=chance)
    weights = 0.5 + torch.rand(TEACHERS, *size[:-1], generator=chance)
    keep = torch.rand(size[:-1], generator=chance) > 0.2
    soft = {"soft_logits": logits.mean(0), "kd_keep": keep}
    return soft | ({"teacher_logits": logits, "teacher_weights": weights} if each else {})


def config_of(hidden: int, dropout: float, layers: int = 2) -> Any:
    """Few layers over a vocabulary of sixty."""
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return small_config(hidden_size=hidden, num_hidden_layers=layers, **dropouts)


def objective_of(kind: str, *, dropout: float, layers: int = 2) -> Objective:
    """The same weights at every call. ``second_stage`` is ELECTRA with a frozen generator,
    ``OPTIONS`` are ELECTRA on other paths through its code.
    """
    torch.manual_seed(0)
    chosen = objective_class(kind if kind in OBJECTIVES else "electra")
    small = config_of(32 if kind == "teams" else 16, dropout, layers)
    large = config_of(32, dropout, layers)
    models = {
        "generator": lambda: ElectraForMaskedLM(small),
        "model": lambda: ElectraForMaskedLM(large),
        "discriminator": lambda: ElectraForPreTraining(large),
    }
    made = [models[name]() for name in models_of(chosen)]
    if kind == "second_stage":
        made[0].requires_grad_(False)
    if kind == "frequencies":
        made[0] = Frequencies(torch.arange(1.0, VOCAB + 1))
    return chosen(*made, special_ids=(0, 2, 3, _MASK), mask_id=_MASK, **_OF_KIND.get(kind, {}))
