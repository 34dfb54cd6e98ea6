"""The divergence by hand, its gradient, and what masks may not do to it; the weight of the
soft loss over a training.
"""

import pytest
import torch
from torch.testing import assert_close

from road_ray.distillation.losses import kd_loss, kd_rows, soft_loss_sum
from road_ray.distillation.schedule import Schedule
from road_ray.distillation.weighting import mean_probabilities
from road_ray.errors import ConfigError, DataError

CLASSES, NUMBERS = {"labels": torch.zeros(1).long()}, {"labels": torch.zeros(1)}


def total(student, soft, keep=None, *, temperature=2.0, gold=CLASSES):
    """The summed loss to one target."""
    keep = torch.ones(student.shape[:-1], dtype=torch.bool) if keep is None else keep
    batch = {"soft_logits": soft, "kd_keep": keep, **gold}
    return soft_loss_sum(student, batch, temperature=temperature)[0]


def average(student, teachers, weights, *, temperature=2.0, gold=CLASSES):
    """The weighted mean of the summed losses to each teacher."""
    batch = {"teacher_logits": teachers, "teacher_weights": weights, **gold}
    return soft_loss_sum(student, batch, temperature=temperature)[0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_gradient_is_t_times_the_gap_in_probability(temperature):
    student = torch.randn(3, 4, requires_grad=True)
    soft = torch.randn(3, 4)
    total(student, soft, temperature=temperature).backward()
    gap = (student / temperature).softmax(-1) - (soft / temperature).softmax(-1)
    assert_close(student.grad, temperature * gap.detach())


def test_a_mask_and_minus_infinity_equal_leaving_the_positions_away():
    student, soft = torch.randn(2, 2, 6, requires_grad=True), torch.randn(2, 2, 6)
    mask = torch.tensor([True, False, True, True, False, False]).expand(2, 2, 6)
    loss = kd_loss(student, soft, temperature=2.0, mask=mask)
    short = kd_loss(student[..., [0, 2, 3]], soft[..., [0, 2, 3]], temperature=2.0)
    assert_close(loss, short)
    loss.backward()
    assert student.grad.isfinite().all()
    assert (student.grad[~mask] == 0).all()
    barred = student.detach().masked_fill(~mask, -torch.inf).requires_grad_()
    loss = kd_loss(barred, soft.masked_fill(~mask, -torch.inf), temperature=2.0)
    loss.backward()
    assert_close(loss, short)
    assert barred.grad.isfinite().all()


def test_a_row_without_any_class_counts_nothing():
    student, soft = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    mask = torch.tensor([[True, True, True], [False, False, False]])
    loss = kd_rows(student, soft, temperature=2.0, mask=mask).sum()
    loss.backward()
    assert_close(loss.detach(), total(student.detach()[:1], soft[:1]))
    assert (student.grad[1] == 0).all()


def test_extreme_logits_stay_finite():
    student = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss = kd_loss(student, torch.tensor([[-200.0, 200.0]]), temperature=0.5)
    loss.backward()
    assert_close(loss.detach(), torch.tensor(0.25 * 800.0))
    assert student.grad.isfinite().all()


def test_examples_and_heads_without_distillation_are_dropped():
    student, soft = torch.randn(3, 2, 5), torch.randn(3, 2, 5)
    keep = torch.tensor([[True, False], [False, False], [True, True]])
    gold = {f"{end}_positions": torch.zeros(3).long() for end in ("start", "end")}
    spans = gold | {"input_ids": torch.ones(3, 5)}
    expected = total(student[0, :1], soft[0, :1]) / 2 + kd_loss(
        student[2:], soft[2:], temperature=2.0
    )
    assert_close(total(student, soft, keep, gold=spans), expected)


def test_a_half_precision_student_is_compared_in_full():
    student = torch.randn(2, 3, dtype=torch.bfloat16)
    assert kd_loss(student, torch.randn(2, 3), temperature=2.0).dtype == torch.float32


@pytest.mark.parametrize("temperature", [0.0, -2.0, float("nan"), float("inf"), 1e-9])
def test_a_temperature_without_signal_is_refused(temperature):
    with pytest.raises(ConfigError, match="temperature"):
        kd_loss(torch.randn(2, 3), torch.randn(2, 3), temperature=temperature)


@pytest.mark.parametrize("shape", [(4, 1), (4, 2), (1, 3), (4, 1, 3)])
@pytest.mark.parametrize("gold", [CLASSES, NUMBERS])
def test_logits_are_never_broadcast(shape, gold):
    with pytest.raises(DataError, match="differ in shape"):
        total(torch.randn(4, 3), torch.randn(shape), gold=gold)


def test_regression_is_the_squared_gap_and_its_average():
    student, soft = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.5]])
    assert_close(total(student, soft, gold=NUMBERS), torch.tensor(4.25))
    keep = torch.tensor([False, True])
    assert_close(total(student, soft, keep, gold=NUMBERS), torch.tensor(0.25))
    student, teachers = torch.tensor([[1.0]]), torch.tensor([[[2.0]], [[4.0]]])
    loss = average(student, teachers, torch.tensor([[1.5], [0.5]]), gold=NUMBERS)
    assert loss.item() == pytest.approx((1.5 * 1 + 0.5 * 9) / 2)


