"""Rows without labels, which are added to the training rows of a data set in a distillation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import Example
from road_ray.data.readers.layouts import table_examples
from road_ray.data.readers.squad import squad_table
from road_ray.data.readers.tables import Table, open_table
from road_ray.data.readers.text_files import numbered_lines
from road_ray.data.task_and_dataset import Choose, Columns, Dataset, Span, Tag, Task
from road_ray.errors import ConfigError

REST = "rest"
"""Entry of ``data.unlabelled`` that names the training rows beyond ``data.max_rows``."""


def unlabelled_file(name: str, root: Path | None) -> Path | None:
    """Return the file that an entry of ``data.unlabelled`` names, below ``root`` or as a path; None
    if there is none, so that it names a data set.
    """
    place = Path(name).expanduser()
    below = [root / place] if root is not None else []
    return next((path for path in (*below, place) if path.is_file()), None)


def read_unlabelled(path: Path, dataset: Dataset, task: Task) -> list[Example]:
    """Return the rows of a text, table or SQuAD file as examples of ``task`` without labels.

    A table has the text columns of the data set, or ``text`` and ``text_pair``, or ``question`` and
    ``context``. A text file has one text a line. Raises ``DataError`` for a row without them and an
    empty file, ``ConfigError`` for a task of tags.
    """
    if isinstance(task.kind, Tag):
        raise ConfigError(
            f"data.unlabelled with data.dataset = {dataset.name}: rows of tags cannot be unlabelled"
            "\n  allowed: tasks of classes, numbers, answers and choices"
        )
    if isinstance(task.kind, Span):
        table, layout, columns = squad_table(path, Columns(())), "squad_json", Columns(())
    elif isinstance(task.kind, Choose):
        columns = replace(dataset.columns, label=None, id=None)
        table, layout = open_table(path, columns), dataset.layout
    else:
        usual = zip(dataset.columns.text, ("text", "text_pair"), strict=False)
        columns = Columns(tuple(f"{own}|{other}" for own, other in usual))
        table, layout = open_table(path, columns), "table"
        if path.suffix == ".txt":
            lines = ((f"{path}:{n}", line.strip()) for n, line in numbered_lines(path))
            table = Table(str(path), ((w, {"text": line}) for w, line in lines if line), columns)
    hidden = {"id", "answers", "is_impossible"}  # an id or answer of such a row means nothing
    rows = ((where, {c: row[c] for c in row if c not in hidden}) for where, row in table.rows)
    entry = replace(dataset, layout=layout, columns=columns)
    examples = table_examples(replace(table, rows=rows), entry, "test")
    return [example.unlabelled() for example in examples]
