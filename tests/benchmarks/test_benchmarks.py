"""Every benchmark at toy size: that it runs, and that its rows say what they promise."""

from dataclasses import replace

import pytest

from tests.benchmarks.finetuning import Study
from tests.benchmarks.plan import Plan
from tests.benchmarks.race import in_process, in_thread
from tests.benchmarks.shapes import QUESTIONS, TOY
from tests.benchmarks.suite import SUITE

FIELDS = {
    "name", "peer", "unit", "ours", "theirs", "ratio", "repeats", "peak_memory_mb", "limit_share",
}  # fmt: skip
ON_RAY = {"ray_train", "distil", "serve"}
PLAN = Plan(
    shapes={"pretrain": TOY},
    tiny=TOY,
    lessons={"sentiment": TOY, "mrc": TOY},
    studies=(Study("sst2", 20, 4, TOY.encoder), Study("squad_v2", 6, 4, QUESTIONS)),
    predicting=Study("sst2", 20, 4),
    repeats=2,
    few_repeats=2,
    quick_repeats=2,
    clients=(1, 2),
    load_seconds=0.5,
    precisions=("fp32", "bf16"),
    start=in_thread,
)


@pytest.fixture(autouse=True)
def miniature_world(monkeypatch, world):
    """The data of the benchmarks that read some, for all of a session the same."""
    monkeypatch.setenv("ROAD_DATA", str(world))


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.guide) for name in sorted(SUITE.keys() - ON_RAY)),
        *(pytest.param(n, marks=[pytest.mark.chaos, pytest.mark.ray]) for n in sorted(ON_RAY)),
    ],
)
def test_a_benchmark_gives_its_rows(name):
    rows = SUITE[name](replace(PLAN, start=in_process) if name == "distil" else PLAN)
    assert rows
    for row in rows:
        assert row.keys() >= FIELDS
        assert row["name"] == name
        assert row["repeats"] == 2
        assert row["ratio"] == pytest.approx(row["ours"] / row["theirs"])
        assert min(row["ours"], row["theirs"], row["peak_memory_mb"], row["limit_share"]) > 0


def test_a_precision_that_the_machine_emulates_is_left_out():
    plan = replace(PLAN, precisions=("fp32",))
    assert SUITE["matrix_rate"](plan) == []
    rows = SUITE["pretrain_tiny"](plan)
    assert [row["peer"] for row in rows] == ["plain (fp32)"]
