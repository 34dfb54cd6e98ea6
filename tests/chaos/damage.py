"""Damage every file of an object in turn, run the next command, judge what it made of it.

A command passes when it gives the weights and figures of the unharmed object, or stops with a typed
error that names the file. An exception of another type fails, and so does any other result.
"""

import hashlib
import json
import os
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from road_ray.errors import RoadError

SAME, REFUSED, UNNAMED, WRONG = "same", "refused", "unnamed", "wrong"
Result = Mapping[str, str]
"""What a command leaves: the sha256 of each file that counts, and its figures."""

# Files that nothing is computed from once a run has ended: they may differ, be lost or damaged
# without an effect on weights and figures, and are therefore not part of a result. They are damaged
# all the same, and the command must still give the same result or name them.
FREE = {
    "report.html*": "a view of the other files; `road report` writes it again",
    "events.jsonl": "events of the run, with times of day",
    "environment.json": "the machine of the last start; each start writes it",
    "run.lock": "the process that uses the directory",
    "*.tmp-*": "a file that a killed process had not renamed yet",
    ".report.html.partial": "a report that a killed process had not renamed yet",
    "inputs.json": "hashes of the files that a run read; the command compares them",
    "MANIFEST.json": "hashes of the files that a run wrote; the command compares them",
    "weights.json": "hashes of the evaluated weights; the command compares them",
    "trials.lock": "the processes that run trials",
    "metrics.jsonl": "the curve, with seconds in each row; final figures are in metrics.json",
    "config.resolved.yaml": "the recorded configuration; the command compares it with its own",
    "checkpoints/*": "the state to resume from; verified by its own manifest when it is loaded",
    "*README.md": "the model card, for people",
    "trials/*/seed-*": "the runs of a trial; their figures are in trial.json",
    "study.journal*": "the study, with times of day; Optuna checks that its lines are JSON",
}


@dataclass(frozen=True)
class Subject:
    """An object on disk and the command that uses it next."""

    place: Path
    """The directory whose files are damaged; put back before each damage."""
    command: Callable[[], Result]
    other: Path
    """A directory of the same kind, from another run."""
    chosen: Callable[[str], bool]
    """Which files, by their names below ``place``, are damaged."""


@dataclass(frozen=True)
class Outcome:
    """What one command made of one damaged file."""

    file: str
    damage: str
    verdict: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.damage}: {self.detail}"


def result_of(directory: Path) -> dict[str, str]:
    """Hashes of all files of a run directory that are not ``FREE``; figures without seconds."""
    figures = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = path.relative_to(directory).as_posix()
        if not any(fnmatch(name, free) for free in FREE):
            figures[name] = hashlib.sha256(_content(path)).hexdigest()
    return figures


def _content(path: Path) -> bytes:
    """The bytes of a file; figures that are seconds count as none."""
    if path.name not in ("metrics.json", "road_ray.json", "sweep.json", "trial.json"):
        return path.read_bytes()
    try:
        return json.dumps(_timeless(json.loads(path.read_bytes())), sort_keys=True).encode()
    except ValueError:
        return path.read_bytes()


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: _timeless(item)
            for name, item in value.items()
            if not name.startswith(("time/", "memory/")) and not name.endswith("seconds")
        }
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def damages(path: Path, other: Path, seed: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Name and act of every damage that a file is put through, seeded by ``seed``."""
    chance = random.Random(seed)
    content = path.read_bytes()
    yield "deleted", path.unlink
    yield "emptied", lambda: path.write_bytes(b"")
    if content:
        yield "cut in half", lambda: path.write_bytes(content[: len(content) // 2])
        yield "last byte cut off", lambda: path.write_bytes(content[:-1])
        yield "zeros", lambda: path.write_bytes(bytes(len(content)))
        third = max(1, len(content) // 3)
        for start in (0, third, 2 * third):  # header, middle and end
            bit = 8 * start + chance.randrange(8 * third)
            yield "bit flipped", lambda bit=bit: path.write_bytes(flipped(content, bit))
    yield "`null`", lambda: path.write_bytes(b"null\n")
    yield "`[]`", lambda: path.write_bytes(b"[]\n")
    if (stranger := stranger_of(path, other)) != content:
        yield "another run's", lambda: path.write_bytes(stranger)
    yield "a directory instead", lambda: (path.unlink(), path.mkdir())
    yield "a dangling link", lambda: (path.unlink(), path.symlink_to("gone/gone"))
    if os.geteuid() != 0:  # root reads it all the same
        yield "unreadable", lambda: path.chmod(0)


def flipped(content: bytes, bit: int) -> bytes:
    """The bytes with one bit, counted from the first byte's lowest, the other way."""
    place = min(bit // 8, len(content) - 1)
    return content[:place] + bytes([content[place] ^ (1 << bit % 8)]) + content[place + 1 :]


def stranger_of(path: Path, other: Path) -> bytes:
    """What a file of the same name, or else of the same kind, holds in the other object."""
    candidates = [candidate for candidate in sorted(other.rglob("*")) if candidate.is_file()]
    alike = [candidate for candidate in candidates if candidate.name == path.name]
    alike = alike or [candidate for candidate in candidates if candidate.suffix == path.suffix]
    same_place = [f for f in alike if f.parent.name == path.parent.name]
    return (same_place or alike)[0].read_bytes() if alike else b"{}"


def tried(subject: Subject) -> Iterator[Outcome]:
    """The outcome of every damage to every file."""
    whole = subject.place.with_name(f"{subject.place.name}.whole")
    shutil.copytree(subject.place, whole)

    def restore() -> None:
        shutil.rmtree(subject.place)
        shutil.copytree(whole, subject.place)

    restore()
    expected = dict(subject.command())
    assert expected, "the unharmed object gives no result"
    for path in sorted(path for path in whole.rglob("*") if path.is_file()):
        name = path.relative_to(whole).as_posix()
        if not subject.chosen(name):
            continue
        restore()
        for damage, act in list(damages(subject.place / name, subject.other, name)):
            restore()
            act()
            yield judged(name, damage, subject.command, expected)
    shutil.rmtree(subject.place)
    whole.rename(subject.place)


def judged(name: str, damage: str, command: Callable[[], Result], expected: Result) -> Outcome:
    """What the command makes of the damaged file ``name``."""
    try:
        result = command()
    except RoadError as error:
        if Path(name).name in str(error):
            return Outcome(name, damage, REFUSED, str(error).splitlines()[0])
        return Outcome(name, damage, UNNAMED, f"the error does not name it: {error}"[:300])
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in last if "/road_ray/" in frame.filename] or list(last)
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}"
        return Outcome(name, damage, WRONG, f"{type(error).__name__} at {where}: {error}"[:300])
    differ = sorted(key for key in {*result, *expected} if result.get(key) != expected.get(key))
    if differ:
        return Outcome(name, damage, WRONG, f"another result, no word: {', '.join(differ[:6])}")
    return Outcome(name, damage, SAME)


def counted(outcomes: list[Outcome]) -> dict[str, str]:
    """``{damage: "12 same, 3 refused"}``, in the order of the damages."""
    counts = {outcome.damage: Counter[str]() for outcome in outcomes}
    for outcome in outcomes:
        counts[outcome.damage][outcome.verdict] += 1
    return {
        damage: ", ".join(
            f"{count[verdict]} {verdict}"
            for verdict in (SAME, REFUSED, UNNAMED, WRONG)
            if count[verdict]
        )
        for damage, count in counts.items()
    }
