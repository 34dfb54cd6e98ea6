"""Norms of each network, and collapses that last."""

from __future__ import annotations

import json

import pytest
import torch

from road_ray.training.monitoring.metrics_journal import Journal
from road_ray.training.step_metrics import CollapseMonitor, gradient_norms
from tests.training import conftest as tiny

ILL = {"train/detection_recall": 0.0, "train/detection_auc": 0.5, "train/generator_entropy": 3.0}


def events(place):
    file = place / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_each_network_has_its_norm_and_one_network_has_none():
    electra = tiny.electra()
    assert gradient_norms(electra) == {}
    for parameter in electra.parameters():
        parameter.grad = torch.ones_like(parameter)
    norms = gradient_norms(electra)
    assert set(norms) == {"train/grad_norm_generator", "train/grad_norm_discriminator"}
    count = sum(p.numel() for p in electra.generator.parameters())
    assert norms["train/grad_norm_generator"] == pytest.approx(count**0.5, rel=1e-5)


def test_a_collapse_that_lasts_is_told_once_with_advice(tmp_path):
    monitor = CollapseMonitor(Journal(tmp_path, console="quiet"), 100)
    for step in range(10, 100, 10):
        monitor.check(step, ILL)
    (event,) = events(tmp_path)
    assert event["kind"] == "detector_collapse"
    assert event["step"] == 70  # rows from a quarter of the run on: 30, 40, 50, 60, 70
    assert "generator.init" in event["advice"]


def test_short_or_early_illness_and_other_objectives_are_no_event(tmp_path):
    monitor = CollapseMonitor(Journal(tmp_path, console="quiet"), 1000)
    for step in range(10, 250, 10):
        monitor.check(step, ILL)
    for step in range(260, 1000, 10):
        monitor.check(step, ILL if step % 40 else {"train/mlm": 1.0})
    assert events(tmp_path) == []
