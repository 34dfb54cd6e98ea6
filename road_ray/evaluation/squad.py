"""Exact match and token F1 of extracted answers, with the numbers and keys of the official SQuAD
script; the threshold on ``null_odds`` above which a model abstains.

Every score is a percentage (0 to 100). For data in which every question has an answer (SQuAD 1.1,
NewsQA), ``exact`` and ``f1`` are those of the SQuAD 1.1 script, except for gold answers made of
articles and punctuation only, which 2.0 drops; there are no ``NoAns_*`` keys.

Source: evaluate-v2.0.py of the SQuAD 2.0 site (Rajpurkar et al. 2018), reimplemented; for answers
of a language mlqa_evaluation_v1.py (Lewis et al. 2020).
"""

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from road_ray.data.examples import Answer, SpanExample
from road_ray.errors import DataError

_ENGLISH = re.compile(r"\b(?:a|an|the)\b")
_ARTICLES = {
    "": _ENGLISH,
    "en": _ENGLISH,
    "es": re.compile(r"\b(?:un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(?:của|là|cái|chiếc|những)\b"),
    "de": re.compile(r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "ar": re.compile("ال"),  # anywhere in a word, as the script does
}
# Characters that are words of their own, in scripts without spaces. Of Chinese as in MLQA's script,
# which has neither Japanese nor Thai.
_WORDS = {
    "zh": re.compile("[\u4e00-\u9fa5]"),
    "ja": re.compile("[\u3005\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
}
# ASCII only, as the official script: a typographic quote or dash stays part of its word.
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LISTED = 5  # ids in a message
_THRESHOLDS = 60  # of a curve
_AGREED = 0.4  # least agreement of annotators: min_f1 of QuAC's scorer


def normalize(text: str, language: str = "") -> str:
    """Return ``text`` in lower case without ASCII punctuation and English articles,
    single-spaced; with a ``language`` as MLQA's script does: without punctuation of any script and
    the articles of that language, with spaces around the characters of a script without spaces.
    """
    plain = text.lower().translate(_NO_PUNCTUATION)
    if language:
        plain = "".join(c for c in plain if not unicodedata.category(c).startswith("P"))
    # Punctuation goes first, so that "the-art" becomes the word "theart" and keeps its "the".
    if language in _ARTICLES:
        plain = _ARTICLES[language].sub(" ", plain)
    if language in _WORDS:
        plain = _WORDS[language].sub(r" \g<0> ", plain)
    return " ".join(plain.split())


def evaluate(
    dataset: Sequence[SpanExample] | Sequence[Mapping[str, Any]],
    predictions: Mapping[str, str],
    no_answer_probabilities: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Return the official scores of ``predictions`` (``{question id: text}``) under the official
    keys.

    ``dataset`` is the list under ``data`` of a SQuAD file, or a list of ``SpanExample``. A question
    whose no-answer probability (any number that grows with it) is above ``threshold`` counts as
    unanswered. ``exact``, ``f1`` and ``total`` are over all questions, ``HasAns_*`` and ``NoAns_*``
    over those with and without an answer; a group without questions has no keys. ``best_exact``,
    ``best_f1`` and their ``_thresh`` exist only with probabilities and are tuned on these
    questions, so they are an upper bound. Predictions for other questions are ignored. Raises
    ``DataError`` for a question without prediction.

    Questions with several ``references`` are scored as by QuAC's script: F1 is the mean over the
    references of the best F1 over the others, and questions on which the annotators agree with less
    than 0.4 F1 are left out.
    """
    examples = [example for item in dataset for example in _examples(item)]
    even = dict.fromkeys((example.id for example in examples), 0.0)
    odds = even if no_answer_probabilities is None else no_answer_probabilities
    for name, values in (("predictions", predictions), ("no-answer probabilities", odds)):
        if missing := [example.id for example in examples if example.id not in values]:
            raise DataError(
                f"{name}: {len(missing)} questions of the data set are missing: "
                f"{', '.join(missing[:_LISTED])}\n"
                "  allowed: one entry for every question id\n"
                '  fix: give "" where the answer is none, or score only what was predicted'
            )
    if not examples or any(math.isnan(odds[example.id]) for example in examples):
        raise DataError("data set to score: no questions, or odds of no answer that are NaN")
    scored = Scored(examples, predictions, odds)
    return scored.at(threshold) | ({} if no_answer_probabilities is None else scored.best()[0])


def _examples(item: SpanExample | Mapping[str, Any]) -> list[SpanExample]:
    """Return the questions of an article of a SQuAD file; an example as it is."""
    if isinstance(item, SpanExample):
        return [item]
    if not isinstance(item, Mapping) or "paragraphs" not in item:
        raise DataError(
            f"data set to score: {str(item)[:60]!r} is no article and no SpanExample\n"
            "  fix: pass json.load(file)['data']"
        )
    return [  # an article need not have what is not scored
        SpanExample(asked["id"], "", "", tuple(Answer(x["text"], 0) for x in asked["answers"]), "")
        for paragraph in item["paragraphs"]
        for asked in paragraph["qas"]
    ]


class Scored:
    """Exact match and F1 of the ``texts`` that answer questions, by id, from which the scores at
    any threshold of ``odds`` follow. A question that is there twice counts once, as in the official
    script.
    """

    def __init__(
        self, examples: Sequence[SpanExample], texts: Mapping[str, str], odds: Mapping[str, float]
    ) -> None:
        asked = list({example.id: example for example in examples}.values())
        self.odds = np.array([odds[example.id] for example in asked])
        self.unanswerable = np.array([not example.answers for example in asked])
        self.silent = np.array([not texts[example.id] for example in asked])
        self.raw = np.array([raw_scores(example, texts[example.id]) for example in asked])
        self.counted = np.ones(len(asked), dtype=bool)
        for number, references in enumerate(example.references for example in asked):
            if len(references) > 1:  # the model is scored as an annotator is
                given = [texts[asked[number].id]] * len(references)
                self.raw[number, 1] = _one_left_out(references, given)
                self.counted[number] = _one_left_out(references, references) >= _AGREED
        self.counted |= not self.counted.any()
        self.untuned = 0.0 if self.unanswerable.any() else np.inf
        """Threshold of ``exact`` and ``f1``: by the rule of SQuAD 1.1 every question is answered
        if none is without an answer."""

    def at(self, threshold: float) -> dict[str, float]:
        """Return the official scores at a threshold."""
        result = dict[str, float]()
        refused = (self.odds > threshold)[:, None]
        points = np.where(refused, self.unanswerable[:, None], self.raw)
        groups = {"": True, "HasAns_": ~self.unanswerable, "NoAns_": self.unanswerable}
        for prefix, group in groups.items():
            columns = points[self.counted & group].T.tolist()
            if not columns[0]:
                continue
            for name, column in zip(("exact", "f1"), columns, strict=True):
                result[f"{prefix}{name}"] = 100.0 * sum(column) / len(column)
            result[f"{prefix}total"] = len(columns[0])
        return result

    def best(self) -> tuple[dict[str, float], float]:
        """Return the best scores over all thresholds, each with the lowest threshold that reaches
        it, and the threshold to store for the best F1.

        As in the official script, abstaining everywhere is threshold 0.0, and questions of equal
        odds are added one by one although no threshold separates them. A threshold of 0.0 lets
        answers of negative odds through: the one to store is below all odds then.
        """
        order = np.argsort(self.odds, kind="stable")
        order = order[self.counted[order]]
        result, stored = dict[str, float](), 0.0
        for name, column in zip(("exact", "f1"), self.raw.T, strict=True):
            gains = np.where(self.unanswerable, -1.0 * ~self.silent, column)[order]
            sums = np.cumsum([self.unanswerable[order].sum(), *gains])
            count = int(sums.argmax())  # questions that are answered
            stored = float(self.odds[order[count - 1]]) if count else 0.0
            result[f"best_{name}"] = 100.0 * float(sums[count]) / len(order)
            result[f"best_{name}_thresh"] = stored
            if not count:
                stored = min(float(np.nextafter(self.odds.min(), -np.inf)), 0.0)
        return result, stored

    def metrics(self, threshold: float | None) -> dict[str, float]:
        """Return the official scores, by three ways to decide on "no answer", and precision,
        recall, F1 and accuracy of abstaining.

        - ``exact``, ``f1``, ``total``, ``HasAns_*``, ``NoAns_*``: at the untuned threshold.
        - ``at_threshold_*``, the same keys, and ``threshold`` itself: at the given threshold, the
          one stored with the model. Honest if it was chosen on other data; absent without one.
        - ``best_exact``, ``best_f1``, ``best_*_thresh``: tuned on these very examples, an upper
          bound, and what papers print for the SQuAD 2.0 dev set.

        A ratio without cases (no abstention, or nothing to abstain from) is 0; the two counts tell
        them apart.
        """
        result = self.at(self.untuned) | self.best()[0]
        if threshold is not None:
            tuned = self.at(threshold)
            result["threshold"] = threshold
            result |= {f"at_threshold_{name}": score for name, score in tuned.items()}
        abstained = (self.odds > (self.untuned if threshold is None else threshold)) | self.silent
        hits = int((abstained & self.unanswerable).sum())
        predicted, total = int(abstained.sum()), int(self.unanswerable.sum())
        return result | {
            "no_answer_precision": 100.0 * hits / predicted if predicted else 0.0,
            "no_answer_recall": 100.0 * hits / total if total else 0.0,
            "no_answer_f1": 200.0 * hits / (predicted + total) if predicted + total else 0.0,
            "answerability_accuracy": 100.0 * float((abstained == self.unanswerable).mean()),
            "no_answer_predicted": predicted,
            "no_answer_total": total,
        }

    def diagnostics(self, threshold: float) -> dict[str, Any]:
        """Return rows, the threshold in use and, if some questions have no answer, ``thresholds``:
        ``[threshold, exact, f1, exact with answer, exact without]``, in percent.
        """
        diagnostics: dict[str, Any] = {"rows": len(self.odds)}
        if not self.unanswerable.any():
            return diagnostics
        low, high = np.quantile(self.odds, [0.01, 0.99])
        places = np.linspace(min(low, threshold), max(high, threshold), _THRESHOLDS)
        curve = []
        for place in sorted({*places.tolist(), threshold}):
            scores = {"HasAns_exact": 0.0, "NoAns_exact": 0.0} | self.at(place)
            row = (
                place,
                *(scores[name] for name in ("exact", "f1", "HasAns_exact", "NoAns_exact")),
            )
            curve.append([round(float(value), 3) for value in row])
        return diagnostics | {"threshold": round(threshold, 3), "thresholds": curve}


def _one_left_out(references: Sequence[str], answers: Sequence[str]) -> float:
    """Return the mean over the references of the best F1 of the answer in its place with the
    others. Source: Choi et al. 2018, section 5.1.
    """
    known, given = ([normalize(text).split() for text in side] for side in (references, answers))
    pairs = enumerate(given)
    best = [
        max(_bag_f1(other, words) for other in known[:n] + known[n + 1 :]) for n, words in pairs
    ]
    return sum(best) / len(best)


def raw_scores(example: SpanExample, predicted: str) -> tuple[float, float]:
    """Return exact match and F1, each the best over the accepted texts, else the gold answers, that
    do not normalise to an empty text.
    """
    texts = example.accepted or [answer.text for answer in example.answers]
    accepted = list(filter(None, (normalize(text, example.language) for text in texts))) or [""]
    words = (answer := normalize(predicted, example.language)).split()
    exact = float(answer in accepted)
    return exact, max(_bag_f1(text.split(), words) for text in accepted)


def _bag_f1(gold: list[str], predicted: list[str]) -> float:
    """Return the harmonic mean of precision and recall of words, 0 to 1; of two empty ones 1."""
    if not gold or not predicted:
        return float(gold == predicted)
    shared = (Counter(gold) & Counter(predicted)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return 2 * precision * recall / (precision + recall)
