"""Predictions of rows by a finished model; words of a text, and entities of their tags."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import regex
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from road_ray.data.batching import Batch, to_device
from road_ray.data.encode_examples import encode
from road_ray.data.examples import (
    ChoiceExample,
    Example,
    Features,
    SpanExample,
    TagExample,
    TextExample,
)
from road_ray.data.readers.tables import check_text, parse_json
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Columns,
    Dataset,
    JointSpan,
    Kind,
    MultiLabel,
    Regress,
    Span,
    Tag,
    Task,
)
from road_ray.data.tokenizer import pad_id_of
from road_ray.errors import ConfigError, DataError
from road_ray.evaluation.evaluate_split import batched_logits
from road_ray.evaluation.metrics import (
    OUTSIDE,
    Thresholds,
    predicted_sets,
    predicted_tags,
    probabilities,
    stored_threshold,
    word_logits,
)
from road_ray.evaluation.spans import best_spans
from road_ray.inference.input_rows import Row, TrainedInput, names_in

Prediction: TypeAlias = dict[str, Any]
Floats: TypeAlias = NDArray[np.float32]

CHUNK_ROWS = 4096  # rows that are sorted by length and predicted together; bounds the memory
_FIELDS: dict[type[Kind], tuple[str, ...]] = {
    Span: ("question", "context"),
    Tag: ("text", "words"),
    Choose: ("question", "choices"),
}


@dataclass(frozen=True)
class Predictor:
    """A model that predicts rows; made by ``load``.

    Call it with one row by field names, or with a list of rows::

        model(question="Who wrote it?", context="Ada wrote it.")
        model(["a fine film", {"text": "a dull film", "id": "7"}])

    Fields: ``text`` of classes and numbers, ``text_pair`` too where the model reads pairs;
    ``question`` and ``context`` of answers; ``text`` or ``words`` of tags; ``question`` and
    ``choices`` of choices. A row may have them under the names of the training's columns, and may
    have others, which are not read.
    """

    model: Callable[[Batch], Tensor]  # logits, of PyTorch or of ONNX Runtime
    tokenizer: Any
    task: Task
    device: torch.device
    dtype: torch.dtype | None
    max_length_tokens: int
    longest_row_tokens: int  # positions of the model, the upper limit of max_length_tokens
    threshold: float | Thresholds | None
    n_best: int
    record: Mapping[str, Any] = field(default_factory=dict)  # the model's road_ray.json
    min_confidence: float = 0.0  # label and choice are None below it
    cut: Counter[str] = field(default_factory=Counter)  # truncated rows, lost tokens, all tokens

    def __post_init__(self) -> None:
        """Raise ``ConfigError`` for rows that are too long and options for another task."""
        kind, threshold = self.task.kind, self.threshold
        given = None if threshold == stored_threshold(self.record) else threshold
        if self.max_length_tokens > self.longest_row_tokens:
            raise ConfigError(
                f"max_length_tokens = {self.max_length_tokens}: the model has "
                f"{self.longest_row_tokens} positions\n  allowed: at most that"
            )
        for name, value, kinds, problem in (
            ("min_confidence", self.min_confidence or None, Classify | Choose, "no single label"),
            ("threshold", given, Span | MultiLabel, "no answers in a context"),
            ("n_best", self.n_best if self.n_best > 1 else None, Span, "no answers in a context"),
        ):
            if value is not None and not isinstance(kind, kinds):
                raise ConfigError(
                    f"{name} = {value}: the task {self.task.name} has {problem}\n"
                    f"  fix: leave {name} out"
                )
        least, most = (0.0, 1.0) if isinstance(kind, MultiLabel) else (-np.inf, np.inf)
        if isinstance(threshold, float | int) and not least <= threshold <= most:  # NaN too
            raise ConfigError(f"threshold = {threshold}\n  allowed: {least:g} to {most:g}")
        if not 1 <= self.n_best <= 20:
            raise ConfigError(f"n_best = {self.n_best}\n  allowed: 1 to 20 answers")

    @cached_property
    def trained(self) -> TrainedInput:
        """Fields of a row, and the columns that they had in the training, if that is recorded."""
        usual = (names for kind, names in _FIELDS.items() if isinstance(self.task.kind, kind))
        return TrainedInput.of_record(self.record, next(usual, ("text", "text_pair")))

    def __call__(
        self, rows: str | Row | Sequence[str | Row] | None = None, **fields: object
    ) -> Prediction | list[Prediction]:
        """Return the prediction of one row, or a list of predictions of a list of rows."""
        if rows is None or isinstance(rows, str | Mapping):
            row = {"text": rows} if isinstance(rows, str) else dict(rows or {})
            return next(self.predict([("the row", row | fields)]))
        inputs = [{"text": row} if isinstance(row, str) else row for row in rows]
        return list(self.predict((f"row {number}", row) for number, row in enumerate(inputs)))

    def predict(self, rows: Iterable[tuple[str, Row]]) -> Iterator[Prediction]:
        """Yield one prediction for each row, in order, with bounded memory.

        Each row comes with its place (``file:line``) for messages. Raises ``DataError`` for a row
        without the fields of the model.
        """
        waiting = iter(rows)
        while chunk := list(islice(waiting, CHUNK_ROWS)):
            named = [(where, self.trained.named(row)) for where, row in chunk]
            yield from self.predict_rows(named)

    def predict_rows(self, rows: Sequence[tuple[str, Row]]) -> list[Prediction]:
        """Return the predictions of a chunk of rows by fields of the model; rows of similar length
        share a batch.
        """
        examples = [self._example(row, where) for where, row in rows]
        predictions: list[Prediction] = [{}] * len(rows)
        groups: dict[int, list[int]] = {}  # rows with as many texts or choices, encoded together
        for number, example in enumerate(examples):
            many = isinstance(example, TextExample | ChoiceExample)
            groups.setdefault(len(example.texts) if many else 1, []).append(number)
        for width, numbers in groups.items():
            answers = self._predict_group([examples[n] for n in numbers], width)
            for number, answer in zip(numbers, answers, strict=True):
                predictions[number] = {"id": examples[number].id} | answer
        return predictions

    def _predict_group(self, examples: Sequence[Example], width: int) -> list[Prediction]:
        """Return predictions of rows with the same number of texts."""
        kind = self.task.kind
        features, logits = self._logits(examples, width)
        match kind:
            case Span():
                return self._answers(examples, features, logits)
            case Tag():
                return entities(kind, examples, features, logits)
            case Regress():
                return [{"value": float(row[0])} for row in logits]
            case Choose():
                return [self._choice(row) for row in logits]
            case Classify():
                return [self._class(kind.labels, row) for row in logits]
            case MultiLabel():
                return [self._label_set(kind.labels, row) for row in logits]

    def _logits(self, examples: Sequence[Example], width: int) -> tuple[Features, list[Floats]]:
        """Return the features of rows with the same number of texts, and their logits. A model of
        choices reads any number of them.
        """
        task = self.task
        if isinstance(task.kind, Choose):
            task = replace(task, kind=Choose(width - 1))  # beside the question
        columns = Columns(tuple(range(width)))
        dataset = Dataset("input", task=self.task.name, layout="", folder="", columns=columns)
        limits = {**self.record, "max_length_tokens": self.max_length_tokens}
        features = encode(examples, dataset, task, self.tokenizer, limits)
        lost = features.tokens_cut
        self.cut.update(rows=features.num_truncated, lost=lost, all=len(features.tokens) + lost)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
            logits = batched_logits(
                lambda batch: self.model(to_device(batch, self.device)),
                features,
                self.task.kind,
                pad_id_of(self.tokenizer),
                # int8 scales activations by the largest of a batch: the answer for a row would
                # depend on its neighbours.
                alone=(self.record.get("onnx") or {}).get("quantization") is not None,
            )
        return features, logits

    @property
    def _temperature(self) -> float:
        return self.record.get("temperature") or 1.0

    def _label_set(self, labels: Sequence[str], logits: Floats) -> Prediction:
        shares = probabilities(logits, self._temperature, several=True)
        chosen = predicted_sets(shares, labels, self.threshold)
        names = [label for label, has in zip(labels, chosen, strict=True) if has]
        return {"labels": names, "scores": dict(zip(labels, shares.tolist(), strict=True))}

    def _class(self, labels: Sequence[str], logits: Floats) -> Prediction:
        chosen = self._choice(logits)
        best, scores = chosen["choice"], dict(zip(labels, chosen["scores"], strict=True))
        label = None if best is None else labels[best]
        return {"label": label, "score": chosen["score"], "scores": scores}

    def _choice(self, logits: Floats) -> Prediction:
        """Return the best choice, None below ``min_confidence``, at the stored temperature."""
        shares = probabilities(logits, self._temperature)
        best = int(logits.argmax())
        chosen = best if shares[best] >= self.min_confidence else None
        return {"choice": chosen, "score": float(shares[best]), "scores": shares.tolist()}

    def _answers(
        self, examples: Sequence[Any], features: Features, logits: Sequence[Floats]
    ) -> list[Prediction]:
        """Return the answers, an empty one if the odds of no answer are above the threshold."""
        joint = isinstance(self.task.kind, JointSpan)
        threshold = None if isinstance(self.threshold, Mapping) else self.threshold
        predictions: list[Prediction] = []
        for span in best_spans(features, examples, logits, joint=joint):
            no_answer = float(expit(span.null_odds)) if joint else 1.0
            if span.n_best and not joint:  # in proportion to the probability of the listed answers
                # The best answer's share of them and its odds against no answer are known.
                no_answer = float(expit(span.null_odds + np.log(span.n_best[0].probability)))
            listed = [
                {
                    "answer": candidate.text,
                    "score": candidate.probability * (1 - no_answer),
                    "start": candidate.start,
                    "end": candidate.start + len(candidate.text),
                }
                for candidate in span.n_best
            ]
            absent = {"answer": "", "score": no_answer, "start": None, "end": None}
            silent = not listed or (threshold is not None and span.null_odds > threshold)
            extra = {"n_best": listed[: self.n_best]} if self.n_best > 1 else {}
            found = absent if silent else listed[0]
            odds = {"no_answer_score": no_answer, "null_odds": span.null_odds}
            predictions.append(found | odds | extra)
        return predictions

    def _example(self, row: Row, where: str) -> Example:
        given = row.get("id")
        name = check_text("" if given is None else str(given), where, "id")
        match self.task.kind:
            case Span():
                question, context = self._text(row, "question", where), row.get("context")
                return SpanExample(name, question, check_text(context, where, "context"), (), where)
            case Tag():
                given_words = row.get("words")
                if isinstance(given_words, str) and re.match(r"\[\s*[\"']", given_words):
                    given_words = parse_json(given_words, where)  # a list in a cell
                if isinstance(given_words, list | tuple):
                    words = tuple(check_text(word, where, "words") for word in given_words)
                    return Sentence(name, words, None, where, " ".join(words))
                text = check_text(row.get("text", given_words), where, "text")
                return Sentence(name, words_of(text), None, where, text)
            case Choose():
                choices = row.get("choices")
                if not isinstance(choices, list | tuple) or len(choices) < 2:
                    raise DataError(f"{where}: choices = {choices!r}; allowed: a list of texts")
                if (size := getattr(self.model, "choices", None)) not in (None, len(choices)):
                    raise DataError(
                        f"{where}: {len(choices)} choices, the model takes {size} a row\n"
                        "  fix: correct the row, or repeat `road export`: new ones take any number"
                    )
                texts = tuple(check_text(choice, where, "choices") for choice in choices)
                return ChoiceExample(name, self._text(row, "question", where), texts, None, where)
            case _:
                pair = row.get("text_pair") is not None
                if pair and "text_pair" not in self.trained.fields:
                    raise DataError(f"{where}: text_pair: the model was trained on single texts")
                absent = () if pair else self.trained.optional
                fields = [name for name in self.trained.fields if name not in absent]
                texts = tuple(self._text(row, field, where) for field in fields)
                return TextExample(name, texts, None, where)

    def _text(self, row: Row, field: str, where: str) -> str:
        if field not in row:
            allowed = dict.fromkeys((*self.trained.fields, *names_in(self.trained.columns)))
            raise DataError(
                f"{where}: no field {field!r}; found: {', '.join(map(str, row)) or 'none'}\n"
                f"  allowed: {', '.join(map(str, allowed))}"
            )
        return check_text(row[field], where, field)


_MARK = r"\p{M}\u200c\u200d\u00ad"  # combining marks; zero-width non-joiner and joiner, soft hyphen
_ABBREVIATED = (
    "Mr|Mrs|Ms|Dr|Prof|St|Rev|Gen|Sen|Gov|Lt|Col|Capt|Sgt|Inc|Corp|Ltd|Co|Jr|Sr|vs|etc|vol|No|"
    "Jan|Feb|Mar|Apr|Aug|Sept|Oct|Nov|Dec|Calif|Fla"
)
_PLAIN = r"\p{L}\p{N}_"
_LETTER = rf"[{_PLAIN}{_MARK}]"
_ALONE = r"[\p{L}\p{Nl}\p{No}]"  # a letter, or a number that is no digit, such as a half
_CLITIC = rf"['\u2019](?:s|re|ve|ll|d|m)(?![{_PLAIN}])"
_WORD = regex.compile(
    rf"""
      \.{{2,}} | -{{2,}} | \*{{2,}}                  # ellipses and rules
    | {_CLITIC} | n['\u2019]t(?![{_PLAIN}])
    | (?:{_ALONE}\.){{2,}}(?:-{_LETTER}+)*          # U.S., U.S.-led
    | (?:{_ABBREVIATED})\.(?=\s+\S)
    | {_ALONE}\.(?=\s+[{_PLAIN}])                  # an initial: M. Waugh
    | ^\d{{1,3}}\.(?=\s)                            # number of a list: 1. Germany
    | [a-z]{{1,3}}\$(?=\s*\d|\s|$)                  # C$ 1.5
    | [+-]{{0,2}}\.?\d+(?:[.,:/=-]+\d+)*(?:-?{_LETTER})*(?:-(?=\s))?
    | {_LETTER}+?(?:[-/&+@.'\u2019]{_LETTER}+?)*?        # ends before n't, 's or what is no letter
      (?:(?=n['\u2019]t(?![{_PLAIN}])|{_CLITIC})|(?!['\u2019.&+@/-]?{_LETTER})(?:-(?=\s))?)
    | [^\s\x1c-\x1f{_MARK}][{_MARK}]* | [{_MARK}]+  # the separators are white space to Python
    """,
    regex.VERBOSE | regex.IGNORECASE,
)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words and punctuation marks of a text, in order; together they are all of its
    characters but white space.
    """
    return tuple(_WORD.findall(text))


@dataclass(frozen=True)
class Sentence(TagExample):
    """Words to tag, and the text to which the character offsets refer."""

    text: str


def entities(
    kind: Tag, examples: Sequence[Any], features: Features, logits: Sequence[Floats]
) -> list[dict[str, Any]]:
    """Return the tags of each sentence's words, the scores of each label in them, and the entities
    with character offsets. Of a word that was cut off all labels have the same score.
    """
    predictions, unknown = [], np.zeros(len(kind.labels))
    for example, words in zip(examples, word_logits(features, examples, logits), strict=True):
        tags = predicted_tags(kind.labels, words)
        known = [unknown if w is None else w for w in words]
        shares = probabilities(np.reshape(known, (-1, len(unknown))))
        best = [0.0 if w is None else float(s.max()) for w, s in zip(words, shares, strict=True)]
        scores = dict(zip(kind.labels, shares.T.round(6).tolist(), strict=True)) if known else {}
        found = {"words": list(example.words), "entities": grouped(example, tags, best)}
        predictions.append({"tags": tags, "scores": scores, **found})
    return predictions


def grouped(
    example: Sentence, tags: Sequence[str], scores: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the entities of IOB2 tags; an ``I-`` after another type begins an entity. Tags
    without a prefix are entities of one word each.
    """
    from seqeval.metrics.sequence_labeling import get_entities

    starts, end = [], 0
    for word in example.words:
        starts.append(example.text.index(word, end))
        end = starts[-1] + len(word)
    whole = [tag if tag == OUTSIDE or tag[:2] in ("B-", "I-") else f"B-{tag}" for tag in tags]
    found = []
    for name, first, last in get_entities(whole):
        begin, stop = starts[first], starts[last] + len(example.words[last])
        entity = {"type": name, "start": begin, "end": stop}
        entity["score"] = float(np.mean(scores[first : last + 1]))
        entity["text"] = example.text[begin:stop]
        found.append(entity)
    return found
