"""Position tables of any length, and tokenizers without padding, with another one or a template."""

import csv
import itertools
import json
from functools import wraps

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModelForTokenClassification, AutoTokenizer, BertModel

import road_ray as rr
from road_ray.distillation.teacher import Teacher, TeacherOptions
from road_ray.errors import ConfigError
from road_ray.inference.load_model import load
from tests.data.test_equals_transformers import KINDS, MAKERS, bert_with
from tests.published import publish
from tests.row_files import write_rows
from tests.runs import edit, plain_logits

TEXTS = [" ".join(["a"] * n) for n in (1, 20, 56, 59, 97)] + ["a dull film", "the café"]


@pytest.fixture
def reviews(tmp_path):
    labelled = zip(TEXTS * 4, itertools.cycle(("no", "yes")), strict=False)
    write_rows(tmp_path / "reviews.csv", ({"text": t, "label": label} for t, label in labelled))
    entry = {
        "kind": "classify", "train": "reviews.csv", "dev": "reviews.csv",
        "text": ["text"], "label": "label", "labels": ["no", "yes"],
    }  # fmt: skip
    made = {"data": {"dataset": "reviews", "root": str(tmp_path), "sets": {"reviews": entry}}}
    (tmp_path / "reviews.yaml").write_text(json.dumps(made))
    return tmp_path / "reviews.yaml"


def plain(directory, texts):
    rows = [plain_logits(directory, [text], truncation=True) for text in texts]
    return torch.cat(rows).softmax(-1)


def trained(road, reviews, init, tmp_path, *more):
    steps = ("training.steps=2", "data.batch_size=8", f"run_dir={tmp_path / 'run'}", "-q")
    road("finetune", reviews, f"init={init}", *steps, *more).good()
    return tmp_path / "run" / "hf"


def predicted(model, texts):
    return torch.tensor([[a["scores"]["no"], a["scores"]["yes"]] for a in load(model)(texts)])


@pytest.mark.parametrize(("positions", "is_named"), [(58, True), (61, False), (99, True)])
def test_rows_as_long_as_an_odd_position_table(road, reviews, tmp_path, positions, is_named):
    """Batches were padded to 60, 64 or 104 tokens, past the table."""
    init = publish(tmp_path / "init", "bert", max_position_embeddings=positions)
    texts = [text for text in TEXTS if len(text.split()) + 2 <= positions]
    rows = list(csv.DictReader(reviews.with_suffix(".csv").open()))
    write_rows(reviews.with_suffix(".csv"), (row for row in rows if row["text"] in texts))
    limit = (f"data.max_length_tokens={positions}",) if is_named else ()
    model = trained(road, reviews, init, tmp_path, *limit)
    assert_close(predicted(model, texts), plain(model, texts), rtol=1e-4, atol=1e-5)
    road(
        *("evaluate", reviews, f"init={tmp_path / 'run'}", "data.datasets=[reviews]"),
        *(f"run_dir={tmp_path / 'judged'}", "-q"),
    ).good()


def test_a_teacher_with_fewer_positions_than_the_batch_reads_its_rows(tmp_path):
    directory = publish(
        tmp_path / "t", "bert", "ForTokenClassification", labels=("O", "B-X", "I-X"),
        max_position_embeddings=99,
    )  # fmt: skip
    ids = torch.randint(5, 50, (2, 104))
    mask = (torch.arange(104) < torch.tensor([[99], [40]])).long()
    ours = Teacher(directory, KINDS["words"], TeacherOptions(precision="fp32"))
    logits = ours.logits(ids, mask)
    model = AutoModelForTokenClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        theirs = model(input_ids=ids[:, :99], attention_mask=mask[:, :99]).logits
    assert logits.shape == (2, 104, 3)
    real = mask[:, :99].bool()
    assert_close(logits[:, :99][real], theirs[real], rtol=1e-4, atol=1e-5)


