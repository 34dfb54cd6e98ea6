"""Files of rows, and the examples of a file of any layout."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import datasets

from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import Columns, Dataset, Splits

NO_COLUMNS = Columns(())


def read(path: Path, layout: str, columns: Columns = NO_COLUMNS, split: str = "train", **keys):
    """Examples of one file as a split of a data set of that layout."""
    splits = Splits(**dict.fromkeys(("train", "dev", "test")) | {split: path.name})
    entry = Dataset("own", "t", layout, "", columns=columns, splits=splits, **keys)
    return read_split(entry, path.parent, split)


def write(path: Path, *rows: Any) -> Path:
    """Write rows as ``datasets`` and people write them, by the name of the file."""
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".json":
            path.write_text(json.dumps(rows, indent=1))
        case ".csv" | ".tsv" as suffix:
            with path.open("w", newline="", encoding="utf-8") as file:
                out = csv.writer(file, delimiter={".csv": ",", ".tsv": "\t"}[suffix])
                out.writerows([list(rows[0]), *(row.values() for row in rows)])
        case ".parquet":
            datasets.Dataset.from_list(rows).to_parquet(path)
        case ".saved":
            datasets.Dataset.from_list(rows).save_to_disk(path, num_shards=2)
        case ".shards":
            for number in range(2):
                shard = datasets.Dataset.from_list(rows).shard(2, number, contiguous=True)
                shard.to_parquet(path / f"{number}.parquet")
    return path
