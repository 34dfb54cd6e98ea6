"""A model that is being written when its process dies, or when another process wants it."""

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from road_ray.errors import CheckpointError, RoadError
from tests.chaos.damage import result_of
from tests.chaos.subjects import Workshop

RECORDS = ("inputs.json", "MANIFEST.json", "metrics.json")
_NOT = ("checkpoints", "metrics.jsonl", "events.jsonl", "run.lock")


def killed_at(number: int, directory: Path, command: Callable[[], object], *, torn: bool) -> bool:
    """Run the command in a fork that dies by SIGKILL as it begins its ``number``-th write below
    ``directory``; with ``torn`` the newest file there is cut to its half before. False when it
    ended before so many writes.
    """

    def die() -> None:
        if torn and (written := [path for path in _below(directory) if path.is_file()]):
            newest = max(written, key=lambda path: path.stat().st_mtime_ns)
            os.truncate(newest, newest.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)

    code = os.waitstatus_to_exitcode(os.waitpid(_forked(command, directory, {number}, die), 0)[1])
    assert code in (0, -signal.SIGKILL), f"the command failed by itself: {code}"
    return code != 0


def held_at_each_write(directory: Path, command: Callable[[], object]) -> Iterator[int]:
    """Run the command in a fork that stops (SIGSTOP) as it begins each write below ``directory``,
    and go on with it after each.
    """
    child = _forked(command, directory, None, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    number = 0
    while os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1]):
        number += 1
        yield number
        os.kill(child, signal.SIGCONT)
    assert os.WEXITSTATUS(status) == 0, "the command failed by itself"


def _forked(
    command: Callable[[], object],
    directory: Path,
    numbers: set[int] | None,
    act: Callable[[], None],
) -> int:
    """The process of the fork, which calls ``act`` at writes of these numbers; None: at all."""
    if child := os.fork():
        return child
    try:
        count = 0

        def audit(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            if _writes(event, arguments, directory):
                count += 1
                if numbers is None or count in numbers:
                    act()

        sys.addaudithook(audit)
        command()
    except BaseException:
        traceback.print_exc()
        os._exit(9)
    os._exit(0)


def _writes(event: str, arguments: tuple[object, ...], directory: Path) -> bool:
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return False
    elif event == "os.rename":
        path = arguments[1]
    else:
        return False
    if not isinstance(path, str | Path):
        return False
    try:
        below = Path(path).relative_to(directory).parts
    except ValueError:
        return False
    return bool(below) and below[0] not in _NOT


def _below(directory: Path) -> list[Path]:
    return [p for p in directory.rglob("*") if p.relative_to(directory).parts[0] not in _NOT]


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
