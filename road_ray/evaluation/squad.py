"""Exact match and token F1 of extracted answers, with the numbers and keys of the official SQuAD
script; the threshold on ``null_odds`` above which a model abstains.

Every score is a percentage (0 to 100). For data in which every question has an answer (SQuAD 1.1,
NewsQA), ``exact`` and ``f1`` are those of the SQuAD 1.1 script, except for gold answers made of
articles and punctuation only, which 2.0 drops; there are no ``NoAns_*`` keys. Files of predictions
are as BERT writes them and the official script reads them.

Source: evaluate-v2.0.py of the SQuAD 2.0 site (Rajpurkar et al. 2018), reimplemented; for answers
of a language mlqa_evaluation_v1.py (Lewis et al. 2020).
"""

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from road_ray.data.examples import Answer, SpanExample
from road_ray.errors import DataError
from road_ray.evaluation.spans import SpanPrediction
from road_ray.system.files import write_json_atomic

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


def token_f1(gold: str, predicted: str, language: str = "") -> float:
    """Return the harmonic mean of word precision and recall (as bags), 0 to 1; two empty answers
    give 1.
    """
    return _bag_f1(normalize(gold, language).split(), normalize(predicted, language).split())


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
    scores = _scores(examples, predictions, odds, threshold)
    if no_answer_probabilities is None:
        return {name: score for name, score in scores.items() if not name.startswith("best_")}
    return scores


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


def _scores(
    examples: Sequence[SpanExample],
    texts: Mapping[str, str],
    odds: Mapping[str, float],
    threshold: float,
) -> dict[str, float]:
    # A question that is there twice counts once, as in the official script.
    examples = list({example.id: example for example in examples}.values())
    agreed = [e for e in examples if len(e.references) < 2 or agreement(e.references) >= _AGREED]
    examples = agreed or examples
    exact, f1 = dict[str, float](), dict[str, float]()
    for example in examples:
        text = texts[example.id]
        exact[example.id], f1[example.id] = raw_scores(example, text)
        if len(example.references) > 1:
            # The mean over the references of the best F1 over the others, by which a model is
            # scored as an annotator is. Source: Choi et al. 2018, section 5.1.
            of_each = [token_f1(reference, text) for reference in example.references]
            best = [max(of_each[:n] + of_each[n + 1 :]) for n in range(len(of_each))]
            f1[example.id] = sum(best) / len(best)
    groups = {
        "": examples,
        "HasAns_": [example for example in examples if example.answers],
        "NoAns_": [example for example in examples if not example.answers],
    }
    result: dict[str, float] = {}
    for prefix, group in groups.items():
        if not group:
            continue
        for name, scores in (("exact", exact), ("f1", f1)):
            points = [
                float(not example.answers) if odds[example.id] > threshold else scores[example.id]
                for example in group
            ]
            result[f"{prefix}{name}"] = 100.0 * sum(points) / len(group)
        result[f"{prefix}total"] = len(group)
    for name, scores in (("exact", exact), ("f1", f1)):
        found = _best_threshold(examples, texts, scores, odds)
        result[f"best_{name}"], result[f"best_{name}_thresh"] = found
    return result


def agreement(references: tuple[str, ...]) -> float:
    """Return the mean over the references of their best F1 with another one."""
    best = [
        max(token_f1(other, reference) for other in references[:n] + references[n + 1 :])
        for n, reference in enumerate(references)
    ]
    return sum(best) / len(best)


# An answer is scored untuned, at a threshold and to find the best one.
@lru_cache(maxsize=1 << 16)
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
    if not gold or not predicted:
        return float(gold == predicted)
    shared = (Counter(gold) & Counter(predicted)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def _best_threshold(
    examples: Sequence[SpanExample],
    texts: Mapping[str, str],
    scores: Mapping[str, float],
    odds: Mapping[str, float],
) -> tuple[float, float]:
    """Return the best score over all thresholds and the lowest threshold that reaches it.

    As in the official script, abstaining everywhere is threshold 0.0, and questions of equal odds
    are added one by one although no threshold separates them.
    """
    current: float = sum(not example.answers for example in examples)
    best, best_threshold = current, 0.0
    for example in sorted(examples, key=lambda example: odds[example.id]):
        if example.answers:
            current += scores[example.id]
        elif texts[example.id]:
            current -= 1
        if current > best:
            best, best_threshold = current, odds[example.id]
    return 100.0 * best / len(examples), best_threshold


def untuned_threshold(examples: Sequence[SpanExample]) -> float:
    """Return the threshold of ``exact`` and ``f1``: 0 if some question has no answer, else
    infinity, for by the rule of SQuAD 1.1 every question is answered.
    """
    return 0.0 if any(not example.answers for example in examples) else np.inf


def choose_threshold(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction]
) -> float:
    """Return the ``null_odds`` threshold with the best F1 on these (dev) examples.

    As in the official script, unless abstaining everywhere is best: the script then reports 0.0,
    which lets answers of negative odds through; here the threshold is below all odds.
    """
    scores = score(examples, predictions)
    abstaining = 100.0 * sum(not example.answers for example in examples) / len(examples)
    if scores["best_f1"] > abstaining:
        return scores["best_f1_thresh"]
    below = np.nextafter(min(p.null_odds for p in predictions), -np.inf)
    return min(float(below), 0.0)


