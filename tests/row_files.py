"""Files of rows."""

import csv
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Write rows as ``datasets`` and people write them, by the name of the file."""
    rows = list(rows)
    match path.suffix:
        case ".gz":
            path.write_bytes(gzip.compress(write_rows(path.with_suffix(""), rows).read_bytes()))
            path.with_suffix("").unlink()
        case ".json":
            path.write_text(json.dumps(rows, indent=1))
        case ".csv" | ".tsv" as suffix:
            with path.open("w", newline="", encoding="utf-8") as file:
                out = csv.DictWriter(file, rows[0], delimiter="," if suffix == ".csv" else "\t")
                out.writeheader()
                out.writerows(rows)
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
