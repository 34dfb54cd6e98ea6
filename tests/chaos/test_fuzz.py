"""Whatever stands in a file, a reader reads it or tells a mistake in an error of ours: whole files
with pieces replaced, repeated or left out, in other encodings, cut short and with flipped bits.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from road_ray.config import load, preset_named_in
from road_ray.config import yaml_files as yaml_lines
from road_ray.data.catalog import DATASETS, TASKS
from road_ray.data.corpus.documents import Documents
from road_ray.data.encode_examples import encode
from road_ray.data.readers.layouts import read_split
from road_ray.data.task_and_dataset import (
    Choose,
    Classify,
    Columns,
    Dataset,
    Regress,
    Span,
    Tag,
    Task,
)
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import RoadError
from road_ray.recipes.train.config import FinetuneConfig

PAIR, TEXT = Columns(("premise", "hypothesis"), "label", "id"), Columns(("text",), "label")
LABELS = Classify(("no", "yes"))
_SPAN, _NONE = Span(), Columns(())


@dataclass(frozen=True)
class Sample:
    """A whole file of one layout, and how it is read."""

    layout: str
    file: str
    text: str
    kind: Any = _SPAN
    columns: Columns = _NONE
    beside: str = ""  # what stands in a second file that the layout needs

    @property
    def dataset(self) -> Dataset:
        splits = dict.fromkeys(("train", "dev", "test"), self.file)
        return Dataset("fuzz", "fuzz", self.layout, "", self.columns, splits)

    @property
    def task(self) -> Task:
        return Task("fuzz", self.kind)


def _lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _rows(separator: str) -> str:
    rows = ("id", "premise", "hypothesis", "label"), ("1", "a b", "c", "yes"), ("2", "d", "e", "no")
    return "".join(separator.join(row) + "\n" for row in rows)


_ANSWER = {"text": "the apple", "answer_start": 4}
_QUESTION = {"id": "1", "question": "what?", "answers": [_ANSWER], "is_impossible": False}
_TURN = _QUESTION | {"yesno": "x", "followup": "n", "orig_answer": _ANSWER}
_CONTEXT = "red the apple CANNOTANSWER"


def _squad(question: Any) -> str:
    return json.dumps({"data": [{"paragraphs": [{"context": _CONTEXT, "qas": [question]}]}]})


_FOUND = {"qid": "1", "question": "what?", "detected_answers": [{"char_spans": [[4, 12]]}]}
_SWAG = {"sent1": "a", "sent2": "b", "label": 1} | {f"ending{n}": f"c {n}" for n in range(4)}
_HELLA = {"ctx_a": "a", "ctx_b": "b", "endings": ["c", "d", "e", "f"], "label": "2"}
_STEM = {"stem": "why?", "choices": [{"label": letter, "text": "so"} for letter in "ABCDE"]}
_CHOICES = {"commonsenseqa": {"answerKey": "A", "id": "1", "question": _STEM}}
_CHOICES |= {"swag": _SWAG, "hellaswag": _HELLA}
_ADV = {"premise": "a", "hypothesis": "b", "label": 1}

SAMPLES = (
    Sample("glue_tsv", "a.tsv", _rows("\t"), LABELS, PAIR),
    Sample("glue_tsv", "b.tsv", "x\tyes\ta\nx\tno\tb\n", LABELS, Columns((2,), 1)),
    Sample("table", "a.csv", _rows(","), LABELS, PAIR),
    Sample("table", "b.tsv", 'text\tlabel\n"a ""b"""\t1\nc\t0.5\n', Regress(0, 1), TEXT),
    Sample(
        *("table", "a.jsonl", _lines({"text": "a", "label": "yes"}, {"text": "b", "label": "no"})),
        *(LABELS, TEXT),
    ),
    Sample("table", "c.jsonl", _lines({"text": "a", "label": 0.5}), Regress(0, 1), TEXT),
    Sample("conll", "a.txt", "-DOCSTART- O\n\na B-X\nb I-X\nc O\n\nd O\n", Tag(("O", "B-X", "I-X")),
           Columns((0,), -1)),
    Sample("squad_json", "a.json", _squad(_QUESTION)),
    Sample("quac", "a.json", _squad(_TURN)),
    Sample("mrqa", "a.jsonl", _lines({"header": {}}, {"context": _CONTEXT, "qas": [_FOUND]})),
    Sample(
        *("qasrl", "a.gold.csv", "qasrl_id,verb_idx,question,answer_range\ns,1,what?,0:2~!~1:2\n"),
        beside="qasrl_id,tokens\ns,the apple fell\n",
    ),
    Sample("zre", "a.tsv", "r\twhat is XXX?\tit\tit is red\tred\nr\twhat?\tit\tit is red\n"),
    Sample("adv_glue", "a.json", json.dumps({"mnli": [_ADV, _ADV]}), Classify(("0", "1", "2")),
           Columns(("premise", "hypothesis"), "label", "mnli")),
    *(Sample("choices", "a.jsonl", _lines(row), TASKS[DATASETS[name].task].kind,
             DATASETS[name].columns) for name, row in _CHOICES.items()),
    Sample("choices", "a.csv", "q,a,b,gold\nwhy,so,no,B\nwhen,now,then,0\n", Choose(2),
           Columns(("q", "a", "b"), "gold")),
)  # fmt: skip
TEXTS = (("a.txt", "one line\nanother\n\nsecond document\n"), ("a.jsonl", _lines({"text": "one"})))
SETTINGS = """\
preset: glue-sst2
seed: 1
data: &data
  dataset: sst2
  max_length_tokens: 64
  sets:
    mine: {train: a.csv, text: [a, b], label: y, labels: [sales, help]}
optimizer:
  peak_lr: 5e-5
  warmup_steps: 0.1
training: {steps: 10, precision: bf16}
init: runs/pretrain
"""

