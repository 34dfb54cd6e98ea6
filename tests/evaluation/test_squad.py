"""Official SQuAD scores against hand-computed values and a second implementation."""

from dataclasses import replace
from typing import Any

import pytest

from road_ray.data.examples import Answer, SpanExample
from road_ray.errors import DataError
from road_ray.evaluation.squad import Scored, evaluate, normalize


def example(id_: str, *golds: str) -> SpanExample:
    return SpanExample(id_, "?", " ".join(golds), tuple(Answer(g, 0) for g in golds), "dev.json:1")


def article(questions: dict[str, list[str]]) -> list[dict[str, Any]]:
    qas = [
        {"id": id_, "question": "?", "answers": [{"text": g, "answer_start": 0} for g in golds]}
        for id_, golds in questions.items()
    ]
    return [{"title": "t", "paragraphs": [{"context": "c", "qas": qas}]}]


HINDI, JAPANESE = "\u0939\u093f\u0928\u094d\u0926\u0940", "\u6771\u4eac\u30bf\u30ef\u30fc\u306e"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "\u201cThe\u201d cat\u2019s a.m.", "cats am"),  # punctuation of any script goes
        ("es", "La casa del sol, \u00a1unas an\u00e9cdotas!", "casa del sol an\u00e9cdotas"),
        ("es", "the sol", "the sol"),  # articles of the language only
        ("de", "Der Turm des K\u00f6nigs", "turm k\u00f6nigs"),
        ("vi", "Nh\u1eefng con m\u00e8o c\u1ee7a a", "con m\u00e8o a"),
        ("hi", f"{HINDI} a\u0964", f"{HINDI} a"),
        ("ar", "\u0627\u0644\u0643\u062a\u0627\u0628\u060c", "\u0643\u062a\u0627\u0628"),
        ("zh", "\u57281997\u5e74\uff0cthe UN", "\u5728 1997 \u5e74 the un"),
        ("ja", f"{JAPANESE} a\u3002", " ".join(f"{JAPANESE}a")),
        ("th", "\u0e01\u0e23\u0e38\u0e07 the", "\u0e01 \u0e23 \u0e38 \u0e07 the"),
    ],
)
def test_normalize_of_a_language(language: str, text: str, expected: str):
    assert normalize(text, language) == expected


def test_the_figures_of_mlqa_for_chinese():
    """Of four characters three are right: 3/4 both ways; and a full stop of any script is none."""
    golds = {"a": "\u9999\u6e2f\u5927\u5b66", "b": "the \u5317\u4eac"}
    examples = [replace(example(id_, gold), language="zh") for id_, gold in golds.items()]
    predictions = {"a": "\u9999\u6e2f\u5927\u5b78\u3002", "b": "\u5317\u4eac\u3002"}
    scores = evaluate(examples, predictions)
    assert scores["exact"] == 0
    assert scores["f1"] == pytest.approx(100 * (3 / 4 + 0.8) / 2)  # "the" counts: 2/2 and 2/3
    assert evaluate([example("b", golds["b"])], predictions)["f1"] == 0  # by SQuAD's script


# What the official script gives, worked out by hand from its four steps (lower case, without the 32
# signs of string.punctuation, without a|an|the between word boundaries, single-spaced).
TRICKY = [
    # golds, prediction, exact, f1
    (["THE Cat"], "the  cat.", 1, 1.0),
    (["a\u0301"], "\u0301", 1, 1.0),  # an accent is no letter: the "a" below it is an article
    (["\u00e1"], "", 0, 0.0),  # composed it is a letter
    (["caf\u00e9"], "cafe\u0301", 0, 0.0),  # two ways to write one word stay two words
    (["\uff34\uff28\uff25 dog"], "dog", 0, 2 / 3),  # a full-width article is none, in lower case
    (["cat\uff0cdog"], "cat, dog", 0, 0.0),  # nor is a full-width comma punctuation: one word
    (["cat\u3000dog"], "cat dog", 1, 1.0),  # but an ideographic space is a space,
    (["cat\u00a0dog"], "dog cat", 0, 1.0),  # and so is a hard one; F1 knows no order
    (["cat\u200bdog"], "cat dog", 0, 0.0),  # one without width is none
    (["\u6771\u4eacthe\u5854"], "\u6771\u4eac the \u5854", 0, 0.0),  # letters on both sides
    (["\u0130stanbul"], "i\u0307stanbul", 1, 1.0),  # the dotted capital in lower case
    (["Stra\u00dfe"], "STRASSE", 0, 0.0),  # lower case, not case folding
    (["A\u2013Z"], "\u2013z", 1, 1.0),  # a dash parts, is kept, and leaves the article alone
    (["A-Z"], "az", 1, 1.0),  # a hyphen goes, and with it the boundary
    (["l'an 2000"], "lan 2000", 1, 1.0),
    (["snake_case"], "snakecase", 1, 1.0),  # the underscore is punctuation
    (["1,000.5"], "10005", 1, 1.0),
    (["$5 - $6"], "5 6", 1, 1.0),
    (["\u00a35"], "5", 0, 0.0),  # a pound is no punctuation
    (["in the 1990s", "1990s"], "the 1990s", 1, 1.0),  # the best of several golds
    (["x y", "y z w"], "y w", 0, 0.8),  # 2 / 3 < max(1 / 2, 4 / 5)
    (["the the cat"], "cat cat", 0, 2 / 3),  # precision 1 / 2, recall 1
    (["cat cat dog"], "cat cat", 0, 0.8),  # a bag: precision 1, recall 2 / 3
    (["an", "The."], "an ox", 0, 0.0),  # all golds are articles: only silence is right,
    (["an", "The."], "an", 1, 1.0),  # and an article is silence
    (["Rome"], " \t", 0, 0.0),
    ([], "the", 1, 1.0),  # an article is silence
    ([], " . ", 1, 1.0),
    ([], "\u3002", 0, 0.0),  # a full stop of another script is an answer
]


