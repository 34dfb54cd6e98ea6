"""Corpora built by several machines equal those built by one."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from road_ray.data.corpus import cut_shards, documents
from road_ray.data.corpus.build_corpus import build_corpus, build_stored_corpus
from road_ray.data.corpus.cut_shards import BlockNumber, blocks
from road_ray.data.corpus.encode_documents import Encoder
from road_ray.data.corpus.parallel_encoding import encoded_blocks, encoded_shards
from road_ray.data.tokenizer import train_wordpiece
from road_ray.distributed import corpus_encoding as module
from road_ray.distributed.corpus_encoding import blocks_on_cluster, encoding_at, shards_on_cluster
from road_ray.errors import ClusterError, DataError
from road_ray.system.remote_files import Storage

DOCUMENTS = [f"The cat number {n} sat. It sat on mat number {n} again." for n in range(60)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=80)


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return Encoder.of(tokenizer, max_length_tokens=12, seed=3)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(cut_shards, "_BLOCK_CHARACTERS", 100)


def numbered(documents, start=0):
    pairs = ((BlockNumber(0, n), block) for n, block in enumerate(blocks(documents)))
    return islice(pairs, start, None)


def contents_of(blocks):
    return [
        (number, one.documents, one.tokens.tolist(), one.lengths.tolist()) for number, one in blocks
    ]


def test_without_an_address_it_is_this_machine(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert encoding_at(None) is encoded_shards
    assert encoding_at("somewhere:6379").keywords == {"address": "somewhere:6379"}
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    assert encoding_at(None) is not encoded_shards, "a job joins its cluster"


@pytest.mark.ray
def test_inside_a_task_it_is_the_task_itself(cluster):
    """Its tasks would wait for cores that it and its like hold."""

    def named():
        return encoding_at("somewhere:6379") is encoded_shards

    task = cluster.remote(num_cpus=1)(named)
    assert cluster.get(task.remote(), timeout=60)
    assert not named(), "this process is no task"


def test_a_few_blocks_are_not_worth_a_cluster(encoder, monkeypatch):
    monkeypatch.setattr(module, "connected", None)
    few = DOCUMENTS[:5]
    assert contents_of(blocks_on_cluster(numbered(few), encoder)) == contents_of(
        encoded_blocks(numbered(few), encoder)
    )


@pytest.mark.ray
@pytest.mark.parametrize("start", [0, 7])
def test_its_rows_are_those_of_one_machine_in_their_order(cluster, encoder, start):
    there = contents_of(blocks_on_cluster(numbered(DOCUMENTS, start), encoder))
    assert there == contents_of(encoded_blocks(numbered(DOCUMENTS, start), encoder, processes=1))
    assert len(there) > 8


@pytest.mark.ray
def test_a_corpus_is_built_of_them(cluster, tokenizer, tmp_path):
    made = {"max_length_tokens": 12, "seed": 3}
    here = build_corpus([DOCUMENTS], tmp_path / "here", tokenizer, **made)
    on = {"encoding": shards_on_cluster}
    there = build_corpus([DOCUMENTS], tmp_path / "there", tokenizer, **made, **on)
    assert there.manifest == here.manifest
    for one, other in zip(
        sorted(here.directory.glob("shard-*")), sorted(there.directory.glob("shard-*")), strict=True
    ):
        assert one.read_bytes() == other.read_bytes()


def in_parts(place, monkeypatch):
    """The parts of a text at an address: three files, each a part."""
    monkeypatch.setattr(documents, "_PART_BYTES", 500)
    for number in range(3):
        text = "\n\n".join(DOCUMENTS[number * 20 : number * 20 + 20])
        (place / f"{number}.txt").write_text(text)
    return documents.parts_of(documents.text_files(f"file://{place}"))


@pytest.mark.ray
def test_machines_read_and_write_their_own_parts(cluster, tokenizer, tmp_path, monkeypatch):
    """Into a directory the tasks send their shards; into a store they write them."""
    (tmp_path / "text").mkdir()
    parts = in_parts(tmp_path / "text", monkeypatch)
    assert len(parts) == 3
    made = {"max_length_tokens": 12, "seed": 3}
    monkeypatch.setattr(cut_shards, "_BLOCK_CHARACTERS", 1 << 20)  # as in the tasks
    here = build_corpus(parts, tmp_path / "here", tokenizer, processes=1, **made)
    on = {"encoding": shards_on_cluster, "processes": 2}
    there = build_corpus(parts, tmp_path / "there", tokenizer, **made, **on)
    build_stored_corpus(parts, Storage(f"file://{tmp_path / 'store'}"), tokenizer, **made, **on)
    assert there.manifest == here.manifest
    for item in here.directory.iterdir():
        assert item.read_bytes() == (there.directory / item.name).read_bytes()
        assert item.read_bytes() == (tmp_path / "store" / item.name).read_bytes()


@pytest.mark.ray
def test_an_error_of_a_machine_is_raised_here(cluster, tokenizer, tmp_path, monkeypatch):
    (tmp_path / "text").mkdir()
    parts = in_parts(tmp_path / "text", monkeypatch)
    text = tmp_path / "text" / "1.txt"
    text.write_bytes(b"caf\xe9\n" + text.read_bytes()[5:])  # as long as it was listed
    made = {"max_length_tokens": 12, "encoding": shards_on_cluster}
    with pytest.raises(DataError, match=r"1\.txt:1: not UTF-8"):
        build_corpus(parts, tmp_path / "c", tokenizer, **made)


@pytest.mark.ray
def test_the_command_takes_an_address(cluster, road, tokenizer, tmp_path, monkeypatch):
    answers, answer = [], module._answer
    monkeypatch.setattr(module, "_answer", lambda *one: answers.append(one) or answer(*one))
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS))
    address = cluster.get_runtime_context().gcs_address
    line = ("data", "corpus", tmp_path / "text.txt", tmp_path / "shards")
    made = (*line, "--tokenizer", tmp_path / "tokenizer", "--max-length-tokens", 12)
    assert road(*made, "--address", address).code == 0
    assert len(answers) > 8
    (there,) = tmp_path.glob("shards/*/shard-*")
    content = there.read_bytes()
    there.parent.rename(tmp_path / "before")
    assert road(*made).code == 0
    assert there.read_bytes() == content


class Dying(Encoder):
    """Its process is killed the first time that it meets block 5."""

    def encode(self, number, documents, part=0):
        mark = Path(os.environ["ROAD_TEST_PLACE"]) / "died"
        if number == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(number, documents, part)


@pytest.mark.ray
def test_a_block_whose_process_is_killed_is_encoded_again(cluster, encoder, tmp_path, monkeypatch):
    place = str(tmp_path)

    def encode(settings, part, number, block):
        os.environ["ROAD_TEST_PLACE"] = place
        return Dying.from_settings(settings).encode(number, block)

    monkeypatch.setattr(module, "encode_block", encode)
    there = contents_of(blocks_on_cluster(numbered(DOCUMENTS), encoder))
    assert (tmp_path / "died").exists(), "the kill did not fire"
    assert there == contents_of(encoded_blocks(numbered(DOCUMENTS), encoder, processes=1))


@pytest.mark.ray
def test_what_cannot_be_encoded_there_is_told(cluster, encoder, monkeypatch):
    monkeypatch.setattr(Encoder, "settings", lambda self: b"{}")
    with pytest.raises(ClusterError, match=r"not encode block 0 (?s:.)*kept: the finished shards"):
        list(blocks_on_cluster(numbered(DOCUMENTS), replace(encoder)))
