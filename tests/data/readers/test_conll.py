"""CoNLL columns: sentences, IOB1 to IOB2, and what breaks either, with file and line."""

from __future__ import annotations

import pytest

from road_ray.data.catalog import dataset
from road_ray.data.readers.conll import iob2, read_conll
from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError

COLUMNS = Columns((0,), label=-1)


def tags(*sentences: str) -> list[str]:
    split = [sentence.split() for sentence in sentences]
    where = [f"f:{n + 1}" for n in range(sum(map(len, split)))]
    return [" ".join(labels) for labels in iob2(split, where)]


def test_iob1_becomes_iob2_and_iob2_stays():
    assert tags("I-PER I-PER O I-ORG", "I-LOC B-LOC I-LOC") == [
        "B-PER I-PER O B-ORG",
        "B-LOC B-LOC I-LOC",
    ]
    assert tags("B-PER I-PER O B-ORG B-ORG", "O") == ["B-PER I-PER O B-ORG B-ORG", "O"]
    assert tags("I-PER I-ORG") == ["B-PER B-ORG"]


def test_tags_that_break_iob_name_both_places():
    message = (
        r"f:1 opens an entity with I-PER as in IOB1, f:3 opens an entity with B-ORG as in IOB2"
    )
    with pytest.raises(DataError, match=message):
        tags("I-PER O B-ORG")
    with pytest.raises(DataError, match=r"f:2: tag 'PER'"):
        tags("O PER")


def test_sentences_are_parted_by_empty_lines_and_documents(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text(
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nPeter NNP I-NP I-PER"
    )
    first, second = read_conll(path, COLUMNS, labelled=True)
    assert (first.words, first.tags) == (("EU", "rejects"), ("B-ORG", "O"))
    assert (second.words, second.tags, second.id) == (("Peter",), ("B-PER",), "1")
    assert second.where == f"{path}:7"


def test_a_line_without_its_tag_is_named(tmp_path):
    path = tmp_path / "x"
    path.write_text("EU NNP I-NP I-ORG\nrejects\n")
    wide = Columns((0,), label=3)
    with pytest.raises(DataError, match=r"x:2: 1 columns, word and tag are numbers 0 and 3"):
        read_conll(path, wide, labelled=True)
    assert read_conll(path, wide)[0].tags is None
    path.write_text("\n\n")
    with pytest.raises(DataError, match="0 sentences"):
        read_conll(path, COLUMNS)


def test_conll_2003_is_read_whole(real_data):
    counts = {"train": 14041, "dev": 3250, "test": 3453}
    for split, count in counts.items():
        sentences = read_split(dataset("conll2003"), real_data, split)
        assert len(sentences) == count
        entities = sum(tag.startswith("B-") for s in sentences for tag in s.tags)
        assert entities == {"train": 23499, "dev": 5942, "test": 5648}[split]


@pytest.mark.parametrize("line", ["EU\nrejects\n", "EU NNP\nrejects VBZ\n"])
def test_a_test_file_without_tags_is_read(tmp_path, line):
    path = tmp_path / "x"
    path.write_text(line)
    (sentence,) = read_conll(path, COLUMNS)
    assert (sentence.words, sentence.tags) == (("EU", "rejects"), None)
    with pytest.raises(DataError, match=r"x:1: "):
        read_conll(path, COLUMNS, labelled=True)
    path.write_text("EU NNP I-ORG\nrejects VBZ\n")
    with pytest.raises(DataError, match=r"x:2: tag 'VBZ'"):
        read_conll(path, COLUMNS)


def test_a_word_is_not_its_own_tag(tmp_path):
    path = tmp_path / "x"
    path.write_text("EU I-ORG\nO\n")
    with pytest.raises(DataError, match=r"x:2: 1 columns, word and tag are numbers 0 and -1"):
        read_conll(path, COLUMNS, labelled=True)
