"""Wrong predictions beside labels, worst first; missing data is reported."""

import json

import pytest

from road_ray.data import catalog
from road_ray.data.config import SourceConfig
from road_ray.data.examples import ChoiceExample, TagExample
from road_ray.data.load_split import find_dataset
from road_ray.data.readers.layouts import read_split
from road_ray.reporting.error_analysis import _scored_error, error_examples
from road_ray.reporting.pages.page import Examples
from road_ray.reporting.records.run_record import read_run


@pytest.fixture
def judged(write_run, tmp_path, world):
    """``judged(data set, predict)``: its rows, and the blocks of a run with these predictions."""

    def write(dataset, predict, root=world, **more):
        data = {"dataset": dataset, "root": str(root)} | more
        run = write_run(tmp_path / "r", data=data)
        source = SourceConfig.model_validate({"root": str(root)} | more)
        rows = read_split(find_dataset(dataset, source)[0], root, "dev")
        place = run / "predictions" / dataset
        place.mkdir(parents=True)
        predicted = {row.id: predict(row) for row in rows}
        (place / "predictions.json").write_text(json.dumps(predicted))
        return rows, error_examples(read_run(run))

    return write


def test_questions_have_context_with_the_gold_marked(judged):
    rows, (block,) = judged("squad_v2", lambda row: "" if row.answers else "Oz")
    assert isinstance(block, Examples)
    assert block.title == f"squad_v2: {len(rows)} of {len(rows)} not exactly right"
    assert len(block.examples) == 8
    for example in block.examples:
        shown = "".join(example.context)
        whole = next(row.context for row in rows if shown.strip("…") in row.context)
        assert shown.startswith("…") != whole.startswith(shown.strip("…"))
        if example.tag == "missed":
            assert example.context[1] == example.gold
            assert example.predicted == "(no answer)"
        else:
            assert (example.tag, example.gold) == ("invented", "(no answer)")


def test_numbers_are_wrong_by_their_distance(judged, tmp_path):
    lines = ["index\tsentence1\tsentence2\tscore", *(f"{n}\ta\tb\t{n}.0" for n in range(6))]
    (tmp_path / "glue" / "STS-B").mkdir(parents=True)
    (tmp_path / "glue" / "STS-B" / "dev.tsv").write_text("\n".join(lines) + "\n")
    _, (block,) = judged("stsb", lambda row: "5.0", tmp_path)
    gaps = [5.0 - float(example.gold) for example in block.examples]
    assert gaps == [5.0, 4.0, 3.0, 2.0, 1.0]


def test_a_data_set_of_ones_own_has_its_examples(judged, tmp_path):
    (tmp_path / "mine.csv").write_text("text,label\nfine,good\nawful,bad\n")
    settings = {"train": "mine.csv", "dev": "mine.csv", "text": ["text"], "labels": ["good", "bad"]}
    _, (block,) = judged("mine", lambda row: "good", tmp_path, sets={"mine": settings})
    (example,) = block.examples
    assert [*vars(example).values()] == ["awful", (), "bad", "good", "row 1, mine.csv:3"]


def test_a_choice_that_there_is_not_is_said(judged, tmp_path):
    (tmp_path / "mine.csv").write_text("text,a,b,label\nA dog,barks,flies,0\n")
    settings = {"kind": "choose", "dev": "mine.csv", "text": ["text", "a", "b"]}
    _, (block,) = judged("mine", lambda row: "7", tmp_path, sets={"mine": settings})
    assert block == "mine: no examples: tuple index out of range"


def test_all_right_is_said(judged):
    _, (block,) = judged("squad_v2", lambda row: row.answers[0].text if row.answers else "")
    assert block == "squad_v2: every row is right"


def test_data_that_is_away_is_said(run_directory):
    place = run_directory / "predictions" / "squad_v2"
    place.mkdir(parents=True)
    (place / "predictions.json").write_text("{}")
    (block,) = error_examples(read_run(run_directory))
    assert "data.root = nowhere" in block


def test_choices_and_tags_are_shown_by_name():
    sentiment = catalog.task("sentiment").kind
    choice = ChoiceExample("7", "A dog ...", ("barks", "flies"), 0, "f:1")
    goodness, example = _scored_error(choice, "1", sentiment)
    assert (example.gold, example.predicted, goodness) == ("barks", "flies", 0.0)
    assert _scored_error(choice, "0", sentiment) is None
    tagged = TagExample("8", ("Ada", "left", "Rome"), ("B-PER", "O", "B-LOC"), "f:2")
    goodness, example = _scored_error(tagged, "B-PER O O", sentiment)
    assert (example.gold, example.predicted) == ("Rome: B-LOC", "Rome: O")
    assert goodness == pytest.approx(2 / 3)
