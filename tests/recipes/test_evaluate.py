"""Evaluating a trained model reuses its threshold and says what it cannot judge."""

import json
import shutil

import pytest

from road_ray.data import catalog
from road_ray.data.readers.layouts import read_split
from road_ray.inference.load_model import load
from tests.runs import edit, name_labels

SPANS = ["data.max_length_tokens=96", "data.stride_tokens=16"]


@pytest.fixture
def attempt(road, world, tmp_path):
    def run(init: object, *names: str, more: tuple[str, ...] = ()):
        where = [f"init={init}", f"data.root={world}", f"data.datasets=[{','.join(names)}]"]
        return road("evaluate", *where, *more, "--run-dir", tmp_path / "run", "--json")

    run.world = world
    return run


def test_windows_are_those_of_the_training_unless_they_are_named(attempt, span_run, tmp_path):
    """The threshold was tuned on windows of another stride than the default."""
    result = attempt(span_run.directory, "newsqa").good()
    figures = json.loads(result.out)["metrics"]
    assert figures == {k: v for k, v in span_run.metrics.items() if k.startswith("eval/newsqa/")}
    answers = json.loads((tmp_path / "run/predictions/newsqa/predictions.json").read_text())
    odds = json.loads((tmp_path / "run/predictions/newsqa/null_odds.json").read_text())
    predictor = load(span_run.directory)
    assert predictor.record["stride_tokens"] == 16
    rows = read_split(catalog.dataset("newsqa"), attempt.world, "dev")
    for example in rows:
        told = predictor(question=example.question, context=example.context)
        assert told["answer"] == answers[example.id]
        if "null_odds" in told:
            assert told["null_odds"] == pytest.approx(odds[example.id], abs=1e-4)


def test_a_threshold_is_tuned_on_the_named_set_and_used_on_all(attempt, span_run):
    more = (*SPANS, "tune_threshold_on=squad_v2")
    figures = json.loads(attempt(span_run.hf_dir, "newsqa", "squad_v2", more=more).out)["metrics"]
    tuned = figures["eval/newsqa/threshold"]
    assert tuned == figures["eval/squad_v2/threshold"]
    at_threshold, best = (figures[f"eval/squad_v2/{name}_f1"] for name in ("at_threshold", "best"))
    assert at_threshold == pytest.approx(best)


def test_a_model_without_a_threshold_gets_no_figures_at_one(attempt, span_run, tmp_path):
    foreign = shutil.copytree(span_run.hf_dir, tmp_path / "foreign")
    edit(foreign / "road_ray.json", no_answer_threshold=None)
    figures = json.loads(attempt(foreign, "newsqa", more=tuple(SPANS)).out)["metrics"]
    assert not [name for name in figures if "threshold" in name]
    assert {"eval/newsqa/f1", "eval/newsqa/best_f1"} <= figures.keys()


def test_a_split_without_gold_gives_predictions_and_no_figures(road, world, teachers, tmp_path):
    where = [f"init={teachers.directory}/teacher-0", f"data.root={world}", "data.split=test"]
    result = road("evaluate", *where, "--run-dir", tmp_path).good()
    assert "no metrics: the split has no labels" in result.out
    assert f"predictions: {tmp_path / 'predictions'}" in result.out
    output = json.loads((tmp_path / "predictions" / "sst2" / "predictions.json").read_text())
    assert len(output) == 25
    assert set(output.values()) <= {"negative", "positive"}


TEST, TUNED = ("data.split=test",), ("tune_threshold_on=squad_v2",)


@pytest.mark.parametrize(
    ("init", "names", "more", "code", "message"),
    [
        (None, ("sst2",), (), 4, "holds no head for task sentiment"),
        (None, ("newsqa",), TUNED, 2, "tune_threshold_on"),
        (None, ("squad_v2", "squad_v1"), TEST, 2, "data set 'squad_v2' has no test split"),
        (None, ("squad_v2", "triviaqa"), (), 3, "no files of triviaqa (dev) below"),
        ("", ("sst2",), (), 2, "init is not given"),
        ("nowhere.json", ("sst2",), (), 2, "init = nowhere.json"),
    ],
)
def test_what_cannot_be_judged_is_said_before_the_first_evaluation(
    attempt, span_run, tmp_path, init, names, more, code, message
):
    attempt(span_run.hf_dir if init is None else init, *names, more=more).refused(code, message)
    assert (tmp_path / "run").exists() == (code == 4)  # the model is opened in it


def test_an_ensemble_is_evaluated_on_its_own_data_set_where_none_is_named(road, teachers, tmp_path):
    words = (teachers.directory / "teachers.json", "--run-dir", tmp_path / "run", "--json")
    figures = json.loads(road("evaluate", *words).good().out)["metrics"]
    assert any(name.startswith("eval/sst2/") for name in figures)
    assert figures == {name: teachers.metrics[name] for name in figures}


