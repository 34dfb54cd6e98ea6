"""Types of the bodies of requests and answers, one pair for each kind of head."""

from __future__ import annotations

from collections.abc import Collection
from typing import Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from road_ray.data.task_and_dataset import Choose, Classify, Kind, Regress, Span, Tag


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class _Row(_Body):
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


class ClassPrediction(_Body):
    """The likeliest class."""

    id: str
    label: str
    score: float
    """Probability of the label."""
    scores: dict[str, float]
    """Probability of every label."""


class NumberPrediction(_Body):
    """A number on the scale of the training data."""

    id: str
    value: float


class Answer(_Body):
    """One of the best answers."""

    answer: str
    score: float
    start: int
    end: int


class AnswerPrediction(_Body):
    """The best answer, or an empty one if the model judges that there is none."""

    id: str
    answer: str
    score: float
    start: int | None
    """Offset of the answer's first character in the context."""
    end: int | None
    """Offset behind the answer's last character."""
    no_answer_score: float
    """Probability that the context has no answer."""
    null_odds: float
    """Odds of no answer, which the threshold is compared with."""
    n_best: list[Answer] = []


class Entity(_Body):
    """A span of tagged words."""

    type: str
    text: str
    start: int
    end: int
    score: float


class TagPrediction(_Body):
    """The tags of a sentence and its entities."""

    id: str
    tags: list[str]
    words: list[str]
    entities: list[Entity]


class ChoicePrediction(_Body):
    """The number of the likeliest choice, from 0."""

    id: str
    choice: int
    score: float
    scores: list[float]


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


def body_types(kind: Kind, trained: Collection[str] = ()) -> tuple[RowType, type[BaseModel]]:
    """Return the types of a row and of its prediction; ``trained`` are the fields of the training
    rows, if the model records them.
    """
    text: RowType = TextRow
    if trained:
        text = PairRow if "text_pair" in trained else OneTextRow
    match kind:
        case Span():
            return QuestionRow, AnswerPrediction
        case Tag():
            return SentenceRow, TagPrediction
        case Choose():
            return ChoiceRow, ChoicePrediction
        case Regress():
            return text, NumberPrediction
        case Classify():
            return text, ClassPrediction
    raise AssertionError(kind)
