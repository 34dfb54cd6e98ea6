"""Ctrl-C and SIGTERM become a message that says what was kept."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from road_ray.cli.options import run_interruptible
from road_ray.errors import InterruptedRunError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_says_what_was_kept(number):
    before = signal.getsignal(signal.SIGTERM)

    def work(config):
        os.kill(os.getpid(), number)
        time.sleep(10)

    with pytest.raises(InterruptedRunError, match="kept: all that runs/x holds"):
        run_interruptible(work, None, Path("runs/x"))
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_result_passes_through():
    assert run_interruptible(lambda config: config + 1, 2, Path()) == 3
