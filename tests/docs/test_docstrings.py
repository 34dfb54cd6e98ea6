"""The examples in the docstrings of the public objects, in the order of a story: each starts from
the runs of those before.
"""

from __future__ import annotations

import doctest

import pytest

import road_ray

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
