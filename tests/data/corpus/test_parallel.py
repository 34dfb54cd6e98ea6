"""Blocks, their order, and a process that dies."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

from road_ray.data.corpus import parallel
from road_ray.data.corpus.encode import Encoder
from road_ray.data.corpus.parallel import blocks, encoded_blocks
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import ResourceError

DOCUMENTS = [f"The cat number {n} sat." for n in range(30)]


@pytest.fixture(scope="module")
def encoder():
    return Encoder.of(train_wordpiece(DOCUMENTS, vocab_size=60), max_length_tokens=12, seed=3)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(parallel, "_BLOCK_CHARACTERS", 100)


def test_blocks_hold_all_documents_in_order():
    made = list(blocks(DOCUMENTS))
    assert [d for block in made for d in block] == DOCUMENTS
    assert all(sum(map(len, block)) >= 100 for block in made[:-1])
    assert list(blocks([])) == []


def test_later_blocks_are_those_of_the_whole(encoder):
    whole = list(encoded_blocks(DOCUMENTS, encoder, processes=1))
    rest = list(encoded_blocks(DOCUMENTS, encoder, processes=1, start=3))
    assert [number for number, _ in rest] == [number for number, _ in whole][3:]
    assert all(
        a.tokens.tolist() == b.tokens.tolist()
        for (_, a), (_, b) in zip(whole[3:], rest, strict=True)
    )


def test_a_process_that_dies_is_told(encoder, monkeypatch):
    started = []
    start = parallel._process

    @contextmanager
    def keep(encoder):
        with start(encoder) as process:
            started.append(process)
            yield process

    monkeypatch.setattr(parallel, "_process", keep)

    def documents():
        yield from DOCUMENTS[:25]
        for process in started:
            process.kill()
            process.wait()
        yield from DOCUMENTS * 3

    with pytest.raises(ResourceError, match=r"(?s)ended early .exit code -9.*memory"):
        list(encoded_blocks(documents(), encoder, processes=2))


@pytest.mark.parametrize("begun", [True, False], ids=["while it works", "while it starts"])
def test_memory_is_not_blamed_for_a_process_that_was_not_killed(encoder, monkeypatch, begun):
    if begun:
        monkeypatch.setattr(Encoder, "settings", lambda self: b"{}")
    else:
        monkeypatch.setattr(parallel.sys, "executable", shutil.which("false"))
        monkeypatch.setattr(Encoder, "settings", lambda self: b" " * (1 << 20))
    with pytest.raises(ResourceError, match=r"ended early .exit code 1") as told:
        list(encoded_blocks(DOCUMENTS, encoder, processes=2))
    assert "memory" not in str(told.value)


def test_a_module_of_the_working_directory_is_not_run(encoder, tmp_path, monkeypatch):
    (tmp_path / "tokenizers.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    made = list(encoded_blocks(DOCUMENTS, encoder, processes=2))
    assert sum(block.documents for _, block in made) == len(DOCUMENTS)
