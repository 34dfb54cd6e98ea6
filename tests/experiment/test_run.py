"""Comparisons run end to end, resume to equal results, and outlive an arm that fails. Those of
pre-training have equal budgets and chained stages, their table published beside measured scores.
"""

import json
import re
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

import road_ray as rr
from road_ray.errors import ConfigError, InterruptedRunError, RoadError
from road_ray.evaluation.seed_statistics import holm
from road_ray.experiment import run as demo
from road_ray.experiment.config import CATALOGUE, ReproduceConfig
from road_ray.experiment.estimate import estimate
from road_ray.experiment.expand import Experiment
from road_ray.recipes.config import DemoConfig
from road_ray.recipes.pretraining.config import PretrainConfig
from road_ray.recipes.pretraining.preview import flops_per_step
from road_ray.recipes.train.config import FinetuneConfig, MultitaskConfig
from road_ray.recipes.train.teaching_config import read_teacher_list
from road_ray.recipes.train.train import run_training
from road_ray.training.run_context import RunContext
from road_ray.verbs import configure
from tests.docs.blocks import ROOT

SIZES: dict[str, dict[str, object]] = {
    "road_distillation": {"data.max_rows": 20, "data.max_length_tokens": 96}
    | {"data.stride_tokens": 16}
    | {"arms": ["single", "annealing", "folds", "born_again"]},
    "road_multitask": {"targets": {"rte": {}, "sst2": {}}, "data.max_rows": 40}
    | {"multitask.data.datasets": ["sst2", "mnli"], "multitask.training.steps": 2}
    | {"multitask.data.max_rows": 40, "multitask.data.batch_size": 4}
    | {"multitask.data.max_length_tokens": 32, "multitask.data.max_judged_rows": 20},
    "compression": {"data.max_rows": 40, "data.max_unlabelled_rows": 20, "arms": ["rows_third"]},
    "low_resource": {"data.max_rows": 40, "data.max_unlabelled_rows": 20, "arms": ["entropy"]},
    "noisy_labels": {"data.max_rows": 40, "arms": ["weighted_10"]},
    "soup": {"data.max_rows": 20, "distillation.num_teachers": 2},
    "domain": {"data.dataset": "sst2", "data.max_rows": 40}
    | {"pretrain.training.steps": 2, "pretrain.data.max_length_tokens": 32}
    | {"pretrain.data.batch_size": 4, "pretrain.optimizer.warmup_steps": 1},
}


def table_of(run: Path) -> dict:
    return json.loads((run / "table.json").read_text())


def weights(run: Path) -> dict[str, bytes]:
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in run.glob("*/seed-*/*/hf/model.safetensors")
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "low_resource" else pytest.mark.long)
        for name in CATALOGUE
        if name in SIZES
    ],
)
def test_every_comparison_runs_and_fills_its_table(tiny, name):
    given = tiny(name, **SIZES[name])
    planned = estimate(configure("reproduce", overrides=given))
    assert planned["runs"] == len(planned["rows"])
    run = rr.reproduce(overrides=given)
    table = table_of(run.directory)
    chosen = [arm["name"] for arm in table["arms"]]
    assert set(chosen) <= {row["arm"] for row in planned["rows"]}
    assert set(chosen) >= set(SIZES[name].get("arms", chosen))
    assert table["failed"] == []
    for dataset, metrics in table["data_sets"].items():
        for arm in table["arms"]:
            figure = arm["figures"][f"{dataset}/{metrics[0]}"]
            assert [*figure["values"]] == ["0", "1"]
            assert figure["mean"] == pytest.approx(sum(figure["values"].values()) / 2)
            key = f"eval/{arm['name']}/{dataset}/{metrics[0]}"
            assert run.metrics[key] == pytest.approx(figure["mean"])
    arms = configure("reproduce", overrides={"comparison": name}).experiment.arms
    tests = [test for test in table["tests"] if test["data_set"] == next(iter(table["data_sets"]))]
    assert len(tests) == sum(len(arms[item].against) or 1 for item in chosen[1:])
    assert "<svg" in (run.directory / "report.html").read_text()


@pytest.mark.slow
def test_a_soup_stands_beside_the_models_of_its_seed(tiny):
    """Each seed averages teachers of its own; the ensemble's figure is that of its teachers."""
    given = tiny("soup", **SIZES["soup"] | {"arms": ["uniform", "greedy"]})
    run = rr.reproduce(overrides=given)
    for seed in (0, 1):
        teachers = run.directory / "teachers" / f"teachers-sst2-{seed}"
        record = run.directory / "uniform" / f"seed-{seed}" / "student/hf/road_ray.json"
        averaged = json.loads(record.read_text())["averaged"]
        assert averaged == [str(path) for path in sorted(teachers.glob("teacher-*/hf"))]
        joined = json.loads((teachers / "metrics.json").read_text())
        arm = json.loads(
            (run.directory / "ensemble" / f"seed-{seed}" / "student/metrics.json").read_text()
        )
        assert arm["eval/sst2/accuracy"] == joined["eval/sst2/ensemble_accuracy"]
    soup = rr.load(run.directory / "greedy" / "seed-0" / "student")
    assert soup(["a fine film"])[0]["label"] in ("negative", "positive")
    before = {p: p.stat().st_mtime_ns for p in run.directory.rglob("*.safetensors")}
    (run.directory / "metrics.json").unlink()
    assert rr.reproduce(overrides=given).metrics == run.metrics
    assert {p: p.stat().st_mtime_ns for p in run.directory.rglob("*.safetensors")} == before


