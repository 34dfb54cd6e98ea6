"""The ensemble in this process, and the stream that its answers are attached to."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.testing import assert_close

from road_ray.data.catalog import task
from road_ray.distillation import weighting
from road_ray.distillation.ensemble.annotate import allowed_of, annotate, targets_of
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble
from road_ray.distillation.ensemble.protocol import PAD_LOGIT, Ensemble, stacked
from road_ray.distillation.ensemble.teacher import Teacher, inputs_of
from road_ray.errors import CheckpointError, ConfigError, DataError

NLI, MRC = task("nli"), task("mrc")


def batch(seed: int, *, spans: bool = False, size: int = 4, length: int = 10) -> dict:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 24, (size, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, length // 2 :] = 0
    segments = torch.zeros_like(ids)
    segments[:, 3:] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments, "task": "t"}
    if spans:
        start = torch.randint(0, 5, (size,), generator=generator)
        return inputs | {"start_positions": start, "end_positions": start.clone()}
    return inputs | {"labels": torch.randint(3, (size,), generator=generator)}


@pytest.fixture
def trio(tmp_path, teacher):
    return LocalEnsemble.load([teacher(tmp_path / str(s), s) for s in range(3)], NLI)


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


def test_weights_cast_once_answer_as_autocast_over_fp32_does(teacher, tmp_path):
    from transformers import AutoModelForSequenceClassification

    ids = torch.randint(5, 24, (4, 8), generator=torch.Generator().manual_seed(0))
    place = teacher(tmp_path)
    plain = AutoModelForSequenceClassification.from_pretrained(place).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = plain(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert torch.equal(Teacher(place, NLI, precision="bf16").logits(ids), expected.float())


def test_int8_is_refused_on_a_device_that_has_better(teacher, tmp_path):
    with pytest.raises(ConfigError, match=r"int8: the teachers are on meta(?s:.)*fix: .*bf16"):
        Teacher(teacher(tmp_path / "t"), NLI, device="meta", precision="int8")


def test_a_teacher_answers_as_the_plain_model_does(tmp_path, teacher):
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    first = batch(0)
    directory = teacher(tmp_path / "nli")
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    assert torch.equal(
        Teacher(directory, NLI).logits(**inputs_of(first)), model(**inputs_of(first)).logits
    )

    directory = teacher(tmp_path / "mrc", kind="mrc")
    output = AutoModelForQuestionAnswering.from_pretrained(directory).eval()(**inputs_of(first))
    logits = Teacher(directory, MRC).logits(**inputs_of(first))
    assert logits.shape == (4, 2, 10)
    real = first["attention_mask"].bool()
    assert torch.equal(logits[:, 0][real], output.start_logits[real])
    assert torch.equal(logits[:, 1][real], output.end_logits[real])


def test_padding_is_no_answer(tmp_path, teacher):
    first = batch(0, spans=True)
    logits = Teacher(teacher(tmp_path, kind="mrc"), MRC).logits(**inputs_of(first))
    padding = first["attention_mask"][:, None].expand_as(logits) == 0
    assert padding.any()
    assert (logits[padding] == PAD_LOGIT).all()
    assert (logits.softmax(-1)[padding] == 0).all()


def test_a_regression_teacher_gives_one_number(tmp_path, teacher):
    similarity = task("similarity")
    ensemble = LocalEnsemble.load([teacher(tmp_path, kind="similarity")], similarity)
    scored = batch(0) | {"labels": torch.rand(4)}
    (softened,) = annotate([scored], ensemble, weighting.resolve("correctness"))
    assert softened["soft_logits"].shape == (4, 1)
    assert set(softened["stats"]) == {"time/teacher_wait_seconds"}


def test_a_teacher_with_permuted_labels_is_aligned_by_name(tmp_path, teacher):
    """The classifier's rows and its names move together, so the answers must not move at all."""
    from safetensors.torch import load_file, save_file

    straight = Teacher(teacher(tmp_path / "a"), NLI)
    moved = teacher(tmp_path / "b", labels=("entailment", "neutral", "contradiction"))
    weights = load_file(moved / "model.safetensors")
    for name in ("classifier.out_proj.weight", "classifier.out_proj.bias"):
        weights[name] = weights[name][[1, 2, 0]].contiguous()
    save_file(weights, moved / "model.safetensors", metadata={"format": "pt"})
    inputs = inputs_of(batch(0))
    assert_close(Teacher(moved, NLI).logits(**inputs), straight.logits(**inputs))


def test_logits_that_are_not_finite_name_the_teacher(tmp_path, teacher):
    broken = Teacher(teacher(tmp_path / "broken"), NLI)
    broken._model.classifier.out_proj.bias[0] = torch.nan
    with pytest.raises(CheckpointError, match=r"broken.*not finite"):
        broken.logits(**inputs_of(batch(0)))


