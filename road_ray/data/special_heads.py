"""Heads that transformers has no class for: the key that selects each, and the head it replaces.

To add one, add a kind in `task_and_dataset.py`, an entry here, its value in `SourceConfig` and a
class in `models/heads.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from road_ray.data.task_and_dataset import (
    Classify,
    Dataset,
    JointSpan,
    Kind,
    Reason,
    Span,
    Task,
)


@dataclass(frozen=True)
class SpecialHead:
    """A head of road_ray, selected by ``data.<key>=<value>``."""

    name: str  # in messages
    key: str
    value: str
    kind: type[Kind]  # has the fields of the one that it replaces
    replaces: type[Kind]
    num_texts: int | None = None  # of a row; None: any number

    @property
    def file_name(self) -> str:
        """Name of the weights file beside the encoder's."""
        return f"{self.name.replace(' ', '_')}.safetensors"

    @property
    def override(self) -> str:
        """Override that selects the head."""
        return f"data.{self.key}={self.value}"

    def fits(self, dataset: Dataset, task: Task) -> bool:
        """Return True if a data set of that task can have this head."""
        texts = len(dataset.columns.text)
        return type(task.kind) is self.replaces and self.num_texts in (None, texts)

    def put_on(self, dataset: Dataset, task: Task) -> tuple[Dataset, Task]:
        """Return data set and task with this head; another head is another task."""
        other = Task(f"{task.name}_{self.value}", self.kind(**vars(task.kind)))
        return replace(dataset, task=other.name), other


SPECIAL_HEADS = (
    SpecialHead("joint span head", "span_head", "joint", JointSpan, replaces=Span),
    SpecialHead(
        "answer network", "pair_head", "answer_network", Reason, replaces=Classify, num_texts=2
    ),
)


def special_head(kind: Kind) -> SpecialHead | None:
    """Return the entry of a kind; None for kinds with a head of Hugging Face."""
    return next((head for head in SPECIAL_HEADS if head.kind is type(kind)), None)
