"""Types of examples as read from files, and of features, their rows of token ids.

Rows are ragged and unpadded; batches pad them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

# An unknown label, also in the float labels of a regression; PyTorch's ignore_index.
UNKNOWN = -100
IMPOSSIBLE = "impossible"  # label of joint spans: 1 if the question has no answer
NO_WINDOWS = "none"  # pooling of texts that are truncated
FURTHER = "labels/"  # prefix of labels for further heads, followed by a task's name

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bytes = NDArray[np.int8]


# Fields of an example that say what is right, and their values where that is not known.
_GOLD: dict[str, Any] = {"label": None, "answer": None, "tags": None, "labelled": False}
_GOLD |= dict.fromkeys(("answers", "labels", "references", "accepted"), ())


@dataclass(frozen=True)
class _Example:
    def unlabelled(self) -> Self:
        """Return a copy without labels and answers."""
        return replace(self, **{name: _GOLD[name] for name in vars(self).keys() & _GOLD.keys()})


@dataclass(frozen=True)
class TextExample(_Example):
    """A sentence or a pair with its label as written in the file; ``where`` is ``file:line``."""

    id: str
    texts: tuple[str, ...]
    label: str | None
    where: str


@dataclass(frozen=True)
class Answer:
    """A reference answer: ``context[start:start + len(text)] == text``."""

    text: str
    start: int


@dataclass(frozen=True)
class SpanExample(_Example):
    """A question about a context. Without answers, the context does not answer it, or the answers
    are unknown (``labelled`` is False).

    ``labels`` are ``(task, label)`` of further heads. ``references`` are the answers of all
    annotators, where the official scorer compares them with each other (QuAC); ``accepted`` are the
    texts that it takes in place of ``answers`` (MRQA). ``language`` is that of its data set.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    where: str
    labels: tuple[tuple[str, str], ...] = ()
    labelled: bool = True
    references: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    language: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Question and context."""
        return (self.question, self.context)


@dataclass(frozen=True)
class TagExample(_Example):
    """The words of a sentence with a tag each (IOB2 for entities), or without tags."""

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    where: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The words."""
        return self.words


@dataclass(frozen=True)
class ChoiceExample(_Example):
    """A question with its choices, and the index of the right one if it is known."""

    id: str
    question: str
    choices: tuple[str, ...]
    answer: int | None
    where: str

    @property
    def texts(self) -> tuple[str, ...]:
        """Question and choices."""
        return (self.question, *self.choices)


Example = TextExample | SpanExample | TagExample | ChoiceExample


def fold_text(example: Example) -> str:
    """Return the text that decides the fold: a model that has seen one question about a context has
    seen the context; it is the same for a pair in either order.
    """
    match example:
        case TextExample():
            return "\n".join(sorted(example.texts, key=str.casefold))
        case TagExample():
            return " ".join(example.words)
    return example.context if isinstance(example, SpanExample) else example.question


@dataclass(frozen=True)
class Features:
    """Encoded rows, unpadded: row ``r`` holds ``tokens[bounds[r]:bounds[r + 1]]``.

    ``first_segment[r]`` is the number of tokens before the second text, all if there is one text.
    ``segments`` are the token types that the tokenizer gives (``[tokens]``), None if it gives none.
    ``max_length_tokens`` is the limit that the rows were cut to, which a batch is never wider than.
    ``gold`` holds one array a name with one entry a row: ``labels``, or ``start_positions`` and
    ``end_positions``
    (0 = no answer in this window). ``example[r]`` is the index of the example that the row was cut
    from, which with a ``pooling`` has several rows and their labels.
    Only span rows have ``offsets`` (``[tokens, 2]`` character start and end in the context, -1
    outside it) and
    ``max_context`` (``[tokens]``: this window sees the token with the most context). Only tag rows
    have ``words`` (``[tokens]``: which word of the example begins here, -1 elsewhere); their
    ``labels`` have one entry a token. Where a question has ``choices``, so many rows of tokens
    follow each other for each row of gold.
    """

    dataset: str
    task: str
    tokens: Ints
    bounds: Longs
    first_segment: Ints
    gold: Mapping[str, NDArray[Any]]
    example: Ints
    segments: Bytes | None = None
    max_length_tokens: int | None = None
    offsets: Ints | None = None
    max_context: NDArray[np.bool_] | None = None
    words: Ints | None = None
    choices: int = 1
    num_truncated: int = 0  # rows of tokens whose texts were longer than max_length_tokens
    tokens_cut: int = 0  # their tokens that are in no row
    pooling: str = NO_WINDOWS  # of the logits of an example's rows: none, mean or max

    def __len__(self) -> int:
        return (len(self.bounds) - 1) // self.choices

    @property
    def lengths(self) -> Longs:
        """Tokens in each row; of the longest choice if there are several."""
        longest: Longs = np.diff(self.bounds).reshape(-1, self.choices).max(1)
        return longest

    @property
    def truncation(self) -> dict[str, float]:
        """Metrics of what ``max_length_tokens`` cut: rows, and tokens in percent of all tokens;
        empty if it cut nothing.
        """
        if not self.num_truncated:
            return {}
        percent = 100 * self.tokens_cut / (len(self.tokens) + self.tokens_cut)
        return {"truncated_rows": float(self.num_truncated), "truncated_tokens_percent": percent}

    @property
    def example_labels(self) -> NDArray[Any]:
        """Labels of the examples, which those of their first rows are."""
        labels: NDArray[Any] = self.gold["labels"]
        return labels[np.unique(self.example, return_index=True)[1]]

    def pooled(self, logits: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        """Return one array of logits for each example, the mean or the maximum over its windows."""
        if not len(logits):
            return []
        starts, counts = np.unique(self.example, return_index=True, return_counts=True)[1:]
        values = np.stack(logits)
        if self.pooling == "max":
            return list(np.maximum.reduceat(values, starts))
        return list(np.add.reduceat(values, starts) / counts[:, None].astype(np.float32))

    def row(self, index: int) -> Ints:
        """Return the ids of one row; choice ``c`` of row ``r`` is number ``r * choices + c``."""
        return self.tokens[self.bounds[index] : self.bounds[index + 1]]

    def fingerprint(self) -> str:
        """Return the sha256 of rows and labels, which a resumed run must share."""
        digest = hashlib.sha256()
        parts: dict[str, NDArray[Any]] = dict(self.gold)
        parts |= {"tokens": self.tokens, "bounds": self.bounds, "first": self.first_segment}
        if self.segments is not None:
            parts["segments"] = self.segments
        for name, values in sorted(parts.items()):
            digest.update(name.encode() + values.tobytes())
        return digest.hexdigest()
