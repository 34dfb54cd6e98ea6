"""The table of a device at toy size on the CPU, so that its code is proven where there is none."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.benchmarks import gpu as module
from tests.benchmarks.__main__ import main
from tests.benchmarks.gpu import GpuPlan, gpu, idle_share
from tests.benchmarks.race import InThread


@pytest.fixture(autouse=True)
def _small_world(monkeypatch, world):
    monkeypatch.setenv("ROAD_DATA", str(world))

    # A compiler takes minutes on a CPU: the contestants that ask for it run as they are.
    def compile(module, *_, **__):
        module._compiled_call_impl = module._call_impl

    monkeypatch.setattr(torch.nn.Module, "compile", compile)


def plan(**options):
    quiet = {"start": InThread(), "say": lambda _: None, "compiled": (False, True)}
    return GpuPlan.toy(**quiet | options)


def test_the_command_writes_the_table(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(module, "Plan", lambda: SimpleNamespace(start=InThread()))
    out = tmp_path / "device.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "gpu", "--toy", "--out", str(out)])
    main()
    result = json.loads(out.read_text())
    assert result["left_out"] == []
    assert {row["table"] for row in result["rows"]} > {"pretrain small", "finetune sst2"}
    assert f"written to {out}" in capsys.readouterr().out


@pytest.mark.guide
def test_the_table_has_every_contestant_and_is_json():
    result = gpu(plan())
    assert result["left_out"] == []
    assert json.loads(json.dumps(result)) == result
    assert result["device"]["peak_tflops"] > 0
    rows = {(row["table"], row["name"]): row for row in result["rows"]}
    for name in ("ours", "plain transformers", "ours, compiled", "plain transformers, compiled"):
        row = rows["pretrain small", name]
        assert row["unit"] == "tokens/s"
        assert 0 < row["mfu"] < 1
    assert 0 <= rows["pretrain small", "ours, device idle"]["value"] < 1
    for table in ("finetune sst2", "finetune squad_v2"):
        assert {name for at, name in rows if at == table} == {"ours", "Trainer"}
    for table in ("distil sentiment", "distil mrc"):
        assert {"no teachers", "ours, 3 teachers"} <= {name for at, name in rows if at == table}
    assert all(row["value"] >= 0 and row["peak_memory_mb"] > 0 for row in result["rows"])


def test_what_has_no_time_left_is_named():
    result = gpu(plan(minutes=0.0, compiled=(False,)))
    assert result["rows"] == []
    assert "pretrain small: ours: no time left" in result["left_out"]


def test_a_device_is_idle_where_nothing_runs_on_it():
    assert idle_share([(0, 4), (2, 5), (6, 10)]) == pytest.approx(0.1)
    assert idle_share([(3, 4)]) == 0
    assert idle_share([]) == 1