def test_a_head_that_is_not_in_the_file_is_refused(tmp_path, teacher):
    from safetensors.torch import load_file, save_file

    file = teacher(tmp_path) / "model.safetensors"
    weights = load_file(file)
    del weights["classifier.out_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="would be random"):
        Teacher(tmp_path, NLI)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        Teacher(tmp_path, NLI)


def test_answers_of_different_shapes_are_never_mixed():
    with pytest.raises(DataError, match="teacher 1 answers"):
        stacked([torch.zeros(2, 3), torch.zeros(2, 1)])


def test_annotate_attaches_the_weighted_logits_and_leaves_the_batch_alone(trio):
    first = batch(1)
    keys = set(first)
    (softened,) = annotate([first], trio, functools.partial(weighting.correctness, wrong=0.5))
    logits = trio.gather(trio.submit(first))
    weights = weighting.correctness(logits, first["labels"], wrong=0.5)
    assert torch.equal(softened["soft_logits"], weighting.combine(logits, weights))
    assert softened["kd_keep"].all()
    assert softened["task"] == "t"
    assert set(first) == keys
    right = [softened["stats"][f"teachers/right_{n}"] for n in range(4)]
    expected = weighting.num_right(logits, first["labels"])
    assert right == [float((expected == n).sum()) for n in range(4)]
    assert softened["stats"]["time/teacher_wait_seconds"] > 0


def test_spans_are_weighed_a_head(tmp_path, teacher):
    ensemble = LocalEnsemble.load(
        [teacher(tmp_path / str(s), s, kind="mrc") for s in range(2)], MRC
    )
    first = batch(2, spans=True)
    first["end_positions"][0] = -100
    (softened,) = annotate([first], ensemble, weighting.resolve("correctness", all_wrong="drop"))
    assert softened["soft_logits"].shape == (4, 2, 10)
    assert softened["kd_keep"].shape == (4, 2)
    counts = [softened["stats"][f"teachers/right_{n}"] for n in range(3)]
    assert sum(counts) == 7  # two heads of four examples, less the unknown one
    logits = ensemble.gather(ensemble.submit(first))
    judged = logits.masked_fill(~allowed_of(first), -torch.inf)
    nobody = (weighting.num_right(judged, targets_of(first)) == 0) & (targets_of(first) != -100)
    assert nobody.any()
    assert torch.equal(softened["kd_keep"], ~nobody)


def test_a_teacher_is_not_wrong_for_what_it_says_of_the_question():
    class Loud(Echo):
        def gather(self, handle):
            return torch.tensor([9.0, 9.0, 1.0, 5.0]).expand(2, 1, 2, 4)

    first = {
        "input_ids": torch.ones(1, 4),
        "token_type_ids": torch.tensor([[0, 0, 1, 1]]),
        **{f"{end}_positions": torch.tensor([3]) for end in ("start", "end")},
    }
    (softened,) = annotate([first], Loud(), weighting.resolve("correctness"))
    assert softened["stats"]["teachers/right_2"] == 0  # position 0 is allowed, and loudest
    first["token_type_ids"][0, 0] = 1
    loud = Loud()
    loud.gather = lambda handle: torch.tensor([0.0, 9.0, 1.0, 5.0]).expand(2, 1, 2, 4)
    (softened,) = annotate([first], loud, weighting.resolve("correctness"))
    assert softened["stats"]["teachers/right_2"] == 2  # both heads
    assert softened["soft_logits"].tolist() == [[[0.0, 9.0, 1.0, 5.0]] * 2]


def test_teachers_are_kept_apart_when_asked(trio):
    first = batch(1)
    (softened,) = annotate([first], trio, weighting.resolve("correctness"), each=True)
    logits = trio.gather(trio.submit(first))
    assert torch.equal(softened["teacher_logits"], logits)
    assert torch.equal(softened["teacher_weights"], weighting.correctness(logits, first["labels"]))
    with pytest.raises(ConfigError, match="average_loss"):
        annotate([first], trio, weighting.resolve("mean_probabilities"), each=True)


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


def test_a_batch_of_a_collator_keeps_its_type(trio):
    from transformers import BatchEncoding

    first = BatchEncoding(batch(0))
    (softened,) = annotate([first], trio, weighting.mean)
    assert isinstance(softened, BatchEncoding)
    assert "soft_logits" not in first


def test_a_negative_lookahead_fails_at_the_call():
    with pytest.raises(ConfigError, match="lookahead"):
        annotate([], Echo(), weighting.mean, lookahead=-1)


def test_targets_come_from_labels_or_from_positions():
    assert targets_of({"labels": [1, 2]}).tolist() == [1, 2]
    spans = {"start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([3, 4])}
    assert targets_of(spans).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(DataError, match="no labels"):
        targets_of({"input_ids": [[1]]})
    with pytest.raises(DataError, match="no input_ids"):
        inputs_of({"labels": [1]})