_DEEP = (3, 30, 300, 900, 990, 1_200, 100_000)
_WORDS = r"""
null true 0 -1 1e999 NaN -Infinity [] {} "" [[]] '' 1.5 0x10 1e-400 ² ١٢ é 🙂 ~ | > ? - : ,
*data &data !!python/object:os.system !!set 2026-01-01 2026-13-45 0o17 1_000 12:30:45 =
--- ... O I- B-X ~!~ 0:0 " ' \ "\ud800" "\u0000" {"a":1,"a":2}
"""
_PIECES = st.one_of(
    st.sampled_from(_WORDS.split()),
    st.sampled_from(["9" * 4_299, "-" + "1" * 5_000, "1:" + "9" * 5_000, "x" * 200_000]),
    st.sampled_from(["<<: *data", "%YAML 1.1", " ", "\t", "\n", "\r", "\r\n", "\n\n"]),
    st.sampled_from(["\x00", "\x85", "\u2028", "\u202e", "\ufeff", "\ud7ff"]),
    st.sampled_from(_DEEP).map(lambda depth: "[" * depth + "]" * depth),
    st.sampled_from(_DEEP).map(lambda depth: '{"a":' * depth + "1" + "}" * depth),
    st.sampled_from(_DEEP).map(
        lambda depth: "\n".join(" " * n + "a:" for n in range(min(depth, 300)))
    ),
    st.text(max_size=8),
    st.integers().map(str),
    st.floats().map(str),
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.+?]+|\s|.', re.DOTALL)
_GROUP = re.compile(rf"\[[^\[\]{{}}]*\]|\{{[^\[\]{{}}]*\}}|{_TOKEN.pattern}", re.DOTALL)
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "shift_jis")
_SEPARATORS = (("\n", "\r\n"), ("\n", "\r"), ("\n", "\u2028"), (",", ";"), ("\t", " "), (",", "\t"))
_KINDS = 7  # of what is done to a file; from 3 on its values are changed


