"""Registry of layouts, and the examples of a split from files below a root or from the hub; the
layouts of sentences, pairs and choices, one a row of a table.

A layout has two parts: a function from a file to its rows, and one from rows, of a file or of the
hub, to examples. To add a layout, add these to ``LAYOUTS``. Sentences and pairs: lines between tabs
without quoting (GLUE: Wang et al. 2018), JSON with a list of rows for each task (Adversarial GLUE:
Wang et al. 2021), or any table, whose columns the data set's entry names. Choices: a table too.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from road_ray.data.examples import ChoiceExample, Example, TextExample
from road_ray.data.readers import squad
from road_ray.data.readers.conll import conll_rows, tagged_sentences
from road_ray.data.readers.tables import (
    MISFITS,
    Row,
    Rows,
    check_text,
    first_faults,
    hub_rows,
    missing_columns,
    named_rows,
    numbered_lines,
    read_document,
    refuse_repeated_columns,
    table_rows,
    value_of,
)
from road_ray.data.task_and_dataset import Columns, Dataset, below_zero, label_text, plain_label
from road_ray.errors import ConfigError, DataError, RoadError, shorten
from road_ray.system.files import nearest_path
from road_ray.system.own_names import named_object

_NO_LABEL = "-"  # SNLI and MNLI: the annotators did not agree
# QQP as published has a few rows with line ends in a text; more of them mean a wrong file.
_MAX_RAGGED_FRACTION = 1e-3

_log = logging.getLogger(__name__)


def sentences(rows: Rows, dataset: Dataset, labelled: bool) -> Iterator[TextExample]:
    """Yield the rows of a table, with the task's names of labels; without ``labelled``, those that
    are hidden are None. Raises ``DataError`` for a missing column; that of the label may be missing
    unless rows need it, and a JSON object behind the first may always lack it.
    """
    names, found = None, dataset.columns
    label: object

    @cache  # a file has few labels
    def named(label: str) -> str | None:
        below = not dataset.negative_labels and below_zero(label)
        if not labelled and (below or not label) and label not in dataset.label_map:
            return None
        return dataset.named(label) if dataset.label_map else label

    for number, (where, row) in enumerate(rows):
        if row.keys() != names:  # in a table: the first row
            found = _columns_in(row, dataset.columns, labelled and names is None, where)
            names = row.keys()
        if isinstance(found.label, tuple):
            label = _marked(found.label, row, where)
        else:
            label = None if found.label is None else row.get(found.label)
        if found.separator is not None and isinstance(label, str):
            label = [part for cell in label.split(found.separator) if (part := cell.strip())]
        id = str(number) if found.id is None else str(row[found.id])
        texts = tuple([check_text(row[name], where, name) for name in found.text])
        yield TextExample(id, texts, None if label is None else named(label_text(label)), where)


def _columns_in(row: Row, columns: Columns, labelled: bool, where: str) -> Columns:
    """Return the columns with every ``a|b`` replaced by the first of the two in the row."""

    def first(name: str | int | tuple[str, ...] | None) -> Any:
        options = name.split("|") if isinstance(name, str) else [name]
        return next((option for option in options if option in row), options[0])

    text, label, id = tuple(map(first, columns.text)), first(columns.label), first(columns.id)
    labels = label if isinstance(label, tuple) else [label]
    required = [*text, id, *(labels if labelled else [])]
    if missing := [name for name in required if name is not None and name not in row]:
        raise DataError(missing_columns(where, missing, list(row)))
    return Columns(text, label, id, columns.separator)


MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_HIDDEN = ("", "none", "-1")


def _marked(columns: Sequence[str], row: Row, where: str) -> list[str] | None:
    """Return the columns of a row that have a 1 where others have a 0; None if all are empty or -1,
    which hides labels.
    """
    cells = [str(row.get(column, "")).strip().lower() for column in columns]
    if {*cells} <= {*_HIDDEN}:
        return None
    for column, cell in zip(columns, cells, strict=True):
        if cell not in MARKS:
            raise DataError(
                f"{where}: column {column!r} = {shorten(repr(row.get(column)))}; allowed: 0 or 1\n"
                "  fix: correct the row, or the columns in `label` of the data set's entry"
            )
    return [column for column, cell in zip(columns, cells, strict=True) if MARKS[cell]]


def glue_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[tuple[str, Row]]:
    """Yield the rows of GLUE's TSV, whose quotes are letters. Without a header its columns are
    numbers. Raises ``DataError`` for rows of another number of columns, unless they are at most one
    in a thousand, which are dropped with a warning.
    """
    lines, file = numbered_lines(path), str(path)
    header: Sequence[str | int] = ()
    if not all(isinstance(name, int) for name in columns.text):
        header = next(lines, (1, ""))[1].split("\t")
        refuse_repeated_columns(list(map(str, header)), f"{path}:1")
    ragged: list[str] = []
    num_rows = 0
    for number, line in lines:
        if not line:
            continue
        num_rows += 1
        cells = line.split("\t")
        header = header or range(len(cells))
        if len(cells) == len(header):
            yield f"{file}:{number}", dict(zip(header, cells, strict=True))
            continue
        ragged.append(
            f"{path}:{number}: {len(cells)} columns, expected {len(header)}: {shorten(line)!r}"
        )
    if len(ragged) > num_rows * _MAX_RAGGED_FRACTION:
        raise DataError(
            f"{path}: {len(ragged)} of {num_rows} rows have too many or too few tabs\n"
            f"  {first_faults(ragged)}\n"
            "  fix: write one row a line, and no tab or line end inside a text"
        )
    if ragged:
        _log.warning("%s: dropped %d broken rows: %s", path, len(ragged), first_faults(ragged))


def adv_glue_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[tuple[str, Row]]:
    """Yield the rows of one task in AdvGLUE's file, whose key is named as the column of ids; that
    column has their numbers.
    """
    content, key = read_document(path), str(columns.id)
    if not isinstance(content, dict) or not isinstance(content.get(key), list):
        found = ", ".join(content) if isinstance(content, dict) else type(content).__name__
        raise DataError(f"{path}: no list of rows {key!r}; found: {found}")
    for number, row in enumerate(content[key]):
        numbered = row | {key: number} if isinstance(row, dict) else row
        yield f"{path}: {key}[{number}]", numbered


def choice_questions(rows: Rows, dataset: Dataset, labelled: bool) -> Iterator[ChoiceExample]:
    """Yield the questions of a table, whose columns, which may lie within cells, are the question,
    then the choices; the label is the number of the right one from 0, or its letter. Raises
    ``DataError`` for a missing choice, and an answer that is not one of them; unless rows need
    labels, a number below 0 hides it.
    """
    columns = dataset.columns
    for number, (where, row) in enumerate(rows):
        question, *choices = (value_of(row, str(name)) for name in columns.text)
        answer = row.get(str(columns.label))
        for place, choice in enumerate(choices):
            if not isinstance(choice, str) or not choice.strip():
                raise DataError(
                    f"{where}: choice {place + 1} of {len(choices)} is missing; seen {choice!r}\n"
                    "  fix: correct the row, or remove the question"
                )
        number_or_letter = plain_label(str(answer))
        if len(number_or_letter) == 1 and "A" <= number_or_letter.upper() <= "Z":
            number_or_letter = str(ord(number_or_letter.upper()) - ord("A"))
        known = number_or_letter in map(str, range(len(choices)))
        label = int(number_or_letter) if known else None
        hidden = answer in (None, "") or (not labelled and below_zero(str(answer)))
        if label is None and not hidden:
            raise DataError(
                f"{where}: the answer is {answer!r}, there are {len(choices)} choices\n"
                f"  allowed: 0 to {len(choices) - 1}, or the letter or label of a choice"
            )
        texts = tuple(check_text(choice, where, "choice") for choice in choices)
        id = None if columns.id is None else row[str(columns.id)]
        name = str(number if id is None else id)
        yield ChoiceExample(name, check_text(question, where, "question"), texts, label, where)


@dataclass(frozen=True)
class Layout:
    """Functions of one layout, of which the bool says that rows need labels. ``form`` shows it in
    messages; empty: columns of the entry. ``flat`` makes rows of examples of those of a file, which
    ``rows`` reads by its path, or ``by_columns`` of the entry and whether they need labels too.
    """

    rows: Callable[..., Rows]
    examples: Callable[[Rows, Dataset, bool], Iterable[Example]]
    form: str = ""
    flat: Callable[[Rows], Rows] = iter
    by_columns: bool = False


_ASKED = Layout(table_rows, squad.questions, squad.FORM, squad.flat_rows)
LAYOUTS: dict[str, Layout] = {
    "glue_tsv": Layout(glue_rows, sentences, by_columns=True),
    "table": Layout(named_rows, sentences),
    "adv_glue": Layout(adv_glue_rows, sentences, by_columns=True),
    "conll": Layout(conll_rows, tagged_sentences, by_columns=True),
    **dict.fromkeys(("squad_json", "mrqa", "quac"), _ASKED),  # a file says which of them it is
    "qasrl": Layout(squad.qasrl_rows, squad.questions),
    "zre": Layout(squad.zre_rows, squad.questions, flat=squad.subject_rows),
    "choices": Layout(named_rows, choice_questions),
}


def read_split(
    dataset: Dataset, root: Path | None, split: str, *, unlabelled: bool = False
) -> list[Example]:
    """Return the examples of ``train``, ``dev`` or ``test`` below ``root``, in order of its files;
    without a root, those of the Hugging Face hub.

    A file may also be compressed as ``.gz``. Train and dev need labels, unless they are read as
    ``unlabelled``; those of test may be hidden. Raises ``DataError`` if a file is missing or
    damaged, ``ConfigError`` if the entry has no such split.
    """
    labelled = split != "test" and not unlabelled
    if root is None and split in dataset.splits:
        rows: Rows = hub_rows(dataset, split)
        columns = (dataset.hub and dataset.hub.columns) or dataset.columns
        return table_examples(dataset.name, rows, replace(dataset, columns=columns), labelled)
    examples, root = list[Example](), root or Path()
    for name, path in found_paths(dataset, root, split).items():
        if path is None:
            first, *others = _candidates(dataset, root, name)
            folder, expected = first.parent, Path(dataset.folder) / name
            held = sorted(path.name for path in folder.iterdir())[:8] if folder.is_dir() else []
            raise DataError(
                f"data set {dataset.name!r}: no file {first} (or "
                f"{', '.join(p.name for p in others)}); found there: "
                f"{', '.join(held) or 'nothing'}{nearest_path(first)}\n"
                f"  data.root is {root}; expected below it: {expected}\n"
                "  fix: set `data.root` (or ROAD_DATA) to the directory that holds "
                f"{expected.parts[0]}; for another layout, declare a data set of your own "
                "(data.sets)"
            )
        columns = (split == "test" and dataset.test_columns) or dataset.columns
        layout = LAYOUTS[dataset.layout]
        by = (columns, split != "test") if layout.by_columns else ()
        rows = own_rows(dataset.reader, path) if dataset.reader else layout.rows(path, *by)
        examples += table_examples(str(path), rows, replace(dataset, columns=columns), labelled)
    return examples


READER = "a function of a file's path that yields its rows: (place of the row, {column: value})"


def own_rows(reader: str, path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file by the user's own ``reader``, ``package.module:name``.

    Raises ``ConfigError`` if it cannot be imported, ``DataError`` for what is no row and for an
    exception of the reader, with the last row before it.
    """
    where, read = str(path), named_object("layout", reader, {}, READER)
    try:
        for made in read(path):
            where, row = made
            if not isinstance(where, str) or not isinstance(row, dict):
                raise TypeError(f"yields {made!r}")
            yield where, row
    except RoadError:
        raise
    except Exception as error:
        raise DataError(
            f"{where}: layout = {reader} fails here or behind it: {error!r}\n  allowed: {READER}\n"
            "  fix: correct it until road_ray.testing.check_reader passes"
        ) from error