def apply_threshold(predictions: Sequence[SpanPrediction], threshold: float) -> dict[str, str]:
    """Return ``{id: text}``, with an empty text where ``null_odds`` is above ``threshold``."""
    return {p.id: "" if p.null_odds > threshold else p.text for p in predictions}


def score(
    examples: Sequence[SpanExample],
    predictions: Sequence[SpanPrediction],
    threshold: float | None = None,
) -> dict[str, float]:
    """Official SQuAD scores of the predictions, by three ways to decide on "no answer".

    - ``exact``, ``f1``, ``total``, ``HasAns_*``, ``NoAns_*``: at the untuned threshold.
    - ``at_threshold_*``, the same keys, and ``threshold`` itself: at the given threshold, the one
      stored with the model. Honest if it was chosen on other data; absent without a threshold.
    - ``best_exact``, ``best_f1``, ``best_*_thresh``: tuned on these very examples, an upper bound,
      and what papers print for the SQuAD 2.0 dev set.
    """
    texts = {p.id: p.text for p in predictions}
    odds = {p.id: p.null_odds for p in predictions}
    result = _scores(examples, texts, odds, untuned_threshold(examples))
    if threshold is not None:
        tuned = _scores(examples, texts, odds, threshold)
        result["threshold"] = threshold
        result |= {f"at_threshold_{k}": v for k, v in tuned.items() if not k.startswith("best_")}
    return result


def answerability(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction], threshold: float
) -> dict[str, float]:
    """Return precision, recall, F1 and accuracy of abstaining at ``threshold``.

    A ratio without cases (no abstention, or nothing to abstain from) is 0; the two counts tell them
    apart.
    """
    texts = apply_threshold(predictions, threshold)
    abstained = np.array([not texts[example.id] for example in examples], dtype=bool)
    unanswerable = np.array([not example.answers for example in examples], dtype=bool)
    hits = int((abstained & unanswerable).sum())
    predicted, total = int(abstained.sum()), int(unanswerable.sum())
    return {
        "no_answer_precision": 100.0 * hits / predicted if predicted else 0.0,
        "no_answer_recall": 100.0 * hits / total if total else 0.0,
        "no_answer_f1": 200.0 * hits / (predicted + total) if predicted + total else 0.0,
        "answerability_accuracy": 100.0 * float((abstained == unanswerable).mean()),
        "no_answer_predicted": predicted,
        "no_answer_total": total,
    }


def span_diagnostics(
    examples: Sequence[SpanExample], predictions: Sequence[SpanPrediction], threshold: float
) -> dict[str, Any]:
    """Return rows, the threshold in use and, if some questions have no answer, ``thresholds``:
    ``[threshold, exact, f1, exact with answer, exact without]``, in percent.
    """
    diagnostics: dict[str, Any] = {"rows": len(examples)}
    if not examples or all(example.answers for example in examples):
        return diagnostics
    pairs = zip(examples, predictions, strict=True)
    raw = np.array([raw_scores(example, answer.text) for example, answer in pairs])
    unanswerable = np.array([not example.answers for example in examples])
    odds = np.array([prediction.null_odds for prediction in predictions])
    abstained = unanswerable[:, None].astype(float)  # both scores of abstaining
    low, high = np.quantile(odds, [0.01, 0.99])
    places = np.linspace(min(low, threshold), max(high, threshold), _THRESHOLDS)
    curve = []
    for place in sorted({*places.tolist(), threshold}):
        scores = 100.0 * np.where((odds > place)[:, None], abstained, raw)
        exact = scores[:, 0]
        has = float(exact[~unanswerable].mean()) if not unanswerable.all() else 0.0
        none = float(exact[unanswerable].mean())
        row = [place, *scores.mean(0).tolist(), has, none]
        curve.append([round(float(value), 3) for value in row])
    return diagnostics | {"threshold": round(threshold, 3), "thresholds": curve}


def write_predictions(
    directory: Path, predictions: Sequence[SpanPrediction], threshold: float
) -> None:
    """Write ``predictions.json``, ``nbest_predictions.json``, ``null_odds.json``, as BERT does.

    The official script reads the first (threshold applied) and the last (as ``--na-prob-file``).
    ``nbest_predictions.json`` holds spans only, without an entry for "no answer".
    """
    columns = ("text", "probability", "start_logit", "end_logit")  # of BERT's file
    listed = {
        p.id: [{name: getattr(candidate, name) for name in columns} for candidate in p.n_best]
        for p in predictions
    }
    texts = apply_threshold(predictions, threshold)
    write_json_atomic(directory / "predictions.json", texts, ascii_only=False)
    write_json_atomic(directory / "nbest_predictions.json", listed, ascii_only=False)
    write_json_atomic(directory / "null_odds.json", {p.id: p.null_odds for p in predictions})
