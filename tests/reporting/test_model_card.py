"""Model cards have figures, lineage and front matter for the Hub."""

import json
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from road_ray.reporting.model_card import write_card
from road_ray.reporting.text_tables import printable
from road_ray.system.files import without_places

LINEAGE = {
    "task": "mrc",
    "datasets": ["squad_v2"],
    "init": "runs/mtl",
    "seed": 7,
    "no_answer_threshold": -1.5,
    "distillation": {"temperature": 2.0},
    "teachers": [{"directory": "runs/t0/hf", "weights_sha256": "ab" * 32}],
    "metrics": {"eval/squad_v2/f1": 61.25, "eval/squad_v2/total": 11.0},
}


def parts(text):
    """The front matter of a card, read, and its body."""
    _, front, body = text.split("---\n", 2)
    return YAML(typ="safe").load(front), body


def card_of(place, architecture, lineage=LINEAGE):
    """The card of a model in a directory: that of a run is ``hf``."""
    place.mkdir(exist_ok=True)
    config = {"architectures": [architecture], "model_type": "electra"}
    (place / "config.json").write_text(json.dumps(config))
    return write_card(place, lineage).read_text(encoding="utf-8")


def test_the_front_matter_reads_back_and_figures_lineage_and_loading_are_told(tmp_path):
    from huggingface_hub import ModelCard

    front, body = parts(card_of(tmp_path, "ElectraForQuestionAnswering"))
    assert "Encoder of the family `electra` with a head for the task `mrc`" in body
    read_back = ModelCard.load(tmp_path / "README.md").data
    assert read_back.eval_results[0].metric_value == 61.25
    (model,) = front.pop("model-index")
    assert front == {
        "library_name": "transformers",
        "tags": ["road_ray", "electra", "mrc"],
        "pipeline_tag": "question-answering",
        "datasets": ["rajpurkar/squad_v2"],
        "metrics": ["f1"],
    }
    assert model["results"] == [
        {
            "task": {"type": "question-answering"},
            "dataset": {"name": "squad_v2", "type": "rajpurkar/squad_v2", "split": "validation"},
            "metrics": [{"type": "f1", "value": 61.25, "name": "F1"}],
        }
    ]
    assert "eval/squad_v2/f1  61.25" in body
    assert "eval/squad_v2/total" not in body
    assert "distilled from several teachers on squad_v2" in body
    for line in (
        "- init: `runs/mtl`",
        "- seed: `7`",
        "- no_answer_threshold: `-1.5`",
        "- distillation.temperature: `2.0`",
        "- teacher 0: `runs/t0/hf`, weights `abababababababab`",
    ):
        assert line in body.splitlines()
    assert "ElectraForQuestionAnswering.from_pretrained" in body


def test_what_the_run_tells_is_told_and_limits_follow_from_it(run_directory, write_run, tmp_path):
    more = LINEAGE | {"max_length_tokens": 256}
    text = card_of(run_directory / "hf", "ElectraForQuestionAnswering", more)
    for said in (
        "# student-1",
        "road distill config.resolved.yaml",
        "at most 256 tokens",
        "threshold was tuned",
        "road push RUN OWNER/NAME",
        "- initialised from: `runs/mtl` (not on this machine)",
    ):
        assert said in text
    data = {"root": "miniature", "max_rows": 1000, "max_judged_rows": 400}
    run = write_run(tmp_path / "r", data=data, tracking={"api_key": "very-secret-value"})
    text = card_of(run / "hf", "ElectraForPreTraining")
    for said in ("miniature data set", "1,000 rows", "Judged on 400 rows", "type: miniature"):
        assert said in text
    assert "very-secret-value" not in text
    assert "rajpurkar" not in text


@pytest.mark.parametrize(
    ("more", "split"),
    [({"dev": "valid"}, "valid"), ({"dev_fraction": 0.1}, "train"), ({}, "validation")],
)
def test_own_data_of_the_hub_is_named_as_it_is_there(write_run, tmp_path, more, split):
    entry = {"hub": "acme/reviews", "configuration": "films"} | more
    data = {"dataset": "mine", "sets": {"mine": entry, "here": {"hub": str(tmp_path)}}}
    figures = {"eval/mine/accuracy": 90.0, "eval/here/accuracy": 80.0}
    lineage = {"task": "mine", "datasets": ["mine", "here"], "metrics": figures}
    run = write_run(tmp_path / "r", data=data)
    matter, _ = parts(card_of(run / "hf", "BertForSequenceClassification", lineage))
    assert matter["datasets"] == ["acme/reviews"]
    (mine, here) = [result["dataset"] for result in matter["model-index"][0]["results"]]
    assert mine == {"name": "mine", "type": "acme/reviews", "config": "films", "split": split}
    assert here == {"name": "here", "type": "here", "split": "dev"}


