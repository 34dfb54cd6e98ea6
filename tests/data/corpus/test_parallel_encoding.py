"""Blocks, their order, and processes that die."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

import pytest

from road_ray.data.corpus import cut_shards
from road_ray.data.corpus.cut_shards import (
    BlockNumber,
    PartProgress,
    PartWork,
    blocks,
    blocks_of,
    chained,
)
from road_ray.data.corpus.encode_documents import Encoder, text_digest
from road_ray.data.corpus.parallel_encoding import encoded_blocks
from road_ray.data.tokenizer import train_wordpiece
from road_ray.errors import DataError, ResourceError

DOCUMENTS = [f"The cat number {n} sat." for n in range(30)]


@pytest.fixture(scope="module")
def encoder():
    return Encoder.of(train_wordpiece(DOCUMENTS, vocab_size=60), max_length_tokens=12, seed=3)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(cut_shards, "_BLOCK_CHARACTERS", 100)


def rows(encoded):
    return [(number, block.documents, block.tokens.tolist()) for number, block in encoded]


def test_blocks_hold_all_documents_in_order():
    made = list(blocks(DOCUMENTS))
    assert [d for block in made for d in block] == DOCUMENTS
    assert all(sum(map(len, block)) >= 100 for block in made[:-1])
    assert list(blocks([])) == []


def numbered(documents, part=0):
    return ((BlockNumber(part, n), block) for n, block in enumerate(blocks(documents)))


def test_later_blocks_are_those_of_the_whole(encoder):
    whole = rows(encoded_blocks(numbered(DOCUMENTS), encoder, processes=1))
    rest = islice(numbered(DOCUMENTS), 3, None)
    assert rows(encoded_blocks(rest, encoder, processes=1)) == whole[3:]


def test_rows_of_a_block_depend_on_its_part(encoder):
    text = [" ".join(DOCUMENTS)] * 3
    first, other = (rows(encoded_blocks(numbered(text, n), encoder)) for n in (0, 1))
    assert [r[1:] for r in first] != [r[1:] for r in other]


def test_what_is_encoded_is_skipped_and_must_be_the_same_text():
    texts = [text_digest(block) for block in blocks(DOCUMENTS)]
    done = PartProgress(2, block=2, text=chained(chained("", texts[0]), texts[1]))
    left = list(blocks_of([PartWork(DOCUMENTS, done)]))
    assert left == list(numbered(DOCUMENTS, 2))[2:]
    with pytest.raises(DataError, match="part 2 of the corpus: its first 0 documents are others"):
        list(blocks_of([PartWork(["Another.", *DOCUMENTS], done)]))


def test_two_processes_give_the_rows_of_one_with_few_blocks_in_flight(encoder):
    taken = []

    def documents():
        for document in DOCUMENTS * 3:
            taken.append(document)
            yield document

    encoded = encoded_blocks(numbered(documents()), encoder, processes=2)
    first = next(encoded)
    assert len(taken) <= 5 * 5  # documents: 5 a block, of which 4 are ahead to judge whether enough
    together = rows([first, *encoded])
    assert together == rows(encoded_blocks(numbered(DOCUMENTS * 3), encoder, processes=1))
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_a_resource_error(encoder):
    def documents():
        yield from DOCUMENTS[:25]
        for process in multiprocessing.active_children():
            process.kill()
        yield from DOCUMENTS * 3

    with pytest.raises(ResourceError, match=r"(?s)ended early.*memory.*kept: ") as caught:
        list(encoded_blocks(numbered(documents()), encoder, processes=2))
    assert isinstance(caught.value.__cause__, BrokenProcessPool)
    assert multiprocessing.active_children() == []


def test_a_process_that_cannot_start_is_a_resource_error(encoder):
    multiprocessing.set_executable(shutil.which("false"))
    try:
        with pytest.raises(ResourceError, match="ended early"):
            list(encoded_blocks(numbered(DOCUMENTS), encoder, processes=2))
    finally:
        multiprocessing.set_executable(sys.executable)


def test_a_pool_that_breaks_while_it_starts_is_a_resource_error(encoder, monkeypatch):
    def closed(path, arguments, descriptors):
        raise ValueError("bad value(s) in fds_to_keep")

    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", closed)
    with pytest.raises(ResourceError, match="bad value"):
        list(encoded_blocks(numbered(DOCUMENTS), encoder, processes=2))


def test_an_error_of_a_process_is_raised_as_it_is(encoder, monkeypatch):
    monkeypatch.setattr(Encoder, "settings", lambda self: b"{}")
    with pytest.raises(KeyError, match="tokenizer"):
        list(encoded_blocks(numbered(DOCUMENTS), encoder, processes=2))


def test_a_module_of_the_working_directory_is_not_run(encoder, tmp_path, monkeypatch):
    (tmp_path / "tokenizers.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    made = list(encoded_blocks(numbered(DOCUMENTS), encoder, processes=2))
    assert sum(block.documents for _, block in made) == len(DOCUMENTS)


SCRIPT = """
import os, sys
from road_ray.data.corpus import cut_shards
from road_ray.data.corpus import parallel_encoding
from road_ray.data.corpus.encode_documents import Encoder
print("script runs", flush=True)
cut_shards._BLOCK_CHARACTERS = 100
encoder = Encoder.from_settings(open(sys.argv[1], "rb").read())
documents = (f"The cat number {n} sat." for n in range(100))
numbered = ((cut_shards.BlockNumber(0, n), b) for n, b in enumerate(cut_shards.blocks(documents)))
for number, _ in parallel_encoding.encoded_blocks(numbered, encoder, processes=2):
    if number.number == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
"""


@pytest.fixture
def script(encoder, tmp_path):
    """``script(block)``: run a script without a ``__main__`` guard that is killed at that block."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "settings").write_bytes(encoder.settings())
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "settings")]

    def run(block):
        # Returns when nobody holds the pipe any more, the workers included.
        return subprocess.run(
            [*command, str(block)], stdout=subprocess.PIPE, text=True, timeout=60, check=False
        )

    return run


def test_processes_do_not_run_the_script_of_the_user_again(script):
    done = script(-1)
    assert done.returncode == 0
    assert done.stdout == "script runs\n"


def test_processes_end_when_their_parent_is_killed(script):
    assert script(5).returncode == -signal.SIGKILL
