"""What every test shares: one thread, no network, the miniature world, the command ``road``, tiny
runs to start from, the real data when it is at hand.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from road_ray.recipes.run_directory.run import Run

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves actors beside other work

# Processes that tests start, actors among them, must not see where the real data lie.
os.environ.setdefault("ROAD_TEST_DATA", os.environ.pop("ROAD_DATA", ""))

# A shell that starts the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

PRETRAINING = {
    "data.vocab_size": 400,
    "data.max_length_tokens": 32,
    "data.batch_size": 8,
    "encoder.layers": 1,
    "encoder.hidden_size": 32,
    "encoder.heads": 2,
    "encoder.intermediate_size": 64,
    "encoder.embedding_size": 16,
    "encoder.max_length_tokens": 128,
    "encoder.dropout": 0.0,
    "generator.scale": 0.5,
    "optimizer.warmup_steps": 2,
    "training.steps": 6,
    "training.log_every_steps": 2,
    "console": "quiet",
}
SPANS = {"data.max_length_tokens": 96, "data.stride_tokens": 16}


CLUSTER = pytest.StashKey[ExitStack]()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The directory of real data sets: ``ROAD_DATA``, or ``shared/data`` beside the checkout."""
    root = Path(os.environ["ROAD_TEST_DATA"] or Path(__file__).parents[2] / "shared" / "data")
    if not (root / "SHA256SUMS").is_file():
        pytest.skip(f"no real data at {root}")
    return root


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded data set, a twentieth of it, as a data root. Not to be written to."""
    from tools.miniature import write

    return write(tmp_path_factory.mktemp("data") / "world", size=0.05)


@pytest.fixture(scope="session")
def tokenizer(world: Path) -> Any:
    """WordPiece of the embedded data set. Not to be changed."""
    from road_ray.data.tokenizer import train_wordpiece

    words = (world / "squad" / "train-v2.0.json").read_text()
    return train_wordpiece([words], vocab_size=600)


@pytest.fixture(scope="session")
def shared_cluster(pytestconfig: pytest.Config) -> Iterator[Any]:
    """The one cluster of a session; it stops after the last test that uses it."""
    from tests.cluster import own_cluster, short_directory
    from tests.forked_workers import forked_workers

    with ExitStack() as stack:
        if not os.environ.get("ROAD_COLD_WORKERS"):
            given = stack.enter_context(pytest.MonkeyPatch.context())
            # Our 1 s is most of what a tiny run takes; Ray gives a frozen actor 5 s to end itself.
            given.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
            given.setenv("RAY_kill_worker_timeout_milliseconds", "1000")
        stack.enter_context(forked_workers(stack.enter_context(short_directory())))
        ray = stack.enter_context(own_cluster(4))
        pytestconfig.stash[CLUSTER] = stack.pop_all()
        yield ray
        pytestconfig.stash[CLUSTER].close()


@pytest.fixture(scope="session")
def cluster(shared_cluster: Any) -> Any:
    """Ray, joined to a cluster of four logical cores that all tests of a session share."""
    return shared_cluster


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves actors or placement groups on the shared cluster."""
    if not _is_shared(request.node):
        yield
        return
    from tests.cluster import new_occupants, occupants

    request.getfixturevalue("shared_cluster")
    before = occupants()
    yield
    if left := new_occupants(before, seconds=20.0):
        pytest.fail(f"left on the cluster: {left}", pytrace=False)


def _is_shared(item: pytest.Item | None) -> bool:
    return "shared_cluster" in getattr(item, "fixturenames", ())


