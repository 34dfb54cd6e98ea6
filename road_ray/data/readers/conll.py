"""Tagged words in columns, one word a line and an empty line between sentences, as CoNLL has them.

Entity tags leave here in the IOB2 scheme, whichever of IOB1 and IOB2 the file is in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from road_ray.data.features.types import TagExample
from road_ray.data.readers.files import check_text, numbered_lines, shorten
from road_ray.data.schema import Columns
from road_ray.errors import DataError

_TAG = re.compile(r"O|[BI]-\S+")
_DOCUMENT = "-DOCSTART-"


def read_conll(path: Path, columns: Columns, *, labelled: bool = False) -> list[TagExample]:
    """All sentences; word and tag stand in the columns of these numbers, -1 is the last.

    Lines of ``-DOCSTART-`` end a sentence and are left out. Raises ``DataError`` with ``file:line``
    for a missing column, and for tags that break IOB: no ``O``, ``B-`` or ``I-``, or some entities
    opened as only IOB1 does and some as only IOB2 does.
    """
    sentences: list[TagExample] = []
    lines: list[int] = []
    words: list[tuple[int, str, str | None]] = []
    for number, line in [*numbered_lines(path), (0, "")]:
        cells = line.split()
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
    whole = [sentence.tags for sentence in sentences if sentence.tags]
    in_iob2 = iter(iob2(whole, [f"{path}:{number}" for number in lines]))
    return [
        TagExample(s.id, s.words, next(in_iob2) if s.tags else None, s.where) for s in sentences
    ]


def iob2(sentences: Sequence[Sequence[str]], where: Sequence[str]) -> list[tuple[str, ...]]:
    """The tags in IOB2, where every entity opens with ``B-``; ``where`` has one place a tag.

    Raises ``DataError`` for tags that are neither whole IOB1 nor whole IOB2.
    """
    places = iter(where)
    opened: dict[str, str] = {}  # by the letter that opens an entity: the first place, and the tag
    result = []
    for tags in sentences:
        before, found = "O", []
        for tag in tags:
            place = next(places)
            if not _TAG.fullmatch(tag):
                raise DataError(f"{place}: tag {tag!r}\n  allowed: O, B-TYPE or I-TYPE")
            goes_on = tag != "O" and before[2:] == tag[2:]
            if tag != "O" and not goes_on:
                opened.setdefault(tag[0], f"{place} opens an entity with {tag}")
            found.append(tag if goes_on or tag == "O" else f"B-{tag[2:]}")
            before = tag
        result.append(tuple(found))
    if len(opened) > 1:
        raise DataError(
            f"the tags break IOB: {opened['I']} as in IOB1, {opened['B']} as in IOB2\n"
            "  allowed: one of the two schemes in a file\n"
            "  fix: open every entity with B- (IOB2), or with I- unless it follows one of its type"
        )
    return result


def _word(
    cells: Sequence[str], columns: Columns, where: str, labelled: bool
) -> tuple[str, str | None]:
    word, tag = columns.text[0], columns.label
    found: list[str | None] = []
    for column in (word, tag):
        there = isinstance(column, int) and -len(cells) <= column < len(cells)
        found.append(cells[int(column)] if there and column is not None else None)
    if found[0] is None or (found[1] is None and labelled):
        raise DataError(
            f"{where}: {len(cells)} columns, word and tag are numbers {word} and {tag}; seen "
            f"{shorten(' '.join(cells))!r}\n  fix: mend the line, or `columns` of the entry"
        )
    return check_text(found[0], where, word), found[1]
