"""Reader of Adversarial GLUE.

Layout: one JSON file, an object with a list of rows for each task, ``{"sst2": [{...}, ...]}``.
Columns: those of GLUE on the hub, with its class numbers. Source: Wang et al. 2021.
"""

from __future__ import annotations

from pathlib import Path

from road_ray.data.features.examples_and_features import TextExample
from road_ray.data.readers.parts.text_files import check_text, missing_columns, read_document
from road_ray.data.task_and_dataset import Dataset
from road_ray.errors import DataError


def read_adv_glue(path: Path, dataset: Dataset) -> list[TextExample]:
    """Return the rows of one task, whose key the entry names as its id column.

    Raises ``DataError`` for a missing key or column.
    """
    content, key = read_document(path), str(dataset.columns.id)
    if not isinstance(content, dict) or key not in content:
        known = ", ".join(content) if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path}: no rows of {key!r}; found: {known}")
    columns = [*map(str, dataset.columns.text), str(dataset.columns.label)]
    examples: list[TextExample] = []
    rows = content[key]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path}: {key!r} is no list of rows, each an object of columns")
    for number, row in enumerate(rows):
        where = f"{path}: {key}[{number}]"
        missing = [name for name in columns if name not in row]
        if missing:
            raise DataError(missing_columns(where, missing, list(row)))
        texts = tuple(check_text(row[name], where, name) for name in columns[:-1])
        examples.append(TextExample(str(number), texts, str(row[columns[-1]]), where))
    if not examples:
        raise DataError(f"{path}: 0 rows of {key!r}")
    return examples
