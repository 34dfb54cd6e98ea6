"""CoNLL columns: sentences, IOB1 to IOB2, and what breaks either, with file and line."""

import pytest

from road_ray.data.examples import TagExample
from road_ray.data.inspection.data_files import layout_of
from road_ray.data.readers.conll import iob2
from road_ray.data.task_and_dataset import Columns
from road_ray.errors import DataError
from tests.data.entries import read

COLUMNS = Columns((0,), label=-1)


def tags(*sentences):
    made = [TagExample("", (), tuple(sentence.split()), "f:1") for sentence in sentences]
    return [" ".join(example.tags) for example in iob2(made)]


def read_conll(path, columns, labelled=False):
    return read(path, "conll", columns, "train" if labelled else "test")


@pytest.mark.parametrize(
    ("given", "iob2"),
    [
        ("I-PER I-PER O I-ORG | I-LOC B-LOC I-LOC", "B-PER I-PER O B-ORG | B-LOC B-LOC I-LOC"),
        ("B-PER I-PER O B-ORG B-ORG | O", "B-PER I-PER O B-ORG B-ORG | O"),
        ("I-PER I-ORG", "B-PER B-ORG"),
        (  # IOBES
            "S-PER O B-ORG I-ORG E-ORG S-ORG B-LOC E-LOC",
            "B-PER O B-ORG I-ORG I-ORG B-ORG B-LOC I-LOC",
        ),
        ("U-PER U-PER B-ORG I-ORG L-ORG", "B-PER B-PER B-ORG I-ORG I-ORG"),  # BILOU
        ("B I O B B I", "B-ENTITY I-ENTITY O B-ENTITY B-ENTITY I-ENTITY"),
        ("I I O I", "B-ENTITY I-ENTITY O B-ENTITY"),
    ],
)
def test_every_scheme_becomes_iob2(given, iob2):
    assert tags(*given.split(" | ")) == iob2.split(" | ")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("I-PER O B-ORG", "1 opens an entity with I-PER, f:1 word 3 opens an entity with B-ORG"),
        ("S-PER I-PER", r"(?s)f:1 word 2 opens an entity with I-PER, .*IOBES"),
    ],
)
def test_tags_that_break_a_scheme_name_both_places(broken, message):
    with pytest.raises(DataError, match=message):
        tags(broken)


@pytest.mark.parametrize("columns", [COLUMNS, Columns(("words",), label="tags")])
def test_sentences_are_parted_by_empty_lines_and_documents(tmp_path, columns):
    path = tmp_path / "eng.train"
    path.write_text(
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nPeter NNP I-NP I-PER"
    )
    first, second = read_conll(path, columns, labelled=True)
    assert (first.words, first.tags) == (("EU", "rejects"), ("B-ORG", "O"))
    assert (second.words, second.tags, second.id) == (("Peter",), ("B-PER",), "1")
    assert second.where == f"{path}:7"


@pytest.mark.parametrize("line", ["EU\nrejects\n", "EU NNP\nrejects VBZ\n"])
def test_a_test_file_without_tags_is_read(tmp_path, line):
    path = tmp_path / "x"
    path.write_text(line)
    (sentence,) = read_conll(path, COLUMNS)
    assert (sentence.words, sentence.tags) == (("EU", "rejects"), None)
    with pytest.raises(DataError, match="x:1"):
        read_conll(path, COLUMNS, labelled=True)
    path.write_text("EU NNP I-ORG\nrejects VBZ\n")
    with pytest.raises(DataError, match=r"x:1 word 2: tag 'VBZ'"):
        read_conll(path, COLUMNS)


@pytest.mark.parametrize(
    ("line", "word", "tag"),
    [
        ("New York\tB-LOC", "New York", "B-LOC"),  # columns between tabs
        ("New York\tNNP\tB-LOC", "New York", "B-LOC"),
        ("10\u00a0000 O", "10\u00a0000", "O"),  # no-break space, thousands in French
        ("a\u0085b O", "a\u0085b", "O"),  # next line, which str.split and str.splitlines part
        ("a\u2028b O", "a\u2028b", "O"),
        ("\u3000 O", "\u3000", "O"),  # a word of one wide space, in Japanese corpora
        ("\u3000\tO", "\u3000", "O"),
        ("  EU   B-ORG  ", "EU", "B-ORG"),
        ("EU\tB-ORG\t", "EU", "B-ORG"),
        ("हिन्दी O", "हिन्दी", "O"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_words_of_a_line_are_whole(tmp_path, line, word, tag, end):
    path = tmp_path / "x.conll"
    path.write_bytes(f"EU B-ORG{end}{line}{end}{end}".encode())
    (sentence,) = read_conll(path, COLUMNS, labelled=True)
    assert (sentence.words, sentence.tags) == (("EU", word), ("B-ORG", tag))
    assert layout_of(path) == "conll"
