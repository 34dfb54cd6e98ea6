"""Predict every row of a file, and write the predictions in the order of the rows.

Chunks of predictions collect in a ``PartialOutput``, so a killed run is resumed after its last
chunk; the finished file is written from them.
"""

from __future__ import annotations

import csv
import fcntl
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from road_ray.data.model_files import locate_model, model_hashes
from road_ray.data.task_and_dataset import Choose
from road_ray.errors import ConfigError, ResourceError, counted
from road_ray.inference.input_rows import ColumnChoice, InputRow, file_rows, input_rows
from road_ray.inference.load_model import load
from road_ray.inference.predictor import CHUNK_ROWS, Prediction, Predictor
from road_ray.models.encoder import model_directory
from road_ray.system.files import STDIN, check_new, finite, staged_beside, unwritable
from road_ray.system.operating_system import sync
from road_ray.training.monitoring.metrics_journal import Console

_log = logging.getLogger(__name__)
SUFFIXES = (".jsonl", ".csv", ".tsv")

Chunk = tuple[list[Prediction], Counter[str]]
"""Predictions of a chunk of rows, and what was cut of them, as ``Predictor.cut`` counts it."""
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
) -> int:
    """Write the predictions of all rows of ``source`` to ``output``, as JSONL, CSV or TSV by its
    suffix; return their number.

    If the process was killed, the same call continues after the last complete chunk. ``predict``
    predicts the chunks in other processes; by default this process does it. Raises ``ConfigError``
    if ``output`` exists, ``ResourceError`` if another process writes it.
    """
    columns = columns or ColumnChoice()
    if output.suffix not in SUFFIXES:
        raise ConfigError(
            f"output = {output}: {output.suffix or 'no suffix'} is not written\n"
            f"  allowed: {', '.join(SUFFIXES)}"
        )
    identity = _identity(predictor, source, model, columns)
    with closing(PartialOutput(output, "row", identity)) as file:
        if file.count:
            _log.info("%s: resuming after %s", output, counted(file.count, "row"))
        console = Console(None if _log.isEnabledFor(logging.INFO) else "quiet")
        rows = input_rows(source, columns, predictor.trained)
        total = None
        if source != STDIN:
            total = sum(1 for _ in file_rows(source, predictor.trained, columns.fields))
            console.part("predictions", file.count, total)
        for predictions in predicted(predictor, islice(rows, file.count, None), predict):
            file.append(predictions)
            if total is not None:
                console.part("predictions", file.count, total)
        abstains = "choice" if isinstance(predictor.task.kind, Choose) else "label"
        finish(file, abstains if predictor.min_confidence else None)
    return file.count


def predicted(
    predictor: Predictor, rows: Iterator[InputRow], predict: Predict | None = None
) -> Iterator[list[Prediction]]:
    """Yield the predictions of rows in chunks, with the cells that are copied, and log at the end
    how many rows were truncated, if any were. ``predict`` is that of ``predict_file``.
    """
    predict = predict or partial(map, partial(predict_chunk, predictor))
    cut: Counter[str] = Counter()
    for predictions, lost in predict(iter(lambda: list(islice(rows, CHUNK_ROWS)), [])):
        cut += lost
        yield predictions
    if cut["rows"]:
        _log.warning(
            "%s truncated to %d tokens, %.1f%% of all tokens are lost (--max-length-tokens)",
            counted(cut["rows"], "row"),
            predictor.max_length_tokens,
            100 * cut["lost"] / cut["all"],
        )


def chunk_predictor(model: str, options: Mapping[str, Any]) -> Callable[[list[InputRow]], Chunk]:
    """Return the function that predicts a chunk with a model, which ``load`` loads with
    ``options``.
    """
    return partial(predict_chunk, load(model, **options))


def predict_chunk(predictor: Predictor, chunk: Sequence[InputRow]) -> Chunk:
    """Return the predictions of the rows, with the cells that are copied."""
    predictor.cut.clear()
    predictions = predictor.predict_rows([(row.where, row.fields) for row in chunk])
    pairs = zip(predictions, chunk, strict=True)
    return [prediction | dict(row.copied) for prediction, row in pairs], predictor.cut


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
        "min_confidence": predictor.min_confidence,
        "temperature": predictor.record.get("temperature"),
    }


