"""Every code block of the pages has a test that runs it. Here are those of files that load as they
stand, and of a rule that weights as it says.
"""

import re
import sys
from typing import Any

import pytest
import torch

from road_ray.data.load_split import find_dataset
from road_ray.distillation.weighting import RULES
from road_ray.experiment.expand import Experiment
from road_ray.recipes.sweep.trials import load_sweep
from road_ray.verbs import configure, verb_of_file
from tests.docs.blocks import ROOT, all_blocks, blocks, pages

# The tests that run the blocks of a page. Those of other pages are in `test_guides_run.py`.
TESTS = {
    "docs/architecture.md": "docs/test_links.py",
    "docs/guides/cluster.md": "journeys/test_submit.py",
}
ALL = {  # run without their names
    *(
        ("docs/tutorial.md", "bash"),
        ("docs/guides/cluster.md", "bash"),
        ("docs/guides/data.md", "yaml"),
    )
}
ELSEWHERE = {
    # An unpinned torch of the package index is gigabytes; `make demo` is `experiment/test_run.py`.
    ("README.md", "install"): "docs/results/first_hour.sh",
    ("docs/guides/distillation.md", "label"): "tests/inference/test_label_rows.py",
    ("docs/reliability.md", "tests"): "tests/chaos/__main__.py",
    ("docs/guides/serving.md", "request"): "tests/distributed/serving/test_server.py",
    ("docs/guides/serving.md", "refused"): "tests/distributed/serving/test_server.py",
}


@pytest.mark.parametrize("page", pages())
def test_every_block_has_a_name_and_a_test(page):
    files = {"docs/test_guides_run.py", "docs/test_guide_blocks.py", TESTS.get(page, "conftest.py")}
    tests = "".join((ROOT / "tests" / file).read_text("utf-8") for file in sorted(files))
    for language, name, text in all_blocks(page):
        if language == "mermaid":
            continue
        assert language, text
        assert name, text
        if (page, name) in ELSEWHERE:
            assert (ROOT / ELSEWHERE[page, name]).is_file()
        elif language != "text" and (page, language) not in ALL:
            assert f'"{name}"' in tests, (page, name)


@pytest.fixture
def file(tmp_path):
    """The path that a block is written to."""
    return tmp_path / "block.yaml"


def test_the_file_of_the_sweep_guide_is_a_sweep(file):
    file.write_text(blocks("docs/guides/sweeps.md", "yaml")["file"])
    sweep = load_sweep(file)
    assert (sweep.verb, sweep.trials, sweep.metric) == ("distill", 24, ("eval/squad_v2/best_f1",))
    assert sorted(sweep.space) == ["distillation.temperature", "weighting.wrong"]


OWN_SETS = [
    ("multitask", "own"),
    *(("data", name) for name in blocks("docs/guides/data.md", "yaml")),
]


@pytest.mark.parametrize(("guide", "name"), OWN_SETS)
def test_a_block_is_a_configuration_of_data_sets_that_fit(guide, name, file):
    file.write_text(blocks(f"docs/guides/{guide}.md", "yaml")[name])
    config = configure(verb_of_file(file), path=file)
    settings = getattr(config.data, "datasets", None) or (config.data.dataset,)
    assert set(settings) <= set(config.data.sets)
    for dataset in config.data.sets:
        find_dataset(dataset, config.data)


def test_the_parts_of_the_data_guide_are_those_of_the_example(file):
    text = blocks("docs/guides/data.md", "yaml")["parts"]
    file.write_text("preset: sst2_small\n" + text)
    config = configure("finetune", path=file)
    example = configure("finetune", path=ROOT / "examples/extension/reviews.yaml")
    assert config.data.sets["reviews"].metrics == example.data.sets["reviews"].metrics
    assert config.data.sets["reviews"].layout == example.data.sets["reviews"].layout
    assert config.tracking == example.tracking


def test_the_experiment_of_the_comparison_guide_has_its_arms(file, world, pretrained, tmp_path):
    file.write_text(blocks("docs/guides/comparisons.md", "yaml")["rates"])
    assert verb_of_file(file) == "reproduce"
    changes = {"init": str(pretrained.directory), "data.root": str(world)}
    changes |= {"run_dir": str(tmp_path / "run"), "num_seeds": 1}
    experiment = Experiment(configure("reproduce", path=file, overrides=changes))
    scored = {job.arm: job for job in experiment.jobs.values() if job.scored}
    rates = {arm: job.config.optimizer.peak_lr for arm, job in scored.items()}
    assert (rates["slow"], rates["fast"]) == (1e-5, 1e-4)
    assert scored["taught"].config.distillation.teachers
    assert [ensemble.data.epochs for ensemble in experiment.ensembles] == [5.0]


def test_every_rule_is_in_the_table_of_the_distillation_guide():
    page = (ROOT / "docs/guides/distillation.md").read_text("utf-8")
    table = page[page.index("| `mean` |") :].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(named) == sorted(RULES)


def test_the_rule_of_the_distillation_guide_keeps_the_contract(monkeypatch, tmp_path):
    """Its module lies in the working directory, as the guide says; its test passes."""
    page = blocks("docs/guides/distillation.md", "python")
    (tmp_path / "my_rules.py").write_text(page["rule"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    names: dict[str, Any] = {}
    exec(page["check"], names)
    names["test_loudest"]()
    logits = torch.tensor([[[0.0, 1.0]], [[3.0, 0.0]]])  # two teachers, one row, two classes
    weights = sys.modules["my_rules"].loudest(logits, torch.tensor([1]))
    assert weights.squeeze(-1).tolist() == pytest.approx([0.2384, 1.7616], abs=1e-4)
