"""``finetune``, ``multitask`` and ``distill`` are one recipe: what one of them does, all do."""

import json
import shutil

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoTokenizer, CTRLTokenizer

import road_ray as rr
from road_ray.training.monitoring.metrics_journal import read_rows
from tests.conftest import SPANS
from tests.published import publish

VERBS = ("finetune", "multitask", "distill")
SAVING = {"training.save_every_steps": 2, "training.keep_checkpoints": 9}
SAVING |= {"training.keep_checkpoints_at_end": 9, "training.evaluate_every_steps": 2}


@pytest.fixture(scope="session")
def overrides(sentiment, questions, mix, teachers, span_run) -> dict[str, dict[str, object]]:
    """Overrides by verb: spans on two data sets, a mixture with teachers of two of three data sets,
    and a student of three teachers.
    """
    plain = mix | {"training.steps": 6, "data.max_judged_rows": 8}
    listed = str(teachers.directory / "teachers.json")
    taught = {"distillation.host": "process", "distillation.schedule": "linear"}
    return {
        "finetune": questions | {"training.passes": 2},
        "plain": plain,
        "multitask": plain
        | taught
        | {"distillation.teachers.sst2": listed}
        | {"distillation.teachers.squad_v2": [str(span_run.directory)]},
        "distill": sentiment
        | taught
        | {"distillation.teachers": [listed], "distillation.matching.hidden_weight": 0.5},
    }


@pytest.fixture(scope="session", params=VERBS)
def whole(request, overrides, tmp_path_factory):
    """The verb, its overrides and its run, with the checkpoints of steps 2, 4 and 6."""
    verb = request.param
    run_dir = tmp_path_factory.mktemp("whole") / verb
    chosen = overrides[verb] | SAVING
    return verb, chosen, getattr(rr, verb)(overrides=chosen, run_dir=run_dir)


def weights(run: rr.Run) -> list[bytes]:
    return [path.read_bytes() for path in sorted(run.hf_dir.rglob("model.safetensors"))]


def trained(run: rr.Run) -> list[dict[str, float]]:
    rows = [r for r in read_rows(run.directory / "metrics.jsonl") if "train/lr" in r]
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]


def test_a_stopped_run_goes_on_to_the_very_same_weights(whole, tmp_path):
    verb, chosen, run = whole
    stopped = shutil.copytree(run.directory, tmp_path / verb)
    for name in ("step-00000004", "step-00000006"):
        shutil.rmtree(stopped / "checkpoints" / name)
    (stopped / "metrics.json").unlink()
    again = getattr(rr, verb)(overrides=chosen, run_dir=stopped)
    assert weights(again) == weights(run)
    assert trained(again) == trained(run)
    kinds = [event["kind"] for event in read_rows(stopped / "events.jsonl")]
    assert kinds.count("resumed") == 1


def test_every_data_set_is_evaluated_on_the_way_and_at_the_end(whole):
    _, chosen, run = whole
    names = chosen.get("data.datasets") or [chosen["data.dataset"]]
    rows = read_rows(run.directory / "metrics.jsonl")
    for name in names:
        metric = "f1" if name == "squad_v2" else "accuracy"
        key = f"eval/{name}/{metric}"
        assert [row["step"] for row in rows if key in row][:3] == [2, 4, 6]
        assert rows[-1][key] == run.metrics[key]
    for name in chosen.get("data.evaluate_on") or names:
        assert run.metrics[f"data/{name}/overlap_with_train"] == 0
        assert (run.directory / "predictions" / name / "predictions.json").is_file()


def test_every_exported_head_has_its_tokenizer_record_and_card(whole):
    verb, chosen, run = whole
    (of_checkpoint,) = run.directory.glob("checkpoints/step-00000006/hf/road_ray.json")
    assert "tokenizer.json" in json.loads(of_checkpoint.read_text())["files"]
    places = [run.hf_dir, *(run.hf_dir / "heads").glob("*")]
    assert {path.name for path in places} == (
        {"hf", "sentiment", "mrc", "nli"} if verb == "multitask" else {"hf"}
    )
    for place in places:
        shape = json.loads((place / "config.json").read_text())
        limit = AutoTokenizer.from_pretrained(place).model_max_length
        assert limit == shape["max_position_embeddings"]
        record = json.loads((place / "road_ray.json").read_text())
        tensors = load_file(next(place.glob("*.safet*"))).values()
        assert record["parameters"] > sum(x.numel() for x in tensors) / 2
        assert {"model.safetensors", "tokenizer.json"} <= record["files"].keys()
        assert record["columns"]
        assert record["datasets"] == (chosen.get("data.datasets") or [chosen["data.dataset"]])
        of_spans = record["task"] == "mrc"
        threshold = run.metrics["eval/squad_v2/threshold"] if of_spans else None
        assert record["no_answer_threshold"] == threshold