@st.composite
def changed(draw: Any, text: str) -> str:
    """The text with one or two of its tokens or bracketed values replaced, repeated, left out."""
    tokens = draw(st.sampled_from([_TOKEN, _GROUP])).findall(text)
    words = [place for place, token in enumerate(tokens) if len(token) > 1 or token.isalnum()]
    for _ in range(draw(st.integers(1, 2))):
        place = draw(st.sampled_from(words) | st.integers(0, len(tokens) - 1))
        do = draw(st.integers(0, 5))
        tokens[place] = "" if do == 0 else tokens[place] * 2 if do == 1 else draw(_PIECES)
    return "".join(tokens)


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """The bytes, some of them flipped, cut off, or with others among them."""
    if not content:
        return content
    place = draw(st.integers(0, len(content) - 1))
    match draw(st.integers(0, 3)):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + draw(st.binary(max_size=8)) + content[place:]
        case 2:
            return draw(st.binary(max_size=64))
    flipped = bytearray(content)
    flipped[place] ^= 1 << draw(st.integers(0, 7))
    return bytes(flipped)


@st.composite
def written(draw: Any, text: str) -> bytes:
    """The text: mostly changed, else with other separators, in another encoding, or damaged."""
    match draw(st.integers(0, _KINDS)):
        case 0:
            return draw(damaged(text.encode()))
        case 1:
            return draw(changed(text)).encode(draw(st.sampled_from(_ENCODINGS)), "replace")
        case 2:
            return (
                draw(changed(text))
                .replace(*draw(st.sampled_from(_SEPARATORS)))
                .encode("utf-8", "replace")
            )
    return draw(changed(text)).encode("utf-8", "surrogatepass")


FEW, MANY = 20, 850  # of each of the layouts, texts and ways to write settings
AMOUNTS = (
    pytest.param(FEW, id="few"),
    pytest.param(MANY, id="many", marks=[pytest.mark.chaos, pytest.mark.timeout(900)]),
)
amounts = pytest.mark.parametrize("amount", AMOUNTS)


def tried(amount, strategy, act):
    """``act`` on so many examples, always the same ones; errors of ours are answers."""

    @settings(
        max_examples=amount,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(example):
        with suppress(RoadError):
            act(example)

    one()


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(["the red apple fell what is it a b c d e yes no"], vocab_size=60)


def encoded(sample, examples, tokenizer):
    limits = {"stride_tokens": 8, "max_length_tokens": 32}
    return encode(examples, sample.dataset, sample.task, tokenizer, limits)


def test_every_sample_can_be_read(tmp_path, tokenizer):
    """Else its damaged copies would show nothing."""
    for sample in SAMPLES:
        (tmp_path / "a.full.csv").write_text(sample.beside)
        (tmp_path / sample.file).write_text(sample.text)
        examples = read_split(sample.dataset, tmp_path, "train")
        assert len(encoded(sample, examples, tokenizer))


@amounts
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s.layout}-{Path(s.file).stem}")
def test_readers_of_data_sets(sample, amount, tmp_path, tokenizer):
    if sample.beside:
        (tmp_path / "a.full.csv").write_text(sample.beside)

    def read(content):
        (tmp_path / sample.file).write_bytes(content)
        for split in ("train", "test"):
            examples = read_split(sample.dataset, tmp_path, split)
            encoded(sample, examples[:4], tokenizer)

    tried(amount, written(sample.text), read)


@amounts
@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[name for name, _ in TEXTS])
def test_readers_of_corpora(name, text, amount, tmp_path):
    def read(content):
        (tmp_path / name).write_bytes(content)
        for document in islice(Documents(tmp_path / name), 4):
            document.encode()

    tried(amount, written(text), read)


@amounts
def test_settings_in_files(amount, tmp_path):
    def read(content):
        (tmp_path / "a.yaml").write_bytes(content)
        with suppress(RoadError):
            preset_named_in(tmp_path / "a.yaml")
        load(FinetuneConfig, path=tmp_path / "a.yaml")

    tried(amount, written(SETTINGS), read)


@amounts
def test_settings_in_a_line(amount):
    lines = changed("data.sets.mine={train: a.csv, labels: [a, b], text: [a, 1.5e3]}")
    rest = changed("optimizer.peak_lr=5e-5") | changed("training.steps=10")
    tried(amount, lines | rest, lambda line: load(FinetuneConfig, overrides=[line]))


@amounts
def test_values_of_yaml(amount):
    pieces = st.text(max_size=30) | changed("[1, 1e-4, {a: b}, 'c', 2026-01-01]")
    tried(amount, pieces, lambda text: yaml_lines.parse_yaml(text, "a line"))
