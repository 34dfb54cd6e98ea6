"""A file of predictions that grows by chunks; a killed run is resumed after its last chunk.

While it grows, the file is ``.NAME.partial``, and ``.NAME.partial.json`` records the rows and bytes
of complete chunks and all that the predictions depend on. One rename gives the finished file its
name.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from road_ray.errors import ConfigError, ResourceError
from road_ray.evaluation.spans.prediction_files import write_json
from road_ray.inference.predictor import Prediction
from road_ray.system.json_file import read_json
from road_ray.system.paths import check_new

SUFFIXES = (".jsonl", ".csv", ".tsv")


class PredictionFile:
    """Writer of predictions as JSONL, CSV or TSV, by the suffix of ``path``.

    ``identity`` holds all that the predictions depend on; a partial file of another identity is
    overwritten from the start. ``rows`` is the number of rows already written.

    Raises ``ConfigError`` if ``path`` exists or has another suffix.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        if path.suffix not in SUFFIXES:
            raise ConfigError(
                f"output = {path}: {path.suffix or 'no suffix'} is not written\n"
                f"  allowed: {', '.join(SUFFIXES)}"
            )
        check_new(path)
        self.path = path
        self.rows = 0
        self._identity = dict(identity)
        self._partial = path.with_name(f".{path.name}.partial")
        self._state = path.with_name(f".{path.name}.partial.json")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            size = self._resumable_bytes()
            self._file = self._partial.open("r+b" if size else "wb")
            self._file.truncate(size)
            self._file.seek(size)
        except OSError as error:
            raise self._failure(error) from error

    def _resumable_bytes(self) -> int:
        if not (self._state.is_file() and self._partial.is_file()):
            return 0
        state = read_json(self._state, fix="delete it to predict all rows again")
        size = state.get("bytes")
        if state.get("identity") != self._identity or not isinstance(size, int):
            return 0
        if self._partial.stat().st_size < size:
            return 0
        self.rows = int(state["rows"])
        return size

    @property
    def resumable_rows(self) -> str:
        """Return a text for messages: how many rows are kept for the next writer, and where."""
        return f"{self.rows} rows in {self._partial}" if self.rows else "nothing"

    def append(self, predictions: Sequence[Prediction]) -> None:
        """Write a chunk so that it survives a kill or a power cut."""
        try:
            self._file.write(self._text(predictions).encode("utf-8"))
            self._file.flush()
            os.fsync(self._file.fileno())
            rows = self.rows + len(predictions)
            state = {"rows": rows, "bytes": self._file.tell(), "identity": self._identity}
            write_json(self._state, state)
        except (OSError, ResourceError) as error:
            raise self._failure(error) from error
        self.rows = rows

    def finish(self) -> None:
        """Give the file its name, unless another program has made one of that name meanwhile."""
        self._file.close()
        check_new(self.path)
        self._partial.replace(self.path)
        self._state.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the next writer resumes after the appended chunks."""
        with suppress(OSError):  # a full disk, which ``append`` has reported
            self._file.close()
        if not self.rows:
            self._partial.unlink(missing_ok=True)

    def _text(self, predictions: Sequence[Prediction]) -> str:
        if self.path.suffix == ".jsonl":
            return "".join(json_line(prediction) + "\n" for prediction in predictions)
        flat = [_flat(prediction) for prediction in predictions]
        out = io.StringIO()
        delimiter = "," if self.path.suffix == ".csv" else "\t"
        writer = csv.DictWriter(out, list(flat[0]), delimiter=delimiter, lineterminator="\n")
        if not self.rows:
            writer.writeheader()
        writer.writerows(flat)
        return out.getvalue()

    def _failure(self, error: OSError | ResourceError) -> ResourceError:
        cause = error if isinstance(error, OSError) else error.__cause__
        return ResourceError(
            f"{self.path}: cannot be written: {getattr(cause, 'strerror', error)}\n"
            "  fix: free space there, or name a file that can be written; then repeat the command\n"
            f"  kept: {self.resumable_rows}"
        )


def json_line(prediction: Prediction) -> str:
    """Return a prediction as a JSON object; values such as dates in copied columns become text."""
    return json.dumps(prediction, ensure_ascii=False, default=str)


def _flat(prediction: Prediction) -> dict[str, object]:
    """Return one cell for each value: probabilities as ``score_<label>``, lists as JSON."""
    cells: dict[str, object] = {}
    for name, value in prediction.items():
        if name == "scores" and isinstance(value, dict):
            cells |= {f"score_{label}": share for label, share in value.items()}
        elif name in ("tags", "words"):
            cells[name] = " ".join(value)
        elif isinstance(value, list | dict):
            cells[name] = json.dumps(value, ensure_ascii=False, default=str)
        else:
            cells[name] = value
    return cells