def test_an_evaluation_repeats_that_of_the_training_with_every_head(whole, tmp_path):
    _, chosen, run = whole
    changes = {"run_dir": tmp_path, "data.max_judged_rows": chosen.get("data.max_judged_rows")}
    again = rr.evaluate(overrides=changes, init=str(run.directory)).metrics
    names = chosen.get("data.datasets") or [chosen["data.dataset"]]
    assert {name.split("/")[1] for name in again} == {*names}
    assert again == {name: run.metrics[name] for name in again}


def test_the_record_the_checkpoints_and_the_card_name_the_teachers(whole):
    verb, _, run = whole
    state = json.loads(next(run.directory.glob("checkpoints/*/state.json")).read_text())
    card = (run.hf_dir / "README.md").read_text()
    if verb == "finetune":
        assert not (run.directory / "teachers.json").exists()
        return
    count = {"multitask": 4, "distill": 3}[verb]
    entries = json.loads((run.hf_dir / "road_ray.json").read_text())["teachers"]
    assert len({entry["weights_sha256"] for entry in entries}) == count
    assert "teachers" in state["identity"]
    assert "- teacher 2: `.../teacher-2/hf`, weights `" in card
    assert entries[0]["directory"] not in card


def test_the_journal_counts_right_teachers_and_the_schedule(whole):
    verb, _, run = whole
    rows = trained(run)
    names = {name for row in rows for name in row}
    if verb == "finetune":
        assert not [name for name in names if name.startswith(("teachers/", "mix/"))]
        return
    assert [row["train/kd_weight"] for row in rows] == pytest.approx([1 - n / 6 for n in range(6)])
    if verb == "distill":
        for row in rows:  # 150 rows, 10 batches
            assert sum(row[f"teachers/right_{n}"] for n in range(4)) in (15, 16)
            assert row["train/sst2_soft"] >= 0
        return
    for name, heads in {"sst2": 1, "squad_v2": 2}.items():
        counted = [v for r in rows for n, v in r.items() if n.startswith(f"teachers/{name}/")]
        seen = sum(row.get(f"mix/{name}", 0) for row in rows)
        assert sum(counted) == heads * seen > 0
    assert sum(v for r in rows for n, v in r.items() if n.startswith("mix/")) == 6 * 2 * 4
    assert not [n for n in names if n.startswith(("teachers/mnli", "teachers/right"))]
    assert {"train/sst2_soft", "train/squad_v2_soft", "train/mnli"} <= names
    assert "train/mnli_soft" not in names


@pytest.mark.parametrize(("plain", "taught"), [("finetune", "distill"), ("multitask", "multitask")])
def test_without_soft_loss_it_is_the_training_on_labels(overrides, plain, taught, tmp_path):
    settings = {k: v for k, v in overrides[taught].items() if "matching" not in k}
    settings |= {"distillation.schedule": "constant", "distillation.kd_weight": 0.0}
    without = {k: v for k, v in settings.items() if not k.startswith("distillation.")}
    runs = [
        getattr(rr, verb)(overrides=chosen, run_dir=tmp_path / name)
        for verb, chosen, name in ((plain, without, "plain"), (taught, settings, "gold"))
    ]
    ours, theirs = (load_file(run.hf_dir / "model.safetensors") for run in runs)
    assert_close(theirs, ours, rtol=1e-4, atol=1e-5)


def test_rows_without_labels_are_taught_by_the_teachers_of_their_data_set(
    overrides, tmp_path, caplog
):
    more = tmp_path / "more.txt"
    more.write_text("".join(f"film number {n} is better than expected\n" for n in range(200)))
    common = {"data.max_rows": 4, "training.steps": 8, "distillation.schedule": "constant"}
    caplog.set_level("INFO")
    ways = [("distill", "data.unlabelled", "teachers/right")]
    ways.append(("multitask", "data.unlabelled.sst2", "teachers/sst2/right"))
    for verb, key, right in ways:
        chosen = overrides[verb] | common | {key: [str(more)]}
        run = getattr(rr, verb)(overrides=chosen, run_dir=tmp_path / verb)
        rows = [row for row in trained(run) if "train/sst2_soft" in row]
        judged = [sum(row.get(f"{right}_{n}", 0) for n in range(4)) for row in rows]
        seen = sum(row.get("mix/sst2", 16) for row in rows)
        assert sum(judged) < seen, "only rows with a label tell who was right"
        assert all(row["train/sst2_soft"] > 0 for row in rows)
        assert str(more) in (run.directory / "inputs.json").read_text()
    assert "sst2: 204 rows; 3 teachers, rule correctness" in caplog.text


