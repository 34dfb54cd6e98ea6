"""What only a device can show: no wait within a step, the results of the CPU, a speed to expect."""

import warnings
from importlib.util import find_spec

import pytest
import torch
from torch.testing import assert_close

from road_ray.data.batching import to_device
from road_ray.data.catalog import task
from road_ray.distillation.ensemble import LocalEnsemble
from road_ray.models.attention import use_attention
from road_ray.training.config import OptimizerConfig
from road_ray.training.gradients import backward
from road_ray.training.loop import train
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.optimizer import build_optimizer, clip
from road_ray.training.worker import Worker, encoders_of
from tests.objectives import every
from tests.tiny_teacher import make_teacher
from tests.training import conftest as small
from tests.training.test_gradients import WAITS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
HOST, CUDA = torch.device("cpu"), torch.device("cuda")


def gradients(name, directory, device):
    objective, batch = every.case_of(name, directory, dropout=0.0)
    moved = [to_device(objective.prepare(batch), device)]
    objective, worker = objective.to(device), Worker(device=device)
    result = backward(objective, objective, moved, worker, seed=1, step=0, autocast=None)
    names = objective.named_parameters()
    return result.loss.cpu(), {n: p.grad.cpu() for n, p in names if p.grad is not None}


@pytest.mark.parametrize("name", every.CASES)
def test_a_device_computes_what_the_cpu_does(name, tmp_path):
    (loss, ours), (expected, theirs) = (
        gradients(name, tmp_path, device) for device in (CUDA, HOST)
    )
    assert_close(loss, expected, rtol=1e-3, atol=1e-4)
    assert_close(ours, theirs, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in every.CASES if name != WAITS])
def test_a_step_never_waits_for_the_device(name, tmp_path):
    objective, batch = every.case_of(name, tmp_path)
    passes, worker = [to_device(objective.prepare(batch), CUDA)], Worker(device=CUDA)
    optimizer = build_optimizer(objective.to(CUDA), OptimizerConfig())

    def step():
        optimizer.set_rate(1.0)
        backward(objective, objective, passes, worker, seed=1, step=0, autocast=torch.bfloat16)
        clip(objective, 1.0)
        optimizer.step()

    step()  # handles and workspaces are made
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.skipif(find_spec("flash_attn") is None, reason="flash-attn is not installed")
@pytest.mark.parametrize("name", ["classes head", "span head", "electra", "mlm"])
def test_flash_attention_without_padding_learns_what_padded_rows_teach(name, tmp_path):
    results = []
    for attention in ("sdpa", "flash_attention_2"):
        objective, batch = every.case_of(name, tmp_path, dropout=0.0)
        passes, worker = [to_device(objective.prepare(batch), CUDA)], Worker(device=CUDA)
        for encoder in encoders_of(objective.to(CUDA)):
            use_attention(encoder, attention, torch.bfloat16)
        options = {"seed": 1, "step": 0, "autocast": torch.bfloat16}
        loss = backward(objective, objective, passes, worker, **options).loss
        names = objective.named_parameters()
        results.append((loss, {n: p.grad for n, p in names if p.grad is not None}))
    assert_close(*results, rtol=3e-2, atol=3e-2)


def test_teachers_of_the_process_do_not_wait_for_the_students_step(tmp_path):
    ensemble = LocalEnsemble([make_teacher(tmp_path / "teacher", 0)], task("nli"), device=CUDA)
    ids = torch.randint(5, 24, (4, 8))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    expected = ensemble.gather(ensemble.submit(batch))  # memory and handles are there
    torch.cuda.synchronize()
    torch.cuda._sleep(10**9)
    step = torch.cuda.Event()
    step.record()
    answers = ensemble.gather(ensemble.submit(batch))
    assert not step.query()
    assert answers.device == HOST
    assert_close(answers, expected)
    on_device = {name: value.to(CUDA) for name, value in batch.items()}
    assert_close(ensemble.gather(ensemble.submit(on_device)), expected)


def test_fp32_products_are_no_tf32():
    chance = torch.Generator().manual_seed(0)
    left, right = (torch.randn(256, 256, generator=chance) for _ in range(2))
    assert_close((left.to(CUDA) @ right.to(CUDA)).to(HOST), left @ right, rtol=1e-5, atol=1e-4)


def test_a_training_on_a_device_learns_and_tells_its_rate(tmp_path):
    objective, rows = small.electra(), small.rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(
            objective,
            lambda start: ([item] for item in small.stream(rows).since(start)),
            small.training(tmp_path, steps=20, log_every_steps=5, worker=Worker(device=CUDA)),
        )
    last = read_rows(tmp_path / "metrics.jsonl")[-1]
    assert last["step"] == 20
    assert last["time/tokens_per_second"] > 0
