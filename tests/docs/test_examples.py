"""The examples run: scripts unchanged, notebooks with a few steps each, and those in docstrings of
public objects in the order of a story: each starts from the runs of those before.
"""

import doctest
import json
import re
import runpy

import pytest

import road_ray
from tests.docs.blocks import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture
def example(monkeypatch):
    """Return a function that loads an example by name and returns its ``main``."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return lambda name: runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


@pytest.mark.guide
def test_custom_loop_example_trains_and_fills_the_store(example, tmp_path):
    losses = example("own_loop")(tmp_path)
    assert losses[-1] < 0.8 * losses[0]
    assert len(list((tmp_path / "store").iterdir())) == 3


@pytest.mark.guide
def test_hf_trainer_example_trains_and_fills_the_store(example, tmp_path):
    pytest.importorskip("accelerate")
    metrics = example("hf_trainer")(tmp_path)
    assert metrics["eval_accuracy"] > 0.9
    assert len(list((tmp_path / "store").glob("*/table-*"))) == 3


@pytest.mark.guide
@pytest.mark.parametrize("name", ["distil_three_teachers.ipynb", "pretrain_on_my_text.ipynb"])
def test_notebook_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)
    (tmp_path / "data").symlink_to(EXAMPLES / "data")
    cells = json.loads((EXAMPLES / name).read_text("utf-8"))["cells"]
    first, *rest = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(re.findall(r"^STEPS = \d+", first, flags=re.M)) == 1
    names: dict[str, object] = {}
    for code in (re.sub(r"^STEPS = \d+", "STEPS = 3", first, flags=re.M), *rest):
        exec(compile(code, name, "exec"), names)
    output = capsys.readouterr().out
    assert re.search(r"(student|accuracy): \d+\.\d", output)
    assert output.splitlines()[-1] in ("positive", "negative", "happy", "unhappy")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook_is_small_and_has_no_traces_of_a_machine(path):
    text = path.read_text("utf-8")
    assert len(text) < 20_000
    assert not re.search(r"/home/|/root/|/tmp/|Traceback", text)
    assert json.loads(text)["nbformat"] == 4


FIRST = ("pretrain", "multitask", "finetune", "teachers", "distill", "evaluate")


def test_every_public_object_has_an_example():
    assert all(">>>" in getattr(road_ray, name).__doc__ for name in road_ray.__all__)


@pytest.mark.guide
@pytest.mark.timeout(900)
def test_the_examples_run_and_print_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for name in dict.fromkeys((*FIRST, *road_ray.__all__)):
        text = getattr(road_ray, name).__doc__
        example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
        said: list[str] = []
        failed, _ = runner.run(example, out=said.append)
        assert not failed, f"{name}:\n{''.join(said)}"