@pytest.mark.parametrize(("golds", "predicted", "exact", "f1"), TRICKY)
def test_the_figures_of_the_official_script(golds, predicted, exact, f1):
    scores = evaluate(article({"q": golds}), {"q": predicted})
    assert (scores["exact"], scores["f1"]) == pytest.approx((100 * exact, 100 * f1))


GOLDS: dict[str, list[str]] = {
    "several": ["dog house", "the cat sat"],  # F1 of "cat": 0 and 2/3
    "empty": ["Paris"],  # answered with nothing
    "the": ["the"],  # normalises to nothing, so that only an empty answer is right
    "mixed": ["the", "Rome"],  # "the" does not count
    "none": [],
    "none2": [],
}
PREDICTIONS = {"several": "cat", "the": "The!", "none2": "some answer"}
PREDICTIONS |= dict.fromkeys(("empty", "mixed", "none"), "")


@pytest.mark.parametrize("form", ["articles", "examples"])
def test_scores_by_hand(form: str):
    examples = [example(id_, *golds) for id_, golds in GOLDS.items()]
    data: Any = article(GOLDS) if form == "articles" else examples
    scores = evaluate(data, PREDICTIONS)
    f1 = 2 / 3  # "cat" against "cat sat"
    assert scores == pytest.approx(
        {
            "exact": 100 * 2 / 6,
            "f1": 100 * (2 + f1) / 6,
            "total": 6,
            "HasAns_exact": 100 * 1 / 4,
            "HasAns_f1": 100 * (1 + f1) / 4,
            "HasAns_total": 4,
            "NoAns_exact": 50.0,
            "NoAns_f1": 50.0,
            "NoAns_total": 2,
        }
    )


def test_a_probability_above_the_threshold_counts_as_no_answer():
    data = [example("a", "x"), example("b"), example("c", "y"), example("d", "the")]
    predictions = {"a": "x", "b": "x", "c": "y", "d": ""}
    odds = {"a": 0.5, "b": 0.9, "c": 0.6, "d": 0.9, "elsewhere": 0.1}
    scores = evaluate(data, predictions, odds, threshold=0.5)
    # a: 0.5 is not above 0.5, right; b: refused, right; c: refused, wrong;
    # d: refused, and a refusal is wrong wherever there are golds, even golds that are no words.
    assert (scores["HasAns_exact"], scores["NoAns_exact"]) == pytest.approx((100 / 3, 100.0))
    assert scores["exact"] == 50.0


def test_best_threshold_by_hand():
    data = [example("a", "x"), example("b"), example("c", "y z"), example("d")]
    predictions = {"a": "x", "b": "wrong", "c": "y", "d": "wrong"}
    odds = {"a": -3.0, "c": -2.0, "b": -1.0, "d": 4.0}
    scores = evaluate(data, predictions, odds)
    # From 2 (nothing answered): a -> 3 / 3, c -> 3 / 3.667, b -> one less, d -> one less.
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75.0, -3.0)
    assert scores["best_f1"] == pytest.approx(100 * (3 + 2 / 3) / 4)
    assert scores["best_f1_thresh"] == -2.0
    reached = evaluate(data, predictions, odds, threshold=scores["best_f1_thresh"])
    assert reached["f1"] == pytest.approx(scores["best_f1"])
    silent = evaluate([example("a")], {"a": "wrong"}, {"a": 0.3})
    assert (silent["best_f1"], silent["best_f1_thresh"], silent["f1"]) == (100.0, 0.0, 0.0)


