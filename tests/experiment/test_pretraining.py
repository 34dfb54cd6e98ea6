"""Equal budgets, chained stages, and the table of published beside measured."""

import pytest
from scipy.stats import ttest_rel

import road_ray as rr
from road_ray.evaluation.seed_statistics import holm
from road_ray.experiment.expand import Experiment
from road_ray.experiment.run import experiment_table
from road_ray.recipes.pretraining.preview import flops_per_step
from road_ray.verbs import configure


def flops(config):
    untrained = config.model_copy(update={"init": ""})  # no stage has run yet
    return flops_per_step(untrained) * config.training.steps


def stages(config):
    """The pre-trainings of the first seed of each arm."""
    plan = Experiment(config)
    return {
        arm: [job.config for job in plan.of_arm(arm, config.seed) if not job.scored]
        for arm in plan.arms
    }


@pytest.fixture
def scaled(world):
    def made(**given):
        overrides = {"data.root": str(world), "data.dataset": "sst2"} | given
        return configure("reproduce", overrides=overrides)

    return made


def test_arms_of_equal_cost_cost_the_same_and_of_equal_length_have_the_same_steps(scaled):
    arms = stages(scaled(flops=1e13, num_seeds=2))
    costs = [sum(flops(stage) for stage in arm) for arm in arms.values()]
    assert costs == pytest.approx([1e13] * 5, rel=0.01)
    steps = {name: arm[0].training.steps for name, arm in arms.items()}
    assert steps["mlm"] > steps["electra"] > steps["all_tokens_mlm"]
    sizes = stages(scaled(comparison="generator_size", flops=1e13))
    assert len({arm[0].training.steps for arm in sizes.values()}) == 1
    shares = stages(scaled(comparison="fractions", flops=1e14, num_seeds=1))
    steps = [arm[0].training.steps for arm in shares.values()]
    assert [s / steps[0] for s in steps] == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625], rel=0.01)


def test_two_stages_share_the_budget_and_the_second_goes_on_from_the_first(scaled):
    config = scaled(comparison="algorithms", flops=1e13, num_seeds=1)
    first, second = stages(config)["two_stage"]
    assert first.objective.name == "mlm"
    assert second.init == second.generator.init == str(first.run_dir)
    assert second.generator.kind == "frozen"
    assert flops(first) == pytest.approx(flops(second), rel=0.01)


def scores(config, values):
    """The table of an experiment whose arms have these scores on SST-2."""
    experiment = Experiment(config)
    done = {
        arm: {seed: {"eval/sst2/accuracy": x} for seed, x in enumerate(values.get(arm, ()))}
        for arm in experiment.arms
    }
    return experiment_table(experiment, done)


def test_the_first_arm_is_tested_against_those_that_it_names(scaled):
    first = {"experiment": {"arms": {"electra": {"against": ["mlm"]}}}}
    values = {"electra": [70.0, 71.0], "mlm": [69.0, 70.5], "replace_mlm": [68.0, 70.0]}
    table = scores(scaled(comparison="table5", arms=["replace_mlm"], **first), values)
    assert [(test.arm, test.against) for test in table.tests[:3]] == [
        ("electra", "mlm"),
        ("replace_mlm", "electra"),
        ("mlm", "electra"),
    ]


def test_the_table_has_published_beside_measured_scores_and_p_values_by_holm(scaled):
    first = [70.0, 71.0, 72.5, 70.5]
    gaps = {"all_tokens_mlm": [-1, 0, -2, 0], "replace_mlm": [-3, -2, -3, -1]}
    gaps |= {"electra_masked": [1, -1, 0, 1], "mlm": [-5, -4, -6, -4]}
    values = {name: [a + b for a, b in zip(first, gap, strict=True)] for name, gap in gaps.items()}
    table = scores(scaled(comparison="table5"), {"electra": first} | values)
    assert table.data_sets == {"glue": ["score"], "sst2": ["accuracy"]}
    figure = table.arms[0].figures["glue/score"]
    assert figure.mean == pytest.approx(71.0)
    assert figure.published == 85.0
    p_values = {name: ttest_rel(of_arm, first).pvalue for name, of_arm in values.items()}
    corrected = dict(zip(p_values, holm([*p_values.values()]), strict=True))
    assert {test.arm for test in table.tests} == {*gaps}
    for test in table.tests:
        assert test.p_value == pytest.approx(p_values[test.arm])
        assert test.p_holm == pytest.approx(corrected[test.arm])
        assert test.difference == pytest.approx(sum(gaps[test.arm]) / 4)


def test_a_comparison_runs_and_is_gone_on_with(small):
    run = rr.reproduce(overrides=small)
    for arm in ("electra", "two_stage", "adversarial"):
        assert run.metrics[f"eval/{arm}/glue/score"] == run.metrics[f"eval/{arm}/sst2/accuracy"]
    assert "two stages" in (run.directory / "report.html").read_text()
    assert rr.reproduce(overrides=small).metrics == run.metrics
