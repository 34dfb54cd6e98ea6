"""Answers from the span logits of windows, of the plain head and of ELECTRA's joint head.

Two numbers decide: the best span over the windows of a question, and its null score, that of
position 0. ``null_odds`` is null minus best; the model abstains where it is above a threshold
(``squad.py``).

Source: Devlin et al. 2019, section 4.3; google-research/bert run_squad.py; google-research/electra,
finetune/qa/qa_metrics.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from road_ray.data.examples import Features, SpanExample

Logits = Sequence[NDArray[np.float32]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_ENDS = 20  # of each start of the joint head
_N_BEST, _LONGEST = 20, 30  # answers, and tokens of one


class Span(NamedTuple):
    """A span of one window. Spans sort best first, ties from the left."""

    cost: float  # -(start logit + end logit)
    row: int
    start: int
    end: int
    start_logit: float = 0.0
    end_logit: float = 0.0


class Candidate(NamedTuple):
    """A candidate answer; ``probability`` is its share among the candidates of the question, and
    ``start`` its first character in the context.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int = 0


@dataclass(frozen=True)
class SpanPrediction:
    """The best answers and the odds of no answer, 0 of the plain head if no span is allowed (an
    empty context).
    """

    id: str
    null_odds: float
    n_best: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        """The best answer, empty without any."""
        return self.n_best[0].text if self.n_best else ""


def best_spans(
    features: Features, examples: Sequence[SpanExample], logits: Logits, *, joint: bool = False
) -> list[SpanPrediction]:
    """Return one prediction per example, in order, from the logits of each window.

    Of the plain head they are starts and ends, ``[2, length]``, and the null score is that of
    position 0. Of the ``joint`` head they are ``[2 + K, length]``: starts, the no-answer classifier
    and the ends given each of K starts; ``null_odds`` is the smallest no-answer logit.

    A span starts and ends on context tokens, has at most 30, and starts where its window has
    maximal context, so that no span counts in two windows. The 20 best spans over all windows are
    exact (ties: first window, leftmost, shortest); of those with equal text the best one is listed.
    """
    offsets, max_context = features.offsets, features.max_context
    assert offsets is not None
    assert max_context is not None
    search = joint_spans if joint else window_spans
    nulls, spans = [np.inf] * len(examples), [list[Span]() for _ in examples]
    bounds = features.bounds.tolist()
    for row, question in enumerate(features.example.tolist()):
        tokens = slice(bounds[row], bounds[row + 1])
        closing = offsets[tokens, 0] >= 0
        opening = closing & max_context[tokens]
        values = np.asarray(logits[row], dtype=np.float64)
        null = float(values[1, 0] if joint else values[0, 0] + values[1, 0])
        nulls[question] = min(nulls[question], null)
        spans[question] += search(row, values, opening, closing)
    predictions = []
    for example, null, found in zip(examples, nulls, spans, strict=True):
        best: dict[str, tuple[Span, int]] = {}  # ranked, each text once
        for span in sorted(found)[:_N_BEST]:
            first, last = bounds[span.row] + span.start, bounds[span.row] + span.end
            begin, stop = int(offsets[first, 0]), int(offsets[last, 1])
            best.setdefault(example.context[begin:stop], (span, begin))
        scores = np.array([-span.cost for span, _ in best.values()])
        shares = np.exp(scores - scores[:1])  # empty without a span
        shares /= shares.sum()
        options = tuple(
            Candidate(text, float(share), span.start_logit, span.end_logit, begin)
            for (text, (span, begin)), share in zip(best.items(), shares, strict=True)
        )
        odds = null if joint else null + min(found).cost if found else 0.0
        predictions.append(SpanPrediction(example.id, odds, options))
    return predictions


def joint_spans(row: int, logits: Floats, opening: Flags, closing: Flags) -> list[Span]:
    """Return the spans of a window from beams ``[2 + K, L]`` of the joint head: those of the 20
    best ends of each start. A span's score is log p(start) + log p(end | start).
    """
    spans = []
    for ends in logits[2:]:
        finite = np.flatnonzero(np.isfinite(ends))
        if not len(finite) or not opening[finite[0]]:
            continue
        start = int(finite[0])  # only ends before their start are infinite
        first = float(logits[0, start])
        for end in finite[np.argsort(-ends[finite], kind="stable")[:_ENDS]].tolist():
            if closing[end] and end - start < _LONGEST:
                score = first + float(ends[end])
                spans.append(Span(-score, row, start, end, first, score - first))
    return spans


def window_spans(row: int, logits: Floats, opening: Flags, closing: Flags) -> list[Span]:
    """Return the 20 best spans of a window, ranked, from its logits ``[2, L]``.

    A span starts on an ``opening`` token, ends on a ``closing`` one at or after it, and has at most
    30 tokens. Equal to a search over all pairs, ties included (leftmost, then shortest).
    """
    allowed = np.flatnonzero(closing)
    if not len(allowed) or not opening.any():
        return []
    start, end = logits
    low, high = int(allowed[0]), int(allowed[-1]) + 1
    starts = np.where(opening, start, -np.inf)[low:high]
    ends = np.full(high - low + _LONGEST - 1, -np.inf)
    ends[: high - low] = np.where(closing, end, -np.inf)[low:high]
    reach = sliding_window_view(ends, _LONGEST)  # [i, k]: end logit of the k + 1 tokens from i
    # The n best spans start at the n best starts, ranked by the best span of each: only those
    # starts are expanded. Stable sorts keep ties in order.
    best_of_start = starts + reach.max(axis=1)
    chosen = np.sort(np.argsort(-best_of_start, kind="stable")[:_N_BEST])
    scores = (starts[chosen, None] + reach[chosen]).ravel()
    top = np.argsort(-scores, kind="stable")[:_N_BEST]
    top = top[np.isfinite(scores[top])]
    firsts = low + chosen[top // _LONGEST]
    lasts = firsts + top % _LONGEST
    columns = (-scores[top], firsts, lasts, start[firsts], end[lasts])
    spans = zip(*(column.tolist() for column in columns), strict=True)
    return [Span(cost, row, *place) for cost, *place in spans]
