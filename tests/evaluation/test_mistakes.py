"""Wrong predictions beside labels, worst first."""

import pytest

from road_ray.data import catalog
from road_ray.data.config import SourceConfig
from road_ray.data.examples import ChoiceExample, TagExample, TextExample
from road_ray.data.load_split import find_dataset
from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import MultiLabel
from road_ray.evaluation.evaluate_split import mistakes

MRC, SENTIMENT, SIMILARITY, SWAG, NER = (
    catalog.task(name).kind for name in ("mrc", "sentiment", "similarity", "completion", "ner")
)


def test_questions_have_context_with_the_gold_marked(world):
    rows = read_split(find_dataset("squad_v2", SourceConfig(root=str(world)))[0], world, "dev")
    pairs = [(row, "" if row.answers else "Oz") for row in rows]
    found = mistakes(pairs, MRC)
    assert (found["rows"], found["wrong"], found["what"]) == (*[len(rows)] * 2, "not exactly right")
    assert len(found["examples"]) == 8
    for example in found["examples"]:
        shown = "".join(example["context"])
        whole = next(row.context for row in rows if shown.strip("…") in row.context)
        assert shown.startswith("…") != whole.startswith(shown.strip("…"))
        if example["tag"] == "missed":
            assert (example["context"][1], example["predicted"]) == (example["gold"], "(no answer)")
        else:
            assert (example["tag"], example["gold"]) == ("invented", "(no answer)")
    right = [(row, row.answers[0].text if row.answers else "") for row in rows]
    assert mistakes(right, MRC)["wrong"] == 0
    assert mistakes([(rows[0].unlabelled(), "Oz")], MRC)["rows"] == 0


def test_numbers_are_wrong_by_their_distance():
    pairs = [(TextExample(str(n), ("a", "b"), f"{n}.0", f"f:{n}"), "5.0") for n in range(6)]
    examples = mistakes(pairs, SIMILARITY)["examples"]
    assert [5.0 - float(one["gold"]) for one in examples] == [5.0, 4.0, 3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("row", "kind", "label", "shown"),
    [
        (TextExample("1", ("awful",), "bad", "d/f.csv:3"), SENTIMENT, "good",
         ["awful", [], "bad", "good", "row 1, f.csv:3"]),
        (TextExample("1", ("a",), '["x", "y"]', "f:3"), MultiLabel(("x", "y", "z")), ["z", "x"],
         ["a", [], "x, y", "x, z", "row 1, f:3"]),
        (ChoiceExample("7", "A dog ...", ("barks", "flies"), 0, "f:1"), SWAG, "1",
         ["A dog ...", [], "barks", "flies", "row 7, f:1"]),
        (TagExample("8", ("Ada", "left", "Rome"), ("B-PER", "O", "B-LOC"), "f:2"), NER, "B-PER O O",
         ["Ada left Rome", [], "Rome: B-LOC", "Rome: O", "row 8, f:2"]),
    ],
)  # fmt: skip
def test_texts_choices_and_tags_are_shown_by_name(row, kind, label, shown):
    (example,) = mistakes([(row, label)], kind)["examples"]
    assert [*example.values()] == shown
