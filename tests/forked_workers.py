"""Ray workers as forks of one process that has imported what they import: a fresh interpreter takes
three seconds for torch and transformers, and every actor is a process of its own. Ray reads its
variables when it is imported, so each job of a cluster has a fork in between that has Ray too.

Clusters of users do not do this; the tests that start a cluster of their own, and all with
``ROAD_COLD_WORKERS=1``, have workers that import for themselves. A script that a test starts has
such workers if it calls ``use_forked_workers`` before it starts a cluster.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

# None imports Ray.
MODULES = (
    *("pandas", "pyarrow.dataset", "torch.distributed.fsdp"),
    "road_ray.recipes.train.train",
    "road_ray.recipes.pretraining.pretrain",
)
RAY_MODULES = ("ray.data", "ray.train", "ray.train.torch", "ray.tune")
_CONTEXT = "--serialized-runtime-env-context="
FORKED = "ROAD_FORKED_PYTHON"
# In the place of the interpreter that Ray starts workers with: it hands a worker's arguments,
# environment and streams to the process that forks, and lives as long as the fork.
_LAUNCHER = """#!{python} -IS
import json, os, socket, sys
if not any(one.endswith("default_worker.py") for one in sys.argv[1:4]):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as one:
    one.connect({address!r})
    request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(one, [len(request).to_bytes(4, "big")], [1, 2])
    one.sendall(request)
    one.recv(1)
"""


@contextmanager
def forked_workers(place: str) -> Iterator[None]:
    """A cluster that this process starts inside has such workers, and so have those of its scripts
    that want them. ``place`` is for two files.
    """
    if os.environ.get("ROAD_COLD_WORKERS"):
        yield
        return
    address, launcher, python = f"{place}/fork.sock", Path(place, "python"), sys.executable
    launcher.write_text(_LAUNCHER.format(python=python, address=address))
    launcher.chmod(0o700)
    command = [python, "-m", "tests.forked_workers", address]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout
        try:
            process.stdout.readline()  # it listens
            sys.executable = os.environ[FORKED] = str(launcher)
            yield
        finally:
            sys.executable = python
            del os.environ[FORKED]
            process.kill()


def use_forked_workers() -> None:
    """Take the workers of the process that has started this one, if it has such."""
    sys.executable = os.environ.get(FORKED, sys.executable)


def main(address: str) -> None:
    """Import, listen, and hand every launcher that connects to the fork of its environment."""
    for name in MODULES:
        importlib.import_module(name)
    assert "ray" not in sys.modules
    gc.freeze()  # or each fork copies what is imported when it looks for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        print("listening", flush=True)
        forks: dict[tuple[tuple[str, str], ...], socket.socket] = {}
        while True:
            connection, _ = server.accept()
            size, streams, _, _ = socket.recv_fds(connection, 4, 2)
            request = bytearray()
            while len(request) < int.from_bytes(size, "big"):
                request += connection.recv(1 << 16)
            settings = _settings_of_ray(bytes(request))
            passed = [connection.fileno(), *streams]
            if settings not in forks:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    for one in (server, connection, ours, *forks.values()):
                        one.close()
                    for stream in streams:
                        os.close(stream)
                    _fork_workers(theirs, dict(settings))
                theirs.close()
                forks[settings] = ours
            socket.send_fds(forks[settings], [request], passed)
            connection.close()
            for stream in streams:
                os.close(stream)


def _settings_of_ray(request: bytes) -> tuple[tuple[str, str], ...]:
    """The variables of Ray that a worker will have."""
    arguments, environment, _ = json.loads(request)
    given = environment | (_context_of(arguments).get("env_vars") or {})
    names = sorted(name for name in given if name.startswith("RAY_"))
    return tuple((name, given[name]) for name in names)


def _fork_workers(requests: socket.socket, settings: dict[str, str]) -> None:
    """Import Ray with these variables, and fork for every request until the sender is gone."""
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        del os.environ[name]
    os.environ.update(settings)
    import_ray()
    gc.freeze()
    while True:
        request, passed, _, _ = socket.recv_fds(requests, 1 << 18, 3)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            _become_worker(request, passed[1:])
        for one in passed:
            os.close(one)


def import_ray() -> None:
    """Import Ray without a draw from its random generator. Forks would share the generator's state:
    two workers would give their tasks the same ids, and an actor that both call would crash or
    send the answer of one to the other.
    """
    import ray.actor

    drawn = ray.actor.ActorClassID  # of each actor class that the modules define
    ray.actor.ActorClassID = SimpleNamespace(from_random=lambda: drawn(os.urandom(drawn.size())))
    for name in RAY_MODULES:
        importlib.import_module(name)
    ray.actor.ActorClassID = drawn


def _become_worker(request: bytes, streams: list[int]) -> None:
    """Run Ray's worker in this process, as the interpreter that was asked for would have. The
    launcher's connection stays open until it ends.
    """
    arguments, environment, directory = json.loads(request)
    os.setsid()
    for number, stream in enumerate(streams, 1):
        os.dup2(stream, number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    np.random.seed()  # or all forks draw the same
    sys.argv = _without_setup(arguments)
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    # What follows in an interpreter takes apart all that was imported, for a second.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _without_setup(arguments: list[str]) -> list[str]:
    """The arguments of the worker's script; what Ray's script before it sets is set here."""
    if not arguments[0].endswith("setup_worker.py"):
        return arguments
    from ray._private.utils import update_envs

    update_envs(_context_of(arguments).get("env_vars") or {})
    own = (_CONTEXT, "--language=")
    return [one for one in arguments[1:] if not one.startswith(own)]


def _context_of(arguments: list[str]) -> dict[str, Any]:
    """The runtime environment among a worker's arguments."""
    given = [one.removeprefix(_CONTEXT) for one in arguments if one.startswith(_CONTEXT)]
    context: dict[str, Any] = json.loads(given[0]) if given else {}
    return context


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1])