# A test that takes one of these waits for a recipe to train.
_TRAINED_RUNS = {
    *("pretraining", "pretrained", "sentiment", "questions", "span_run", "teachers", "folded")
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by its fixtures."""
    if _is_shared(item):
        item.add_marker(pytest.mark.ray)
    if not _TRAINED_RUNS.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.trained)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests on the shared cluster first, then files of slow ones."""
    slow = {
        item.path
        for item in items
        if not _is_shared(item) and any(map(item.get_closest_marker, ("ray", "slow")))
    }
    items.sort(key=lambda item: 0 if _is_shared(item) else 1 if item.path in slow else 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is imported: it stays, and looking takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # Python's 700 is for small heaps
        gc.enable()


def pytest_sessionfinish() -> None:
    """Look for no garbage at the end either: pytest would, five times."""
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send a file's tests to one process, and all files on the shared cluster to the same one."""
    from tests.cluster import OneClusterScheduling

    return OneClusterScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Stop the shared cluster before the first test that does not use it."""
    yield
    if not _is_shared(nextitem):
        item.config.stash.get(CLUSTER, ExitStack()).close()


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch):
    """``recipe(function)`` puts a function in the place of every verb's recipe."""
    from road_ray.verbs import Verb

    def put(function):
        monkeypatch.setattr(Verb, "run", property(lambda self: function))

    return put


@pytest.fixture(scope="session", autouse=True)
def _unsynced_files() -> Iterator[None]:
    """Files of tests need not outlive the machine; a tiny run would wait for two dozen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _empty_figures() -> Iterator[Any]:
    """The page of a run has its figures, but empty: to draw them takes longer than a tiny run.
    Gives what draws them.
    """
    from markupsafe import Markup

    from road_ray.reporting.plots import inline_svg

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("road_ray.reporting.pages.page.inline_svg", lambda _: Markup("<svg></svg>"))
        yield inline_svg


@pytest.fixture(scope="module")
def drawn_figures(_empty_figures: Any) -> Iterator[None]:
    """Figures of pages are drawn, as for users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("road_ray.reporting.pages.page.inline_svg", _empty_figures)
        yield


@dataclass(frozen=True)
class Said:
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    def good(self) -> Said:
        """Return it if the command ended well."""
        assert self.code == 0, self.err
        return self

    def refused(self, code: int, *words: str) -> Said:
        """Return it if the command ended with this code and an error that has these words."""
        assert self.code == code, self.err
        assert [word for word in words if word not in self.err] == []
        return self


@cache
def _command_of(app: Any) -> Any:
    """The commands of an application, built once: that takes longer than to run most of them."""
    from typer.main import get_command

    return get_command(app)


@pytest.fixture
def road(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """``road("finetune", "init=...")`` in this process: exit code, standard output and error."""

    from road_ray.cli import app as application

    command = _command_of(application.app)
    monkeypatch.setattr(application, "app", command)

    def run(*arguments: object) -> Said:
        from road_ray.cli import main

        monkeypatch.setattr("sys.argv", ["road", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        for name in ("", "road_ray"):  # -q and -v would reach later tests
            logging.getLogger(name).setLevel(logging.NOTSET if name else logging.WARNING)
        for handler in logging.getLogger().handlers:  # and so would warnings that are shown once
            handler.filters.clear()
        out, err = capfd.readouterr()
        # Lines of processes of earlier tests on the shared cluster may come now; what commands
        # show of theirs is tested in journeys/test_said_on_ray.py.
        own = re.sub(r"(?m)^(\x1b\[\d+m)?\([^()\n]* pid=\d+[^()\n]*\).*$", "", err)
        assert "Traceback" not in own or "-v" in arguments
        return Said(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """``small_disk(kibibytes)``: a file system that holds no more, until the test ends."""
    place = tmp_path / "disk"
    with ExitStack() as mounted:

        def mount(kibibytes: int) -> Path:
            place.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)]
            try:
                subprocess.run(command, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                pytest.skip("no right to mount a small disk")
            mounted.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
            return place

        yield mount


@pytest.fixture(scope="session")
def pretraining(world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Overrides of ``pretrain`` for a run of a second."""
    shards = tmp_path_factory.mktemp("shards")
    return PRETRAINING | {"data.root": world, "data.shards": shards}


@pytest.fixture(scope="session")
def pretrained(pretraining: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A pre-training run of six steps."""
    import road_ray as rr

    directory = tmp_path_factory.mktemp("runs") / "pretrained"
    return rr.pretrain(overrides=pretraining | {"run_dir": str(directory)})


@pytest.fixture(scope="session")
def sentiment(world: Path, pretrained: Run) -> dict[str, object]:
    """Overrides of a fine-tuning on SST-2 of six steps."""
    return {
        "init": str(pretrained.directory),
        "data.root": str(world),
        "data.dataset": "sst2",
        "data.batch_size": 16,
        "training.steps": 6,
        "training.log_every_steps": 1,
        "optimizer.peak_lr": 1e-2,
        "console": "quiet",
    }


@pytest.fixture(scope="session")
def questions(sentiment: dict[str, object]) -> dict[str, object]:
    """Overrides of a fine-tuning on SQuAD 2.0, judged on NewsQA too."""
    chosen = {"data.dataset": "squad_v2", "data.evaluate_on": ["squad_v2", "newsqa"]}
    return sentiment | SPANS | chosen


@pytest.fixture(scope="session")
def mix(questions: dict[str, object]) -> dict[str, object]:
    """Overrides of a mixture of two classifications and questions."""
    dropped = ("data.dataset", "data.evaluate_on")
    remaining = {key: value for key, value in questions.items() if key not in dropped}
    chosen = {"data.datasets": ["sst2", "squad_v2", "mnli"], "data.batch_size": 4}
    return remaining | chosen | {"training.steps": 4, "mixing.passes": 2}


@pytest.fixture(scope="session")
def span_run(questions: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A fine-tuning on SQuAD 2.0."""
    import road_ray as rr

    directory = tmp_path_factory.mktemp("runs") / "asked"
    kept = {"training.keep_checkpoints_at_end": 1}  # tests look at its checkpoint
    return rr.finetune(overrides=questions | kept, run_dir=directory)


@pytest.fixture(scope="session")
def teachers(sentiment: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three teachers of SST-2 that differ in their seed."""
    import road_ray as rr

    directory = tmp_path_factory.mktemp("runs") / "teachers"
    kept = {"training.keep_checkpoints_at_end": 1}  # tests damage copies of them
    return rr.teachers(overrides=sentiment | kept, run_dir=directory)


@pytest.fixture(scope="session")
def folded(sentiment: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two teachers for each of two folds of SST-2."""
    import road_ray as rr

    directory = tmp_path_factory.mktemp("runs") / "folded"
    return rr.teachers(overrides=sentiment, run_dir=directory, num_teachers=2, num_folds=2)


@pytest.fixture(scope="session")
def flags() -> Callable[[dict[str, object]], list[str]]:
    """``flags(overrides)``: the same as arguments of ``road``."""

    def written(value: object) -> object:
        return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value

    return lambda overrides: [f"{key}={written(value)}" for key, value in overrides.items()]
