"""A user's own files are one entry of the configuration: the task whose head they train, labels
that are found, one or several a row, the dev split, the hub.
"""

import json
import re

import pytest
from ruamel.yaml import YAML

from road_ray.config import json_schema, load
from road_ray.config.base import resume_identity
from road_ray.data.config import SourceConfig
from road_ray.data.encode_examples import check_labels
from road_ray.data.inspection.guess import guess
from road_ray.data.load_split import find_dataset, load_split, read_examples, root_of
from road_ray.data.readers.custom_dataset import CustomDataset
from road_ray.data.task_and_dataset import Classify, MultiLabel, Span, Tag
from road_ray.errors import ConfigError, DataError
from road_ray.recipes.run_directory.input_files import split_files
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.verbs import configure
from tests.row_files import write_rows

REVIEW = {"train": "r.csv", "text": ["t"], "label": "l"}


def source(root=None, **sets):
    made = {name: CustomDataset(**own) for name, own in sets.items()}
    return SourceConfig(root=None if root is None else str(root), sets=made)


def split_of(tokenizer, tmp_path, **own):
    return load_split("mine", "train", source(tmp_path, mine=own), tokenizer)


def test_one_text_column_needs_no_list(tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(
        "data:\n  dataset: mine\n  sets:\n    mine: {train: t.csv, text: title, labels: [a, b]}\n"
    )
    for override, columns in (([], ("title",)), (["0"], (0,)), (["body,b"], ("body", "b"))):
        words = [f"data.sets.mine.text={word}" for word in override]
        own = configure("finetune", path=path, overrides=words).data.sets["mine"]
        assert own.text == columns
    with pytest.raises(ConfigError, match=r"data.sets.mine.text.*true"):
        configure("finetune", path=path, overrides=["data.sets.mine.text=true"])
    schema = json_schema(CustomDataset)["properties"]["text"]["anyOf"]
    assert {item["type"] for item in schema} >= {"array", "string"}


@pytest.mark.parametrize(
    ("own", "row"),
    [
        ({"kind": "span"}, {"question": "q", "context": "c", "answers": []}),
        ({"kind": "tag", "labels": ["O", "B-X"]}, {"tokens": ["c"], "ner_tags": ["O"]}),
        ({"kind": "choose", "text": ["q", "a", "b"]}, {"q": "q", "a": "a", "b": "b", "label": 0}),
    ],
)
def test_ids_of_every_kind_are_in_the_column_that_the_entry_names(own, row, tmp_path):
    write_rows(tmp_path / "r.jsonl", [{"uid": "k7", **row}, {"uid": "k8", **row}])
    mine = find_dataset("mine", source(mine=own | {"train": "r.jsonl", "id": "uid"}))[0]
    assert [example.id for example in read_examples(mine, "train", tmp_path)] == ["k7", "k8"]
    mistyped = find_dataset("mine", source(mine=own | {"train": "r.jsonl", "id": "udi"}))[0]
    with pytest.raises(DataError, match=r"r.jsonl:1: .*'udi'"):
        read_examples(mistyped, "train", tmp_path)


def test_a_metric_names_the_language_of_the_answers(tokenizer, tmp_path):
    write_rows(
        tmp_path / "asked.jsonl", [row := {"context": "the red apple", "question": "which?"}]
    )
    write_rows(tmp_path / "answered.jsonl", [row | {"answers": []}, row])
    files = {"train": "answered.jsonl", "test": "asked.jsonl", "kind": "span"}
    split = split_of(tokenizer, tmp_path, **files, metrics=("f1_zh", "exact_zh"))
    assert [(item.language, item.labelled) for item in split.examples] == [("zh", True)] * 2
    assert not read_examples(split.dataset, "test", tmp_path)[0].labelled  # not unanswerable
    with pytest.raises(DataError, match="no question has the key 'answers'"):
        split_of(tokenizer, tmp_path, **files | {"train": "asked.jsonl"})
    assert split.dataset.metrics == split.dataset.figures == ("f1", "exact")


AB = {"train": "x.csv", "text": ["t"], "labels": ["a", "b"]}
NUMBERS = {"train": "x.csv", "text": ["t"], "kind": "regress"}
SEVERAL = {"kind": "multi", "train": "a.csv", "text": ["t"], "labels": ["joy", "fear"]}


def test_names_of_other_sets_are_refused():
    own = {"train": "x.csv", "task": "nli", "text": ("a", "b")}
    with pytest.raises(ConfigError, match="the catalogue has a data set of that name"):
        find_dataset("mnli", source(mnli=own))
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        find_dataset("mime", source(mine=own))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (AB | {"labels": ["a"]}, "at least two, or a task; for numbers: kind: regress"),
        ({"dev": "y.csv", "dev_fraction": 0.1, "kind": "span"}, "from train: give train"),
        ({"train": "x.csv", "kind": "span", "revision": "7"}, "hub, which is not given"),
        ({"train": "x.csv", "labels": ["a", "b"]}, "one or two columns"),
        ({"train": "x.csv", "kind": "choose", "text": ["q", "a"]}, "at least two choices"),
        (NUMBERS | {"low": -100, "high": 100}, "low = -100.0, high = 100.0: -100 stands for a"),
        ({"train": "x.csv", "lables": ["a"]}, "labels"),
        (AB | {"label_map": {"x": "c"}}, "label_map names 'c', labels are ['a', 'b']"),
        (AB | {"metrics": ["acuracy"]}, "no metric acuracy; did you mean 'accuracy'"),
        ({"train": "x.json", "kind": "span", "metrics": ["accuracy"]}, "allowed: exact, f1"),
        ({"train": "x.json", "kind": "span", "metrics": ["f1_fr"]}, "did you mean"),
        ({"train": "x.json", "kind": "span", "metrics": ["f1_zh", "exact"]}, "several languages"),
        (SEVERAL | {"kind": "classify", "label": ["a", "b"]}, "or a separator, are of kind multi"),
        (SEVERAL | {"kind": "classify", "separator": ";"}, "or a separator, are of kind multi"),
        (SEVERAL | {"label": ["a"]}, "at least two columns, each once"),
        (SEVERAL | {"label": ["a", "a"]}, "at least two columns, each once"),
        (SEVERAL | {"label": ["a", "b"], "separator": ";"}, "each once, without a separator"),
        (SEVERAL | {"labels": ["joy"]}, "at least two"),
        (SEVERAL | {"metrics": ["accuracy"]}, "kind multi has no metric accuracy"),
        (NUMBERS | {"task": "x", "metrics": ["f1_of_a"]}, "kind regress has no metric f1_of_a"),
    ],
)
def test_an_entry_that_cannot_be_right_is_refused(own, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        load(FinetuneConfig, base={"data": {"sets": {"mine": own}}})
    assert "data.sets.mine" in str(refused.value)


@pytest.mark.parametrize("name", ["../../../x", "/tmp/x", "", "..", "-x", "a\nb", "x" * 81])
def test_a_name_that_is_no_name_is_refused_with_its_line(name, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(f"data:\n  sets:\n    {json.dumps(name)}: {json.dumps(AB)}\n")
    with pytest.raises(ConfigError, match=r"(?s)own\.yaml:3  .*is no name for a data set.*allowed"):
        load(FinetuneConfig, path=file)


@pytest.mark.parametrize(
    "labels", [["a", "b", "a"], ["a", "b", " A"], ["not ok", "not-ok"], ["a_b", "A B", "c"]]
)
def test_labels_that_stand_twice_are_refused_with_their_line(labels, tmp_path):
    file = tmp_path / "own.yaml"
    own = f"{{train: x.csv, text: [t],\n      labels: {json.dumps(labels)}}}"
    file.write_text(f"data:\n  sets:\n    mine: {own}\n")
    with pytest.raises(
        ConfigError, match=r"own\.yaml:4 .*(?s:labels.*one label.*every label once)"
    ):
        load(FinetuneConfig, path=file)


def test_two_sets_share_a_head_with_labels_by_name(tokenizer, tmp_path):
    (tmp_path / "a.csv").write_text("t,l\nred,bad\ngreen,good\n")
    (tmp_path / "b.csv").write_text("t,l\napple,good\nfar,bad\n")
    mine = source(
        tmp_path,
        a=REVIEW | {"train": "a.csv", "task": "reviews", "labels": ["bad", "good"]},
        b=REVIEW | {"train": "b.csv", "task": "reviews", "labels": ["good", "bad"]},
        c=REVIEW | {"train": "b.csv", "task": "reviews"},
    )
    first, second, third = (load_split(name, "train", mine, tokenizer) for name in "abc")
    assert first.task == second.task == third.task
    assert first.task.kind == Classify(("bad", "good"))
    assert first.features.gold["labels"].tolist() == [0, 1]
    assert second.features.gold["labels"].tolist() == third.features.gold["labels"].tolist()
    assert second.features.gold["labels"].tolist() == [1, 0]
    known = REVIEW | {"train": "b.csv", "task": "boolq", "label_map": {"bad": "no", "good": "yes"}}
    split = load_split("mine", "train", source(tmp_path, mine=known), tokenizer)
    assert split.features.gold["labels"].tolist() == [1, 0]


def test_labels_in_another_spelling_are_those_of_the_task(tmp_path, tokenizer):
    (tmp_path / "b.csv").write_text("t,l\napple,good\nfar,BAD\nred,1\nred,Good\n")
    one = REVIEW | {"task": "reviews", "labels": ["Good", "Bad"]}
    other = REVIEW | {"train": "b.csv", "task": "reviews", "labels": ["bad", "good"]}
    mine = source(tmp_path, a=one, b=other | {"label_map": {"1.0": "good"}})
    rows = load_split("b", "train", mine, tokenizer)
    assert [row.label for row in rows.examples] == ["Good", "Bad", "Good", "Good"]
    bare = source(tmp_path, a=one, b=other | {"labels": [], "label_map": {"1": "good"}})
    assert [row.label for row in load_split("b", "train", bare, tokenizer).examples][2] == "Good"
    (tmp_path / "b.csv").write_text("t,l\napple,fair\n")
    with pytest.raises(DataError, match=r"b.csv:2 label='fair', allowed: Good, Bad, '1.0' = Good"):
        load_split("b", "train", mine, tokenizer)


def test_a_label_map_comes_before_the_names(tmp_path, tokenizer):
    (tmp_path / "t.csv").write_text("t,l\nx,0\ny,1\nz,0.0\n")
    swapped = {"train": "t.csv", "labels": ["0", "1"], "label_map": {"0": "1", "1": "0"}}
    rows = split_of(tokenizer, tmp_path, **REVIEW | swapped)
    assert rows.features.gold["labels"].tolist() == [1, 0, 1]
    # Each of several labels may be spelt in another way.
    (tmp_path / "m.jsonl").write_text('{"t": "x", "l": ["Joy", 2, "Wut"]}\n{"t": "y", "l": []}\n')
    several = {"train": "m.jsonl", "kind": "multi", "labels": ["joy", "fear", "2.0"]}
    rows = split_of(tokenizer, tmp_path, **REVIEW | several, label_map={"Wut": "fear"})
    assert rows.features.gold["labels"].tolist() == [[1, 1, 1], [0, 0, 0]]


def test_a_label_below_zero_of_the_task_is_none_that_a_test_split_hides(tmp_path):
    (tmp_path / "b.csv").write_text("t,l\nx,-1\ny,neutral\n")
    files = REVIEW | {"train": "b.csv", "test": "b.csv", "task": "mood"}
    mine = source(
        tmp_path, a=files | {"labels": ["-1", "0"]}, b=files | {"label_map": {"neutral": "0"}}
    )
    entry, _ = find_dataset("b", mine)
    assert [row.label for row in read_examples(entry, "test", tmp_path)] == ["-1", "0"]
    other, _ = find_dataset("c", source(tmp_path, c=files | {"task": "sentiment"}))
    assert [row.label for row in read_examples(other, "test", tmp_path)] == [None, "neutral"]


TAGS = {"kind": "tag", "task": "x", "train": "x.conll"}


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"labels": ["a", "b"]}, {"labels": ["a", "c"]}, "'a', 'c'.*\n.*\n.*the same kind, head"),
        ({"labels": ["a", "b"]}, {"train": None}, "other: a data set without files"),
        ({"labels": ["a", "b"]}, {"kind": "regress"}, "kind: regress.*\n.*sets.one of the same"),
        ({"kind": "regress"}, {"kind": "regress", "high": 5.0}, "high: 5.0\n.*high: 1.0"),
        ({"labels": ["a", "b"]}, {"label_map": {"0": "c"}}, r"'c'.*\n.*data.sets.one .*'a', 'b'"),
        (
            TAGS | {"labels": ["O", "B-PER", "I-PER"]},
            TAGS | {"labels": ["O", "B-Per", "I-Per"]},  # tags are read as they are
            "B-Per.*\n.*data.sets.one .*B-PER",
        ),
        ({"labels": ["a", "b"]}, {"task": "sentimnt"}, "did you mean 'sentiment'"),
        ({"labels": ["a", "b"]}, {"task": "mrc"}, "classify, labels: .*\n.*mrc has kind: span\n"),
        ({"labels": ["a", "b"]}, {"metrics": ["f1_of_A"]}, "data.sets.other: .*no metric f1_of_A"),
        ({"labels": ["a", "b"]}, {"task": "nli", "metrics": ["f1"]}, "classify has no metric f1"),
    ],
)
def test_sets_that_do_not_fit_together_are_refused(one, other, message):
    mine = source(one=REVIEW | {"task": "x"} | one, other=REVIEW | {"task": "x"} | other)
    find_dataset("one", mine)
    with pytest.raises(ConfigError, match=message):
        find_dataset("other", mine)


