"""Batches with soft targets, and the loss of custom loops on them. Each of several labels is a
choice of two classes, with every rule and loss.
"""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from torch.testing import assert_close
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    BatchEncoding,
)

from road_ray.data.catalog import task
from road_ray.data.task_and_dataset import Classify, MultiLabel, Task
from road_ray.distillation import weighting
from road_ray.distillation.annotate import annotate, model_inputs, student_loss
from road_ray.distillation.cross_tokenizer import PAD_LOGIT
from road_ray.distillation.ensemble import Ensemble, LocalEnsemble, RowEnsemble
from road_ray.distillation.losses import kd_loss, soft_loss_sum, two_classes
from road_ray.distillation.teacher import Teacher, TeacherOptions, inputs_of
from road_ray.distillation.teacher_directory import check_teacher
from road_ray.errors import CheckpointError, ConfigError, DataError
from tests.tiny_teacher import LABELS, make_batch, make_teacher

NLI, MRC = task("nli"), task("mrc")


@pytest.fixture
def trio(tmp_path):
    return LocalEnsemble([make_teacher(tmp_path / str(s), s) for s in range(3)], NLI)


class Said(Ensemble):
    """Teachers that answer with the logits they are given, ``[M, B, ..., C]``."""

    def __init__(self, logits, stats=()):
        self.answer, self.size, self.stats = logits, len(logits), dict(stats)

    def gather(self, handle):
        return self.answer


class Echo(Ensemble):
    """Two teachers that answer the batch's first id; records who is in flight."""

    size = 2

    def __init__(self):
        self.log = []

    def submit(self, batch):
        self.log.append(("submit", int(batch["input_ids"][0, 0])))
        return batch["input_ids"][0, 0]

    def gather(self, handle):
        self.log.append(("gather", int(handle)))
        return torch.full((2, 1, 3), float(handle))


