"""Algorithm 2 by hand, its edges, and the invariants that docs/method.md states."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from road_ray.distillation import weighting
from road_ray.distillation.weighting import (
    combine,
    confidence,
    correct_only,
    correctness,
    entropy,
    mean,
    mean_probabilities,
    probability_shift,
    right_teachers,
    soften,
)
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


@pytest.mark.parametrize(("all_wrong", "each"), [("scale", 0.75), ("mean", 1.0), ("drop", 0.0)])
def test_when_every_teacher_errs_the_named_choice_holds(all_wrong, each):
    logits = torch.cat([teachers(0, 3), teachers(3, 3)], 1)  # all wrong, all right
    weights = correctness(logits, torch.tensor([0, 0]), all_wrong=all_wrong)
    assert_close(weights, torch.tensor([[each, 1.0]] * 3))
    assert combine(logits, weights).isfinite().all()
    assert soften(correct_only, logits, torch.tensor([0, 0])).keep.tolist() == [False, True]


def test_a_tie_goes_to_the_first_class():
    logits = torch.zeros(2, 2, 3)
    assert right_teachers(logits, torch.tensor([0, 1])).tolist() == [[True, False]] * 2


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
    ("rule", "options"),
    [("correctness", {"wrong": w}) for w in (-1.0, 1.5, float("nan"), float("inf"))]
    + [("correctness", {"all_wrong": "skip"}), ("correctness", {"wrnog": 0.5})]
    + [("confidence", {"span_correctness": "both"}), ("confidence", {"wrong": 0.5})]
    + [("mean_probabilities", {"temperature": t}) for t in (0.0, -1.0, float("nan"), float("inf"))],
)
def test_an_option_out_of_range_fails_before_the_first_step(rule, options):
    with pytest.raises(ConfigError, match=r"weighting\.\w+|temperature"):
        weighting.resolve(rule, **options)


def test_an_unknown_rule_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        weighting.resolve("correctnes")


def log(*probabilities):
    return torch.tensor(probabilities).log()


EVEN, SURE = [0.5, 0.5], [1 / 8, 7 / 8]
SHARES = [[4 / 3], [2 / 3]]  # of two teachers, 2 (1 - 1/3) and 2 (1 - 2/3)
TWICE = [[[4 / 3] * 2], [[2 / 3] * 2]]  # start and end
JOINT = {"span_correctness": "joint"}
# A window of 4 positions, gold 1..2: the first is right twice, the second at the end only.
SPANS = 5.0 * torch.eye(4)[torch.tensor([[[1, 2]], [[3, 2]]])]
RIGHT_AND_WRONG = [[[1.25] * 2], [[0.75] * 2]]
BY_HAND = {  # rule, logits, gold, options, weights
    "right ones share all": (correct_only, teachers(2, 3), [0], {}, [[1.5], [1.5], [0.0]]),
    "nobody is right": (correct_only, teachers(0, 3), [0], {"all_wrong": "mean"}, [[1.0]] * 3),
    "start and end": (correctness, SPANS, [[1, 2]], {}, [[[1.25, 1.0]], [[0.75, 1.0]]]),
    "joint correctness": (correctness, SPANS, [[1, 2]], JOINT, RIGHT_AND_WRONG),
    "where gold is known": (correctness, SPANS, [[1, -100]], JOINT, RIGHT_AND_WRONG),
    "both right at the end": (correctness, SPANS, [[-100, 2]], JOINT, [[[1.0] * 2]] * 2),
    # Gold probabilities 1/2 and 1/4: cross-entropies ln 2 and ln 4, their softmax 1/3 and 2/3.
    "confidence": (confidence, log([EVEN], [[0.25, 0.75]]), [0], {}, SHARES),
    "gold impossible": (confidence, log([[0.0, 1.0]], [[0.0, 1.0]]), [0], {}, [[1.0]] * 2),
    # ln 2, and the mean of ln 2 and ln 8
    "joint": (confidence, log([[EVEN, EVEN]], [[EVEN, SURE]]), [[0, 0]], JOINT, TWICE),
    # Two even classes, ln 2; four, ln 4.
    "entropy": (entropy, log([[0.5, 0.5, 0.0, 0.0]], [[0.25] * 4]), [0], {}, SHARES),
    "no doubt": (entropy, log(*[[[1.0, 0.0]]] * 3), [0], {}, [[1.0]] * 3),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_weights_by_hand(case):
    rule, logits, gold, options, expected = BY_HAND[case]
    assert_close(rule(logits, torch.tensor(gold), **options), torch.tensor(expected))


@pytest.mark.parametrize("temperature", [0.5, 2.0, 8.0])
def test_the_student_sees_the_mean_probability_at_its_own_temperature(temperature):
    logits = 3 * torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(2))
    soft = mean_probabilities(logits, torch.zeros(5).long(), temperature=temperature)
    expected = (logits / temperature).softmax(-1).mean(0)
    assert_close((soft / temperature).softmax(-1), expected)
    by_hand = mean_probabilities(log([EVEN], [SURE]), torch.tensor([0]))
    assert_close(by_hand.softmax(-1), torch.tensor([[5 / 16, 11 / 16]]))  # of 1/2 and 1/8


def test_gold_and_top_change_places_where_the_mean_errs():
    logits = torch.tensor([[[1.0, 4.0, 2.0], [5.0, 0.0, 1.0]]] * 2)
    soft = probability_shift(logits, torch.tensor([2, 0]))
    assert soft.tolist() == [[1.0, 2.0, 4.0], [5.0, 0.0, 1.0]]


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(2, 4), st.floats(0.0, 1.0, width=32), st.integers(0, 2**31))
def test_weights_sum_to_the_number_of_teachers(total, classes, wrong, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(total, 4, classes, generator=generator)
    targets = torch.randint(classes, (4,), generator=generator)
    weights = correctness(logits, targets, wrong=wrong, all_wrong="mean")
    assert_close(weights.sum(0), torch.full((4,), float(total)))
    assert (weights >= 0).all()
    right = logits.argmax(-1) == targets
    assert (weights[right] >= 1 - 1e-6).all()
    assert (weights[~right & right.any(0)] == wrong).all()
    assert_close(correctness(logits, targets, wrong=1.0), mean(logits, targets))
