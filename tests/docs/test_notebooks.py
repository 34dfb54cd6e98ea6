"""The notebooks run from their first cell to their last, with a few steps each."""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.blocks import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def cells(name: str) -> list[str]:
    """Return the code of a notebook."""
    notebook = json.loads((EXAMPLES / name).read_text("utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


@pytest.mark.guide
@pytest.mark.parametrize("name", ["distil_three_teachers.ipynb", "pretrain_on_my_text.ipynb"])
def test_notebook_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROAD_DATA", raising=False)
    (tmp_path / "data").symlink_to(EXAMPLES / "data")
    first, *rest = cells(name)
    assert len(re.findall(r"^STEPS = \d+", first, flags=re.M)) == 1
    names: dict[str, object] = {}
    for code in (re.sub(r"^STEPS = \d+", "STEPS = 3", first, flags=re.M), *rest):
        exec(compile(code, name, "exec"), names)
    output = capsys.readouterr().out
    assert re.search(r"(student|accuracy): \d+\.\d", output)
    assert output.splitlines()[-1] in ("positive", "negative", "happy", "unhappy")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_small_and_has_no_traces_of_a_machine(path):
    text = path.read_text("utf-8")
    assert len(text) < 20_000
    assert not re.search(r"/home/|/root/|/tmp/|Traceback", text)
    assert json.loads(text)["nbformat"] == 4
