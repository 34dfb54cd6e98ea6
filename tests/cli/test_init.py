"""``road init``: the file that it writes, and what it refuses."""

import json

import pytest

from road_ray.config import json_schema
from road_ray.config.yaml_files import read_yaml
from road_ray.verbs import VERBS, configure, verb_of_file


@pytest.fixture
def reviews(tmp_path, monkeypatch):
    """A folder with a table of two candidate label columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)
    rows = "".join(f"the film number {n},{'ab'[n % 2]},{n % 4 + 1}\n" for n in range(40))
    (tmp_path / "reviews.csv").write_text(f"body,queue,stars\n{rows}")
    return tmp_path


def test_the_file_is_commented_loads_and_names_its_schema(road, reviews):
    line = "init reviews.csv --label stars --kind regress --init my/model"
    result = road(*line.split())
    assert result.out.splitlines()[-1] == "next: road finetune reviews.yaml"
    assert "range: 1 to 4" in result.out
    assert "rows: 36 to train on, 4 to evaluate on" in result.out
    text = (reviews / "reviews.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=finetune.schema.json\n")
    assert "# - label: stars (--label names it)" in text
    schema = json.loads((reviews / "finetune.schema.json").read_text())
    assert schema["properties"].keys() >= json_schema(VERBS["finetune"].config)["properties"].keys()
    assert read_yaml(reviews / "reviews.yaml").values["data"]["sets"]["reviews"] == {
        **{"kind": "regress", "text": ["body"], "label": "stars", "low": 1.0, "high": 4.0},
        **{"train": "reviews.csv", "dev_fraction": 0.1},
    }
    assert verb_of_file(reviews / "reviews.yaml") == "finetune"
    config = configure("finetune", path=reviews / "reviews.yaml")
    assert (config.init, config.data.sets["reviews"].kind) == ("my/model", "regress")
    names = {path.name for path in reviews.iterdir()}
    assert names == {"finetune.schema.json", "reviews.csv", "reviews.yaml"}


def test_an_odd_name_is_quoted_in_command_and_file(road, reviews):
    (reviews / "my data").mkdir()
    (reviews / "reviews.csv").rename(reviews / "my data" / "sst2.csv")
    out = reviews / "my data" / "a: b.yaml"
    result = road("init", "my data/sst2.csv", "--label", "queue", "--output", out)
    assert result.out.splitlines()[-1] == f"next: road finetune '{out}'"
    config = configure("finetune", path=out)
    assert config.data.dataset == "my_sst2"  # the catalogue has an sst2
    assert config.data.sets["my_sst2"].train == str(reviews / "my data" / "sst2.csv")


@pytest.mark.parametrize(
    ("init", "config", "rate", "decay"),
    [
        ("google/electra-small-discriminator", None, 3e-4, 0.8),
        ("google/electra-base-discriminator", None, 1e-4, 0.8),
        ("FacebookAI/roberta-base", None, 5e-5, 1.0),
        ("model", {"model_type": "bert", "hidden_size": 384}, 5e-5, 1.0),
        ("model/hf", {"model_type": "electra", "hidden_size": 1024}, 5e-5, 0.9),
    ],
)
def test_rates_are_those_of_the_family_and_size_of_init(road, reviews, init, config, rate, decay):
    if config is not None:
        (reviews / init).mkdir(parents=True)
        (reviews / init / "config.json").write_text(json.dumps(config))
    name = init.removesuffix("/hf")  # a run has its model there
    assert road("init", "reviews.csv", "--label", "queue", "--init", name).code == 0
    optimizer = configure("finetune", path=reviews / "reviews.yaml").optimizer
    assert (optimizer.peak_lr, optimizer.layer_decay) == (rate, decay)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["reviews.csv"], 2, "2 columns could be the label"),
        (["reviews.csv", "--kind", "rank"], 2, "one of"),
        (["reviews.csv", "--label", "queue", "--output", "reviews.csv"], 2, "already exists"),
        (["nowhere.csv"], 2, "nowhere.csv: no such file"),
        (["review.csv"], 2, "did you mean 'reviews.csv'?"),
        ([], 2, "Missing argument"),
        (["train.csv", "--output", "new/my.yaml"], 3, "dev.csv:2: 3 columns, expected 2"),
    ],
)
def test_a_mistake_changes_nothing(road, reviews, words, code, message):
    (reviews / "train.csv").write_text("body,queue\nfine,a\ndull,b\n")
    (reviews / "dev.csv").write_text("body,queue\nfine,a,b\n")
    before = {path.name: path.read_bytes() for path in reviews.iterdir()}
    road("init", *words).refused(code, message)
    assert {path.name: path.read_bytes() for path in reviews.iterdir()} == before


def test_rows_without_a_label_are_counted_and_left_out(road, reviews):
    rows = "".join(f"the film number {n},{'ab'[n % 2] if n % 4 else ''}\n" for n in range(40))
    (reviews / "some.csv").write_text(f"body,label\n{rows}")
    result = road("init", "some.csv").good()
    assert "no label: 10 of 40 rows, the first at some.csv:2; a training leaves" in result.out
    assert "rows: 27 to train on, 3 to evaluate on" in result.out


@pytest.mark.parametrize(("init", "batch_size"), [(None, 16), ("my/bert", 32)])
def test_a_small_text_is_read_three_times(road, reviews, init, batch_size):
    document = "the film was shown in the town of Ulm and people liked it a lot .\n" * 10 + "\n"
    text = document * (650_000 // len(document))
    (reviews / "notes.txt").write_text(text)
    result = road("init", "notes.txt", *(["--init", init] if init else []))
    config = configure("pretrain", path=reviews / "notes.yaml")
    rows = len(text) / 4.2 / 128
    assert config.data.batch_size == batch_size
    assert config.data.max_length_tokens == 128
    assert config.training.steps == pytest.approx(3 * rows / batch_size, abs=10)
    assert config.optimizer.warmup_steps * 10 == config.training.steps
    assert f"steps: {config.training.steps} of {batch_size} rows of 128 tokens, " in result.out
    assert f"steps: {config.training.steps} of" in (reviews / "notes.yaml").read_text()


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"model_type": "modernbert", "max_position_embeddings": 8192}, 2048),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "bert", "max_position_embeddings": 64}, 64),
        ({"model_type": "bert"}, 512),
    ],
)
def test_rows_are_as_long_as_the_model_takes(road, reviews, config, length):
    text = " ".join(["word"] * 900)  # about 1,263 tokens
    rows = "".join(f"{text} {n},{'ab'[n % 2]}\n" for n in range(40))
    (reviews / "long.csv").write_text(f"body,label\n{rows}")
    (reviews / "model").mkdir()
    (reviews / "model" / "config.json").write_text(json.dumps(config))
    out = road("init", "long.csv", "--init", "model").out
    assert f"length: {length} tokens" in out
    assert ("the most that the model takes" in out) == (length < 1263)
    assert ("data.windows=mean" in out) == (length < 1263)
    config = configure("finetune", path=reviews / "long.yaml")
    assert config.data.max_length_tokens == length