def test_own_spans_share_the_head_of_squad():
    sets = {"train": {"kind": "span", "train": "a.json"}, "v1.2": {"kind": "span", "dev": "b.json"}}
    tasks = {find_dataset(name, source(**sets))[1] for name in ("train", "v1.2", "squad_v2")}
    assert len(tasks) == 1
    assert isinstance(tasks.pop().kind, Span)
    other = source(a={"kind": "span", "train": "a.json", "task": "manuals"})
    assert find_dataset("a", other)[1].name == "manuals"


@pytest.mark.parametrize(
    ("own", "content", "labels"),
    [
        (REVIEW, "t,l\nx,yes\ny,no\nz,10\nz,9\n", ["9", "10", "no", "yes"]),
        (REVIEW, "t,l\nx,No\ny,no\nz,no\nz,yes\n", ["no", "yes"]),  # one label, spelt in two ways
        (REVIEW | {"label_map": {"n": "no"}}, "t,l\nx,yes\ny,n\n", ["no", "yes"]),
        ({"kind": "tag"}, "Ann I-PER\nran O\n\nRome I-LOC\n", None),
        (REVIEW | {"kind": "multi", "separator": "|"}, "t,l\nx,b|a\nx,\nx,b\n", ["a", "b"]),
    ],
)
def test_missing_labels_are_listed_ready_to_paste(tmp_path, own, content, labels):
    (tmp_path / "x.csv").write_text(content)
    own = own | {"train": "x.csv", "layout": "conll" if labels is None else "table"}
    with pytest.raises(ConfigError) as refused:
        find_dataset("mine", source(tmp_path, mine=own))
    message = str(refused.value)
    assert "x.csv has: " in message
    line = next(line for line in message.splitlines() if "labels: [" in line)
    pasted = YAML(typ="safe").load(line.strip())["labels"]
    assert pasted == (labels or ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"])
    kind = find_dataset("mine", source(tmp_path, mine=own | {"labels": pasted}))[1].kind
    assert isinstance(kind, Classify | MultiLabel | Tag)
    assert kind.labels == tuple(pasted)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,l\nx,a\ny,a\n", "x.csv has 1 different values in column 'l': 'a'"),
        ("t,l\n" + "".join(f"x,{n}\n" for n in range(300)), "kind: regress.*300 different values"),
    ],
)
def test_labels_that_cannot_be_listed_are_explained(tmp_path, content, message):
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        find_dataset("mine", source(tmp_path, mine=REVIEW | {"train": "x.csv"}))


