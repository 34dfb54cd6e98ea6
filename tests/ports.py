"""Ports that a test may listen on."""

import os
import socket

_given: set[int] = set()


def free_port() -> int:
    """Outside of 10002 to 19999, which Ray gives to workers, and of what the kernel gives out: the
    cluster of another test would take such a port before the server under test does.
    """
    for port in range(20000 + os.getpid() % 2000, 32000, 7):
        with socket.socket() as connection:
            try:
                connection.bind(("127.0.0.1", port))
            except OSError:
                continue
            if port not in _given:
                _given.add(port)
                return port
    raise AssertionError("no free port")
