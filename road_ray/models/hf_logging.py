"""Loading and saving without the progress bars and logs of ``transformers``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as hugging_face_logging


@contextmanager
def suppress_logging() -> Iterator[None]:
    """Context in which ``transformers`` shows no progress bars and logs errors only."""
    verbosity = hugging_face_logging.get_verbosity()
    bars = hugging_face_logging.is_progress_bar_enabled()
    hugging_face_logging.set_verbosity_error()
    hugging_face_logging.disable_progress_bar()
    try:
        yield
    finally:
        hugging_face_logging.set_verbosity(verbosity)
        if bars:
            hugging_face_logging.enable_progress_bar()
