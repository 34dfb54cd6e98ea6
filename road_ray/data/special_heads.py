"""Heads that plain transformers has no class for: the key that asks for each, and what it replaces.

Another one is a kind in `specs.py`, an entry here, its value in `SourceConfig` and a file in
`models/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from road_ray.data.schema import (
    Classify,
    Dataset,
    FeatureTag,
    JointSpan,
    Kind,
    Reason,
    Span,
    Tag,
    Task,
)


@dataclass(frozen=True)
class SpecialHead:
    """A head of our own, asked for by ``data.<key>=<value>``."""

    name: str  # for people; its file is called so too
    key: str
    value: str
    kind: type[Kind]  # it says the same as the one that it replaces, and no more
    replaces: type[Kind]
    num_texts: int | None = None  # that a row must have; None: any number

    @property
    def asked_by(self) -> str:
        """The override that asks for it."""
        return f"data.{self.key}={self.value}"

    def fits(self, dataset: Dataset, task: Task) -> bool:
        """Whether a data set of that task can have it."""
        texts = len(dataset.columns.text)
        return type(task.kind) is self.replaces and self.num_texts in (None, texts)

    def put_on(self, dataset: Dataset, task: Task) -> tuple[Dataset, Task]:
        """The data set with this head: another head is another task."""
        other = Task(f"{task.name}_{self.value}", self.kind(**vars(task.kind)))
        return replace(dataset, task=other.name), other


SPECIAL_HEADS = (
    SpecialHead("joint span head", "span_head", "joint", JointSpan, replaces=Span),
    SpecialHead(
        "answer network", "pair_head", "answer_network", Reason, replaces=Classify, num_texts=2
    ),
    SpecialHead("feature tagger", "tag_head", "features", FeatureTag, replaces=Tag),
)


def special_head(kind: Kind) -> SpecialHead | None:
    """The entry of a kind; None for kinds whose heads are Hugging Face's own."""
    return next((head for head in SPECIAL_HEADS if head.kind is type(kind)), None)
