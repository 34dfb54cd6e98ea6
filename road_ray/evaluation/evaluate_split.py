"""Evaluation of a model on a split: logits, predictions, metrics, examples of mistakes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from road_ray.data.batching import Batch, pad, to_device
from road_ray.data.examples import FURTHER, NO_WINDOWS, UNKNOWN, Example, Features
from road_ray.data.load_split import Split
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    JointSpan,
    Kind,
    MultiLabel,
    Regress,
    Span,
    Tag,
    listed_labels,
)
from road_ray.errors import DivergedError
from road_ray.evaluation import metrics, squad
from road_ray.evaluation.metrics import Thresholds
from road_ray.evaluation.spans import SpanPrediction, best_spans
from road_ray.models.config import Precision
from road_ray.models.multitask import MultitaskModel
from road_ray.models.precision import autocast_dtype
from road_ray.system.files import write_json_atomic

_ROWS_AT_ONCE = 64
_TOKENS_AT_ONCE = 64 * 512  # attention may take memory that grows with the square of the length
DIAGNOSTICS = "diagnostics.json"
OnRows = Callable[[int, int], None]
"""Called with the number of evaluated rows and of all rows."""


@dataclass(frozen=True)
class DecisionRule:
    """Values that turn logits into predictions.

    ``threshold`` is the no-answer threshold, or those of several labels; ``tune`` chooses it on the
    evaluated split if there is none, unless all questions have answers. ``temperature`` is that of
    probabilities; ``calibrate`` fits it to the split if there is none.
    """

    threshold: float | Thresholds | None = None
    tune: bool = False
    temperature: float | None = None
    calibrate: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one split (percentages) and predictions.

    ``threshold`` is the no-answer threshold of span predictions, or those of several labels. If it
    is None, there are no ``at_threshold_*`` metrics, and predictions follow the untuned rule.
    ``temperature`` is that of the probabilities of classes, choices and several labels; if it is
    None, there are no metrics of calibration. ``labels`` are the predictions, of ``spans`` texts.
    """

    metrics: dict[str, float]
    threshold: float | Thresholds | None = None
    spans: Sequence[SpanPrediction] = ()
    temperature: float | None = None
    labels: Sequence[str | Sequence[str]] = ()
    split: Split | None = None
    diagnostics: dict[str, Any] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write the answer, the label or the labels of each example, of spans in the official JSON
        layouts of SQuAD and, without entries for "no answer", of BERT's n best;
        ``diagnostics.json`` beside them has what the pages of reports draw.
        """
        assert self.split is not None, "rank 0 alone has predictions"
        pairs = list(zip(self.split.examples, self.labels, strict=True))
        of_rows = {row.id: label for row, label in pairs}
        write_json_atomic(directory / "predictions.json", of_rows, ascii_only=False)
        if self.spans:
            columns = ("text", "probability", "start_logit", "end_logit")
            listed = {
                p.id: [dict(zip(columns, x, strict=False)) for x in p.n_best] for p in self.spans
            }
            write_json_atomic(directory / "nbest_predictions.json", listed, ascii_only=False)
            write_json_atomic(directory / "null_odds.json", {p.id: p.null_odds for p in self.spans})
        wrong = mistakes(pairs, self.split.task.kind)
        if wrong["rows"]:  # are labelled
            write_json_atomic(directory / DIAGNOSTICS, self.diagnostics | {"mistakes": wrong})


@torch.inference_mode()
def batched_logits(
    forward: Callable[[Batch], Tensor],
    features: Features,
    kind: Kind,
    pad_id: int,
    on_rows: OnRows | None = None,
    group: Any = None,  # a training.Worker
    *,
    alone: bool = False,
) -> list[NDArray[np.float32]]:
    """Return the logits that ``forward`` computes for every row, unpadded: ``[C]`` (or ``[N]``,
    ``[1]``), ``[2, length]`` of spans, ``[length, C]`` of tags; of texts that are read in windows
    those of every text. Rows of similar length share a batch, or ``alone`` each is one, without
    padding; the longest come first, as they need the most memory. The processes of a ``group``
    compute a share of the same batches each; others than rank 0 get no logits.
    """
    lengths, at_once = features.lengths, 1 if alone else _ROWS_AT_ONCE
    order, tokens = np.argsort(lengths, kind="stable"), lengths * features.choices
    blocks = [order[n : n + at_once] for n in range(0, len(order), at_once)]
    parts = [min(len(b), -(-len(b) * tokens[b[-1]] // _TOKENS_AT_ONCE)) or 1 for b in blocks]
    batches = [part for b, n in zip(blocks, parts, strict=True) for part in np.array_split(b, n)]
    rank, size = (group.rank, group.size) if group else (0, 1)
    rows: dict[int, NDArray[np.float32]] = {}
    for numbers in batches[::-1][rank::size]:
        width = int(lengths[numbers[0]]) if alone else None
        batch: Batch = pad(features, numbers, pad_id=pad_id, width=width) | {"task": features.task}
        for number, row in zip(numbers, forward(batch).float().cpu().numpy(), strict=True):
            if isinstance(kind, Span):
                row = row[:, : lengths[number]]
            if isinstance(kind, Tag):
                row = row[: lengths[number]]
            # Positions that joint spans may not have are minus infinity.
            valid = row < np.inf if isinstance(kind, JointSpan) else np.isfinite(row)
            if not valid.all():  # argmax would pass as a prediction
                raise DivergedError(
                    f"task {features.task}: the model's logits are not finite\n"
                    "  fix: name an earlier checkpoint, or train with a lower optimizer.peak_lr\n"
                    "  kept: nothing was evaluated"
                )
            rows[number] = row
        if on_rows is not None:
            on_rows(min(len(rows) * size, len(features)), len(features))
    if group is not None:
        rows = {number: row for part in group.gather(rows) for number, row in part.items()}
    if rank:
        return []
    logits = [rows[number] for number in range(len(features))]
    return logits if features.pooling == NO_WINDOWS else features.pooled(logits)


def evaluate_split(
    model: MultitaskModel,
    split: Split,
    rule: DecisionRule = DecisionRule(),
    *,
    pad_id: int,
    precision: Precision = "fp32",
    on_rows: OnRows | None = None,
    group: Any = None,  # a training.Worker
) -> Evaluation:
    """Return the metrics of a model on a split; the default ``precision`` is that of predictions.
    Processes of a ``group`` share the work; rank 0 alone gets metrics.
    """
    encoder: Any = model.encoder
    dtype = autocast_dtype(precision, encoder.device, int(encoder.config.hidden_size))
    was_training, device = model.training, encoder.device
    forward = lambda batch: model(to_device(batch, device))  # noqa: E731
    heads = [name.removeprefix(FURTHER) for name in split.features.gold if name.startswith(FURTHER)]
    rows_of_heads = [  # auxiliary; of a question's windows they have the mean of the logits
        replace(split.features, task=task, pooling="mean") for task in heads if task in model.tasks
    ]
    answers = []
    model.eval()  # without dropout
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        for rows in (split.features, *rows_of_heads):
            kind, told = model.tasks[rows.task].kind, on_rows if rows is split.features else None
            answers.append(batched_logits(forward, rows, kind, pad_id, told, group))
    model.train(was_training)
    if group is not None and group.rank:
        return Evaluation({})
    evaluation = evaluate_logits(split, answers[0], rule)
    further = dict[str, float]()  # accuracies of auxiliary heads
    for rows, logits in zip(rows_of_heads, answers[1:], strict=True):
        # Of the windows of a question those with the answer have its label.
        firsts = np.unique(rows.example, return_index=True)[1]
        labels = np.maximum.reduceat(rows.gold[f"{FURTHER}{rows.task}"], firsts)
        known = labels != UNKNOWN
        if known.any():
            predicted = np.stack(logits).argmax(-1)
            scores = metrics.score(("accuracy",), predicted[known], labels[known])
            further[f"{rows.task}_accuracy"] = scores["accuracy"]
    return replace(evaluation, metrics=evaluation.metrics | further | split.features.truncation)


def evaluate_logits(
    split: Split, logits: Sequence[NDArray[np.float32]], rule: DecisionRule = DecisionRule()
) -> Evaluation:
    """Return the metrics of the logits of a split's rows. Rows without label have predictions
    only.
    """
    kind = split.task.kind
    if isinstance(kind, MultiLabel):
        return _evaluate_label_sets(split, kind.labels, np.stack(logits), rule)
    if isinstance(kind, Span):
        return _evaluate_spans(split, logits, rule)
    found: dict[str, float] = {}
    if isinstance(kind, Tag):
        sentences: Sequence[Any] = split.examples
        words = metrics.word_logits(split.features, sentences, logits)
        tags = [metrics.predicted_tags(kind.labels, sentence) for sentence in words]
        of_types: dict[str, Any] = {}
        if all(sentence.tags is not None for sentence in sentences):
            gold_tags = [sentence.tags or () for sentence in sentences]
            found, table = metrics.entity_scores(tags, gold_tags)
            of_types = {"per_label": table}
        joined = [" ".join(sentence) for sentence in tags]
        return Evaluation(found, labels=joined, split=split, diagnostics=of_types)
    values, gold = np.stack(logits), split.features.example_labels
    predicted = values[:, 0] if isinstance(kind, Regress) else values.argmax(-1)
    known = gold != UNKNOWN
    classes = kind.labels if isinstance(kind, Classify) else ()
    temperature, diagnostics = rule.temperature, {}
    if known.any():
        found = metrics.score(split.dataset.metrics, predicted[known], gold[known], classes)
    if known.any() and isinstance(kind, Classify | Choose):
        temperature, of_classes = metrics.calibrated(
            values[known], gold[known], temperature, fit=rule.calibrate
        )
        found |= of_classes
    if known.any() and classes:
        found |= metrics.label_balance(predicted[known], gold[known])
        diagnostics = metrics.class_diagnostics(
            values[known], gold[known], classes, temperature or 1.0
        )
    labels = [classes[int(p)] if classes else str(p) for p in predicted]
    return Evaluation(
        found, temperature=temperature, labels=labels, split=split, diagnostics=diagnostics
    )


def _evaluate_label_sets(
    split: Split, labels: Sequence[str], logits: NDArray[np.float32], rule: DecisionRule
) -> Evaluation:
    """Return the metrics of logits ``[N, C]`` of several labels at 0.5, and as ``at_threshold_*``
    at the thresholds of calibrated probabilities, if there are any.
    """
    gold, names = split.features.example_labels, split.dataset.metrics
    known = (gold != UNKNOWN).all(-1)
    truth, found, diagnostics = gold[known], dict[str, float](), dict[str, Any]()
    temperature, calibrated = metrics.calibrated(
        logits[known], truth, rule.temperature, fit=rule.calibrate
    )
    probabilities = metrics.probabilities(logits, temperature or 1.0, several=True)
    shares = probabilities[known]
    thresholds = rule.threshold if isinstance(rule.threshold, Mapping) else None
    if len(truth) and thresholds is None and rule.tune:
        thresholds = metrics.best_thresholds(shares, truth, labels)
    predicted = metrics.predicted_sets(probabilities, labels, thresholds)
    if len(truth):
        untuned = metrics.predicted_sets(shares, labels, None)
        found = metrics.label_set_scores(names, shares, untuned, truth, labels)
        found |= metrics.label_balance(untuned, truth) | calibrated
        table = metrics.table_of_labels(predicted[known], truth, labels, thresholds or {})
        diagnostics = {"rows": len(truth), "per_label": table}
    if len(truth) and thresholds is not None:
        ranked = [name for name in names if name != "lrap"]  # no threshold changes it
        tuned = metrics.label_set_scores(ranked, shares, predicted[known], truth, labels)
        found |= {f"at_threshold_{name}": value for name, value in tuned.items()}
    sets = [[label for label, has in zip(labels, row, strict=True) if has] for row in predicted]
    more: dict[str, Any] = {"temperature": temperature, "diagnostics": diagnostics}
    return Evaluation(found, thresholds, labels=sets, split=split, **more)


def _evaluate_spans(
    split: Split, logits: Sequence[NDArray[np.float32]], rule: DecisionRule
) -> Evaluation:
    """Return metrics of span logits ``[2, length]`` per window: untuned, at the threshold if there
    is one, and at the best threshold of the labelled questions.
    """
    examples: Sequence[Any] = split.examples
    joint = isinstance(split.task.kind, JointSpan)
    predictions = best_spans(split.features, examples, logits, joint=joint)
    known = [example for example in examples if example.labelled]
    threshold = None if isinstance(rule.threshold, Mapping) else rule.threshold
    limit = np.inf if threshold is None else threshold
    found, diagnostics = dict[str, float](), dict[str, Any]()
    if known:
        texts = {answer.id: answer.text for answer in predictions}
        scored = squad.Scored(known, texts, {answer.id: answer.null_odds for answer in predictions})
        if threshold is None and rule.tune and scored.untuned == 0.0:
            _, threshold = scored.best()
        limit = scored.untuned if threshold is None else threshold
        found, diagnostics = scored.metrics(threshold), scored.diagnostics(limit)
    answers = ["" if answer.null_odds > limit else answer.text for answer in predictions]
    more: dict[str, Any] = {"labels": answers, "split": split, "diagnostics": diagnostics}
    return Evaluation(found, threshold, predictions, **more)


_SHOWN = 8  # examples per data set
_AROUND = 160  # characters of context on either side of the labelled answer
_NOTHING = "(no answer)"


def mistakes(pairs: Iterable[tuple[Example, str | Sequence[str]]], kind: Kind) -> dict[str, Any]:
    """Return the number of labelled ``rows`` and of ``wrong`` predictions, and wrong ones as
    ``examples``, sampled evenly from the worst to the mildest.
    """
    cases = [_scored(row, label, kind) for row, label in pairs if row != row.unlabelled()]
    wrong = sorted((case for case in cases if case[0] < 1), key=lambda case: case[0])
    every = max(len(wrong) / _SHOWN, 1.0)
    chosen = [wrong[int(n * every)][1] for n in range(min(_SHOWN, len(wrong)))]
    is_number = isinstance(kind, Regress)
    what = "off by 10% of the range or more" if is_number else "not exactly right"
    return {"rows": len(cases), "wrong": len(wrong), "what": what, "examples": chosen}


def _scored(row: Any, label: Any, kind: Kind) -> tuple[float, dict[str, Any]]:
    """Return how right a prediction is, 1 if it is, and its row; every second piece of ``context``
    is the labelled answer; without one it is the text around the prediction.
    """
    ask, context, tag = " ⟷ ".join(row.texts), [], f"row {row.id}, {row.where.rpartition('/')[2]}"
    if isinstance(kind, Span):
        ask, (_, score) = row.question, squad.raw_scores(row, label)
        start, size = max(row.context.find(label), 0), 0  # without an answer, of the prediction
        if row.answers:
            start, size = row.answers[0].start, len(row.answers[0].text)
        end, before = start + size, max(start - _AROUND, 0)
        head = "…" * (before > 0) + row.context[before:start]
        tail = row.context[end : end + _AROUND] + "…" * (end + _AROUND < len(row.context))
        context = [head, row.context[start:end], tail] if size else [head + tail]
        tag = "missed" if not label else "invented" if not row.answers else f"F1 {100 * score:.0f}"
        gold, label = row.answers[0].text if row.answers else _NOTHING, label or _NOTHING
    elif isinstance(kind, Tag):
        tagged = zip(row.words, row.tags, label.split(), strict=False)  # a tag may have spaces
        wrong = [(word, tag, other) for word, tag, other in tagged if tag != other]
        ask, score = " ".join(row.words), 1 - len(wrong) / max(len(row.words), 1)
        gold = ", ".join(f"{word}: {tag}" for word, tag, _ in wrong)
        label = ", ".join(f"{word}: {other}" for word, _, other in wrong)
    elif isinstance(kind, Regress):
        gap = abs(float(row.label) - float(label)) / kind.range
        gold, label, score = row.label, f"{float(label):.2f}", 1 - gap if gap >= 0.1 else 1.0
    elif isinstance(kind, MultiLabel):
        own, other = {*listed_labels(row.label, row.where)}, {*label}
        gold, label, score = ", ".join(sorted(own)), ", ".join(sorted(other)), 1 - len(own ^ other)
    elif isinstance(kind, Choose):
        ask, gold, label = row.question, row.choices[row.answer], row.choices[int(label)]
        score = float(gold == label)
    else:
        gold, score = row.label, float(row.label == label)
    return score, {"ask": ask, "context": context, "gold": gold, "predicted": label, "tag": tag}
