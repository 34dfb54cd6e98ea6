"""Label errors from teachers of folds to a training without them."""

import csv
import json
import shutil

import numpy as np
import pytest
import yaml

import road_ray as rr
from road_ray.config import load
from road_ray.data.catalog import dataset, task
from road_ray.data.examples import TextExample
from road_ray.data.load_split import load_split
from road_ray.data.tokenizer import load_tokenizer
from road_ray.data.training_rows import corrected, fold_of
from road_ray.errors import ConfigError, DataError
from road_ray.recipes.label_errors import find_label_errors, label_errors
from road_ray.recipes.train.config import FinetuneConfig
from tests.row_files import write_rows
from tests.runs import plain_logits

pytestmark = pytest.mark.trained


@pytest.fixture(scope="module")
def ranked(folded):
    return label_errors(folded.directory / "teachers.json")


def train_split(overrides, **more):
    config = load(FinetuneConfig, overrides=overrides | more)
    tokenizer = load_tokenizer(config.init + "/hf")
    return load_split(config.data.dataset, "train", config.data, tokenizer)


def test_each_row_is_ranked_once_by_teachers_that_have_not_seen_it(ranked, folded, sentiment):
    examples = train_split(sentiment).examples
    assert len(ranked) == len({(e.texts, e.label) for e in examples})
    suspected = [bool(row["correction"]) for row in ranked]
    assert suspected == sorted(suspected, reverse=True)
    margins = [row["margin"] for row in ranked if not row["correction"]]
    assert margins == sorted(margins)
    row = ranked[0]
    (example,) = [e for e in examples if e.texts == (row["text"],)][:1]
    places = folded.directory / f"fold-{fold_of(example, 2)}"
    shares = []
    for number in (0, 1):
        place = places / f"teacher-{number}" / "hf"
        names = json.loads((place / "config.json").read_text())["label2id"]
        share = plain_logits(place, [row["text"]]).softmax(-1)[0]
        shares.append(float(share[names[row["label"]]]))
    assert row["self_confidence"] == pytest.approx(np.mean(shares), abs=2e-4)


def test_probabilities_of_texts_in_windows_are_those_of_their_joined_logits(folded, tmp_path):
    place = shutil.copytree(folded.directory, tmp_path / "folded")
    record = place / "config.resolved.yaml"
    settings = yaml.safe_load(record.read_text())
    settings["data"] |= {"windows": "max", "max_length_tokens": 8}
    record.write_text(yaml.safe_dump(settings))
    for row in label_errors(place / "teachers.json"):
        assert row["margin"] == pytest.approx(2 * row["self_confidence"] - 1, abs=2e-4)


def test_corrections_drop_and_relabel_training_rows_only(ranked, sentiment, tmp_path):
    examples = train_split(sentiment).examples
    drop, relabel = ranked[-1], ranked[-2]
    other = {"positive": "negative", "negative": "positive"}[relabel["label"]]
    rows = [drop | {"correction": "drop"}, relabel | {"correction": other}]
    rows.append(ranked[-3] | {"correction": ""})
    path = write_rows(tmp_path / "errors.csv", rows)
    changed = train_split(sentiment, **{"data.corrections": path}).examples
    dropped = [e for e in examples if e.texts == (drop["text"],)]
    assert len(changed) == len(examples) - len(dropped) < len(examples)
    assert [e.label for e in changed if e.texts == (relabel["text"],)] == [other]
    named = {drop["text"], relabel["text"]}
    rest = [[e for e in some if e.texts[0] not in named] for some in (changed, examples)]
    assert rest[0] == rest[1]


def test_a_table_that_does_not_fit_is_refused(ranked, sentiment, tmp_path):
    row = ranked[0] | {"correction": "drop"}
    for faulty, words in (
        (row | {"text": "no such text"}, "1 of 1 rows are of no training row of sst2"),
        (row | {"correction": "positiv"}, r"csv:2 label='positiv', allowed: negative, po"),
    ):
        path = write_rows(tmp_path / "errors.csv", [faulty])
        with pytest.raises(DataError, match=words):
            train_split(sentiment, **{"data.corrections": path})
    (tmp_path / "errors.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="has no column correction, label, text"):
        train_split(sentiment, **{"data.corrections": str(tmp_path / "errors.csv")})


def test_teachers_that_have_seen_all_rows_find_no_errors(teachers):
    with pytest.raises(ConfigError, match="road teachers num_folds=5"):
        label_errors(teachers.directory / "teachers.json")


def test_a_pair_with_an_empty_text_is_corrected_in_its_order(tmp_path):
    pair, turned = (TextExample("0", x, "neutral", "f:1") for x in (("", "b"), ("b", "")))
    (tmp_path / "errors.csv").write_text("correction,label,text,text_pair\ndrop,neutral,,b\n")
    kept = corrected([pair, turned], tmp_path / "errors.csv", dataset("snli"), task("snli"))
    assert kept == [turned]
    (tmp_path / "empty.jsonl").write_text('{"correction": null, "label": "x", "text": "y"}')
    assert corrected([pair], tmp_path / "empty.jsonl", dataset("snli"), task("snli")) == [pair]


def test_the_command_writes_what_a_run_takes_and_the_run_knows_its_table(
    folded, sentiment, road, tmp_path
):
    output = tmp_path / "errors.csv"
    result = road("data", "errors", folded.directory, "--output", output, "--json")
    summary = json.loads(result.out)
    rows = list(csv.DictReader(output.open(newline="")))
    assert summary["rows"] == len(rows)
    assert summary["suspected"] == sum(row["correction"] == "drop" for row in rows)
    assert road("data", "errors", folded.directory, "--output", output).code == 2
    chosen = sentiment | {"data.corrections": str(output), "training.steps": 2}
    run = rr.finetune(overrides=chosen, run_dir=tmp_path / "run")
    inputs = json.loads((run.directory / "inputs.json").read_text())
    assert str(output.resolve()) in inputs["data"]


def test_suspected_rows_are_those_off_the_diagonal_of_the_confident_joint():
    shares = [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.3, 0.7, 0.0], [0.4, 0.6, 0.0], [0.5, 0.5, 0.0]]
    found = find_label_errors(np.array(shares), np.array([0, 0, 1, 1, 1]))
    # Thresholds: class 0 (0.9 + 0.2) / 2 = 0.55, class 1 (0.7 + 0.6 + 0.5) / 3 = 0.6, class 2 none.
    # The second row is labelled 0, and its 0.8 is above that of class 1; the last is below both.
    assert found.suspected.tolist() == [False, True, False, False, False]
    assert found.suggested[1] == 1
    assert found.self_confidence.tolist() == [0.9, 0.2, 0.7, 0.6, 0.5]
    assert found.margin == pytest.approx([0.8, -0.6, 0.4, 0.2, 0.0])
