"""The typed stub of the package: current, and checked by mypy as the code of a user is."""

import ast
from doctest import DocTestParser
from pathlib import Path

import pytest

import road_ray as rr
from road_ray.verbs import VERBS
from tools.stub import stub

STUB = Path(__file__).parents[1] / "road_ray" / "__init__.pyi"
RIGHT = """
import road_ray as rr

given: dict[str, object] = {"data.epochs": 2}
run = rr.finetune(preset="sst2_small", overrides=given, data={"epochs": 2, "root": "DATA"}, seed=1)
rr.distill(student=run.hf_dir, teachers=["a"], wrong=0.5, optimizer={"betas": (0.9, 0.98)})
"""


def test_the_stub_is_current():
    now = STUB.read_text(encoding="utf-8")
    assert ast.dump(ast.parse(now)) == ast.dump(ast.parse(stub())), "make reference"


@pytest.mark.slow
def test_mypy_finds_unknown_keys_and_values_of_another_type(tmp_path):
    wrong = {
        "rr.fintune()": 'Module has no attribute "fintune"',
        "rr.finetune(sead=1)": 'Unexpected keyword argument "sead"',
        "rr.finetune(temperature=2.0)": 'Unexpected keyword argument "temperature"',
        'rr.finetune(seed="a")': '"seed" to "finetune" has incompatible type "str"',
        'rr.finetune(data={"epoch": 2})': 'Extra key "epoch"',
        'rr.finetune(data={"epochs": "2"})': '(expression has type "str", TypedDict item "epochs"',
        'rr.pretrain(training={"precision": "fp8"})': 'TypedDict item "precision"',
        "rr.distill(rule=3)": 'Argument "rule" to "distill" has incompatible type',
    }
    file = tmp_path / "user.py"
    documented = [getattr(rr, name).__doc__ for name in VERBS]
    examples = [e.source for text in documented for e in DocTestParser().get_examples(text)]
    right = RIGHT + "".join(examples)
    file.write_text(right + "\n".join(wrong) + "\n")
    from mypy import api

    # Of the package only the stub, and nothing below it: seconds instead of minutes.
    options = ["--strict", "--follow-imports=skip", "--config-file=", f"--cache-dir={tmp_path}"]
    out, _, _ = api.run([*options, "--ignore-missing-imports", str(STUB), str(file)])
    found = [line for line in out.splitlines() if "user.py" in line and ": error: " in line]
    first = right.count("\n") + 1
    for number, text in enumerate(wrong.values(), first):
        assert any(f"user.py:{number}: " in line and text in line for line in found), (text, out)
    assert len(found) == len(wrong), out
