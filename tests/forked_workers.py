"""Ray workers as forks of one process that has imported what they import: a fresh interpreter takes
three seconds for torch and transformers, and every actor is a process of its own.

Clusters of users do not do this; the tests that start a cluster of their own, and all with
``ROAD_COLD_WORKERS=1``, have workers that import for themselves. A script that a test starts has
such workers if it calls ``use_forked_workers`` before it starts a cluster.
"""

from __future__ import annotations

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
from typing import Any

import numpy as np

# None imports Ray, which reads a worker's own environment when it is imported.
MODULES = (
    *("pandas", "pyarrow.dataset", "torch.distributed.fsdp"),
    "road_ray.recipes.train.train",
    "road_ray.recipes.pretraining.pretrain",
)
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
    """Import, listen, and fork for every launcher that connects."""
    for name in MODULES:
        importlib.import_module(name)
    assert "ray" not in sys.modules
    gc.freeze()  # or each fork copies what is imported when it looks for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        print("listening", flush=True)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                _become_worker(connection)
            connection.close()


def _become_worker(connection: socket.socket) -> None:
    """Run Ray's worker in this process, as the interpreter that was asked for would have."""
    size, streams, _, _ = socket.recv_fds(connection, 4, 2)
    request = bytearray()
    while len(request) < int.from_bytes(size, "big"):
        request += connection.recv(1 << 16)
    arguments, environment, directory = json.loads(bytes(request))
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
    mark = "--serialized-runtime-env-context="
    (context,) = [one.removeprefix(mark) for one in arguments if one.startswith(mark)] or ["{}"]
    given: dict[str, Any] = json.loads(context)
    from ray._private.utils import update_envs

    update_envs(given.get("env_vars") or {})
    own = (mark, "--language=")
    return [one for one in arguments[1:] if not one.startswith(own)]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1])