def test_weights_cast_once_answer_as_autocast_over_fp32_does(tmp_path):
    ids = torch.randint(5, 24, (4, 8), generator=torch.Generator().manual_seed(0))
    place = make_teacher(tmp_path)
    plain = AutoModelForSequenceClassification.from_pretrained(place).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = plain(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert torch.equal(
        Teacher(place, NLI, TeacherOptions(precision="bf16")).logits(ids), expected.float()
    )


def test_a_teacher_of_questions_answers_as_the_plain_model_does_and_padding_is_no_answer(tmp_path):
    first, directory = make_batch(0), make_teacher(tmp_path, kind="mrc")
    output = AutoModelForQuestionAnswering.from_pretrained(directory).eval()(**inputs_of(first))
    logits = Teacher(directory, MRC).logits(**inputs_of(first))
    plain = torch.stack([output.start_logits, output.end_logits], 1)
    real = first["attention_mask"][:, None].bool().expand_as(plain)
    assert torch.equal(logits[real], plain[real])
    assert not real.all()
    assert (logits[~real] == PAD_LOGIT).all()
    assert (logits.softmax(-1)[~real] == 0).all()


def test_logits_that_are_not_finite_name_the_teacher(tmp_path):
    broken = Teacher(make_teacher(tmp_path / "broken"), NLI)
    broken._model.classifier.out_proj.bias[0] = torch.nan
    with pytest.raises(CheckpointError, match=r"broken.*not finite"):
        broken.logits(**inputs_of(make_batch(0)))


def test_a_head_that_is_not_in_the_file_is_refused(tmp_path):
    file = make_teacher(tmp_path) / "model.safetensors"
    weights = load_file(file)
    del weights["classifier.out_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="would be random"):
        Teacher(tmp_path, NLI)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        Teacher(tmp_path, NLI)


def test_answers_of_different_shapes_are_never_mixed(trio):
    with pytest.raises(RuntimeError, match="equal size"):
        trio._joined([torch.zeros(2, 3), torch.zeros(2, 1)], ())


def test_metrics_of_out_of_fold_teachers_are_those_of_all_folds():
    of_folds = [{"teachers/cut_0": n, "time/teacher_busy_seconds": n} for n in (1.0, 2.0)]
    members = [Said(torch.zeros(1, 1, 3), stats) for stats in of_folds]
    ensemble = RowEnsemble(members, np.array([0, 1], np.int32))
    ensemble.gather(ensemble.submit({"input_ids": torch.ones(2, 3), "rows": torch.arange(2)}))
    assert ensemble.stats == {"teachers/cut_0": 3.0, "time/teacher_busy_seconds": 2.0}


def test_annotate_attaches_the_weighted_logits_and_leaves_the_batch_alone(trio):
    first = BatchEncoding(make_batch(1))  # as of a collator
    keys = set(first)
    (softened,) = annotate([first], trio, functools.partial(weighting.correctness, wrong=0.5))
    logits = trio.gather(trio.submit(first))
    weights = weighting.correctness(logits, first["labels"], wrong=0.5)
    assert torch.equal(softened["soft_logits"], weighting.combine(logits, weights))
    assert softened["kd_keep"].all()
    assert set(first) == keys
    assert isinstance(softened, BatchEncoding)
    right = [softened["stats"][f"teachers/right_{n}"] for n in range(4)]
    expected = weighting.right_teachers(logits, first["labels"]).sum(0)
    assert right == [float((expected == n).sum()) for n in range(4)]
    assert softened["stats"]["time/teacher_wait_seconds"] > 0


def test_a_teacher_is_not_wrong_for_what_it_says_of_the_question():
    def loud(*logits):
        return Said(torch.tensor(logits).expand(2, 1, 2, 4))

    first = {
        "input_ids": torch.ones(1, 4),
        "token_type_ids": torch.tensor([[0, 0, 1, 1]]),
        **{f"{end}_positions": torch.tensor([3]) for end in ("start", "end")},
    }
    (softened,) = annotate([first], loud(9.0, 9.0, 1.0, 5.0), weighting.resolve("correctness"))
    assert softened["stats"]["teachers/right_2"] == 0  # position 0 is allowed, and loudest
    first["token_type_ids"][0, 0] = 1
    (softened,) = annotate([first], loud(0.0, 9.0, 1.0, 5.0), weighting.resolve("correctness"))
    assert softened["stats"]["teachers/right_2"] == 2  # both heads
    assert softened["soft_logits"].tolist() == [[[0.0, 9.0, 1.0, 5.0]] * 2]


def test_teachers_are_kept_apart_when_asked(trio):
    first = make_batch(1)
    (softened,) = annotate([first], trio, weighting.resolve("correctness"), each=True)
    logits = trio.gather(trio.submit(first))
    assert torch.equal(softened["teacher_logits"], logits)
    (again,) = annotate([softened], trio, weighting.resolve("mean"))
    assert not {"teacher_logits", "teacher_weights"} & {*again}  # which the loss would follow
    assert torch.equal(softened["teacher_weights"], weighting.correctness(logits, first["labels"]))
    with pytest.raises(ConfigError, match="average_loss"):
        next(annotate([first], trio, weighting.resolve("mean_probabilities"), each=True))


@pytest.mark.parametrize("lookahead", [0, 1, 2, 9])
def test_order_is_kept_and_no_more_than_lookahead_are_ahead(lookahead):
    batches = [{"input_ids": torch.full((1, 2), n), "labels": torch.tensor([0])} for n in range(6)]
    echo = Echo()
    ahead = []
    for n, softened in enumerate(annotate(iter(batches), echo, weighting.mean, lookahead)):
        assert softened["soft_logits"][0, 0] == n
        submitted = sum(kind == "submit" for kind, _ in echo.log)
        ahead.append(submitted - (n + 1))
    assert len(ahead) == 6
    assert max(ahead) == min(lookahead, 5)
    assert [n for kind, n in echo.log if kind == "gather"] == list(range(6))


SOFT = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
KEEP = torch.tensor([True, True])


def classified() -> tuple[SimpleNamespace, dict]:
    logits = torch.tensor([[1.0, 0.0], [0.5, 0.0]], requires_grad=True)
    batch = {"soft_logits": SOFT, "kd_keep": KEEP, "labels": torch.tensor([0, 1])}
    loss = functional.cross_entropy(logits, batch["labels"])
    return SimpleNamespace(logits=logits, loss=loss), batch


def test_gold_and_teachers_share_the_loss():
    outputs, batch = classified()
    soft = kd_loss(outputs.logits, SOFT, temperature=3.0)
    loss = student_loss(outputs, batch, temperature=3.0, kd_weight=0.25)
    assert_close(loss, 0.75 * outputs.loss + 0.25 * soft)
    loss.backward()
    assert outputs.logits.grad.abs().sum() > 0


def test_spans_learn_from_start_and_end_without_question_and_padding():
    start, end, soft = torch.randn(1, 6), torch.randn(1, 6), torch.randn(1, 2, 6)
    batch = {
        "input_ids": torch.ones(1, 6),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]]),
        "token_type_ids": torch.tensor([[0, 0, 1, 1, 1, 0]]),
        **{f"{name}_positions": torch.tensor([2]) for name in ("start", "end")},
        **{"soft_logits": soft, "kd_keep": torch.ones(1, 2).bool()},
    }
    outputs = SimpleNamespace(start_logits=start, end_logits=end, loss=torch.tensor(0.0))
    both = torch.stack([start, end], 1)[..., seen := [0, 2, 3, 4]]
    expected = kd_loss(both, soft[..., seen], temperature=2.0)
    assert_close(student_loss(outputs, batch, temperature=2.0, kd_weight=1.0), expected)


