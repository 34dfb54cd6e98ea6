"""A command in a process of its own that is killed, or held, at the n-th file that it writes."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

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

    status = os.waitpid(_forked(command, directory, {number}, die), 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the command failed by itself"
    return os.WIFSIGNALED(status)


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
