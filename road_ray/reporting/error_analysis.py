"""Examples of wrong predictions, with their texts from the evaluated data."""

from collections.abc import Mapping

from road_ray.config import load
from road_ray.data.config import SourceConfig
from road_ray.data.examples import ChoiceExample, SpanExample, TagExample
from road_ray.data.examples import Example as Row
from road_ray.data.load_split import find_dataset, read_examples, root_of
from road_ray.data.task_and_dataset import Kind, MultiLabel, Regress, label_text, listed_labels
from road_ray.errors import RoadError, first_line
from road_ray.evaluation.squad import raw_scores
from road_ray.reporting.pages.page import Block, Example, Examples
from road_ray.reporting.records.run_record import RunRecord
from road_ray.system.files import read_json

_SHOWN = 8  # examples per data set
_AROUND = 160  # characters of context on either side of the labelled answer
_NOTHING = "(no answer)"


def error_examples(run: RunRecord) -> list[Block]:
    """Return wrong predictions on each data set, sampled evenly from the worst to the mildest, or a
    sentence if its data is missing.
    """
    blocks: list[Block] = []
    for path in sorted((run.directory / "predictions").glob("*/predictions.json")):
        try:
            blocks.append(_of_dataset(run, path.parent.name, read_json(path)))
        except (OSError, ValueError, LookupError, TypeError, RoadError) as error:
            blocks.append(f"{path.parent.name}: no examples: {first_line(error)}")
    return blocks


def _of_dataset(run: RunRecord, name: str, predicted: Mapping[str, object]) -> Block:
    recorded, known = dict(run.config.get("data") or {}), SourceConfig.model_fields
    source = load(SourceConfig, base={k: x for k, x in recorded.items() if k in known})
    entry, task = find_dataset(name, source)
    root = root_of(name, source)
    if root is None:
        return f"{name}: no examples, because its data is on the Hub"
    split = str(run.settings.get("data.split") or "dev")
    rows = [row for row in read_examples(entry, split, root) if row.id in predicted]
    cases = [_scored_error(row, label_text(predicted[row.id]), task.kind) for row in rows]
    wrong = sorted((case for case in cases if case is not None), key=lambda case: case[0])
    every = max(len(wrong) / _SHOWN, 1.0)
    chosen = [wrong[int(n * every)][1] for n in range(min(_SHOWN, len(wrong)))]
    is_number = isinstance(task.kind, Regress)
    what = "off by 10% of the range or more" if is_number else "not exactly right"
    title = f"{name}: {len(wrong):,} of {len(rows):,} {what}"
    return Examples(title, chosen) if chosen else f"{name}: every row is right"


def _scored_error(row: Row, predicted: str, kind: Kind) -> tuple[float, Example] | None:
    """Return score and case, or None if the prediction is right or the label is unknown."""
    if isinstance(row, SpanExample):
        return _question(row, predicted)
    ask, gold, score = " ⟷ ".join(row.texts), None, 0.0
    if isinstance(row, ChoiceExample):
        ask, chosen = row.question, row.choices[int(predicted)]
        gold, predicted = None if row.answer is None else row.choices[row.answer], chosen
    elif isinstance(row, TagExample):
        tagged = zip(row.words, row.tags or (), predicted.split(), strict=False)
        ask = " ".join(row.words)
        wrong = [(word, tag, other) for word, tag, other in tagged if tag != other]
        gold = ", ".join(f"{word}: {tag}" for word, tag, _ in wrong)
        predicted = ", ".join(f"{word}: {other}" for word, _, other in wrong)
        score = 1 - len(wrong) / max(len(row.words), 1)
    elif isinstance(kind, Regress) and row.label is not None:
        score = -abs(float(row.label) - float(predicted)) / (kind.high - kind.low)
        gold, predicted = row.label, f"{float(predicted):.2f}"
        if score > -0.1:
            return None
    elif isinstance(kind, MultiLabel) and row.label is not None:
        own, other = ({*listed_labels(text, row.where)} for text in (row.label, predicted))
        gold, predicted = ", ".join(sorted(own)), ", ".join(sorted(other))
        score = -len(own ^ other)
    else:
        gold = row.label
    if gold is None or gold == predicted:
        return None
    return score, Example(ask, (), gold, predicted, f"row {row.id}, {row.where.rpartition('/')[2]}")


def _question(row: SpanExample, predicted: str) -> tuple[float, Example] | None:
    _, score = raw_scores(row, predicted)
    if score == 1.0 or not row.labelled:
        return None
    kind = "missed" if not predicted else "invented" if not row.answers else f"F1 {100 * score:.0f}"
    gold = row.answers[0].text if row.answers else _NOTHING
    return score, Example(row.question, _context(row, predicted), gold, predicted or _NOTHING, kind)


def _context(row: SpanExample, predicted: str) -> list[str]:
    """Return the text before the answer, the answer, and the text after it. Without an answer,
    return the text around the prediction.
    """
    start, size = max(row.context.find(predicted), 0), 0
    if row.answers:
        start, size = row.answers[0].start, len(row.answers[0].text)
    end = start + size
    before, after = max(start - _AROUND, 0), end + _AROUND
    head = "…" * (before > 0) + row.context[before:start]
    tail = row.context[end:after] + "…" * (after < len(row.context))
    parts = [head, row.context[start:end], tail]
    return parts if size else ["".join(parts)]
