"""A comparison as configurations: seeds, shared teachers and store, data and sizes of the arms."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from road_ray.data.config import SourceConfig
from road_ray.data.load_split import find_dataset, read_examples, read_unlabelled_rows, row_order
from road_ray.errors import ConfigError, DataError
from road_ray.experiment.expand import TEACHER_SEED, Experiment
from road_ray.recipes.train.config import DistillConfig, FinetuneConfig, MultitaskConfig
from road_ray.system.files import write_atomic
from road_ray.verbs import configure
from tests.runs import edit


def planned(overrides):
    return Experiment(configure("reproduce", overrides=overrides))


def scored(plan):
    return [job for job in plan.jobs.values() if job.scored]


def test_arms_share_teachers_and_a_store_and_differ_in_their_keys(tiny, tmp_path):
    plan = planned(tiny("road_distillation"))
    names = [ensemble.run_dir.name for ensemble in plan.ensembles]
    assert names == ["teachers-squad_v2", "folds-squad_v2"]
    assert [ensemble.seed for ensemble in plan.ensembles] == [TEACHER_SEED] * 2
    assert plan.ensembles[1].num_folds == 2
    (job,) = plan.of_arm("weighted_0.5", 1)
    student = job.config
    assert isinstance(student, DistillConfig)
    weighting = student.weighting
    assert (student.seed, weighting.rule, weighting.wrong) == (1, "correctness", 0.5)
    assert student.data.evaluate_on == ("squad_v2", "newsqa")
    listed = tmp_path / "run" / "teachers" / "teachers-squad_v2" / "teachers.json"
    assert student.distillation.teachers == (str(listed),)
    students = [job.config for job in scored(plan) if isinstance(job.config, DistillConfig)]
    stores = {student.distillation.store for student in students}
    assert stores == {tmp_path / "run" / "store"}
    (single,) = plan.of_arm("single", 0)
    assert single.config.distillation.num_teachers == 1
    assert single.config.distillation.teachers[0].endswith("teacher-0/hf")
    (none,) = plan.of_arm("none", 0)
    assert (type(none.config), none.scored) == (FinetuneConfig, True)
    assert len(scored(plan)) == 2 * len(plan.arms)


@pytest.mark.parametrize(
    ("keys", "epochs", "labelled", "unlabelled"),
    [({}, 2, 40, 20), ({"data.epochs": 10.0}, 10, 40, 20), ({"data.max_rows": 60}, 2, 60, 20)],
)
def test_the_longer_arm_counts_the_epochs_and_rows_of_its_own_target(
    tiny, world, keys, epochs, labelled, unlabelled
):
    sizes = {"data.max_rows": 40, "data.max_unlabelled_rows": 20, "data.epochs": 2.0}
    plan = planned(tiny("low_resource", **sizes, targets={"sst2": keys}))
    (longer,), (mean,) = plan.of_arm("none_longer", 0), plan.of_arm("mean", 0)
    assert mean.config.data.epochs == epochs
    assert mean.config.data.max_rows == longer.config.data.max_rows == labelled
    assert mean.config.data.unlabelled == ("rest",)
    assert plan.of_arm("labelled", 0)[0].config.data.unlabelled == ()
    rest = read_unlabelled_rows(mean.config.data.unlabelled, "sst2", mean.config.data)
    texts = [example.texts[0] for example in rest]
    # By the csv module: the rows of the file that no arm has labels of.
    with (world / "glue" / "SST-2" / "train.tsv").open(newline="") as file:
        rows = [row["sentence"] for row in csv.DictReader(file, delimiter="\t", quoting=3)]
    order = row_order(len(rows))
    assert len(texts) == unlabelled
    assert {*texts} <= {rows[index] for index in order[labelled:]}
    assert longer.config.data.epochs == epochs * (labelled + unlabelled) / labelled


def test_rows_of_ones_own_take_the_place_of_those_beyond_the_labelled_ones(tiny, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("a fine film\n" * 20)
    settings = {"data.max_rows": 40, "data.unlabelled": [str(texts)], "data.epochs": 2.0}
    plan = planned(tiny("low_resource", **settings))
    assert plan.of_arm("mean", 0)[0].config.data.unlabelled == (str(texts),)
    assert plan.of_arm("labelled", 0)[0].config.data.unlabelled == ()
    assert plan.of_arm("none_longer", 0)[0].config.data.epochs == 2 * (40 + 20) / 40


def test_students_of_a_comparison_of_sizes_keep_fewer_layers_and_teachers_all(tiny, tmp_path):
    changes = tiny("compression", **{"data.max_rows": 40})
    deep = shutil.copytree(f"{changes['init']}/hf", tmp_path / "deep")
    edit(deep / "config.json", num_hidden_layers=6)
    plan = planned(changes | {"init": str(deep)})
    arms = ("kd_full", "kd_half", "kd_third")
    assert [plan.of_arm(arm, 0)[0].config.student.layers for arm in arms] == [None, 3, 2]
    assert plan.ensembles[0].student.layers is None


def test_teachers_of_noisy_rows_learn_from_them_and_all_are_evaluated_on_clean_ones(tiny):
    plan = planned(tiny("noisy_labels", **{"data.max_rows": 40}))
    noise = {ensemble.run_dir.name: ensemble.data.label_noise for ensemble in plan.ensembles}
    assert noise == {"teachers_10-sst2": 0.1, "teachers_20-sst2": 0.2}
    shares = {job.arm: job.config.data.label_noise for job in scored(plan)}
    assert [*shares.values()] == [0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2]
    assert {job.config.data.dataset for job in scored(plan)} == {"sst2"}


@pytest.mark.parametrize(("name", "column"), [("sst2", "texts"), ("squad_v2", "context")])
def test_the_text_of_a_domain_has_every_text_once(tiny, world, name, column):
    changes = tiny("domain", **{"data.dataset": name})
    write_atomic(Path(changes["run_dir"]) / "rows" / f"{name}-text.jsonl", "of a failed start")
    plan = planned(changes)
    stage, _ = plan.of_arm("rtd", 0)
    assert (stage.config.encoder.family, stage.config.training.steps) == ("init", 1000)
    lines = Path(stage.config.data.corpus).read_text().splitlines()
    source = SourceConfig(root=str(world))
    examples = read_examples(find_dataset(name, source)[0], "train", world)
    texts = [getattr(example, column) for example in examples]
    texts = [" ".join(text) if isinstance(text, tuple) else text for text in texts]
    assert [json.loads(line)["text"] for line in lines] == [*dict.fromkeys(texts)]


def test_a_mixture_comes_before_every_target_and_reads_as_many_rows_a_step_either_way(tiny):
    options = {"targets": {"rte": {"data.epochs": 1.0}, "sst2": {}}}
    options |= {"multitask.data.datasets": ["sst2", "mnli"], "multitask.data.batch_size": 6}
    plan = planned(tiny("road_multitask", **options))
    stage, *targets = plan.of_arm("road_kd", 0)
    assert isinstance(stage.config, MultitaskConfig)
    assert set(stage.config.distillation.teachers) == {"sst2", "mnli"}
    assert [job.config.data.dataset for job in targets] == ["rte", "sst2"]
    assert {job.config.init for job in targets} == {str(stage.config.run_dir)}
    assert len(plan.of_arm("single", 0)) == 2
    stages = {name: plan.of_arm(name, 0)[0].config for name in ("mt_dnn", "road", "road_kd")}
    sizes = {name: (s.mixing.passes, s.data.batch_size) for name, s in stages.items()}
    assert sizes == {"mt_dnn": (1, 24), "road": (4, 6), "road_kd": (4, 6)}
    assert {stage.mixing.sampler for stage in stages.values()} == {"uniform_dataset"}
    assert [stage.mixing.heads for stage in stages.values()] == ["dataset", "task", "task"]
    # What must have run comes first, and teachers are jobs of their own.
    names = [*plan.jobs]
    for number, job in enumerate(plan.jobs.values()):
        assert {*job.after} <= {*names[:number]}
    after = {job.name: job.after for job in plan.jobs.values()}
    mixed = "teachers/mixture-teachers"
    teachers = [name for name in names if name.startswith(mixed) and "/teacher-" in name]
    assert len(teachers) == 6
    assert after[f"{mixed}-sst2"] == tuple(f"{mixed}-sst2/teacher-{number}" for number in range(3))
    assert {*after["road_kd/seed-1/stage-0"]} == {f"{mixed}-{name}" for name in ("sst2", "mnli")}
    assert after["road_kd/seed-1/rte"] == ("road_kd/seed-1/stage-0",)


def test_teachers_of_a_mixture_are_not_those_of_students_with_other_rows(tiny):
    arms = {"both": {"stages": [{"verb": "multitask", "teachers": "t"}], "teachers": "t"}}
    own = {"data.dataset": "sst2", "data.max_rows": 40, "multitask.data.datasets": ["sst2"]}
    own["experiment"] = {"ensembles": {"t": {}}, "arms": arms}
    rows = {str(e.run_dir.name): e.data.max_rows for e in planned(tiny("own", **own)).ensembles}
    assert rows == {"mixture-t-sst2": None, "t-sst2": 40}


def test_students_know_their_teachers_and_may_start_from_another_arm_of_their_seed(tiny, tmp_path):
    arms = {"one": {"teachers": "t"}, "two": {"teachers": "t", "members": 2}}
    arms |= {"second": {"start_from": "one", "keys": {"data.dataset": "rte"}}}
    given = {"arms": arms, "ensembles": {"t": {"num_teachers": 4}}}
    plan = planned(tiny("own", **{"data.dataset": "sst2", "experiment": given}))
    (every,), (two,), (second,) = (plan.of_arm(arm, 1) for arm in arms)
    assert every.config.distillation.num_teachers == 4
    assert two.config.distillation.num_teachers == 2
    assert second.config.init == str(tmp_path / "run" / "one" / "seed-1" / "student")
    assert second.after == ("one/seed-1/student",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": ""}, "init is not given"),
        ({"targets": {}}, "data.dataset is not given, and"),
        ({"data.dataset": "cola"}, r"no files of cola \(train\), cola \(dev\)(.|\n)*targets="),
        ({"data.dataset": "sts2"}, "unknown data set 'sts2'; did you mean"),
        ({"data.max_rows": 100_000}, "keep their labels"),
        ({"experiment": {"arms": {"one": {"teachers": "teachers", "members": 9}}}}, "members = 9"),
    ],
)
def test_mistakes_are_found_before_anything_starts(tiny, changes, message):
    with pytest.raises((ConfigError, DataError), match=message):
        planned(tiny("low_resource", **({"data.max_rows": 40} | changes)))
