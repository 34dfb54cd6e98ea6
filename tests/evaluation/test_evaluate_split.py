"""Logits are independent of batching; figures and predictions follow from them; wrong ones are
shown beside labels, worst first.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from road_ray.data.catalog import task
from road_ray.data.config import SourceConfig
from road_ray.data.examples import ChoiceExample, TagExample, TextExample
from road_ray.data.load_split import Split, load_split
from road_ray.data.task_and_dataset import JointSpan, MultiLabel
from road_ray.errors import DivergedError
from road_ray.evaluation import evaluate_split as predict
from road_ray.evaluation import squad
from road_ray.evaluation.evaluate_split import (
    DecisionRule,
    batched_logits,
    evaluate_logits,
    evaluate_split,
    mistakes,
)
from tests.pair import both
from tests.tiny_encoder import model_of_all_tasks

TUNED = DecisionRule(tune=True)


@pytest.fixture(scope="module")
def model(tokenizer):
    return model_of_all_tasks(tokenizer)


@pytest.fixture(scope="module")
def split(world, tokenizer):
    def load(name: str, part: str = "dev", **changes: object) -> Split:
        return load_split(name, part, SourceConfig(root=str(world), **changes), tokenizer)

    return load


def logits_of(model, chosen, group=None):
    return batched_logits(model.eval(), chosen.features, chosen.task.kind, 0, group=group)


@pytest.mark.parametrize("name", ["mnli", "squad_v2"])
@pytest.mark.parametrize("limit", ["_ROWS_AT_ONCE", "_TOKENS_AT_ONCE"])
def test_logits_are_those_of_each_row_alone(model, split, name, limit, monkeypatch):
    chosen, sizes = split(name), []
    many = logits_of(model, chosen)
    monkeypatch.setattr(predict, limit, 1)
    hook = model.encoder.register_forward_pre_hook(
        lambda part, _, inputs: sizes.append(len(inputs["input_ids"])), with_kwargs=True
    )
    single = logits_of(model, chosen)
    hook.remove()
    assert sizes == [1] * len(chosen.features)
    spans = name == "squad_v2"
    for row, one, length in zip(many, single, chosen.features.lengths, strict=True):
        assert row.shape == ((2, length) if spans else (3,))
        np.testing.assert_allclose(row, one, atol=1e-5)


def test_classes_are_scored_and_named(model, split):
    chosen = split("mnli")
    evaluation = evaluate_split(model.train(), chosen, pad_id=0)
    assert model.training
    predicted = np.array([task("mnli").kind.labels.index(label) for label in evaluation.labels])
    gold = chosen.features.gold["labels"]
    assert evaluation.metrics == {
        "accuracy": pytest.approx(100 * (predicted == gold).mean()),
        "majority_accuracy": pytest.approx(100 * np.bincount(gold).max() / len(gold)),
        "predicted_labels": len({*predicted}),
    }
    assert evaluation.threshold is None


def test_an_evaluation_has_the_precision_of_the_training(model, split):
    chosen = split("mnli")
    full = evaluate_logits(chosen, logits_of(model, chosen)).diagnostics
    with torch.autocast("cpu", dtype=torch.bfloat16):
        reduced = evaluate_logits(chosen, logits_of(model, chosen)).diagnostics
    assert full != reduced
    expected = {"fp32": full, "bf16": reduced, "auto": full}  # a narrow encoder on a CPU
    for precision, diagnostics in expected.items():
        found = evaluate_split(model, chosen, pad_id=0, precision=precision)
        assert found.diagnostics == diagnostics, precision


def test_without_gold_there_are_predictions_only(model, split):
    evaluation = evaluate_split(model, split("sst2", "test"), pad_id=0)
    assert (evaluation.metrics, len(evaluation.labels)) == ({}, 25)
    spans = split("squad_v2")
    hidden = [example.unlabelled() for example in spans.examples]
    for examples, total in ((hidden, {}), ([spans.examples[0], *hidden[1:]], 1)):
        found = evaluate_split(model, replace(spans, examples=examples), pad_id=0)
        assert (found.metrics and found.metrics["total"]) == total
        assert len(found.spans) == len(examples)


def test_a_perfect_model_of_spans_has_full_marks_and_a_threshold(split):
    chosen = split("squad_v2")
    perfect = []
    for index, length in enumerate(chosen.features.lengths):
        row = np.zeros((2, length), dtype=np.float32)
        example = chosen.examples[chosen.features.example[index]]
        begin = chosen.features.bounds[index]
        starts, ends = chosen.features.offsets[begin : begin + length].T
        places = (0, 0)
        if example.answers:
            first = example.answers[0]
            end = first.start + len(first.text)
            places = (np.flatnonzero(starts == first.start)[0], np.flatnonzero(ends == end)[0])
        row[[0, 1], places] = 9
        perfect.append(row)
    evaluation = evaluate_logits(chosen, perfect, DecisionRule(tune=True))
    assert evaluation.metrics["f1"] == evaluation.metrics["best_f1"] == 100
    assert evaluation.metrics["at_threshold_exact"] == 100
    assert evaluation.metrics["no_answer_f1"] == 100


def test_predictions_file_and_figures_agree_with_and_without_a_threshold(model, split, tmp_path):
    chosen = split("squad_v2")
    golds = {e.id: e for e in chosen.examples}
    for name, prefix, tune in (("plain", "", False), ("tuned", "at_threshold_", True)):
        result = evaluate_split(model, chosen, DecisionRule(tune=tune), pad_id=0)
        result.write(tmp_path / name)
        texts = json.loads((tmp_path / name / "predictions.json").read_text())
        listed = json.loads((tmp_path / name / "nbest_predictions.json").read_text())
        odds = json.loads((tmp_path / name / "null_odds.json").read_text())
        assert odds.keys() == listed.keys() == texts.keys()
        best = next(iter(listed.values()))[0]
        assert [*best] == ["text", "probability", "start_logit", "end_logit"]
        assert all(x in ("", *(c["text"] for c in listed[id][:1])) for id, x in texts.items())
        certain = dict.fromkeys(texts, 0.0)
        scores = squad.evaluate(list(golds.values()), texts, certain, np.inf)
        assert scores["f1"] == pytest.approx(result.metrics[f"{prefix}f1"])
        assert scores["exact"] == pytest.approx(result.metrics[f"{prefix}exact"])
        assert ("threshold" in result.metrics) is tune


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["nli", "similarity", "completion", "ner", "mrc", "joint"])
def test_answers_refuses_one_logit_that_is_not_finite_of_any_kind(split, name, value):
    """Joint spans bar places by minus infinity, and by nothing else."""
    kind = JointSpan() if name == "joint" else task(name).kind

    def ask(batch):
        count, length = batch["input_ids"].shape
        shapes = {"completion": (4,), "ner": (length, kind.width), "mrc": (2, length)}
        logits = torch.zeros(count, *(shapes | {"joint": (3, length)}).get(name, (kind.width,)))
        if name == "joint":
            logits[:, 2, 1:] = float("-inf")
        logits.view(count, -1)[-1, 0] = given
        return logits

    given, features = 0.0, split("mnli").features
    assert len(batched_logits(ask, features, kind, 0)) == len(features)
    given = value
    if name == "joint" and value < 0:
        return
    with pytest.raises(DivergedError):
        batched_logits(ask, features, kind, 0)


def shared(worker, given):
    """What each process does: every split with the other one."""
    predict._ROWS_AT_ONCE = 8
    for model, chosen, alone in given:
        logits = logits_of(model, chosen, worker)
        ours = evaluate_split(model, chosen, TUNED, pad_id=0, group=worker)
        if worker.is_main:
            assert all(map(np.array_equal, logits, alone["logits"]))
            assert ours.metrics == alone["evaluation"].metrics
            assert ours.labels == alone["evaluation"].labels
            assert ours.threshold == alone["evaluation"].threshold
        else:
            assert not logits
            assert not ours.metrics


@pytest.mark.slow
def test_two_processes_that_share_an_evaluation_find_what_one_does(
    model, split, tmp_path, monkeypatch
):
    monkeypatch.setattr(predict, "_ROWS_AT_ONCE", 8)
    few = split("sst2", max_judged_rows=3)  # one batch: one of the two has none
    given = []
    for chosen in (split("mnli"), split("squad_v2"), few):
        alone = {"logits": logits_of(model, chosen)}
        alone["evaluation"] = evaluate_split(model, chosen, TUNED, pad_id=0)
        given.append((model, chosen, alone))
    both(shared, tmp_path, given, timeout_seconds=100)


MRC, SENTIMENT, SIMILARITY, SWAG, NER = (
    task(name).kind for name in ("mrc", "sentiment", "similarity", "completion", "ner")
)


def test_questions_have_context_with_the_gold_marked(split):
    rows = split("squad_v2").examples
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
