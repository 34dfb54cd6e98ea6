"""Equal budgets, chained stages, and the table of published beside measured."""

from __future__ import annotations

import shutil

import pytest

import road_ray as rr
from road_ray.errors import CheckpointError, ConfigError, DataError
from road_ray.recipes.comparison.config import ReproduceConfig
from road_ray.recipes.comparison.pretraining_arms import COMPARISONS
from road_ray.recipes.comparison.pretraining_comparison import comparison_table, plan, reproduce
from road_ray.recipes.comparison.pretraining_estimate import estimate_pretraining
from road_ray.recipes.pretraining.pretraining_flops import cost
from road_ray.verbs import configure


def test_arms_of_equal_cost_cost_the_same():
    config = ReproduceConfig(flops=1e13, num_seeds=2)
    planned = plan(config)
    assert len(planned) == 10
    assert [arm.seed for arm in planned[:2]] == [0, 1]
    costs = [sum(cost(stage).train_paper for stage in arm.stages) for arm in planned]
    assert costs == pytest.approx([1e13] * 10, rel=0.01)
    steps = {a.run_dir.parent.name: a.stages[0].training.steps for a in planned}
    assert steps["mlm"] > steps["electra"] > steps["all_tokens_mlm"]


def test_arms_of_equal_length_have_the_same_steps_and_fractions_fewer():
    sizes = plan(ReproduceConfig(comparison="generator_size", flops=1e13))
    assert len({arm.stages[0].training.steps for arm in sizes}) == 1
    shares = plan(ReproduceConfig(comparison="fractions", flops=1e14, num_seeds=1))
    steps = [arm.stages[0].training.steps for arm in shares]
    assert [s / steps[0] for s in steps] == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625], rel=0.01)


def test_two_stages_share_the_budget_and_the_second_goes_on_from_the_first():
    config = ReproduceConfig(comparison="algorithms", flops=1e13, num_seeds=1)
    first, second = plan(config)[1].stages
    assert first.objective.name == "mlm"
    assert second.init == second.generator.init == str(first.run_dir)
    assert second.generator.frozen
    assert cost(first).train_paper == pytest.approx(cost(second).train_paper, rel=0.01)


def test_the_table_shows_published_beside_measured_with_the_noise():
    scores = {
        arm.name: {n: {"score": base + n, "sst2": base} for n in (0, 1, 2)}
        for arm, base in zip(COMPARISONS["table5"].arms, (70, 69, 68, 68, 67), strict=True)
    }
    table = comparison_table(COMPARISONS["table5"], scores, ["sst2"])
    assert "| ELECTRA | 85.0 | 71.00 ± 1.00 | - | 70.00 ± 0.00 |" in table
    assert "| BERT | 82.2 | 68.00 ± 1.00 | -3.00 (equal for every seed) | 67.00 ± 0.00 |" in table
    assert "Failed" not in table
    del scores["electra"][0]
    scores["mlm"] = {}
    table = comparison_table(COMPARISONS["table5"], scores, ["sst2"], ["mlm, seed 0: no data"])
    assert "| Replace MLM | 82.4 | 69.00 ± 1.00 | -2.00" in table  # on the seeds of both
    assert "| BERT | 82.2 | - | - | - |" in table
    assert table.endswith("\nFailed:\n\n- mlm, seed 0: no data\n")


def test_p_values_of_the_table_are_corrected_by_holm():
    """The p values are those of scipy, the correction is that of Holm by hand."""
    from scipy.stats import ttest_rel

    first = [70.0, 71.0, 72.5, 70.5]
    gaps = {"all_tokens_mlm": [-1, 0, -2, 0], "replace_mlm": [-3, -2, -3, -1]}
    gaps |= {"electra_masked": [1, -1, 0, 1], "mlm": [-5, -4, -6, -4]}
    scores = {"electra": {n: {"score": value} for n, value in enumerate(first)}}
    for name, differences in gaps.items():
        scores[name] = {n: {"score": first[n] + gap} for n, gap in enumerate(differences)}
    table = comparison_table(COMPARISONS["table5"], scores, [])
    p_values = {name: ttest_rel([first[n] + g for n, g in enumerate(d)], first).pvalue
                for name, d in gaps.items()}  # fmt: skip
    ordered = sorted(p_values, key=p_values.__getitem__)
    corrected, largest = {}, 0.0
    for rank, name in enumerate(ordered):
        largest = corrected[name] = max(largest, min(1.0, (4 - rank) * p_values[name]))
    abouts = {arm.name: arm.about for arm in COMPARISONS["table5"].arms}
    for name, p_value in corrected.items():
        (line,) = [line for line in table.splitlines() if f"| {abouts[name]} |" in line]
        assert f"(p = {p_value:.2f})" in line
    assert any(f"{p_values[name]:.2f}" != f"{corrected[name]:.2f}" for name in gaps)


def test_a_comparison_runs_and_is_gone_on_with(small):
    run = rr.reproduce(overrides=small)
    assert {f"eval/{arm}/score" for arm in ("electra", "two_stage", "adversarial")} <= set(
        run.metrics
    )
    assert all(0 <= run.metrics[f"eval/{arm}/sst2"] <= 100 for arm in ("electra", "two_stage"))
    assert "two stages" in (run.directory / "comparison.md").read_text()
    assert rr.reproduce(overrides=small).metrics == run.metrics


def test_an_arm_that_fails_leaves_the_others_and_is_run_again(small, tmp_path):
    broken = tmp_path / "run" / "two_stage" / "seed-0" / "stage-0"
    broken.mkdir(parents=True)
    (broken / "MANIFEST.json").write_text("{}")
    (broken / "metrics.json").write_text("{}")  # a run whose configuration is unknown
    with pytest.raises(CheckpointError, match=r"1 of 3 runs of .* failed:\n    two_stage, seed 0"):
        rr.reproduce(overrides=small)
    table = (tmp_path / "run" / "comparison.md").read_text()
    assert "| two stages | - | - | - | - |" in table
    assert "Failed:\n\n- two_stage, seed 0: " in table
    assert "| adversarial | - | -" not in table
    assert not (tmp_path / "run" / "metrics.json").exists()
    shutil.rmtree(broken)
    assert "eval/two_stage/score" in rr.reproduce(overrides=small).metrics


@pytest.mark.parametrize("run", [reproduce, estimate_pretraining])
def test_missing_data_is_named_before_the_first_pretraining(run, small, world, tmp_path):
    config = configure("reproduce", overrides=small | {"probe_on": ["sst2", "snli"]})
    message = rf"no files of snli \(train\), snli \(dev\) below {world}"
    with pytest.raises(DataError, match=message) as error:
        run(config)
    assert "probe_on=[...]" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_an_unknown_comparison_gets_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'table5'"):
        configure("reproduce", overrides=["comparison=tabel5"])
