"""Every way to ask the teachers gives the same answers, or nothing starts."""

from __future__ import annotations

import pytest
import torch

from road_ray.data.catalog import task
from road_ray.distillation.ensemble.local_ensemble import LocalEnsemble
from road_ray.distillation.ensemble.teacher import inputs_of
from road_ray.distillation.parity import check_parity
from road_ray.errors import CheckpointError
from road_ray.models.performance import int8_linear

NLI = task("nli")


@pytest.fixture
def directories(tmp_path, teacher):
    return [teacher(tmp_path / str(seed), seed) for seed in range(2)]


@pytest.fixture
def answered(directories):
    ids = torch.randint(5, 24, (4, 8), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ensemble = LocalEnsemble.load(directories, NLI)
    return batch, ensemble.gather(ensemble.submit(inputs_of(batch)))


def test_rounding_is_not_drift(answered, directories):
    batch, answers = answered
    paths = {"the store": answers.half().float(), "its actor": answers}
    drifts = check_parity(batch, directories, NLI, paths)
    assert [(drift.teacher, drift.path) for drift in drifts] == [
        (0, "the store"),
        (0, "its actor"),
        (1, "the store"),
        (1, "its actor"),
    ]
    assert drifts[1].difference == 0
    assert 0 < drifts[0].difference <= drifts[0].allowed


@pytest.mark.parametrize("drift", [0.5, float("nan")])
def test_drift_names_teacher_way_and_sizes(answered, directories, drift):
    batch, answers = answered
    wrong = answers.clone()
    wrong[1, 2, 0] += drift
    with pytest.raises(
        CheckpointError, match=r"(?s)teacher 1 \(.*1\).*the store.*by up to.*allowed"
    ):
        check_parity(batch, directories, NLI, {"the store": wrong})


def test_bf16_is_rounding_only_where_teachers_may_take_it(answered, directories):
    batch, _ = answered
    ensemble = LocalEnsemble.load(directories, NLI, precision="bf16")
    halved = {"its actor": ensemble.gather(inputs_of(batch))}
    check_parity(batch, directories, NLI, halved)  # auto: this machine may differ from the actor's
    with pytest.raises(CheckpointError, match="rounding"):
        check_parity(batch, directories, NLI, halved, precision="fp32")


@pytest.fixture
def every_layer_in_int8(monkeypatch):
    """The layers of the tiny teachers are smaller than those that are rounded."""
    monkeypatch.setattr(int8_linear, "_LEAST_WIDTH", 16)


@pytest.mark.usefixtures("every_layer_in_int8")
def test_the_drift_of_int8_is_its_difference_from_fp32(answered, directories):
    batch, _ = answered
    exact, rounded = (
        LocalEnsemble.load(directories, NLI, precision=how).gather(inputs_of(batch))
        for how in ("fp32", "int8")
    )
    drifts = check_parity(batch, directories, NLI, {"int8": rounded}, precision="int8")
    gaps = (rounded - exact).abs().amax((1, 2)).tolist()
    assert [drift.difference for drift in drifts] == pytest.approx(gaps)
    assert min(gaps) > 0


@pytest.mark.usefixtures("every_layer_in_int8")
def test_a_teacher_that_int8_is_too_coarse_for_is_refused(answered, directories):
    batch, answers = answered
    coarse = answers + 0.2 * answers.abs().max().clamp(min=1)
    message = r"(?s)teacher 0.*through int8.*allowed.*fix: distillation\.precision=fp32"
    with pytest.raises(CheckpointError, match=message):
        check_parity(batch, directories, NLI, {"int8": coarse}, precision="int8")


def test_teachers_in_another_order_are_drift(answered, directories):
    batch, answers = answered
    with pytest.raises(CheckpointError, match="teacher 0"):
        check_parity(batch, directories, NLI, {"its actor": answers.flip(0)})


def test_columns_in_another_order_are_drift(answered, directories):
    batch, answers = answered
    with pytest.raises(CheckpointError, match="teacher 0"):
        check_parity(batch, directories, NLI, {"its actor": answers[..., [1, 0, 2]]})


def test_another_shape_is_drift(answered, directories):
    batch, answers = answered
    with pytest.raises(CheckpointError, match="by up to inf"):
        check_parity(batch, directories, NLI, {"its actor": answers[..., :1]})