def test_mistakes_are_told():
    outputs, batch = classified()
    with pytest.raises(ConfigError, match="kd_weight"):
        student_loss(outputs, batch, kd_weight=1.5)
    with pytest.raises(ConfigError, match="temperature"):
        student_loss(outputs, batch, temperature=0.0)
    with pytest.raises(DataError, match="outputs have no loss"):
        student_loss(SimpleNamespace(loss=None), batch)


def test_unknown_answers_are_behind_the_row_where_models_ignore_them():
    ids = torch.ones(2, 6, dtype=torch.long)
    batch = {"input_ids": ids, "kd_keep": KEEP, "start_positions": torch.tensor([2, -100])}
    inputs = model_inputs(batch | {"end_positions": [3, -100]})
    assert inputs.keys() == {"input_ids", "start_positions", "end_positions"}
    assert inputs["start_positions"].tolist() == [2, 6]
    assert inputs["end_positions"].tolist() == [3, 6]


def test_a_batch_without_labels_learns_from_the_teachers_alone():
    outputs, batch = classified()
    unknown = batch | {"labels": torch.tensor([-100, -100])}
    outputs.loss = functional.cross_entropy(outputs.logits, unknown["labels"])
    assert outputs.loss.isnan()
    loss = student_loss(outputs, unknown, kd_weight=0.25)
    assert_close(loss, 0.25 * kd_loss(outputs.logits, SOFT, temperature=2.0))


@pytest.mark.parametrize("columns", [1, 2])
def test_a_number_or_several_labels_that_are_unknown_add_no_loss(columns):
    logits = torch.tensor([[0.5, -1.0], [2.0, 1.0], [0.0, 3.0]])[:, :columns]
    gold = torch.tensor([[1.0, 0.0], [-100.0, -100.0], [0.0, 1.0]])[:, :columns]
    shape = (3, columns) if columns == 1 else (3, columns, 2)
    batch = {"soft_logits": torch.zeros(shape), "kd_keep": torch.ones(shape[:columns])}
    batch["labels"] = gold if columns == 2 else gold[:, 0]
    of = functional.mse_loss if columns == 1 else functional.binary_cross_entropy_with_logits
    outputs = SimpleNamespace(logits=logits, loss=of(logits, gold))  # as transformers has it
    rows = torch.tensor([0, 2])
    assert_close(student_loss(outputs, batch, kd_weight=0.0), of(logits[rows], gold[rows]))