def test_a_tokenizer_without_a_padding_token(road, reviews, tmp_path):
    tokenizer = bert_with("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    tokenizer.pad_token = None
    init = publish(tmp_path / "init", "bert", tokenizer=tokenizer)
    model = trained(road, reviews, init, tmp_path)
    assert AutoTokenizer.from_pretrained(model).pad_token is None
    assert_close(predicted(model, TEXTS), plain(model, TEXTS), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet"])
def test_a_padding_id_that_configuration_and_tokenizer_give_differently(
    road, reviews, tmp_path, family
):
    init = publish(tmp_path / "init", family)
    edit(init / "config.json", pad_token_id={"bert": 3, "roberta": 0, "mpnet": 3}[family])
    model = trained(road, reviews, init, tmp_path)
    assert_close(predicted(model, TEXTS), plain(model, TEXTS), rtol=1e-4, atol=1e-5)


def test_an_empty_text_is_a_row_of_a_tagger_and_of_a_model_without_template(tmp_path, road):
    labels = KINDS["words"].kind.labels
    model = publish(tmp_path / "tags", "bert", "ForTokenClassification", labels=labels)
    rows = [{"text": "a film"}, {"text": ""}, {"text": "  "}, {"text": "New Zealand"}]
    write_rows(tmp_path / "rows.jsonl", rows)
    road("predict", model, tmp_path / "rows.jsonl", "--output", tmp_path / "out.jsonl").good()
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [len(row["tags"]) for row in out] == [2, 0, 0, 2]
    alone = load(model)(["a film", "New Zealand"])
    assert [out[0]["tags"], out[3]["tags"]] == [row["tags"] for row in alone]
    bare = publish(
        tmp_path / "bare", MAKERS["no template"][0], "ForSequenceClassification",
        labels=("no", "yes"), tokenizer=bert_with(),
    )  # fmt: skip
    answers = load(bare)(["", "a film"])
    assert answers[1]["scores"] == pytest.approx(load(bare)(["a film"])[0]["scores"])


def test_pre_training_on_rows_as_long_as_an_odd_position_table(pretraining, tmp_path):
    odd = {"encoder.max_length_tokens": 61, "data.max_length_tokens": 61, "training.steps": 2}
    places = {"run_dir": str(tmp_path / "run"), "data.shards": str(tmp_path / "shards")}
    assert rr.pretrain(overrides=pretraining | odd | places).hf_dir.is_dir()


@pytest.mark.parametrize(("kind", "gives"), [("minilm", True), ("xlm-r on BertModel", False)])
def test_pre_training_has_the_segments_of_its_tokenizer(
    pretraining, tmp_path, monkeypatch, kind, gives
):
    init = publish(tmp_path / "init", "bert", tokenizer=MAKERS[kind][1]())
    model = BertModel.forward
    seen = []

    @wraps(model)  # its parameters say which inputs it takes
    def forward(self, *inputs, **named):
        seen.append(named.get("token_type_ids") is not None)
        return model(self, *inputs, **named)

    monkeypatch.setattr(BertModel, "forward", forward)
    more = {"init": str(init), "encoder.family": "init", "objective.name": "mlm"}
    places = {"run_dir": str(tmp_path / "run"), "data.shards": str(tmp_path / "shards")}
    lengths = {"data.max_length_tokens": 40, "training.steps": 2}
    rr.pretrain(overrides=pretraining | more | places | lengths)
    assert set(seen) == {gives}


def test_rows_longer_than_the_positions_that_roberta_has_for_text_are_refused(
    pretraining, tmp_path
):
    """Two rows of its table of 162 are of no position."""
    init = publish(tmp_path / "init", "roberta")
    more = {"init": str(init), "encoder.family": "init", "objective.name": "mlm"}
    places = {"run_dir": str(tmp_path / "run"), "data.max_length_tokens": 162}
    with pytest.raises(ConfigError, match=r"fix: data\.max_length_tokens=160"):
        rr.pretrain(overrides=pretraining | more | places)
