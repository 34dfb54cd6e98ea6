"""Predict every row of a file, and write the predictions in the order of the rows.

The file of predictions grows by chunks as ``.NAME.partial``, and ``.NAME.partial.json`` records the
rows and bytes of complete chunks and all that the predictions depend on, so a killed run is resumed
after its last chunk. One rename gives the finished file its name.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from road_ray.data.model_files import locate_model, model_hashes
from road_ray.errors import ConfigError, DataError, InterruptedRunError, ResourceError, counted
from road_ray.inference.input_rows import ColumnChoice, InputRow, count_rows, input_rows
from road_ray.inference.load_model import load
from road_ray.inference.predictor import CHUNK_ROWS, Prediction, Predictor
from road_ray.models.encoder import model_directory
from road_ray.system.files import STDIN, check_new, finite, read_json, write_json_atomic
from road_ray.system.operating_system import try_lock
from road_ray.training.monitoring.console_progress import Console

_log = logging.getLogger(__name__)
SUFFIXES = (".jsonl", ".csv", ".tsv")
# What spreadsheets execute begins like this (OWASP); a number with a sign does not count.
_FORMULA = re.compile(r"[=@\t\r]|[+-](?!\.?\d[\d.]*(?:[eE][+-]?\d+)?$)")


class Chunk(NamedTuple):
    """Predictions of a chunk of rows, and what was cut of them, as ``predict_rows`` counts it."""

    predictions: list[Prediction]
    cut: Counter[str]


Predict = Callable[[Iterable[list[InputRow]]], Iterator[Chunk]]
"""Function that yields the predictions of each chunk of rows, in order."""


def predict_file(
    predictor: Predictor,
    source: str,
    output: Path,
    *,
    model: str,
    columns: ColumnChoice | None = None,
    predict: Predict | None = None,
    escape_formulas: bool = False,
) -> int:
    """Write the predictions of all rows of ``source`` to ``output``; return their number.

    If the process was killed, the same call continues after the last complete chunk. ``predict``
    predicts the chunks in other processes; by default this process does it. ``escape_formulas`` is
    that of ``PredictionFile``. Raises ``ConfigError`` if ``output`` exists, ``ResourceError`` if
    another process writes it, ``InterruptedRunError`` after Ctrl-C.
    """
    columns = columns or ColumnChoice()
    identity = _identity(predictor, source, model, columns, escape_formulas)
    file = PredictionFile(output, identity, escape_formulas=escape_formulas)
    done = file.rows
    if done:
        _log.info("%s: resuming after %s", output, counted(done, "row"))
    cut: Counter[str] = Counter()
    console = Console(None if _log.isEnabledFor(logging.INFO) else "quiet")
    try:
        rows = input_rows(source, columns, predictor.fields, predictor.trained)
        total = None if source == STDIN else count_rows(source, predictor.trained)
        if total is not None:
            console.part("predictions", done, total)
        predict = predict or partial(map, partial(predict_chunk, predictor))
        for chunk in predict(chunks_of(islice(rows, done, None), CHUNK_ROWS)):
            file.append(chunk.predictions)
            cut += chunk.cut
            if total is not None:
                console.part("predictions", file.rows, total)
        file.finish()
    except KeyboardInterrupt:
        fix = "to resume, run the same command"
        if source == STDIN:
            fix = "to predict all rows again, run the same command; a file instead of - is resumed"
        raise InterruptedRunError(
            f"{output}: stopped\n  kept: {file.resumable_rows}\n  fix: {fix}"
        ) from None
    finally:
        console.close()
        file.close()
    note_truncated(cut, predictor.max_length_tokens)
    return file.rows


def note_truncated(cut: Counter[str], max_length_tokens: int) -> None:
    """Log how many rows were truncated, if any were."""
    if cut["rows"]:
        _log.warning(
            "%s truncated to %d tokens, %.1f%% of all tokens are lost (--max-length-tokens)",
            *(counted(cut["rows"], "row"), max_length_tokens, 100 * cut["lost"] / cut["all"]),
        )


def chunk_predictor(model: str, options: Mapping[str, Any]) -> Callable[[list[InputRow]], Chunk]:
    """Return the function that predicts a chunk with a model, which ``load`` loads with
    ``options``.
    """
    return partial(predict_chunk, load(model, **options))


def chunks_of(rows: Iterator[InputRow], size: int) -> Iterator[list[InputRow]]:
    """Yield the rows in lists of ``size``; the last one may be shorter."""
    while chunk := list(islice(rows, size)):
        yield chunk


def predict_chunk(predictor: Predictor, chunk: Sequence[InputRow]) -> Chunk:
    """Return the predictions of the rows, with the cells that are copied."""
    cut: Counter[str] = Counter()
    predictions = predictor.predict_rows([(row.where, row.fields) for row in chunk], cut)
    pairs = zip(predictions, chunk, strict=True)
    return Chunk([prediction | dict(row.copied) for prediction, row in pairs], cut)


def _identity(
    predictor: Predictor, source: str, model: str, columns: ColumnChoice, escape_formulas: bool
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
        "min_confidence": predictor.min_confidence,
        "temperature": predictor.record.get("temperature"),
        "escape_formulas": escape_formulas,
    }


class PredictionFile:
    """Writer of predictions as JSONL, CSV or TSV, by the suffix of ``path``.

    ``identity`` holds all that the predictions depend on; a partial file of another identity is
    overwritten from the start. ``rows`` is the number of rows already written. One process at a
    time writes a path: it has a lock on the partial file until ``close``. In CSV and TSV,
    ``escape_formulas`` puts an apostrophe before cells that spreadsheets would execute; without it
    they are counted and told at the end.

    Raises ``ConfigError`` if ``path`` exists or has another suffix, ``ResourceError`` if another
    process writes it.
    """

    def __init__(
        self, path: Path, identity: Mapping[str, Any], *, escape_formulas: bool = False
    ) -> None:
        if path.suffix not in SUFFIXES:
            raise ConfigError(
                f"output = {path}: {path.suffix or 'no suffix'} is not written\n"
                f"  allowed: {', '.join(SUFFIXES)}"
            )
        self.path = path
        self.rows = 0
        self._identity = dict(identity)
        self._escape = escape_formulas
        self._formulas = 0
        self._abstained = 0  # rows below min_confidence
        self._columns: list[str] | None = None  # of CSV and TSV, from the first chunk
        self._partial = path.with_name(f".{path.name}.partial")
        self._state = path.with_name(f".{path.name}.partial.json")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._locked()
            size = self._resumable_bytes()
            self._file.truncate(size)
        except OSError as error:
            raise self._failure(error) from error

    def _locked(self) -> IO[bytes]:
        """Return the partial file, which this process alone may write until it is closed.

        Raises ``ConfigError`` if the output is finished, ``ResourceError`` if another process
        writes it.
        """
        while True:
            check_new(self.path)
            file = self._partial.open("ab")  # not truncated: another process may be writing it
            if not try_lock(file):
                file.close()
                raise ResourceError(
                    f"output = {self.path}: another process is writing it, in {self._partial}\n"
                    "  fix: wait for it, or name another output\n  kept: all that it writes"
                )
            # The process before may have given the file its name, or removed it.
            with suppress(FileNotFoundError):
                if self._partial.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    return file
            file.close()

    def _resumable_bytes(self) -> int:
        if not self._state.is_file():
            return 0
        state = read_json(self._state, fix="delete it to predict all rows again")
        size = state.get("bytes")
        if state.get("identity") != self._identity or not isinstance(size, int):
            return 0
        if self._partial.stat().st_size < size:
            return 0
        self.rows = int(state["rows"])
        self._columns = state.get("columns")
        self._abstained = int(state.get("abstained", 0))
        return size

    @property
    def resumable_rows(self) -> str:
        """Return a text for messages: how many rows are kept for the next writer, and where."""
        return f"{counted(self.rows, 'row')} in {self._partial}" if self.rows else "nothing"

    def append(self, predictions: Sequence[Prediction]) -> None:
        """Write a chunk so that it survives a kill or a power cut."""
        text = self._text(predictions).encode("utf-8")
        try:
            self._file.write(text)
            self._file.flush()
            os.fsync(self._file.fileno())
            rows = self.rows + len(predictions)
            if self._identity.get("min_confidence"):
                for row in predictions:  # which may have a copied column of the other name
                    name = "label" if isinstance(row["scores"], dict) else "choice"
                    self._abstained += row[name] is None
            state = {"rows": rows, "bytes": self._file.tell(), "identity": self._identity}
            state |= {"columns": self._columns, "abstained": self._abstained}
            write_json_atomic(self._state, state)
        except (OSError, ResourceError) as error:
            raise self._failure(error) from error
        self.rows = rows

    def finish(self) -> None:
        """Give the file its name. Raises ``ConfigError`` if another program has made one of that
        name meanwhile.
        """
        check_new(self.path)
        self._partial.rename(self.path)
        self._state.unlink(missing_ok=True)
        if self._abstained:
            _log.warning(
                "%s: %d of %d rows are below the confidence and have no label",
                *(self.path, self._abstained, self.rows),
            )
        if self._formulas:
            _log.warning(
                "%s: %d cells begin like a formula (= + - @), which a spreadsheet executes\n"
                "  fix: --escape-formulas puts an apostrophe before them, or write .jsonl",
                *(self.path, self._formulas),
            )

    def close(self) -> None:
        """Close the file; the next writer resumes after the appended chunks."""
        if not self.rows and not self._file.closed:
            self._partial.unlink(missing_ok=True)
        with suppress(OSError):  # a full disk, which ``append`` has reported
            self._file.close()

    def _text(self, predictions: Sequence[Prediction]) -> str:
        if self.path.suffix == ".jsonl":
            return "".join(json_line(prediction) + "\n" for prediction in predictions)
        flat = [
            {name: self._safe(value) for name, value in _flat(prediction).items()}
            for prediction in predictions
        ]
        out = _Lines()
        delimiter = "," if self.path.suffix == ".csv" else "\t"
        is_first = self._columns is None
        self._columns = self._columns or list(flat[0])
        # With \r\n as line end, the module quotes both characters in cells.
        writer = csv.DictWriter(out, self._columns, delimiter=delimiter, lineterminator="\r\n")
        if is_first:
            writer.writerow({name: self._safe(name) for name in self._columns})
        for number, cells in enumerate(flat, self.rows):
            if new := [name for name in cells if name not in self._columns]:
                raise DataError(
                    f"{self.path}: row {number} has the column {new[0]!r}, which the first row "
                    f"lacks\n  fix: --ignore {new[0]}, or write .jsonl\n"
                    f"  kept: {self.resumable_rows}"
                )
            writer.writerow(cells)
        return out.getvalue()

    def _safe(self, value: object) -> object:
        """Return a cell; count one that begins like a formula, or put an apostrophe before it."""
        if not isinstance(value, str) or not _FORMULA.match(value):
            return value
        if self._escape:
            return f"'{value}"
        self._formulas += 1
        return value

    def _failure(self, error: OSError | ResourceError) -> ResourceError:
        cause = error.__cause__ or error
        return ResourceError(
            f"{self.path}: cannot be written: {getattr(cause, 'strerror', cause)}\n"
            "  fix: free space there, or name a file that can be written; then repeat the command\n"
            f"  kept: {self.resumable_rows}"
        )


class _Lines(io.StringIO):
    """Text of rows that the module ``csv`` ends with ``\\r\\n`` and that end with ``\\n``."""

    def write(self, row: str) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def json_line(prediction: Prediction) -> str:
    """Return a prediction as a JSON object; values such as dates in copied columns become text,
    and NaN and infinite numbers, which JSON does not have, null.
    """
    return json.dumps(finite(prediction), ensure_ascii=False, default=str)


def _flat(prediction: Prediction) -> dict[str, object]:
    """Return one cell for each value: probabilities as ``score_<label>``, lists as JSON, NaN as an
    empty cell.
    """
    cells: dict[str, object] = {}
    for name, value in prediction.items():
        if name == "scores" and isinstance(value, dict):
            cells |= {f"score_{label}": share for label, share in value.items()}
        elif name in ("tags", "words"):
            cells[name] = " ".join(value)
        elif isinstance(value, list | dict):
            cells[name] = json.dumps(finite(value), ensure_ascii=False, default=str)
        else:
            cells[name] = None if isinstance(value, float) and math.isnan(value) else value
    return cells
