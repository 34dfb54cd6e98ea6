"""Algorithm 2 by hand, its edges, and the invariants that science.md states."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from road_ray.distillation import weighting
from road_ray.distillation.weighting import combine, correctness, mean, num_right
from road_ray.errors import ConfigError, DataError


def teachers(right: int, total: int) -> torch.Tensor:
    """``[total, 1, 2]``: the first ``right`` teachers vote for class 0."""
    return torch.tensor([[[1.0, 0.0]] if m < right else [[0.0, 1.0]] for m in range(total)])


def test_algorithm_2_on_the_worked_example():
    logits = torch.tensor([[[2.0, 0.0]], [[1.0, 3.0]], [[4.0, 1.0]]])
    targets = torch.tensor([0])
    weights = correctness(logits, targets, wrong=0.75)
    assert_close(weights, torch.tensor([[1.125], [0.75], [1.125]]))
    assert_close(combine(logits, weights), torch.tensor([[2.5, 1.125]]))
    assert_close(combine(logits, mean(logits, targets)), torch.tensor([[7 / 3, 4 / 3]]))


@pytest.mark.parametrize(
    ("total", "wrong", "right", "boost"),
    [
        (3, 0.75, 1, 1.5),
        (3, 0.75, 2, 1.125),
        (3, 0.75, 3, 1.0),
        (3, 0.5, 1, 2.0),
        (3, 0.5, 2, 1.25),
        (3, 0.5, 3, 1.0),
        (3, 0.9, 1, 1.2),
        (3, 0.9, 2, 1.05),
        (3, 0.9, 3, 1.0),
        (5, 0.75, 1, 2.0),
        (5, 0.75, 2, 1.375),
        (5, 0.75, 3, 3.5 / 3),
        (5, 0.75, 4, 1.0625),
        (2, 0.75, 1, 1.25),
    ],
)
def test_right_teachers_share_what_wrong_ones_lose(total, wrong, right, boost):
    weights = correctness(teachers(right, total), torch.tensor([0]), wrong=wrong)
    assert_close(weights[:, 0], torch.tensor([boost] * right + [wrong] * (total - right)))


@pytest.mark.parametrize(("all_wrong", "each"), [("scale", 0.75), ("mean", 1.0), ("drop", 0.0)])
def test_when_every_teacher_errs_the_named_choice_holds(all_wrong, each):
    logits = torch.cat([teachers(0, 3), teachers(3, 3)], 1)  # all wrong, all right
    weights = correctness(logits, torch.tensor([0, 0]), all_wrong=all_wrong)
    assert_close(weights, torch.tensor([[each, 1.0]] * 3))
    assert combine(logits, weights).isfinite().all()


def test_one_teacher_that_errs_is_only_softened():
    assert correctness(teachers(0, 1), torch.tensor([0])).item() == 0.75
    assert correctness(teachers(1, 1), torch.tensor([0])).item() == 1.0


def test_a_tie_goes_to_the_first_class():
    logits = torch.zeros(2, 2, 3)
    assert num_right(logits, torch.tensor([0, 1])).tolist() == [2, 0]


def spans() -> tuple[torch.Tensor, torch.Tensor]:
    """Two teachers, a window of 4 positions, gold 1..2: A right twice, B right at the end only."""
    logits = torch.zeros(2, 1, 2, 4)
    logits[0, 0, 0, 1] = logits[0, 0, 1, 2] = logits[1, 0, 0, 3] = logits[1, 0, 1, 2] = 5.0
    return logits, torch.tensor([[1, 2]])


def test_start_and_end_are_judged_independently():
    logits, targets = spans()
    assert num_right(logits, targets).tolist() == [[1, 2]]
    weights = correctness(logits, targets)
    assert_close(weights, torch.tensor([[[1.25, 1.0]], [[0.75, 1.0]]]))


def test_joint_correctness_gives_both_heads_one_weight():
    logits, targets = spans()
    weights = correctness(logits, targets, span_correctness="joint")
    assert_close(weights, torch.tensor([[[1.25, 1.25]], [[0.75, 0.75]]]))


@pytest.mark.parametrize("joint", ["independent", "joint"])
def test_an_unknown_target_means_the_plain_mean(joint):
    logits, targets = spans()
    weights = correctness(logits, torch.full_like(targets, -100), span_correctness=joint)
    assert_close(weights, torch.ones(2, 1, 2))
    assert_close(correctness(teachers(0, 3), torch.tensor([-100])), torch.ones(3, 1))


def test_a_regression_has_no_wrong_teachers():
    logits = torch.tensor([[[1.0]], [[3.0]]])
    weights = correctness(logits, torch.tensor([2.5]))
    assert_close(combine(logits, weights), torch.tensor([[2.0]]))


def test_a_weight_a_teacher_counts_for_all_trailing_axes():
    logits = torch.randn(2, 3, 2, 5)
    assert_close(combine(logits, torch.ones(2, 3)), logits.mean(0))
    assert_close(combine(logits, torch.tensor([2.0, 0.0])), logits[0])


def test_a_dropped_teacher_leaves_no_nan():
    logits = torch.tensor([[[0.0, -torch.inf]], [[1.0, 2.0]]])
    assert_close(combine(logits, torch.tensor([[0.0], [2.0]])), torch.tensor([[1.0, 2.0]]))


def test_half_precision_is_combined_in_full():
    logits = torch.full((2, 1, 2), 60000.0, dtype=torch.float16)
    soft = combine(logits, torch.tensor([[1.5], [0.5]]))
    assert soft.dtype == torch.float32
    assert soft.isfinite().all()


@pytest.mark.parametrize(
    ("logits", "targets"),
    [((3, 4, 2), (3,)), ((3, 4, 1, 2), (4,)), ((4, 2), (4,)), ((0, 4, 2), (4,))],
)
def test_nothing_is_broadcast(logits, targets):
    with pytest.raises(DataError, match="do not fit"):
        correctness(torch.zeros(logits), torch.zeros(targets, dtype=torch.long))


@pytest.mark.parametrize("target", [2, -1])
def test_a_target_outside_the_classes_is_refused(target):
    with pytest.raises(DataError, match=f"target {target} .*0..1"):
        correctness(teachers(1, 3), torch.tensor([target]))


@pytest.mark.parametrize(
    "options",
    [{"wrong": w} for w in (-1.0, 1.5, float("nan"), float("inf"))]
    + [{"all_wrong": "skip"}, {"span_correctness": "both"}, {"wrnog": 0.5}],
)
def test_an_option_out_of_range_fails_before_the_first_step(options):
    with pytest.raises(ConfigError, match=r"weighting\.\w+"):
        weighting.resolve("correctness", **options)


def test_an_unknown_rule_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        weighting.resolve("correctnes")


@st.composite
def cases(draw):
    total, batch, classes = (
        draw(st.integers(1, 5)),
        draw(st.integers(1, 4)),
        draw(st.integers(2, 4)),
    )
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = torch.randn(total, batch, classes, generator=generator)
    targets = torch.randint(classes, (batch,), generator=generator)
    return logits, targets, draw(st.floats(0.0, 1.0, width=32)), generator


@settings(deadline=None)
@given(cases())
def test_weights_sum_to_the_number_of_teachers(case):
    logits, targets, wrong, _ = case
    weights = correctness(logits, targets, wrong=wrong, all_wrong="mean")
    assert_close(weights.sum(0), torch.full((logits.shape[1],), float(len(logits))))
    assert (weights >= 0).all()
    right = logits.argmax(-1) == targets
    assert (weights[right] >= 1 - 1e-6).all()


@settings(deadline=None)
@given(cases())
def test_the_order_of_the_teachers_does_not_matter(case):
    logits, targets, wrong, generator = case
    order = torch.randperm(len(logits), generator=generator)
    soft = combine(logits, correctness(logits, targets, wrong=wrong))
    shuffled = combine(logits[order], correctness(logits[order], targets, wrong=wrong))
    assert_close(soft, shuffled)


@settings(deadline=None)
@given(cases())
def test_a_wrong_weight_of_one_is_the_plain_mean(case):
    logits, targets, _, _ = case
    assert_close(correctness(logits, targets, wrong=1.0), mean(logits, targets))


@settings(deadline=None)
@given(cases(), st.floats(-50, 50))
def test_a_constant_on_one_teacher_leaves_the_softmax_unchanged(case, shift):
    logits, targets, wrong, _ = case
    weights = correctness(logits, targets, wrong=wrong)
    moved = logits.clone()
    moved[0] += shift
    assert_close(
        combine(logits, weights).softmax(-1), combine(moved, weights).softmax(-1), atol=1e-4, rtol=0
    )
