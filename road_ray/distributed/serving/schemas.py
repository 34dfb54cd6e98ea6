"""Types of the rows of requests, one for each kind of head, and of refusals."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from road_ray.data.task_and_dataset import Choose, Kind, Span, Tag


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    id: str | int | None = None
    """Name of the row in the answer; by default its number in the request."""


class OneTextRow(_Row):
    """Text to classify or to score, of a model that was trained on single texts."""

    text: str
    """The text."""


class PairRow(_Row):
    """Pair of texts to classify or to score."""

    text: str
    """The first text of the pair."""
    text_pair: str
    """The second text of the pair."""


class TextRow(_Row):
    """Text or pair to classify or to score, of a model that does not record which it reads."""

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None = None
    """The second text of a pair."""


class QuestionRow(_Row):
    """Question about a context."""

    question: str
    """The question."""
    context: str
    """The text that holds the answer."""


class SentenceRow(_Row):
    """Sentence to tag: a text, or its words."""

    text: str | None = None
    """The sentence; it is split into words and punctuation marks."""
    words: list[str] | None = Field(None, min_length=1)
    """The words of the sentence."""

    @model_validator(mode="after")
    def _text_or_words(self) -> Self:
        if (self.text is None) == (self.words is None):
            raise ValueError("give either text or words")
        return self


class ChoiceRow(_Row):
    """Question with choices."""

    question: str
    """The question."""
    choices: list[str] = Field(min_length=2)
    """The texts to choose from."""


class Problem(BaseModel):
    """Reason for which a request is refused."""

    model_config = ConfigDict(use_attribute_docstrings=True)
    error: str
    """The mistake."""
    where: str | None = None
    """Row and field, header or byte."""
    value: str | int | float | None = None
    """The value found there, cut to 80 characters."""
    allowed: str | None = None
    """The values that are allowed."""


class Status(BaseModel):
    """State of a replica."""

    status: str
    task: str | None = None


RowType: TypeAlias = (
    type[OneTextRow]
    | type[PairRow]
    | type[TextRow]
    | type[QuestionRow]
    | type[SentenceRow]
    | type[ChoiceRow]
)


def row_type(kind: Kind, trained: Collection[str] = ()) -> RowType:
    """Return the type of a row; ``trained`` are the fields of the training rows, if the model
    records them.
    """
    match kind:
        case Span():
            return QuestionRow
        case Tag():
            return SentenceRow
        case Choose():
            return ChoiceRow
    if not trained:
        return TextRow
    return PairRow if "text_pair" in trained else OneTextRow
