"""Predict every row of a file, and write the predictions in the order of the rows."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

from road_ray.data.model_files import locate_model, model_hashes
from road_ray.evaluation.evaluate_split import OnRows
from road_ray.inference.input_rows import ColumnChoice, InputRow, count_rows, input_rows
from road_ray.inference.prediction_writer import PredictionFile
from road_ray.inference.predictor import CHUNK_ROWS, Prediction, Predictor, Row
from road_ray.models.encoder import model_directory
from road_ray.system.paths import STDIN
from road_ray.training.monitoring.console_progress import Console, Kind, open_console

_log = logging.getLogger(__name__)
_SECONDS_BETWEEN_REPORTS = 10.0

Chunks = Callable[[Iterator[list[tuple[str, Row]]]], Iterator[list[Prediction]]]


def predict_file(
    predictor: Predictor,
    source: str,
    output: Path,
    *,
    model: str,
    columns: ColumnChoice | None = None,
    chunks: Chunks | None = None,
    report_progress: bool = True,
) -> int:
    """Write the predictions of all rows of ``source`` to ``output``; return their number.

    If the process was killed, the same call continues after the last complete chunk. ``chunks``
    predicts chunks of rows in order, by default in this process. Raises ``ConfigError`` if
    ``output`` exists.
    """
    columns = columns or ColumnChoice()
    identity = _identity(predictor, source, model, columns)
    file = PredictionFile(output, identity)
    rows = input_rows(source, columns, predictor.fields, predictor.columns)
    done = file.rows
    if done:
        _log.info("%s: resuming after %d rows", output, done)
    kind: Kind | None = None if report_progress else "quiet"
    try:
        rows = chain([next(rows)], rows)  # the first row is checked before all are counted
        with closing(open_console(kind, None, _SECONDS_BETWEEN_REPORTS)) as console:
            progress = _Progress(done, count_rows(source) if report_progress else 0, console)
            on_rows = progress.report_part if report_progress else None
            progress.report(done)
            for predictions in predict_chunks(predictor, islice(rows, done, None), chunks, on_rows):
                file.append(predictions)
                progress.report(file.rows)
        file.finish()
    finally:
        file.close()
    return file.rows


def predict_chunks(
    predictor: Predictor,
    rows: Iterable[InputRow],
    chunks: Chunks | None = None,
    on_rows: OnRows | None = None,
) -> Iterator[list[Prediction]]:
    """Yield the predictions of each chunk of rows, in order, with the copied cells. ``on_rows`` is
    called with the number of rows of a chunk while this process predicts it.
    """
    predict = chunks or (
        lambda waiting: (predictor.predict_rows(chunk, on_rows) for chunk in waiting)
    )
    copied: deque[list[Row]] = deque()  # of the chunks that are being predicted

    def inputs() -> Iterator[list[tuple[str, Row]]]:
        waiting = iter(rows)
        while chunk := list(islice(waiting, CHUNK_ROWS)):
            copied.append([row.copied for row in chunk])
            yield [(row.where, row.fields) for row in chunk]

    for predictions in predict(inputs()):
        pairs = zip(predictions, copied.popleft(), strict=True)
        yield [prediction | dict(cells) for prediction, cells in pairs]


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
        "threshold": predictor.threshold,
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