def test_a_dev_fraction_holds_out_whole_texts(tmp_path):
    rows = [f"text {number % 40},{'ab'[number % 2]}" for number in range(100)]
    (tmp_path / "r.csv").write_text("\n".join(["t,l", *rows]) + "\n")
    settings = REVIEW | {"labels": ["a", "b"], "dev_fraction": 0.2}
    entry, _ = find_dataset("mine", mine := source(tmp_path, mine=settings))
    train, dev = (read_examples(entry, part, root_of("mine", mine)) for part in ("train", "dev"))
    assert len(train) + len(dev) == 100
    files = source(mine=settings | {"dev": "d.csv"})  # which replace the fraction
    assert find_dataset("mine", files)[0].dev_fraction is None
    assert 20 <= len(dev) <= 22  # up to the rest of the last group of equal texts
    assert not {item.texts for item in train} & {item.texts for item in dev}
    assert read_examples(entry, "dev", root_of("mine", mine)) == dev
    assert split_files(mine, ["mine"], "dev") == [tmp_path / "r.csv"]
    (tmp_path / "r.csv").write_text("t,l\nsame,a\nSame,b\n")
    with pytest.raises(DataError, match="all 2 rows have one text"):
        read_examples(entry, "dev", tmp_path)
    question = {"question": "why?", "answers": []}
    questions = [question | {"context": f"x {n % 10}"} for n in range(100)]
    write_rows(tmp_path / "q.jsonl", questions)  # all about a context stay together
    spans = {"kind": "span", "train": "q.jsonl", "dev_fraction": 0.25}
    entry, _ = find_dataset("q", source(tmp_path, q=spans))
    train, dev = (read_examples(entry, part, tmp_path) for part in ("train", "dev"))
    assert len(dev) == 30
    assert not {item.context for item in train} & {item.context for item in dev}


