"""Check, before anything starts, that teachers of other tokenizers read what the student reads."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from road_ray.data.config import SourceConfig
from road_ray.data.features.encode_examples import encode, row_limit
from road_ray.data.features.examples_and_features import (
    ChoiceExample,
    Example,
    Features,
    SpanExample,
    TextExample,
)
from road_ray.data.load_split import Split
from road_ray.data.row_limits import row_limits, window_limits
from road_ray.data.task_and_dataset import Span
from road_ray.distillation.ensemble.cross_tokenizer.row_texts import RowTexts
from road_ray.distillation.ensemble.cross_tokenizer.text_reader import TextReader
from road_ray.distillation.teacher_identity import ANSWERS_FOR
from road_ray.errors import ConfigError
from road_ray.recipes.distillation.teacher_source import TeacherSource

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_LONGEST_EXAMPLES = 256  # a second of tokenization for each teacher
_log = logging.getLogger(__name__)


def check_truncation(
    source: TeacherSource, split: Split, tokenizer: PreTrainedTokenizerFast, data: SourceConfig
) -> None:
    """Raise ``ConfigError`` if a teacher truncates a row that the student reads whole; with
    ``distillation.on_truncated=learn`` log a warning.

    The longest examples of the split are read, by characters. A row that the student truncates to
    ``data.max_length_tokens`` does not count, and a tagged sentence is never truncated.
    """
    if not source.mixed:
        return
    longest = sorted(split.examples, key=_characters, reverse=True)[:_LONGEST_EXAMPLES]
    rows = _encoded(longest, split, tokenizer, data)
    texts = list(RowTexts(replace(split, examples=longest, features=rows), rows).all())
    is_whole = rows.lengths < row_limit(data.max_length_tokens, split.task)
    if isinstance(split.task.kind, Span):  # the texts are what the student's window shows
        is_whole[:] = True
    teachers = zip(source.directories, source.manifest["teachers"], strict=True)
    for number, (directory, teacher) in enumerate(teachers):
        if ANSWERS_FOR not in teacher:
            continue
        reader = TextReader.of(directory, source.task)
        is_cut = np.array(
            [any(row.is_cut for row in rows_read) for rows_read in reader.rows(texts)]
        )
        if not (count := int((is_cut & is_whole).sum())):
            continue
        message = (
            f"teacher {number} ({directory}) reads at most {reader.longest} tokens: of the "
            f"{len(texts)} longest rows of {split.dataset.name} it truncates {count}, which the "
            "student reads whole"
        )
        if source.settings.on_truncated == "learn":
            _log.warning(
                "%s; it answers for their beginning, and the journal counts such rows as "
                "teachers/cut_%d", *(message, number)
            )  # fmt: skip
            continue
        raise ConfigError(
            f"{message}\n"
            "  allowed: teachers that read whole rows; with distillation.on_truncated=learn, "
            "answers for the beginning of a row\n"
            "  fix: take a teacher that reads longer rows, lower data.max_length_tokens, or set "
            "distillation.on_truncated=learn\n  nothing was started"
        )


def _characters(example: Example) -> int:
    match example:
        case TextExample():
            return sum(map(len, example.texts))
        case SpanExample():
            return len(example.question) + len(example.context)
        case ChoiceExample():
            return len(example.question) + max(map(len, example.choices))
    return sum(map(len, example.words))


def _encoded(
    examples: list[Example],
    split: Split,
    tokenizer: PreTrainedTokenizerFast,
    data: SourceConfig,
) -> Features:
    """Return the student's rows of some examples, of spans with the characters of each token."""
    limits = window_limits(row_limits(data), split.task)
    length = data.max_length_tokens
    return encode(
        examples, split.dataset, split.task, tokenizer, max_length_tokens=length, **limits
    )