SENTENCES, LABELS = "ForSequenceClassification", ("negative", "positive")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of other tokenizers and lengths; the first one fits."""
    root = tmp_path_factory.mktemp("models")
    publish(root / "fits", "bert", SENTENCES, labels=LABELS)
    slow = publish(root / "slow", "bert", SENTENCES, labels=LABELS)
    for name in ("tokenizer.json", "tokenizer_config.json"):  # one that knows no offsets
        (slow / name).unlink(missing_ok=True)
    (slow / "vocab.json").write_text(json.dumps({"<unk>": 0, "a</w>": 1, "b</w>": 2}))
    (slow / "merges.txt").write_text("#version: 0.2\na b\n")
    CTRLTokenizer(str(slow / "vocab.json"), str(slow / "merges.txt")).save_pretrained(slow)
    publish(root / "short", "roberta", SENTENCES, labels=LABELS, max_position_embeddings=18)
    publish(root / "narrow", "bert", SENTENCES, labels=LABELS, max_position_embeddings=16)
    publish(root / "answers", "roberta", "ForQuestionAnswering", max_position_embeddings=42)
    publish(root / "brief", "electra", max_position_embeddings=16)
    return root


@pytest.fixture(scope="module")
def places(teachers, span_run, pretrained, models):
    """Directories by the names that a table has for them."""
    runs = {"TEACHERS": teachers.directory, "T0": teachers.directory / "teacher-0"}
    runs |= {"SPANS": span_run.directory, "PRETRAINED": pretrained.directory}
    return runs | {place.name.upper(): place for place in models.iterdir()}


PAIRS = {"data.dataset": "mnli", "data.evaluate_on": "null"}
OWN = {"train": "a.csv", "text": "a", "labels": ["x", "y"]}
SETS = {"data.sets": {"own": OWN, "onw": {"label": "b"}}}
UNKNOWN = {"data.sets": {"own": OWN}, "data.sets.own.label": "null"}
MAPS = {"distillation.matching.attention_weight": 0.5, "encoder.attention": "sdpa"}
ONE, LOSSES = {"distillation.num_teachers": 1}, {"distillation.average_loss": True}
TEXTS = {"distillation.matching.hidden_weight": 0.0}  # of the same tokens
SHORT = ["FITS", "SHORT"]
NARROW = {"distillation.teachers": ["FITS", "NARROW"], "init": "FITS"}
SPAN = {"data.dataset": "squad_v2", **SPANS, "distillation.teachers": ["ANSWERS"]}
MISTAKES = [
    ("finetune", {"data.dataset": "sst3"}, 2, "did you mean 'sst2'"),
    ("finetune", {"data.root": "/nowhere"}, 2, "data.root = /nowhere: no such directory"),
    ("finetune", {"data.dataset": "stsb", "data.evaluate_on": "null"}, 3, "glue/STS-B/train.tsv"),
    ("finetune", {"data.dataset": "newsqa"}, 2, "has no train split"),
    ("finetune", {"data.evaluate_on": ["sst2"]}, 2, "sst2 is of task sentiment"),
    ("finetune", {"init": "/"}, 4, "no config.json there"),
    ("finetune", {"init": "PRETRAINEDD"}, 2, "no such directory; did you mean '"),
    ("finetune", {"init": "PRETRAINED/zzz"}, 2, "name one in PRETRAINED"),
    ("finetune", PAIRS | {"data.windows": "mean"}, 2, "windows = mean: mnli has rows of two texts"),
    ("finetune", {"data.class_weights": "balanced"}, 2, "several labels or tags"),
    ("finetune", {"data.label_smoothing": 0.1}, 2, "tasks of labels"),
    ("distill", {"data.class_weights.positiv": 2.0}, 2, "did you mean 'positive'"),
    ("finetune", {"data.class_weights.positive": -1.0}, 2, "value >= 0"),
    *((verb, {"init": ""}, 2, "init is not given") for verb in VERBS),
    ("plain", SETS | {"data.datasets": ["own"]}, 2, "data.sets.onw: "),
    ("distill", SETS | {"data.dataset": "own"}, 2, "did you mean 'own'"),
    ("plain", UNKNOWN | {"data.datasets": ["own"]}, 2, "label = null: nothing can"),
    ("finetune", PAIRS | UNKNOWN | {"data.dataset": "own"}, 2, "label = null: nothing can"),
    ("multitask", {"data.datasets": ["sst2", "sst2"]}, 2, "one is named twice"),
    ("plain", {"data.datasets": ["sst2", "newsqa"]}, 2, "'newsqa' has no train split"),
    ("plain", {"data.datasets": ["squad_v2"], "data.max_length_tokens": 512}, 2, "128 positions"),
    ("multitask", {"mixing.passes": 4, "mixing.replacement": "false"}, 2, "allowed: at most 3"),
    ("multitask", {"mixing.weights.mnly": 2.0}, 2, "no data set or task of the mix"),
    ("multitask", {"mixing.weights.nli": -1.0}, 2, "value >= 0"),
    ("multitask", {"training.passes": 2}, 2, "mixing.passes=2"),
    ("multitask", {"training.steps": "null"}, 2, "training.steps is not given"),
    ("multitask", {"distillation.teachers.mnly": "x/y"}, 2, "did you mean 'mnli'?"),
    ("multitask", ONE, 2, "names none for mnli"),
    ("multitask", ONE | {"distillation.teachers.mnli": "[]"}, 2, "teachers.sst2 lists 3"),
    ("multitask", {"distillation.teachers.mnli": "T0"}, 4, "distillation.teachers.mnli: "),
    ("multitask", {"distillation.teachers.sst2": "SPANS"}, 4, "ForSequenceClassification"),
    ("multitask", {"data.unlabelled.mnli": "[more.txt]"}, 2, "rows without labels need teachers"),
    ("distill", {"distillation.teachers": []}, 2, "names no teacher"),
    ("distill", {"distillation.num_teachers": 4}, 2, "expected: 4 (distillation.num_teachers)"),
    ("distill", {"distillation.teachers": ["/nowhere/teachers.json"]}, 2, "json: no such file"),
    ("distill", {"distillation.teachers": ["/nowhere/at/all"]}, 4, "/nowhere/at/all"),
    ("distill", {"distillation.teachers": ["TEACHERS"]}, 4, "(as teachers: TEACHERS/teachers.json"),
    ("distill", {"distillation.answers": "live", "distillation.store": "x"}, 2, "store is given"),
    ("distill", MAPS, 2, "encoder.attention = sdpa: returns no attention maps"),
    ("distill", {"weighting.rule": "own_rules:same"}, 2, "No module named 'own_rules'"),
    ("distill", LOSSES | {"weighting.rule": "mean_probabilities"}, 2, "average_loss"),
    ("finetune", {"init": "SLOW"}, 3, "SLOW holds no tokenizer (tokenizer.json or"),
    ("finetune", {"init": "BRIEF"}, 2, "data.max_length_tokens"),
    ("plain", {"distillation.teachers.sst2": SHORT}, 2, "1 (SHORT) reads at most 16 tokens"),
    ("distill", TEXTS | {"distillation.teachers": SHORT}, 2, "distillation.on_truncated=learn"),
    ("distill", TEXTS | SPAN, 2, "reads at most 40 tokens"),
    ("distill", TEXTS | {"distillation.teachers": ["FITS", "SLOW"]}, 4, "SLOW: has another tok"),
    ("distill", TEXTS | NARROW, 2, "NARROW has 16 positions, the"),
]


@pytest.mark.parametrize(("verb", "changed", "code", "message"), MISTAKES)
def test_a_mistake_is_a_message_and_an_exit_code_before_the_first_step(
    road, flags, overrides, places, tmp_path, verb, changed, code, message
):
    def placed(text: str) -> str:
        for name, place in places.items():
            text = text.replace(name, str(place))
        return text

    arguments = [placed(argument) for argument in flags(overrides[verb] | changed)]
    road(verb.replace("plain", "multitask"), *arguments, "--run-dir", tmp_path / "run").refused(
        code, placed(message)
    )
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "warns"),
    [({"distillation.on_truncated": "learn"}, True), ({"data.max_length_tokens": 8}, False)],
    ids=["a declared choice", "rows that the student truncates as well"],
)
def test_a_student_learns_from_a_teacher_that_truncates(
    road, flags, sentiment, models, tmp_path, caplog, changes, warns
):
    named = [str(models / "fits"), str(models / "short")]
    chosen = sentiment | changes | {"distillation.teachers": named, "console": "plain"}
    chosen |= {"distillation.host": "process", "training.steps": 2}
    road("distill", *flags(chosen), "--run-dir", tmp_path / "run").good()
    for part in (f"teacher 1 ({models / 'short'}) reads at most 16 tokens", "teachers/cut_1"):
        assert (part in caplog.text) == warns
    assert "warning: teacher 0" not in caplog.text