@pytest.mark.parametrize("row", [pytest.param(5, marks=pytest.mark.long), 16])
def test_a_stopped_comparison_resumes_to_equal_weights(tiny, tmp_path, row):
    """Rows 1 to 9 of all journals are those of three teachers, the others of students."""
    given = tiny(
        "low_resource", **(SIZES["low_resource"] | {"arms": ["correctness"], "num_seeds": 1})
    )
    given["training.save_every_steps"] = 1
    whole = rr.reproduce(overrides=given | {"run_dir": str(tmp_path / "whole")})
    stopped = given | {"run_dir": str(tmp_path / "stopped")}
    rows = iter(range(1, row + 100))
    context = RunContext(on_row=lambda *_: next(rows) == row and context.stop.set())
    with pytest.raises(InterruptedRunError):
        rr.reproduce(overrides=stopped, context=context)
    assert not (tmp_path / "stopped" / "metrics.json").exists()
    run = rr.reproduce(overrides=stopped)
    assert run.metrics == whole.metrics
    assert weights(run.directory) == weights(whole.directory)
    assert len(weights(run.directory)) == 4


@pytest.mark.slow
def test_a_finished_comparison_gets_more_seeds_and_arms_and_keeps_what_it_has(tiny):
    given = tiny("noisy_labels", **(SIZES["noisy_labels"] | {"arms": ["none_10"], "num_seeds": 1}))
    directory = rr.reproduce(overrides=given).directory
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("model.safetensors")}
    given |= {"arms": ["none_10", "none_20"], "num_seeds": 2}
    table = table_of(rr.reproduce(overrides=given).directory)
    assert [arm["seeds"] for arm in table["arms"]] == [[0, 1]] * 3
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len([*directory.rglob("model.safetensors")]) == 6
    with pytest.raises(ConfigError, match=r"data\.max_rows: there 40, asked 60"):
        rr.reproduce(overrides=given | {"data.max_rows": 60})


@pytest.mark.long
@pytest.mark.ray
def test_arms_side_by_side_are_those_one_after_another(tiny, tmp_path, cluster):
    given = tiny("noisy_labels", **(SIZES["noisy_labels"] | {"arms": ["mean_10"]}))
    alone = rr.reproduce(overrides=given | {"run_dir": str(tmp_path / "alone")})
    beside = given | {"run_dir": str(tmp_path / "beside"), "max_concurrent": 2}
    run = rr.reproduce(overrides=beside)
    assert run.metrics == alone.metrics
    assert weights(run.directory) == weights(alone.directory)


def test_an_experiment_of_ones_own_is_one_file(tiny, road, flags, tmp_path):
    file = tmp_path / "rates.yaml"
    file.write_text(
        "experiment:\n"
        "  about: two learning rates\n"
        "  arms:\n"
        "    slow: {about: a low rate, keys: {optimizer.peak_lr: 1e-4}}\n"
        "    fast: {keys: {optimizer.peak_lr: 1e-2}, published: {sst2/accuracy: 91.0}}\n"
        "data: {dataset: sst2, max_rows: 20}\n"
    )
    given = {key: value for key, value in tiny("own").items() if key != "comparison"}
    result = road("reproduce", file, *flags(given)).good()
    assert "a low rate" in result.out
    assert "seeds for 80% power" in result.out
    assert f"report: {tmp_path / 'run' / 'report.html'}" in result.out
    table = table_of(tmp_path / "run")
    assert [arm["name"] for arm in table["arms"]] == ["slow", "fast"]
    assert table["about"] == "two learning rates"
    assert table["arms"][1]["figures"]["sst2/accuracy"]["published"] == 91.0


