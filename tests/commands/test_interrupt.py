"""Ctrl-C and SIGTERM become a message that says what was kept."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from road_ray.commands.interrupt import uninterrupted
from road_ray.errors import InterruptedRunError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_says_what_was_kept(number):
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.getsignal(signal.SIGTERM)

    def work(config):
        os.kill(os.getpid(), number)
        time.sleep(10)

    try:
        with pytest.raises(InterruptedRunError, match="kept: what runs/x holds"):
            uninterrupted(work, None, Path("runs/x"))
    finally:
        signal.signal(signal.SIGINT, ctrl_c)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_result_passes_through():
    assert uninterrupted(lambda config: config + 1, 2, Path()) == 3