def test_an_encoder_without_a_task_is_a_pre_trained_one(tmp_path):
    lineage = {"corpus": {"rows": 12}, "metrics": {"train/x": 1}}
    front, body = parts(card_of(tmp_path, "ElectraForPreTraining", lineage))
    assert "pipeline_tag" not in front
    assert "pre-trained on a text corpus" in body
    assert "- corpus.rows: `12`" in body


EVIL = [
    "<script>alert(1)</script>",
    "a`b` <img src=x onerror=alert(1)>",
    "x\n\n# Not ours\n\n- a: b",
    "```\n</details><h1>out</h1>\n```",
    "---\ntags: [evil]\n---",
    "[click](javascript:alert(1)) ![x](http://h/x.png)",
    "turned \u202e\u2066 text",
    "a: &x [*x] # {}",
]


@pytest.mark.parametrize("evil", EVIL)
def test_text_of_others_is_text_in_the_card(evil, tmp_path):
    lineage = LINEAGE | {
        "task": evil,
        "datasets": [evil],
        "init": evil,
        "labels": [evil, evil],
        evil: "value",
        "teachers": [{"directory": evil, "weights_sha256": evil}],
        "metrics": {f"eval/{evil}/f1": 61.25},
    }
    front, body = parts(card_of(tmp_path, "ElectraForQuestionAnswering", lineage))
    assert front["library_name"] == "transformers"
    assert printable(evil) in front["tags"]
    assert "evil" not in front["tags"]
    tree = MarkdownIt("commonmark").parse(body)
    headings = [after for one, after in pairwise(tree) if one.type == "heading_open"]
    assert [item.content for item in headings] == [
        *("ElectraForQuestionAnswering", "Figures", "Lineage"),
        *("Training", "Use", "Limits"),
    ]
    flat = [token for item in tree for token in (item, *(item.children or ()))]
    kinds = {token.type for token in flat}
    assert not {"link_open", "image", "html_inline", "hr"} & kinds
    blocks = [item.content for item in flat if item.type == "html_block"]
    assert len(blocks) == 1
    assert blocks[0].startswith("<!-- To publish")
    assert not {"\u202e", "\u2066"} & set(body)


def test_every_glue_task_stands_under_its_own_name(tmp_path):
    figures = {"eval/sst2/accuracy": 91.0, "eval/qqp/accuracy": 88.0, "eval/qqp/f1": 85.0}
    lineage = LINEAGE | {"metrics": figures}
    front, _ = parts(card_of(tmp_path, "BertForSequenceClassification", lineage))
    (model,) = front["model-index"]
    assert [
        (r["dataset"]["name"], r["dataset"]["config"], [m["value"] for m in r["metrics"]])
        for r in model["results"]
    ] == [("sst2", "sst2", [91.0]), ("qqp", "qqp", [88.0, 85.0])]


def test_no_path_of_this_machine_is_in_a_card(write_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    teacher = {"directory": str(tmp_path / "t0" / "hf"), "weights_sha256": "ab" * 32}
    lineage = LINEAGE | {"init": "/home/ada/secret/models/mini", "teachers": [teacher]}
    data = {"dataset": "squad_v2", "root": "/home/ada/secret/data"}
    run = write_run(tmp_path / "runs" / "s", data=data, init="/home/ada/secret/models/mini")
    text = card_of(run / "hf", "ElectraModel", lineage)
    assert str(tmp_path) not in text
    assert "/home/ada" not in text
    assert "- init: `.../models/mini`" in text
    assert "teacher 0: `t0/hf`" in text
    assert "run_dir: runs/s" in text


SNIPPETS = {
    "Classify": ("SequenceClassification", {"num_labels": 3}),
    "Regress": ("SequenceClassification", {"num_labels": 1}),
    "Span": ("QuestionAnswering", {}),
    "Tag": ("TokenClassification", {"num_labels": 3}),
    "Labels": ("SequenceClassification", {"problem_type": "multi_label_classification"}),
    "Choose": ("MultipleChoice", {}),
    "Encode": ("PreTraining", {}),
}


@pytest.mark.parametrize("kind", sorted(SNIPPETS))
def test_the_snippet_runs_in_the_directory_of_the_model(
    pretrained, tmp_path, monkeypatch, capsys, kind
):
    import transformers

    ending, options = SNIPPETS[kind]
    cls = getattr(transformers, f"ElectraFor{ending}")
    cls.from_pretrained(pretrained.hf_dir, **options).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(pretrained.hf_dir).save_pretrained(tmp_path)
    body = write_card(tmp_path, {"max_length_tokens": 64}).read_text(encoding="utf-8")
    (code,) = [one.content for one in MarkdownIt().parse(body) if one.info.strip() == "python"]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out.strip()


def test_a_working_directory_that_is_gone_costs_no_card(tmp_path, monkeypatch):
    """Ray removes the files of a job on a machine where none of its workers is left."""
    monkeypatch.chdir(tmp_path)
    assert without_places([str(tmp_path / "a" / "b"), "/x/y/z"]) == ["a/b", ".../y/z"]
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert without_places(["/x/y/z", "plain"]) == [".../y/z", "plain"]