def annotated(logits, labels, rule="mean", each=False):
    batch = {"input_ids": torch.zeros(len(labels), 4, dtype=torch.long), "labels": labels}
    (out,) = annotate([batch], Said(logits), weighting.resolve(rule), each=each)
    return out


def test_one_label_of_several_is_a_task_of_two_classes():
    torch.manual_seed(0)
    student, teachers = torch.randn(5, 1), torch.randn(3, 5, 1)
    labels = torch.tensor([1, 0, 1, 1, 0])
    pairs, pairs_of_teachers = (torch.cat([0 * x, x], -1) for x in (student, teachers))
    for rule in weighting.RULES:
        several = annotated(teachers, labels[:, None], rule)
        two = annotated(pairs_of_teachers, labels, rule)
        own, _ = soft_loss_sum(student, several, temperature=3.0)
        expected, _ = soft_loss_sum(pairs, two, temperature=3.0)
        assert_close(own, expected, msg=rule)
        counts = [{k: v for k, v in x["stats"].items() if "right" in k} for x in (several, two)]
        assert counts[0] == counts[1]


def test_weighted_kd_counts_a_teacher_right_on_a_label_if_its_sign_agrees():
    teachers = torch.tensor([[[2.0, -1.0, 3.0]], [[-2.0, 1.0, 1.0]]])
    batch = annotated(teachers, torch.tensor([[1, 0, 1]]), "correctness", each=True)
    # Of M = 2 the wrong one has 0.75, the right one 1.25; both right: 1 each.
    expected = torch.tensor([[[1.25, 1.25, 1.0]], [[0.75, 0.75, 1.0]]])
    assert_close(batch["teacher_weights"], expected)
    mean = batch["soft_logits"][..., 1] - batch["soft_logits"][..., 0]
    assert_close(mean, torch.tensor([[(2.5 - 1.5) / 2, (-1.25 + 0.75) / 2, 2.0]]))
    assert batch["stats"]["teachers/right_1"] == 2
    assert batch["stats"]["teachers/right_2"] == 1
    unlabelled = annotated(teachers, torch.full((1, 3), -100), "correctness")
    assert_close(unlabelled["soft_logits"], two_classes(teachers.mean(0)))


def test_float_labels_of_a_custom_loop_are_several_labels_and_no_numbers():
    student, teachers = torch.randn(2, 3), torch.randn(2, 2, 3)
    labels = torch.tensor([[1, 0, 0], [0, 1, 1]])
    own = annotated(teachers, labels.float(), "correctness")
    assert_close(own["soft_logits"], annotated(teachers, labels, "correctness")["soft_logits"])
    total, count = soft_loss_sum(student, own, temperature=2.0)
    assert_close(total / count, kd_loss(two_classes(student), own["soft_logits"], temperature=2.0))


def test_a_teacher_of_another_problem_is_refused(tmp_path):
    place = make_teacher(tmp_path, labels=LABELS)
    with pytest.raises(CheckpointError, match="problem_type is None; task 'moods' has any number"):
        check_teacher(place, Task("moods", MultiLabel(LABELS)))
    config = place / "config.json"
    several = '{"problem_type": "multi_label_classification",'
    config.write_text(config.read_text().replace("{", several, 1))
    check_teacher(place, Task("moods", MultiLabel(LABELS)))
    with pytest.raises(CheckpointError, match="task 'nli' has one label a row"):
        check_teacher(place, Task("nli", Classify(LABELS)))
