"""A model that is being written when its process dies, or when another process wants it."""

import shutil

import pytest

from road_ray.errors import CheckpointError, RoadError
from tests.chaos.damage import result_of
from tests.chaos.subjects import Workshop
from tests.chaos.writes import held_at_each_write, killed_at

RECORDS = ("inputs.json", "MANIFEST.json", "metrics.json")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.mark.chaos
@pytest.mark.parametrize("torn", [False, True], ids=["before", "torn"])
@pytest.mark.parametrize("verb", ["pretrain", "finetune"])
def test_a_kill_at_any_write_costs_nothing_but_the_same_command(verb, torn, workshop):
    assert workshop.finetuning  # made before a fork
    run, command = workshop.root / f"killed-{verb}-{torn}", getattr(workshop, verb)
    expected = command(run)
    shutil.rmtree(run)
    number = 1
    while killed_at(number, run, lambda: command(run), torn=torn):
        try:
            result = command(run)
        except CheckpointError as error:
            # A kill cannot tear these files, which are synced and renamed. Where one of a finished
            # run is damaged all the same, the error names it, and its remedy helps.
            names = [run / name for name in RECORDS if f"{run / name}: not" in str(error)]
            if not (torn and names and (run / "metrics.json").is_file()):
                raise
            names[0].unlink()
            result = command(run)
        assert result == expected, f"killed at write {number}"
        assert not list(run.glob(".hf.*"))
        shutil.rmtree(run)
        number += 1
    assert number > 8  # configuration, environment, predictions, files of hf/, figures


@pytest.mark.chaos
def test_a_run_that_is_being_written_is_whole_or_refused_as_init(workshop):
    run, judged = workshop.root / "written", workshop.root / "judged"

    def files() -> set[str]:
        return {path.name for path in (run / "hf").glob("*")}

    workshop.finetune(run)
    expected, whole = workshop.evaluate(judged, run), files()
    shutil.rmtree(run)
    refused, same = 0, 0
    for number in held_at_each_write(run, lambda: workshop.finetune(run)):
        shutil.rmtree(judged, ignore_errors=True)
        assert files() in (set(), whole), f"at write {number}"
        try:
            result = workshop.evaluate(judged, run)
        except RoadError:
            refused += 1
        else:
            same += 1
            assert result == expected, f"at write {number}"
    assert refused > 3
    assert same > 0
    assert result_of(run)["hf/model.safetensors"]