@pytest.fixture
def model(teachers, tmp_path):
    """A copy of a fine-tuned model that a test may change."""
    return shutil.copytree(teachers.directory / "teacher-0" / "hf", tmp_path / "model")


def contents(directory):
    """Every file but those that tell of a start."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    started = ("run.lock", "environment.json")
    return {path: path.read_bytes() for path in files if path.name not in started}


def test_evaluate_that_fails_keeps_the_earlier_result(road, world, span_run, tmp_path, caplog):
    root = shutil.copytree(world, tmp_path / "world")
    model = shutil.copytree(span_run.hf_dir, tmp_path / "model")
    edit(model / "road_ray.json", files={})  # its changes are accepted
    command = ["evaluate", f"init={model}", f"data.root={root}", *SPANS]
    command += ["data.datasets=[squad_v2,newsqa]", "--run-dir", tmp_path / "run", "--json"]
    figures = road(*command).out
    before = contents(tmp_path / "run")
    (model / "tokenizer.json").write_text((model / "tokenizer.json").read_text() + "\n")
    (root / "newsqa").rename(tmp_path / "aside")
    for _ in range(2):  # nor is it taken for a result of what is there now
        assert road(*command).code == 3
        assert contents(tmp_path / "run") == before
    (tmp_path / "aside").rename(root / "newsqa")
    caplog.clear()
    assert road(*command).out == figures
    assert "run again" in caplog.text


def test_evaluate_gives_each_model_and_split_a_directory(
    road, world, teachers, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    commands = [
        (f"init={teachers.directory}/teacher-{number}", f"data.split={split}", f"data.root={world}")
        for number, split in ((0, "dev"), (1, "dev"), (0, "train"), (0, "dev"))
    ]
    outputs = [json.loads(road("evaluate", *command, "--json").out) for command in commands]
    places = sorted((tmp_path / "runs" / "evaluate").iterdir())
    assert [place.name.rsplit("-", 1)[0] for place in places] == ["teacher-0"] * 2 + ["teacher-1"]
    assert outputs[0] == outputs[3]


@pytest.mark.parametrize("name", ["dev.tsv", "model.safetensors"])
def test_evaluate_runs_again_when_a_file_that_it_read_has_changed(
    road, world, teachers, model, tmp_path, name, caplog
):
    root = shutil.copytree(world, tmp_path / "world")
    edit(model / "road_ray.json", files={})  # its changes are accepted
    words = (f"init={model}", f"data.root={root}", "--run-dir", tmp_path / "run", "--json")
    first = road("evaluate", *words)
    path = model / name if (model / name).is_file() else next(root.glob(f"glue/SST*/{name}"))
    if name == "dev.tsv":
        turned = {"0": "1", "1": "0"}
        lines = path.read_text().splitlines()
        rows = [line.rsplit("\t", 1) for line in lines[1:]]
        path.write_text("\n".join([lines[0], *(f"{text}\t{turned[n]}" for text, n in rows)]) + "\n")
    else:
        path.write_bytes((teachers.directory / "teacher-1" / "hf" / name).read_bytes())
    second = road("evaluate", *words).good()
    assert f"{path}: then " in caplog.text
    single, two = (
        json.loads(result.out)["metrics"]["eval/sst2/accuracy"] for result in (first, second)
    )
    if name == "dev.tsv":
        assert single + two == pytest.approx(100)
    caplog.clear()
    assert road("evaluate", *words).out == second.out
    assert "run again" not in caplog.text


def test_evaluate_finds_labels_by_name_or_is_told_which_is_which(attempt, model, tmp_path):
    def accuracy(*names, more=()):
        name_labels(model, *names)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        result = attempt(model, "sst2", more=more).good()
        return json.loads(result.out)["metrics"]["eval/sst2/accuracy"]

    expected = accuracy("negative", "positive")
    assert accuracy("Negative ", "positive") == expected
    assert accuracy("positive ", "negative") == pytest.approx(100 - expected)
    pasted = "label_map={LABEL_0: negative, LABEL_1: positive}"
    assert accuracy("LABEL_0", "LABEL_1", more=(pasted,)) == expected
    swapped = "label_map={LABEL_0: positive, LABEL_1: negative}"
    assert accuracy("LABEL_0", "LABEL_1", more=(swapped,)) == pytest.approx(100 - expected)


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (("LABEL_1", "LABEL_0"), "label_map='{LABEL_1: negative, LABEL_0: positive}'"),
        (("pos", "neg"), "label_map='{pos: positive, neg: negative}'"),
        (("positive", "positive"), "name a model that was trained on this task"),
    ],
)
def test_evaluate_refuses_labels_that_are_not_those_of_the_task(attempt, model, names, remedy):
    name_labels(model, *names)
    result = attempt(model, "sst2").refused(4, "are not those of task 'sentiment'")
    assert remedy in result.err