def table_examples(name: str, rows: Rows, dataset: Dataset, labelled: bool) -> list[Example]:
    """Return the examples of a file, or of a split of the hub.

    Rows without a label are dropped with a warning if they must be ``labelled``; else a label
    that is empty, or below 0 where no label is, is None. Raises ``DataError`` with the place of a
    row in another layout, for repeated ids, and if no row is left.
    """
    layout = LAYOUTS[dataset.layout]
    last: tuple[str, Row] = (name, {})

    def noted() -> Iterator[tuple[str, Row]]:
        nonlocal last
        for last in layout.flat(rows):  # noqa: UP028 - the handler below names it
            yield last

    try:
        examples = list(layout.examples(noted(), dataset, labelled))
    except MISFITS as error:
        where, row = last
        if isinstance(error, KeyError) and row and not layout.form:
            raise DataError(missing_columns(where, [error.args[0]], list(row))) from error
        raise DataError(
            f"{where}: not in the layout {dataset.layout}: {type(error).__name__}: {error}\n"
            f"  allowed: {layout.form or 'the columns of the entry'}"
        ) from error
    if len({example.id for example in examples}) < len(examples):
        first = {example.id: example for example in examples[::-1]}
        repeats = [
            f"id {example.id!r} at {example.where}, first at {first[example.id].where}"
            for example in examples
            if example is not first[example.id]
        ]
        raise DataError(
            f"{name}: {len(repeats)} examples repeat an id\n  {first_faults(repeats)}\n"
            "  fix: remove the copies; predictions are keyed by id"
        )
    needed = labelled and dataset.columns.label is not None
    usable = list[Example]()
    for example in examples:
        lacks = needed and isinstance(example, ChoiceExample) and example.answer is None
        if isinstance(example, TextExample) and example.label not in dataset.label_map:
            lacks = example.label == _NO_LABEL or (needed and not example.label)
        if not lacks:
            usable.append(example)
    if not usable:
        raise DataError(
            f"{name}: 0 usable rows of {len(examples)} ({len(examples)} have no label)\n"
            "  fix: download or write the file again, or omit this split from the entry"
        )
    if len(usable) < len(examples):
        _log.warning("%s: dropped %d rows without a label", name, len(examples) - len(usable))
    return usable


def found_paths(dataset: Dataset, root: Path, split: str) -> dict[str, Path | None]:
    """Return the path of each file of a split, plain or compressed, by the names in the entry; None
    for one that is not there. Raises ``ConfigError`` if the entry has no such split.
    """
    if split not in dataset.splits:
        raise ConfigError(
            f"data set {dataset.name!r} has no {split} split; it has: {', '.join(dataset.splits)}\n"
            f"  fix: name another data set, or give its entry a file for {split}"
        )
    names = dataset.splits[split]
    return {
        name: next(filter(Path.exists, _candidates(dataset, root, name)), None)
        for name in ((names,) if isinstance(names, str) else names)
    }


def _candidates(dataset: Dataset, root: Path, names: str) -> list[Path]:
    """Return the paths of which the first that exists has the rows, for file names ``a|b``."""
    plain = [root / dataset.folder / name for name in names.split("|")]
    return [path for p in plain for path in (p, p.with_name(f"{p.name}.gz"))]
