"""Silence inside, and everything as before afterwards."""

from __future__ import annotations

import pytest
from transformers.utils import logging

from road_ray.models.hf_logging import suppress_logging


@pytest.mark.parametrize("fails", [False, True])
def test_silence_ends_with_the_block_even_when_it_fails(fails):
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        with suppress_logging():
            assert logging.get_verbosity() == logging.ERROR
            assert not logging.is_progress_bar_enabled()
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_bars_that_were_off_stay_off():
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    with suppress_logging():
        pass
    assert not logging.is_progress_bar_enabled()
    if was_on:
        logging.enable_progress_bar()