def finish(file: PartialOutput, abstains: str | None) -> None:
    """Write the output from its rows, and tell how many have no value in the field ``abstains``."""

    def write(path: Path) -> None:
        # Of a lone surrogate, which UTF-8 does not have, the escape is written: JSON reads it.
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
            if file.output.suffix == ".jsonl":
                out.writelines(json_line(row) + "\n" for row in file.rows())
                return
            names = list(dict.fromkeys(name for row in file.rows() for name in _flat(row)))
            delimiter = "," if file.output.suffix == ".csv" else "\t"
            # With \r\n as line end, the module quotes both characters in cells; rows end with \n.
            lines: Any = SimpleNamespace(write=lambda row: out.write(row[:-2] + "\n"))
            writer = csv.DictWriter(lines, names, delimiter=delimiter, lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(map(_flat, file.rows()))

    without = 0 if abstains is None else sum(row[abstains] is None for row in file.rows())
    file.finish(write)
    if without:
        _log.warning(
            "%s: %d of %d rows are below the confidence and have no label",
            *(file.output, without, file.count),
        )


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
            cells |= _flat({f"score_{label}": share for label, share in value.items()})
        elif name in ("tags", "words"):
            cells[name] = " ".join(value)
        elif isinstance(value, list | dict):
            cells[name] = json.dumps(finite(value), ensure_ascii=False, default=str)
        else:
            cells[name] = None if isinstance(value, float) and math.isnan(value) else value
    return cells


class PartialOutput:
    """Rows of ``output`` as JSON lines in ``.NAME.partial`` beside it, a list of rows each.

    A process that is killed leaves them to the next one, if ``identity``, all that they depend on,
    is the same; else they are removed. One process at a time has the file: it has a lock on it
    until ``close``. ``noun`` names a row in messages; ``count`` is the number of rows.

    Raises ``ConfigError`` if ``output`` exists, ``ResourceError`` if another process writes it or
    the disk refuses it.
    """

    def __init__(self, output: Path, noun: str, identity: Mapping[str, Any]) -> None:
        self.output = output = check_new(output)
        self.path = output.with_name(f".{output.name}.partial")
        self.count, self._noun, end = 0, noun, 0
        header = json.dumps(identity).encode() + b"\n"
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResourceError(
                    f"output = {output}: another process is writing it, in {self.path}\n"
                    "  fix: wait for it, or name another output\n  kept: all that it writes"
                ) from None
            check_new(output)  # the process before may have ended meanwhile
            self._file.seek(0)
            with suppress(ValueError):  # a damaged line, which is written again with those behind
                for line in self._file:
                    # A line without an end was being written at a kill.
                    if not line.endswith(b"\n") or (not end and line != header):
                        break
                    self.count += len(json.loads(line)) if end else 0
                    end += len(line)
            self._file.truncate(end)
            self._file.write(b"" if end else header)
            self._file.flush()
        except OSError as error:
            raise unwritable(self.output, error, self.kept) from error

    @property
    def kept(self) -> str:
        """Text for messages: how many rows are kept for the next process, and where."""
        return f"{counted(self.count, self._noun)} in {self.path}" if self.count else "nothing"

    def rows(self) -> Iterator[Any]:
        """Yield the rows, also those of processes before."""
        self._file.seek(0)
        next(self._file)  # the identity
        for line in self._file:
            yield from json.loads(line)

    def append(self, rows: Sequence[Any]) -> None:
        """Write rows so that they survive a kill; what JSON does not have, such as a date, becomes
        text.
        """
        try:
            self._file.write(json.dumps(rows, default=str).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise unwritable(self.output, error, self.kept) from error
        self.count += len(rows)

    def finish(self, write: Callable[[Path], object]) -> None:
        """Have ``write`` write the output from the rows to the path that it is given, and give that
        file its name. Raises ``ConfigError`` if another program has made one meanwhile.
        """
        staged = staged_beside(self.output)
        try:
            write(staged)
            sync(staged)  # before the rows go
            check_new(self.output)
            staged.rename(self.output)
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(self.output, error, self.kept) from error
        finally:
            staged.unlink(missing_ok=True)

    def close(self) -> None:
        """Let the next process have the file; without a row it is removed."""
        if not self.count:
            self.path.unlink(missing_ok=True)
        with suppress(OSError):  # a full disk, which ``append`` has reported
            self._file.close()
