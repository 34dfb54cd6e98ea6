"""Tagged sentences, as in CoNLL-2003.

Layout: one word a line in columns, which are separated by tabs where the line has one and else by
spaces, an empty line between sentences; or a table whose rows have a list of words and a list of
tags. Columns: the numbers of word and tag that the entry names, or the names of the lists. Tags in
IOB1, IOBES and BILOU, and those without a type, are converted to IOB2.
Source: Tjong Kim Sang and De Meulder 2003.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from road_ray.data.examples import TagExample
from road_ray.data.readers.tables import (
    NESTED,
    Row,
    Rows,
    check_text,
    missing_columns,
    named_rows,
    numbered_lines,
    suffix_of,
)
from road_ray.data.task_and_dataset import Columns, Dataset
from road_ray.errors import DataError, shorten

TAG = re.compile(r"O|[BI]|[BIESUL]-\S+")
UNTYPED = "ENTITY"  # type of entities whose tags have none: B and I
_DOCUMENT = "-DOCSTART-"
# Columns of the copies on the Hugging Face hub.
_HUB_WORDS, _HUB_TAGS = "tokens", "ner_tags"


def tagged_sentences(rows: Rows, dataset: Dataset, labelled: bool) -> list[TagExample]:
    """Return the sentences of rows with a list of words and a list of tags.

    A table without a tag has sentences without tags, unless they need some. Raises ``DataError``
    for a tag without ``O``, ``B-`` or ``I-``, and for a table that mixes IOB1 and IOB2.
    """
    words, tags = word_and_tag(dataset.columns)
    names = dataset.label_map
    examples: list[TagExample] = []
    for number, (where, row) in enumerate(rows):
        if missing := [name for name in (words, *([tags] if labelled else [])) if name not in row]:
            raise DataError(missing_columns(where, missing, list(row)))
        of_row = row.get(tags)
        if not isinstance(row[words], list) or not isinstance(of_row, list | None):
            raise DataError(f"{where}: columns {words!r} and {tags!r} must be lists")
        texts = tuple(check_text(word, where, words) for word in row[words])
        if len(texts) != len(texts if of_row is None and not labelled else of_row or ()):
            raise DataError(f"{where}: {len(texts)} words and {len(of_row or ())} tags")
        written = None if of_row is None else tuple(names.get(str(t), str(t)) for t in of_row)
        id = row.get("id", number) if dataset.columns.id is None else row[dataset.columns.id]
        examples.append(TagExample(str(id), texts, written, where))
    if not labelled and not any(TAG.fullmatch(tag) for e in examples for tag in e.tags or ()):
        return [replace(example, tags=None) for example in examples]
    return iob2(examples)


def word_and_tag(columns: Columns) -> tuple[str, str]:
    """Return the columns of words and tags in a table, which are ``tokens`` and ``ner_tags`` where
    the data set names none.
    """
    text, tag = next(iter(columns.text), None), columns.label
    words = text if isinstance(text, str) else _HUB_WORDS
    return words, tag if isinstance(tag, str) else _HUB_TAGS


def iob2(sentences: Sequence[TagExample]) -> list[TagExample]:
    """Return sentences with tags in IOB2, where every entity begins with ``B-``.

    Tags may be in IOB1, IOB2, IOBES or BILOU; entities of the tags B and I are of type ``ENTITY``.
    Raises ``DataError`` for tags that mix IOB1 with another scheme.
    """
    opened: dict[str, str] = {}  # I or B, which opens an entity -> where it was first seen
    result = []
    for sentence in sentences:
        converted: list[str] = []
        before: str | None = None  # type of the entity that the next word may continue
        for number, tag in enumerate(sentence.tags or (), 1):
            place = f"{sentence.where} word {number}"
            if not TAG.fullmatch(tag):
                raise DataError(f"{place}: tag {tag!r}\n  allowed: O, B-TYPE or I-TYPE")
            if tag == "O":
                converted.append(tag)
                before = None
                continue
            mark, kind = tag[0], tag[2:] or UNTYPED
            begins = mark in "BSU"
            if kind != before:
                opened.setdefault("B" if begins else "I", f"{place} opens an entity with {tag}")
            converted.append(f"{'B' if begins or kind != before else 'I'}-{kind}")
            before = None if mark in "ESUL" else kind
        tags = None if sentence.tags is None else tuple(converted)
        result.append(replace(sentence, tags=tags))
    if len(opened) > 1:
        raise DataError(
            f"the tags are of two schemes: {opened['I']}, {opened['B']}\n"
            "  allowed: in a file, entities that begin with I- (IOB1), or none that does (IOB2, "
            "IOBES, BILOU)\n  fix: begin every entity with B-, or S- or U- if it is one word"
        )
    return result


def conll_rows(path: Path, columns: Columns, labelled: bool) -> Iterator[tuple[str, Row]]:
    """Yield the sentences of a file of columns, whose numbers are those of word and tag, -1 for the
    last, as lists of words and of tags, None if one is missing; or the rows of a table with lists.
    A file of columns has the word first and the tag last where the entry names lists of a table.

    Empty lines and lines ``-DOCSTART-`` stand between sentences. Raises ``DataError`` with
    ``file:line`` for a missing column.
    """
    if path.is_dir() or suffix_of(path) in NESTED:
        yield from named_rows(path)
        return
    first, last = next(iter(columns.text), 0), columns.label
    first, last = first if isinstance(first, int) else 0, last if isinstance(last, int) else -1
    words_name, tags_name = word_and_tag(columns)
    words: list[str] = []
    tags: list[str] = []
    where = ""
    for number, line in [*numbered_lines(path), (0, "")]:
        cells = cells_of(line)
        if cells and cells[0] != _DOCUMENT:
            where = where if words else f"{path}:{number}"
            numbers = range(-len(cells), len(cells))  # -1 is the last
            numbered: dict[object, str] = dict(zip(numbers, cells * 2, strict=True))
            word, tag = numbered.get(first), numbered.get(last)
            has_tag = tag is not None and len(cells) > 1
            if not word or (labelled and not has_tag):
                raise DataError(
                    f"{path}:{number}: {len(cells)} columns, word and tag are numbers "
                    f"{first} and {last}; seen {shorten(line)!r}\n"
                    "  fix: correct the line, or `columns` of the entry; an empty line stands "
                    "between sentences"
                )
            words.append(word)
            tags += [str(tag)] * has_tag
        elif words:
            yield where, {words_name: words, tags_name: tags if len(tags) == len(words) else None}
            words, tags = [], []


def cells_of(line: str) -> list[str]:
    """Return the columns of a line: those between its tabs if it has one, else between spaces.
    Other white space, such as a no-break space, is part of a word.
    """
    line = line.rstrip(" \t")
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.split(" ") if cell]