def test_a_wrong_label_beyond_max_rows_is_found(tokenizer, tmp_path):
    rows = "".join(f"red {n},{'x' if n == 99 else 'a'}\n" for n in range(100))
    (tmp_path / "r.csv").write_text(f"t,l\n{rows}")
    mine = source(tmp_path, mine=REVIEW | {"labels": ["a", "b"]})
    with pytest.raises(DataError, match=r"r.csv:101 label='x', allowed: a, b"):
        load_split("mine", "train", mine.model_copy(update={"max_rows": 2}), tokenizer)


def test_paths_are_relative_to_the_yaml_file_that_names_them(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "r.csv").write_text("t,l\nred,a\n")
    (tmp_path / "project" / "d.csv.gz").write_bytes(b"")
    settings = {**REVIEW, "dev": "d.csv", "test": "elsewhere.csv", "labels": ["a", "b"]}
    file = tmp_path / "project" / "own.yaml"
    file.write_text(json.dumps({"data": {"sets": {"mine": settings}}}))
    monkeypatch.chdir(tmp_path)
    entry = load(FinetuneConfig, path=file.relative_to(tmp_path)).data.sets["mine"]
    assert entry.train == str(tmp_path / "project" / "r.csv")
    assert entry.dev == str(tmp_path / "project" / "d.csv")
    assert entry.test == "elsewhere.csv"
    (tmp_path / "project" / "train").mkdir()  # beside a split of the hub of that name
    file.write_text(
        json.dumps({"data": {"sets": {"mine": {**settings, "hub": "x/y", "train": "train"}}}})
    )
    assert load(FinetuneConfig, path=file).data.sets["mine"].train == "train"