def test_the_average_loss_is_the_weighted_mean_of_the_teachers_losses():
    student = torch.zeros(2, 2)
    teachers = torch.log(torch.tensor([[[1.0, 3.0]] * 2, [[1.0, 1]] * 2]))
    first = kd_loss(student[:1], teachers[0, :1], temperature=2.0)
    weights = torch.tensor([[1.0, 1.5], [1.0, 0.5]])
    # The second teacher agrees with the student.
    assert_close(average(student, teachers, weights), first * (1.0 + 1.5) / 2)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_average_loss_pulls_where_the_mean_probability_does(temperature):
    """It differs from one divergence to the mean of probabilities by a constant only."""
    generator = torch.Generator().manual_seed(0)
    teachers = torch.randn(3, 4, 5, generator=generator)
    student = torch.randn(4, 5, generator=generator, requires_grad=True)
    loss = average(student, teachers, torch.ones(3, 4), temperature=temperature)
    (gradient,) = torch.autograd.grad(loss, student)
    soft = mean_probabilities(teachers, torch.zeros(4).long(), temperature=temperature)
    (other,) = torch.autograd.grad(total(student, soft, temperature=temperature), student)
    assert_close(gradient, other)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (Schedule("constant", 0.3), {0.0: 0.3, 0.5: 0.3, 1.0: 0.3}),
        (Schedule("linear", 0.3), {0.0: 1.0, 0.25: 0.75, 0.5: 0.5, 1.0: 0.0}),
        (  # straight lines between the points, level outside
            Schedule(((0.2, 0.8), (0.4, 0.4), (0.6, 0.4)), 0.5),
            {0.0: 0.8, 0.2: 0.8, 0.3: 0.6, 0.4: 0.4, 0.5: 0.4, 1.0: 0.4},
        ),
        (  # two points at one fraction are a jump
            Schedule(((0.0, 1.0), (0.5, 1.0), (0.5, 0.0))),
            {0.0: 1.0, 0.49: 1.0, 0.5: 0.0, 0.9: 0.0},
        ),
    ],
)
def test_a_schedule_by_hand(weight, expected):
    assert {fraction: weight(fraction) for fraction in expected} == pytest.approx(expected)
    assert weight.is_constant == (len({*expected.values()}) == 1)


@pytest.mark.parametrize(
    "points", [(), ((0.5, 0.5), (0.2, 0.1)), ((0.0, 1.5),), ((-0.1, 0.5),), ((0.0, float("nan")),)]
)
def test_points_out_of_order_or_range_are_refused(points):
    with pytest.raises(ConfigError, match=r"distillation\.schedule"):
        Schedule(points)