def test_data_without_unanswerable_questions_has_no_such_keys():
    scores = evaluate([example("a", "x y"), example("b", "z")], {"a": "x", "b": "z"})
    assert set(scores) == {"exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total"}
    assert (scores["exact"], scores["f1"]) == pytest.approx((50.0, 100 * (2 / 3 + 1) / 2))


@pytest.mark.parametrize("form", ["articles", "examples"])
def test_a_question_that_is_there_twice_counts_once(form: str):
    """As in the official script, which reads ids and texts of answers alone."""
    data: Any = [example("q", "x"), example("q", "y"), example("r", "z")]
    if form == "articles":
        pairs = [(q.id, [{"text": answer.text} for answer in q.answers]) for q in data]
        data = [{"paragraphs": [{"qas": [{"id": q, "answers": a} for q, a in pairs]}]}]
    scores = evaluate(data, {"q": "y", "r": "y"})
    assert (scores["exact"], scores["total"], scores["HasAns_total"]) == (50.0, 2, 2)


@pytest.mark.parametrize(
    ("data", "predictions", "odds", "message"),
    [
        ([example("q1", "x"), example("q2", "x")], {"q1": "x"}, None, "1 questions .*q2"),
        ([example("q", "x")], {"q": "x"}, {}, "no-answer probabilities: 1 questions"),
        ([example("q")], {"q": ""}, {"q": float("nan")}, "NaN"),
        ([], {}, None, "no questions"),
        ({"version": "v2.0", "data": []}, {}, None, r"json\.load\(file\)\['data'\]"),
    ],
)
def test_bad_input_is_refused(data: Any, predictions: Any, odds: Any, message: str):
    with pytest.raises(DataError, match=message):
        evaluate(data, predictions, odds)


def quac_question(id_, *references):
    answers = tuple(Answer(text, 0) for text in dict.fromkeys(references))
    return SpanExample(id_, "?", "", answers, id_, references=references)


@pytest.mark.parametrize(
    ("references", "predicted", "f1"),
    [
        # Left out in turn: {xy, xz}, {xy, xz}, {xy, xy}.
        (("x y", "x y", "x z"), "x y", (1 + 1 + 1) / 3),
        (("x y", "x y", "x z"), "x z", (1 + 1 + 0.5) / 3),
        (("x y", "x y z"), "x y", (0.8 + 1) / 2),
        (("x y",), "x y", 1.0),  # one annotator: as SQuAD
    ],
)
def test_f1_of_quac_leaves_one_reference_out(references, predicted, f1):
    scores = evaluate([quac_question("q", *references)], {"q": predicted})
    assert scores["f1"] == pytest.approx(100 * f1)
    assert scores["total"] == 1


def test_questions_on_which_quacs_annotators_disagree_are_left_out():
    examples = [quac_question("good", "x", "x"), quac_question("bad", "x", "y")]
    scores = evaluate(examples, {"good": "x", "bad": "y"}, {"good": 0.0, "bad": 0.0})
    assert (scores["total"], scores["f1"], scores["best_f1"]) == (1, 100.0, 100.0)
    examples.append(quac_question("none"))  # silence is best, by the questions that count
    texts, odds = (dict.fromkeys(("good", "bad", "none"), given) for given in ("x", -1.0))
    texts["good"] = "y"
    scored = Scored(examples, texts, odds)
    assert scored.best()[1] < -1.0
    curve = {place: f1 for place, _, f1, *_ in scored.diagnostics(-1.0)["thresholds"]}
    assert curve[-1.0] == evaluate(examples, texts, odds, -1.0)["f1"] == 0.0


def test_scores_by_threshold_are_those_of_the_official_script():
    examples = [example("1", "a b"), example("2"), example("3", "c"), example("4")]
    texts = dict(zip("1234", "abca", strict=True))
    odds = dict(zip("1234", (-2.0, 1.5, 0.5, -1.0), strict=True))
    result = Scored(examples, texts, odds).diagnostics(0.0)
    assert (result["rows"], result["threshold"]) == (4, 0.0)
    for place, *figures in result["thresholds"]:
        official = evaluate(examples, texts, odds, place)
        names = ("exact", "f1", "HasAns_exact", "NoAns_exact")
        assert figures == pytest.approx([official[name] for name in names], abs=1e-3)
    assert 0.0 in [row[0] for row in result["thresholds"]]