def test_where_the_files_of_own_sets_lie_is_no_part_of_a_runs_identity():
    def identity(**changed):
        settings = REVIEW | {"labels": ["a", "b"]} | changed
        return resume_identity(load(FinetuneConfig, base={"data": {"sets": {"mine": settings}}}))

    assert identity(train="/a/x.csv") == identity(train="/b/x.csv")
    assert identity(label="l") != identity(label="m")
    assert identity(hub="x/y", train="train") != identity(hub="x/y", train="train[:10]")


def test_a_hub_data_set_by_name(tokenizer, tmp_path, monkeypatch):
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    recorded, names = tmp_path / "recorded", datasets.ClassLabel(names=["calm", "urgent"])
    for split, number in (("train", 8), ("validation", 4)):
        texts, labels = [f"mail {n}" for n in range(number)], [n % 2 for n in range(number)]
        rows = datasets.Dataset.from_dict({"body": texts, "label": labels})
        place = recorded / f"{split}-00000-of-00001.parquet"
        rows.cast_column("label", names).to_parquet(place)
    settings = {"hub": str(recorded), "text": ["body"], "labels": ["urgent", "calm"]}
    mine = source(tmp_path, mails=settings)
    train, dev = (load_split("mails", part, mine, tokenizer) for part in ("train", "dev"))
    assert (len(train.features), len(dev.features)) == (8, 4)
    assert dev.features.gold["labels"].tolist() == [1, 0, 1, 0]
    assert split_files(mine, ["mails"], "train") == []
    fraction = source(mails=settings | {"dev_fraction": 0.25, "train": "train"})
    assert len(load_split("mails", "dev", fraction, tokenizer).features) == 2
    with pytest.raises(ConfigError, match=r'labels: \["calm", "urgent"\]'):
        find_dataset("mails", source(mails=settings | {"labels": []}))
    with pytest.raises(DataError, match=r"no column 'bodi'; found: body, label; nearest: 'bodi'"):
        load_split("mails", "dev", source(mails=settings | {"text": ["bodi"]}), tokenizer)
    with pytest.raises(DataError, match=r"'mails': .*nowhere(?s:.*)configuration, revision and sp"):
        load_split("mails", "dev", source(mails=settings | {"dev": "nowhere"}), tokenizer)


