"""Files of answers to questions about a context, and of tags of words, are teachers."""

import json
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import road_ray as rr
from road_ray.data.load_split import row_features
from road_ray.errors import RoadError
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import predict_file
from road_ray.training.worker import Worker
from tests.conftest import SPANS
from tests.row_files import write_rows
from tests.runs import weights

START = (0, 2, 3, 4)
LABELS = ["O", "B-PER", "I-PER", "B-LOC"]
WORDS = ["Ann", "Ro", "lives", "in", "Zürich", "."]
TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """Overrides of a data set of tags, whose longest sentences need two rows of tokens."""
    sentences = [
        {"words": WORDS[START[n % 4] :] * (1 + n % 3), "tags": TAGS[START[n % 4] :] * (1 + n % 3)}
        for n in range(15)
    ]
    train = str(write_rows(tmp_path_factory.mktemp("tags") / "train.jsonl", sentences))
    entry = {"kind": "tag", "text": "words", "label": "tags", "labels": LABELS}
    entry |= {"train": train, "dev": train}
    return {"data.sets": {"own": entry}, "data.dataset": "own", "data.max_length_tokens": 24}


@pytest.fixture(scope="module")
def asked(world):
    """Overrides of SQuAD 2.0, and its training questions as rows."""
    articles = json.loads(next(world.rglob("train-v2.0.json")).read_text())["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    rows = [{**qa, "context": p["context"]} for p in paragraphs for qa in p["qas"]]
    return {"data.dataset": "squad_v2", **SPANS}, rows


@pytest.fixture
def teach(opened):
    """``teach(path, changes)``: a teacher that is a file; rows of a student and their features."""

    def ask(path, changes):
        teachers, split, tokenizer, config = opened(path, changes)
        given = {"worker": Worker.alone(), "on_event": lambda *_, **__: None}
        ensemble = teachers.open(split, None, **given)
        width = int(split.features.lengths.max())

        def answer(rows):
            batch = {"rows": torch.tensor(rows), "input_ids": torch.zeros(len(rows), width)}
            return ensemble.gather(ensemble.submit(batch))[0]

        return answer, split, row_features(split, tokenizer, config.data)

    return ask


def per_word(split, answers):
    """Logits of the words of each sentence, from those of tokens."""
    features, logits = split.features, [[None] * len(e.words) for e in split.examples]
    for row, of_tokens in answers.items():
        words = features.words[features.bounds[row] : features.bounds[row + 1]]
        for place in np.flatnonzero(words >= 0):
            logits[features.example[row]][words[place]] = of_tokens[0][place]
    return logits


@pytest.mark.parametrize("form", ["words", "row"])
def test_the_logits_of_a_tagger_from_a_file_make_a_bit_equal_student(
    student, sentiment, tagged, spied, tmp_path, teach, form
):
    model = rr.finetune(overrides=sentiment | tagged, run_dir=tmp_path / "teacher")
    changes = tagged | {"training.steps": 4}
    live = student("live", model.directory, **changes)
    split = teach(write_rows(tmp_path / "none.jsonl", [{"row": 0, "tags": TAGS}]), tagged)[1]
    assert len(split.features) > len(split.examples)
    rows = []
    for number, logits in enumerate(per_word(split, spied)):
        lists = dict(zip(LABELS, map(list, zip(*logits, strict=True)), strict=True))
        if form == "words":
            rows.append({"words": list(split.examples[number].words), "logits": lists})
        else:
            lists = {f"logit_{label}": json.dumps(lists[label]) for label in LABELS[::-1]}
            rows.append({"row": number, **lists})
    path = tmp_path / ("file.jsonl" if form == "words" else "file.csv")
    assert weights(student("file", write_rows(path, rows), **changes)) == weights(live)


def test_the_scores_of_words_that_predict_writes_are_a_teacher(
    student, sentiment, tagged, tmp_path
):
    model = str(rr.finetune(overrides=sentiment | tagged, run_dir=tmp_path / "teacher").directory)
    train, runs = tagged["data.sets"]["own"]["train"], []
    for suffix in (".csv", ".jsonl"):
        predicted = tmp_path / f"predicted{suffix}"
        predict_file(load(model), train, predicted, model=model)
        runs.append(weights(student(suffix[1:], predicted, **tagged, **{"training.steps": 2})))
    assert runs[0] == runs[1]
    row = json.loads(predicted.read_text().splitlines()[0])
    scores = np.array([row["scores"][label] for label in LABELS])  # [labels, words]
    assert_close(scores.sum(0), np.ones(len(row["words"])), rtol=0, atol=1e-5)


def test_a_confidence_is_that_of_a_word_or_of_all(answered, tagged):
    low, high, sure = math.log(0.1 / 3), math.log(0.9), math.log(1e-8)
    row = {"row": 0, "tags": TAGS}
    for confidence in (0.9, [0.9] * 6):
        (found,) = answered([row | {"confidence": confidence}], **tagged).values()
        assert found[:8] == pytest.approx([low, high, low, low, low, low, high, low])
    (found,) = answered([row | {"confidence": [1, *[0.9] * 5]}], **tagged).values()
    assert found[:8] == pytest.approx([sure, 0, sure, sure, low, low, high, low])


def test_right_answers_are_where_the_labels_are_in_every_window(teach, asked, tmp_path):
    changes, rows = asked
    answers = [
        {"id": row["id"], "answer": a["text"], "start": a["answer_start"]}
        for row in rows
        for a in row["answers"][:1] or [{"text": "", "answer_start": None}]
    ]
    read, split, features = teach(write_rows(tmp_path / "people.jsonl", answers), changes)
    gold = np.stack([features.gold[f"{end}_positions"] for end in ("start", "end")], 1)
    windows = np.bincount(features.example)[features.example]
    with_answer = [bool(split.examples[n].answers) for n in features.example]
    assert ((gold[:, 0] == 0) & with_answer & (windows > 1)).any()  # elsewhere in its context
    logits = read([*range(len(features))])
    assert logits.argmax(-1).numpy().tolist() == gold.tolist()
    assert (logits.softmax(-1).amax(-1) > 0.999).all()


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_the_answers_that_predict_lists_become_its_distributions(
    teach, asked, span_run, student, tmp_path, suffix
):
    short = [
        {"id": row["id"], "question": row["question"], "answers": []}
        | {"context": " ".join(row["context"].split()[:20])}
        for row in asked[1][:40]
    ]
    source = write_rows(tmp_path / "train.jsonl", short)
    entry = {"kind": "span", "train": str(source), "dev": str(source)}
    changes = SPANS | {"data.sets": {"own": entry}, "data.dataset": "own"}
    model = load(str(span_run.directory), n_best=20, precision="fp32")
    predicted = tmp_path / f"predicted{suffix}"
    predict_file(model, str(source), predicted, model=str(span_run.directory))
    read, split, features = teach(predicted, changes)
    assert len(features) == len(split.examples) == 40  # one window each
    shares = read([*range(40)]).softmax(-1)
    said = model(short)
    for row, found in enumerate(shares):
        offsets = features.offsets[features.bounds[row] : features.bounds[row + 1]]
        expected = torch.zeros(2, found.shape[-1])
        prediction = said[features.example[row]]
        none = {"start": None, "end": None, "score": prediction["no_answer_score"]}
        for answer in (*prediction["n_best"], none):
            for side, name in enumerate(("start", "end")):  # no answer is at the first token
                place = 0 if answer[name] is None else [*offsets[:, side]].index(answer[name])
                expected[side, place] += answer["score"]
        assert_close(found, expected, rtol=0, atol=2e-4)
    student("spans", predicted, **changes)


def test_lists_of_transformers_are_read_as_they_are(answered, asked):
    changes, rows = asked
    context, text = rows[0]["context"], rows[0]["context"].split()[3]
    begin = context.index(text)
    other = {"probability": 0.25, "start_logit": 1.0, "end_logit": 2.0, "text": ""}
    entry = {"probability": 0.75, "start_logit": 3.0, "end_logit": 2.0, "text": f"{text} "}
    (found,) = answered([{"id": rows[0]["id"], "n_best": [entry, other]}], **changes).values()
    least, null = [-1, -1, math.log(1e-8)], [-1, -1, math.log(0.25)]
    expected = [*null, begin, begin + len(text), math.log(0.75), *least]
    assert found == pytest.approx(expected)
    named = {name: rows[0][name] for name in ("question", "context")}
    plain = {"answer": text, "score": 0.75, "start": begin}
    assert [*answered([named | plain], **changes).values()] == [pytest.approx(expected)]
    # What a list leaves out is divided among its answers, where no answer has a figure of its own.
    short = {"row": 0, "no_answer_score": 0.25, "n_best": [entry | {"probability": 0.5}]}
    assert [*answered([short], **changes).values()] == [pytest.approx(expected)]


QUESTION, SENTENCE = "question", "sentence"
BAD = {
    "start before the text": (QUESTION, {"answer": "the", "start": -1}, "not at character -1"),
    "start of another text": (QUESTION, {"answer": "zzz", "start": 0}, "not at character 0"),
    "start that is no number": (QUESTION, {"answer": "the", "start": "x"}, "not at character x"),
    "text that is not there": (QUESTION, {"answer": "zzz"}, "nowhere in the context"),
    "spaces": (QUESTION, {"answer": " "}, "nowhere in|not at"),
    "sum of 1.2": (QUESTION, {"answer": "", "n_best": [{"text": "", "score": 0.6}] * 2}, "sum 1.2"),
    "sum with none": (QUESTION, {"no_answer_score": 0.9, "answer": "$", "score": 0.3}, "sum 1.2"),
    "probability of 2": (QUESTION, {"answer": "", "score": 2}, "score = 2"),
    "NaN": (QUESTION, {"answer": "", "probability": float("nan")}, "probability = nan"),
    "no list": (QUESTION, {"n_best": "[the"}, "n_best = "),
    "list of texts": (QUESTION, {"n_best": ["the"]}, "n_best = "),
    "unknown id": (QUESTION, {"row": None, "id": "nobody", "answer": ""}, "'row nobody' is no row"),
    "unknown tag": (SENTENCE, {"tags": ["B-ORG", *TAGS[1:]]}, "word 1: label = 'B-ORG'"),
    "too few tags": (SENTENCE, {"tags": TAGS[1:]}, "a list of 6, one a word"),
    "a word without a tag": (SENTENCE, {"tags": [*TAGS[:5], None]}, "word 6 has no answer"),
    "unknown words": (SENTENCE, {"row": None, "words": ["Bob"], "tags": ["O"]}, "'Bob' is no row"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_answer_is_refused_before_the_training(answered, asked, tagged, case):
    of, cells, problem = BAD[case]
    changes, rows = asked if of == QUESTION else (tagged, [])
    word = rows[0]["context"].split()[0] if rows else ""
    cells = {name: word if cell == "$" else cell for name, cell in ({"row": 0} | cells).items()}
    row = {name: cell for name, cell in cells.items() if cell is not None}
    with pytest.raises(RoadError, match=f"(?s){problem}"):
        answered([row], **changes)


def test_empty_cells_are_no_answers(answered, asked, tagged):
    changes, rows = asked
    empty = [{"answer": None}, {"answer": "", "score": ""}, {"n_best": None, "answer": None}]
    for row in empty:
        found = answered([{"row": 0, "answer": ""}, {"row": 1} | row], **changes)
        assert [*found] == [(rows[0]["question"], rows[0]["context"])]
    assert len(answered([{"row": 0, "tags": TAGS}, {"row": 1, "tags": ""}], **tagged)) == 1
