"""Configuration of data sources and pre-training corpora."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from road_ray.config import Config
from road_ray.data.readers.custom import CustomDataset, SetName

if TYPE_CHECKING:
    pass
from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator

MINIATURE = "miniature"


HUB = "hub"


class SourceConfig(Config):
    """Where examples come from and how long they may be."""

    root: str | None = None
    """A directory in the published layouts, "miniature" (the embedded world) or "hub"; None:
    $ROAD_DATA, else hub.
    """
    max_length_tokens: int | None = Field(None, ge=8)
    """None: 128 for text, 384 for spans."""
    stride_tokens: int = Field(128, ge=1)
    """Spans: a window starts every so many context tokens."""
    max_question_tokens: int = Field(64, ge=1)
    span_head: Literal["independent", "joint"] = "independent"
    """How answers are chosen: start and end each on its own (ROaD), or the end given the start and
    a classifier for "no answer" (ELECTRA), which plain transformers cannot load.
    """
    pair_head: Literal["first_token", "answer_network"] = "first_token"
    """How pairs are classified: from the first token, or by MT-DNN's stochastic answer network,
    which plain transformers cannot load either.
    """
    tag_head: Literal["linear", "features"] = "linear"
    """How words are tagged: from the top layer of an encoder that learns too, or from features of
    the last layers of one that stays as it is (a BiLSTM, which plain transformers cannot load).
    """
    history_turns: int = Field(0, ge=0)
    """Dialogs: how many of the exchanges before a question are read with it."""
    both_orders: tuple[str, ...] = ("mrpc", "stsb")
    """Pairs without an order, whose training rows are read both ways round. Source:
    google-research/ electra, `double_unordered`.
    """
    cache: str | None = None
    """Where encoded rows are kept; None: below ROAD_CACHE or ~/.cache/road_ray; or `off`."""
    sets: dict[SetName, CustomDataset] = Field({})
    """One's own data sets by name, beside those of the catalogue."""
    max_rows: int | None = Field(None, ge=1)
    """Train on, and judge by, the first so many examples of a seeded shuffle; None: all."""
    max_judged_rows: int | None = Field(None, ge=1)


def _length(written: object) -> int:
    """The length of a phase, which as a key comes as text."""
    if not str(written).isdecimal() or int(str(written)) < 8:
        raise ValueError(f"{written} is no length of rows\n    allowed: a whole number, at least 8")
    return int(str(written))


class ShortRowsConfig(Config):
    """A phase of a training, on shorter rows than those at its end."""

    fraction: float = Field(gt=0, lt=1)
    """Of training.steps."""
    batch_size: int | None = Field(None, ge=1)
    """None: data.batch_size."""


class CorpusConfig(Config):
    """The text, how it is cut into rows, and how rows make batches."""

    root: str | None = None
    """As for data sets; None: $ROAD_DATA."""
    corpus: str = "wikipedia/train-00000-of-00001.parquet"
    """File or directory below root, a path of its own, or `hub:NAME` or `hub:NAME:CONFIG`."""
    tokenizer: str | None = None
    """Vocab.txt or model directory; None: WordPiece learnt from the corpus."""
    vocab_size: int = Field(8192, ge=8)
    """Of a tokenizer that is learnt."""
    max_length_tokens: int = Field(128, ge=8)
    batch_size: int = Field(128, ge=1)
    """Global, in rows."""
    shorter_first: dict[Annotated[int, BeforeValidator(_length)], ShortRowsConfig] = Field({})
    """By length, shorter ones before: {128: {fraction: 0.9}} with max_length_tokens = 512 is
    BERT's.
    """
    shards: Path = Path("cache/corpus")
    """Built once a text, tokenizer and length."""

    @model_validator(mode="after")
    def _longest_at_last(self) -> Self:
        for length in self.shorter_first:
            if length >= self.max_length_tokens:
                raise ValueError(
                    f"shorter_first.{length} is not shorter than max_length_tokens = "
                    f"{self.max_length_tokens}, the length of the last phase"
                )
        given = sum(phase.fraction for phase in self.shorter_first.values())
        if given >= 1:
            raise ValueError(
                f"shorter_first: its fractions make {given:g}, which leaves nothing for rows of "
                f"max_length_tokens = {self.max_length_tokens}\n    allowed: less than 1 together"
            )
        return self


Sampler = Literal["uniform_dataset", "uniform_task", "proportional", "size_power"]
