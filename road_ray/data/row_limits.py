"""Limits that rows are encoded with: recorded with a model, taken from there by later commands.

A no-answer threshold and the answers of a model mean little for rows of other windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, TypeVar

from road_ray.data.config import SourceConfig
from road_ray.data.task_and_dataset import Span, Task

S = TypeVar("S", bound=SourceConfig)

_DEFAULTS = {"stride_tokens": 128, "max_question_tokens": 64, "history_turns": 0}
LIMITS = ("max_length_tokens", *_DEFAULTS)
"""Keys of ``data`` and of ``road_ray.json``."""


def row_limits(source: SourceConfig) -> dict[str, int | None]:
    """Return every limit of ``data``, with the defaults of those that are not set; None for a row
    length that depends on the task.
    """
    limits = {name: _or_default(getattr(source, name), name) for name in _DEFAULTS}
    return {"max_length_tokens": source.max_length_tokens, **limits}


class WindowLimits(TypedDict, total=False):
    """Limits of the windows of a span task, as ``encode`` takes them."""

    stride_tokens: int
    max_question_tokens: int


def window_limits(limits: Mapping[str, int | None], task: Task) -> WindowLimits:
    """Return the limits of windows in a record or in ``row_limits``; none if the task has none."""
    if not isinstance(task.kind, Span):
        return {}
    stride, question = "stride_tokens", "max_question_tokens"
    return {
        "stride_tokens": _or_default(limits.get(stride), stride),
        "max_question_tokens": _or_default(limits.get(question), question),
    }


def with_trained_limits(source: S, trained: Mapping[str, int]) -> S:
    """Return ``data`` with the limits of a training where it sets none of its own."""
    unset = {name: trained[name] for name in trained if getattr(source, name) is None}
    return source.model_copy(update=unset)


def _or_default(value: int | None, name: str) -> int:
    return _DEFAULTS[name] if value is None else value