def test_a_bug_in_one_arm_costs_no_other_result_and_skips_what_needs_it(tiny, monkeypatch):
    """An arm that raises ``TypeError``, and one that starts from it."""

    def broken(config, context=None):
        if "first" in config.run_dir.parts:
            raise TypeError("a bug")
        return run_training(config, context=context)

    monkeypatch.setattr(demo, "RECIPES", {**demo.RECIPES, FinetuneConfig: broken})
    arms = {"none": {}, "first": {}, "second": {"start_from": "first"}}
    given = tiny("own", **{"data.dataset": "sst2", "data.max_rows": 20, "num_seeds": 1})
    given["experiment"] = {"arms": arms}
    with pytest.raises(RoadError, match=r"2 of 3 runs of .* failed") as error:
        rr.reproduce(overrides=given)
    assert "first, seed 0: TypeError: a bug" in str(error.value)
    assert "second, seed 0: first/seed-0/student failed: TypeError: a bug" in str(error.value)
    table = table_of(Path(given["run_dir"]))
    assert [arm["seeds"] for arm in table["arms"]] == [[0], [], []]


def test_stages_start_from_each_other_and_students_differ_in_labels_and_teachers_only(
    pretrained, tmp_path
):
    config = DemoConfig(run_dir=tmp_path / "demo", seed=5, num_seeds=2)
    first = demo.stage(PretrainConfig, "pretrain", config)
    mixture = demo.stage(MultitaskConfig, "multitask", config)
    assert mixture.init == str(first.run_dir)
    assert first.seed == mixture.seed == 5
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "multitask").symlink_to(pretrained.directory)
    plan = Experiment(demo.stage(ReproduceConfig, "students", config))
    students = {(job.arm, job.config.seed): job.config for job in plan.jobs.values() if job.scored}
    assert {*students} == {(arm, seed) for arm in plan.arms for seed in (100, 101)}
    assert {student.init for student in students.values()} == {str(mixture.run_dir)}
    assert {student.student.layers for student in students.values()} == {1}
    rows = {arm: students[arm, 100].data.max_rows for arm in plan.arms}
    assert rows == {"none": 300, "mean": 300, "correctness": 300, "all": None}
    assert len(students["mean", 100].data.unlabelled) == 1
    (ensemble,) = plan.ensembles
    assert (ensemble.num_teachers, ensemble.data.max_rows, ensemble.seed) == (3, None, 0)
    assert ensemble.student.layers is None


@pytest.mark.ray
@pytest.mark.guide
def test_the_story_runs_and_goes_on_where_it_stopped(cluster, road, world, tmp_path, monkeypatch):
    short = {"training": {"steps": 2}}
    for name, keys in demo.KEYS.items():
        small = short | {"data": keys["data"] | {"root": str(world)}}
        monkeypatch.setitem(demo.KEYS, name, keys | small)
    students = demo.KEYS["students"]
    students["data"]["max_rows"] = 6
    arms = {"ensembles": {"teachers": {"data.max_rows": None, "training.steps": 2}}}
    students["experiment"] = students["experiment"] | arms
    sizes = {"num_teachers": 2, "num_seeds": 1}
    command = ["demo", *(f"{key}={value}" for key, value in sizes.items()), "--run-dir", tmp_path]
    outcome = road(*command).good()
    for name in ("no KD", "mean KD", "Weighted KD", "no KD, all labels", "single teachers"):
        assert name in outcome.out
    assert len(json.loads((tmp_path / "table.json").read_text())["arms"]) == 4
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text("utf-8")
    begun = re.findall(r"runs/demo/(\S+)", guide)
    assert len(begun) >= 2
    assert [name for name in begun if not (tmp_path / name).exists()] == []
    teachers = tmp_path / "teachers" / "teachers-sst2"
    assert len(read_teacher_list(teachers / "teachers.json")[0]) == 2
    assert "Weighted KD" in (tmp_path / "report.html").read_text()
    stamp = (teachers / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns
    assert road(*command).out == outcome.out
    assert (teachers / "teacher-0" / "metrics.jsonl").stat().st_mtime_ns == stamp


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


def scaled(**given):
    overrides = {"data.root": "miniature", "data.dataset": "sst2"} | given
    return configure("reproduce", overrides=overrides)


def test_arms_of_equal_cost_cost_the_same_and_of_equal_length_have_the_same_steps():
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


def test_two_stages_share_the_budget_and_the_second_goes_on_from_the_first():
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
    return demo.experiment_table(experiment, done)


def test_the_first_arm_is_tested_against_those_that_it_names():
    first = {"experiment": {"arms": {"electra": {"against": ["mlm"]}}}}
    values = {"electra": [70.0, 71.0], "mlm": [69.0, 70.5], "replace_mlm": [68.0, 70.0]}
    table = scores(scaled(comparison="table5", arms=["replace_mlm"], **first), values)
    assert [(test.arm, test.against) for test in table.tests[:3]] == [
        ("electra", "mlm"),
        ("replace_mlm", "electra"),
        ("mlm", "electra"),
    ]


def test_the_table_has_published_beside_measured_scores_and_p_values_by_holm():
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
    table = table_of(run.directory)
    for name in ("table.json", "metrics.json"):  # of the table alone the manifest would miss it
        (run.directory / name).unlink()
    assert rr.reproduce(overrides=small).metrics == run.metrics
    assert table_of(run.directory) == table