LABELS = ["joy", "anger", "fear"]
ENTRY = {"kind": "multi", "text": "text", "labels": LABELS}


@pytest.fixture
def gold_of(tokenizer, tmp_path):
    """Labels of a split as numbers."""

    def gold(split="train", **entry):
        mine = source(tmp_path, mine=ENTRY | entry)
        return load_split("mine", split, mine, tokenizer).features.gold["labels"].tolist()

    return gold


def test_every_form_of_file_gives_the_same_labels(gold_of, tmp_path):
    for file in ("a.jsonl", "a.parquet"):
        names = (["joy", "fear"], [], ["anger"])
        write_rows(tmp_path / file, ({"text": "red", "labels": own} for own in names))
    (tmp_path / "a.csv").write_text("text,labels\nred,joy; fear\nred,\nred,anger\n")
    marks = "text,joy,anger,fear\nred,1,0,1\nred,0,0,0\nred,0,1,0\n"
    (tmp_path / "b.csv").write_text(marks)
    for file, keys in {
        "a.jsonl": {"label": "labels"},
        "a.parquet": {"label": "labels"},
        "a.csv": {"label": "labels", "separator": ";"},
        "b.csv": {"label": LABELS},
    }.items():
        assert gold_of(train=file, **keys) == [[1, 0, 1], [0, 0, 0], [0, 1, 0]], file
    bare = source(tmp_path, mine=ENTRY | {"train": "b.csv", "label": LABELS, "labels": []})
    assert find_dataset("mine", bare)[1].kind == MultiLabel(tuple(LABELS))
    (tmp_path / "t.csv").write_text("text,joy,anger,fear\nred,-1,-1,-1\nred,0,1,0\n")  # hidden
    assert gold_of("test", test="t.csv", label=LABELS) == [[-100] * 3, [0, 1, 0]]


def test_numbers_of_classes_have_the_names_of_the_features(gold_of, tmp_path):
    import datasets

    classes = datasets.List(datasets.ClassLabel(names=[*LABELS, "awe"]))
    features = datasets.Features({"text": datasets.Value("string"), "labels": classes})
    made = {"text": ["red"] * 9, "labels": [[0, 2], [], [1]] * 3}
    datasets.Dataset.from_dict(made, features).to_parquet(tmp_path / "a.parquet")
    gold = gold_of(train="a.parquet", label="labels")
    assert gold[:3] == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    entry = guess(str(tmp_path / "a.parquet")).entry
    assert (entry["kind"], entry["labels"]) == ("multi", [*LABELS, "awe"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["joy", "mirth", "envy"], r":1 label='mirth', allowed: joy, anger, fear\n"),
        (["joy", "joy"], r":1 .*'joy' occurs twice"),
        ("joy", r":1 labels='joy': no list of labels"),
        ({"joy": 1}, r":1 .*no list of labels"),
        ([0.5], r":1 .*no list of labels"),
        (None, "0 usable rows"),
    ],
)
def test_bad_rows_are_refused_with_their_place(tmp_path, labels, message):
    write_rows(tmp_path / "a.jsonl", [{"text": "red", "labels": labels}])
    mine = source(tmp_path, mine=ENTRY | {"train": "a.jsonl", "label": "labels"})
    entry, task = find_dataset("mine", mine)
    with pytest.raises(DataError, match=f"a.jsonl{message}|{message}"):
        check_labels(read_examples(entry, "train", tmp_path), entry, task)
