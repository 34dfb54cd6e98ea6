"""Reader of tagged sentences, as in CoNLL-2003.

Layout: one word a line in columns, which are separated by tabs where the line has one and else by
spaces, an empty line between sentences; or a table whose rows have a list of words and a list of
tags. Columns: the numbers of word and tag that the entry names. Tags in IOB1, IOBES and BILOU, and
those without a type, are converted to IOB2.
Source: Tjong Kim Sang and De Meulder 2003.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from road_ray.data.features.examples_and_features import TagExample
from road_ray.data.readers.parts.table_rows import class_names, table_rows
from road_ray.data.readers.parts.text_files import check_text, missing_columns, numbered_lines
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError, shorten

TAG = re.compile(r"O|[BI]|[BIESUL]-\S+")
UNTYPED = "ENTITY"  # type of entities whose tags have none: B and I
_DOCUMENT = "-DOCSTART-"
# Columns of the copies on the Hugging Face hub.
_HUB_WORDS, _HUB_TAGS = "tokens", "ner_tags"


def read_conll(path: Path, columns: Columns, *, labelled: bool = False) -> list[TagExample]:
    """Return the sentences; columns are numbers of word and tag, -1 for the last.

    A line ``-DOCSTART-`` ends a sentence and is skipped. A file without a tag has sentences without
    tags, unless ``labelled``. Raises ``DataError`` with ``file:line`` for a missing column or a tag
    without ``O``, ``B-`` or ``I-``, and for a file that mixes IOB1 and IOB2.
    """
    sentences: list[TagExample] = []
    lines: list[int] = []
    words: list[tuple[int, str, str | None]] = []
    for number, line in [*numbered_lines(path), (0, "")]:
        cells = cells_of(line)
        if cells and cells[0] != _DOCUMENT:
            words.append((number, *_word(cells, columns, f"{path}:{number}", labelled)))
        elif words:
            tags = tuple(tag for _, _, tag in words if tag is not None)
            sentences.append(
                TagExample(
                    id=str(len(sentences)),
                    words=tuple(word for _, word, _ in words),
                    tags=tags if len(tags) == len(words) else None,
                    where=f"{path}:{words[0][0]}",
                )
            )
            lines += [number for number, _, _ in words]
            words = []
    if not sentences:
        raise DataError(f"{path}: 0 sentences")
    tags_of = [sentence.tags for sentence in sentences if sentence.tags]
    if not labelled and not any(TAG.fullmatch(tag) for tags in tags_of for tag in tags):
        return [replace(sentence, tags=None) for sentence in sentences]
    in_iob2 = iter(iob2(tags_of, [f"{path}:{number}" for number in lines]))
    return [
        TagExample(s.id, s.words, next(in_iob2) if s.tags else None, s.where) for s in sentences
    ]


def read_tagged_rows(path: Path, columns: Columns, *, labelled: bool = False) -> list[TagExample]:
    """Return the sentences of a table with a list of words and a list of tags in each row."""
    names = class_names(path).get(word_and_tag(columns)[1], ())
    examples = [
        tagged_row(row, columns, str(number), where, names, labelled=labelled)
        for number, (where, row) in enumerate(table_rows(path))
    ]
    if not examples:
        raise DataError(f"{path}: 0 sentences")
    return examples


def tagged_row(
    row: Mapping[str, object],
    columns: Columns,
    id: str,
    where: str,
    names: Sequence[str] = (),
    *,
    labelled: bool,
) -> TagExample:
    """Return a sentence of lists of words and tags; ``names`` are those of tags that are numbers.

    Columns that the data set does not name are ``tokens`` and ``ner_tags``.
    """
    words, tags = word_and_tag(columns)
    missing = [name for name in (words, *([tags] if labelled else [])) if name not in row]
    if missing:
        raise DataError(missing_columns(where, missing, list(row)))
    word_list, tag_list = row[words], row.get(tags)
    if not isinstance(word_list, list) or not isinstance(tag_list, list | None):
        raise DataError(f"{where}: columns {words!r} and {tags!r} must be lists")
    texts = tuple(check_text(word, where, words) for word in word_list)
    if tag_list is None and not labelled:
        return TagExample(id, texts, None, where)
    if tag_list is None or len(tag_list) != len(texts):
        raise DataError(f"{where}: {len(texts)} words and {len(tag_list or ())} tags")
    written = [names[tag] if isinstance(tag, int) and names else str(tag) for tag in tag_list]
    written = [columns.tag_names.get(tag, tag) for tag in written]
    (converted,) = iob2([written], [f"{where} tag {n + 1}" for n in range(len(written))])
    return TagExample(str(row.get("id", id)), texts, converted, where)


def word_and_tag(columns: Columns) -> tuple[str, str]:
    """Return the columns of words and tags in a table."""
    text, tag = columns.text[0], columns.label
    words = text if isinstance(text, str) else _HUB_WORDS
    return words, tag if isinstance(tag, str) else _HUB_TAGS


def cells_of(line: str) -> list[str]:
    """Return the columns of a line: those between its tabs if it has one, else between spaces.
    Other white space, such as a no-break space, is part of a word.
    """
    line = line.rstrip(" \t")
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.split(" ") if cell]


def iob2(sentences: Sequence[Sequence[str]], where: Sequence[str]) -> list[tuple[str, ...]]:
    """Convert tags to IOB2, where every entity begins with ``B-``; ``where`` has one place a tag.

    Tags may be in IOB1, IOB2, IOBES or BILOU; entities of the tags B and I are of type ``ENTITY``.
    Raises ``DataError`` for tags that mix IOB1 with another scheme.
    """
    places = iter(where)
    opened: dict[str, str] = {}  # I or B, which opens an entity -> where it was first seen
    result = []
    for tags in sentences:
        converted: list[str] = []
        before: str | None = None  # type of the entity that the next word may continue
        for tag in tags:
            place = next(places)
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
        result.append(tuple(converted))
    if len(opened) > 1:
        raise DataError(
            f"the tags break IOB: {opened['I']} as in IOB1, {opened['B']} as in IOB2\n"
            "  allowed: one of the two schemes in a file\n"
            "  fix: begin every entity with B- (IOB2), or with I- unless it follows one of its type"
        )
    return result


def _word(
    cells: Sequence[str], columns: Columns, where: str, labelled: bool
) -> tuple[str, str | None]:
    """Return the word of a line and its tag; None if the tag's column is missing or the word's."""
    word, tag = columns.text[0], columns.label
    places: list[int | None] = []
    for column in (word, tag):
        there = isinstance(column, int) and -len(cells) <= column < len(cells)
        places.append(int(column) % len(cells) if there and column is not None else None)
    of_word, of_tag = places
    if of_tag == of_word:
        of_tag = None
    if of_word is None or (of_tag is None and labelled):
        raise DataError(
            f"{where}: {len(cells)} columns, word and tag are numbers {word} and {tag}; seen "
            f"{shorten(' '.join(cells))!r}\n  fix: correct the line, or `columns` of the entry"
        )
    if not cells[of_word]:
        raise DataError(
            f"{where}: the word is empty; seen {shorten(' '.join(cells))!r}\n"
            "  fix: remove the line, or write an empty line between sentences"
        )
    text = check_text(cells[of_word], where, word)
    return text, None if of_tag is None else columns.tag_names.get(cells[of_tag], cells[of_tag])
