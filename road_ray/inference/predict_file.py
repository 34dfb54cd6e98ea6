"""Predict every row of a file, and write the predictions in the order of the rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from road_ray.data.model_files.locate_model import locate_model, model_hashes
from road_ray.errors import InterruptedRunError
from road_ray.evaluation.evaluate_split import OnRows
from road_ray.inference.input_rows import ColumnChoice, InputRow, RowSource
from road_ray.inference.load_model import load
from road_ray.inference.prediction_writer import PredictionFile
from road_ray.inference.predictor import CHUNK_ROWS, Prediction, Predictor
from road_ray.models.encoder import model_directory
from road_ray.system.paths import STDIN
from road_ray.training.monitoring.console_progress import Console, Kind, open_console

_log = logging.getLogger(__name__)
_SECONDS_BETWEEN_REPORTS = 10.0

Predict = Callable[[Iterable[list[InputRow]]], Iterator[list[Prediction]]]
"""Function that yields the predictions of each chunk of rows, in order."""


def predict_file(
    predictor: Predictor,
    source: str,
    output: Path,
    *,
    model: str,
    columns: ColumnChoice | None = None,
    predict: Predict | None = None,
    report_progress: bool = True,
) -> int:
    """Write the predictions of all rows of ``source`` to ``output``; return their number.

    If the process was killed, the same call continues after the last complete chunk. ``predict``
    predicts the chunks in other processes; by default this process does it.
    Raises ``ConfigError`` if ``output`` exists, ``InterruptedRunError`` after Ctrl-C.
    """
    columns = columns or ColumnChoice()
    identity = _identity(predictor, source, model, columns)
    file = PredictionFile(output, identity)
    done = file.rows
    if done:
        _log.info("%s: resuming after %d rows", output, done)
    kind: Kind | None = None if report_progress else "quiet"
    rows = RowSource(source, columns, predictor.fields, predictor.columns)
    try:
        with closing(open_console(kind, None, _SECONDS_BETWEEN_REPORTS)) as console:
            read = rows.rows()
            first = next(read)  # checked before all are counted
            progress = _Progress(done, rows.count() if report_progress else 0, console)
            on_rows = progress.report_part if report_progress else None
            progress.report(done)
            waiting = chunks_of(islice(chain([first], read), done, None), CHUNK_ROWS)
            predict = predict or partial(predict_chunks, predictor, on_rows=on_rows)
            for predictions in predict(waiting):
                file.append(predictions)
                progress.report(file.rows)
        file.finish()
    except KeyboardInterrupt:
        fix = "to resume, run the same command"
        if source == STDIN:
            fix = "to predict all rows again, run the same command; a file instead of - is resumed"
        raise InterruptedRunError(
            f"{output}: stopped\n  kept: {file.resumable_rows}\n  fix: {fix}"
        ) from None
    finally:
        file.close()
    return file.rows


def predict_chunks(
    predictor: Predictor, chunks: Iterable[list[InputRow]], on_rows: OnRows | None = None
) -> Iterator[list[Prediction]]:
    """Yield the predictions of each chunk of rows, in order. ``on_rows`` is called with the number
    of rows of a chunk that are predicted.
    """
    for chunk in chunks:
        yield predict_chunk(predictor, chunk, on_rows)


def chunk_predictor(
    model: str, options: Mapping[str, Any]
) -> Callable[[list[InputRow]], list[Prediction]]:
    """Return the function that predicts a chunk with a model, which ``load`` loads with
    ``options``.
    """
    return partial(predict_chunk, load(model, **options))


def chunks_of(rows: Iterator[InputRow], size: int) -> Iterator[list[InputRow]]:
    """Yield the rows in lists of ``size``; the last one may be shorter."""
    while chunk := list(islice(rows, size)):
        yield chunk


def predict_chunk(
    predictor: Predictor, chunk: Sequence[InputRow], on_rows: OnRows | None = None
) -> list[Prediction]:
    """Return the predictions of the rows, with the cells that are copied."""
    predictions = predictor.predict_rows([(row.where, row.fields) for row in chunk], on_rows)
    pairs = zip(predictions, chunk, strict=True)
    return [prediction | dict(row.copied) for prediction, row in pairs]


def _identity(
    predictor: Predictor, source: str, model: str, columns: ColumnChoice
) -> dict[str, Any]:
    """Return all that the predictions depend on; the time makes standard input unresumable."""
    stat = None if source == STDIN else Path(source).expanduser().stat()
    return {
        "model": model_hashes(locate_model(model_directory(model, "model"))),
        "head": predictor.task.name,
        "source": [source, stat.st_size, stat.st_mtime_ns] if stat else [STDIN, time.time_ns()],
        "columns": [dict(columns.fields), dict(columns.keep), sorted(columns.ignore)],
        "max_length_tokens": predictor.max_length_tokens,
        "precision": str(predictor.dtype),
        "threshold": str(predictor.threshold),  # JSON has no infinite number
        "n_best": predictor.n_best,
    }


class _Progress:
    """Shows the rows that are predicted of those that are left, with the time that they take; of
    standard input, which has no known end, their number.
    """

    def __init__(self, done: int, total: int | None, console: Console) -> None:
        self._first, self._rows, self._total, self._console = done, done, total, console
        self._shown = time.monotonic()

    def report(self, rows: int) -> None:
        """Show the rows that are written."""
        self._rows = rows
        self._show(rows)

    def report_part(self, done: int, total: int) -> None:
        """Show the rows that are written and the share of the next chunk that is predicted."""
        left = CHUNK_ROWS if self._total is None else self._total - self._rows
        self._show(self._rows + min(CHUNK_ROWS, left) * done // total)

    def _show(self, rows: int) -> None:
        if self._total is not None:
            self._console.part("predictions", rows - self._first, self._total - self._first)
        elif time.monotonic() - self._shown >= _SECONDS_BETWEEN_REPORTS:
            self._shown = time.monotonic()
            _log.info("%s rows predicted", f"{rows:,}")
