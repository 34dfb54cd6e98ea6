"""Corpora built by several machines equal those built by one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from road_ray.data.corpus import build_corpus
from road_ray.data.corpus.build_corpus import Encoder, blocks_of, encoded_blocks
from road_ray.data.tokenizer import train_wordpiece
from road_ray.distributed import batch_inference as module
from road_ray.distributed.batch_inference import encoded_on_cluster, encoding_at

DOCUMENTS = [f"The cat number {n} sat. It sat on mat number {n} again." for n in range(60)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=80)


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return Encoder.of(tokenizer, 12)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(build_corpus, "_BLOCK_CHARACTERS", 100)


def rows(encoded):
    return [(one.documents, one.tokens.tolist(), one.lengths.tolist()) for one in encoded]


def test_without_an_address_it_is_this_machine(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert encoding_at(None) is encoded_blocks
    assert encoding_at("somewhere:6379").keywords == {"address": "somewhere:6379"}
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    assert encoding_at(None) is not encoded_blocks, "a job joins its cluster"


@pytest.mark.ray
def test_inside_a_task_it_is_the_task_itself(cluster):
    """Its tasks would wait for cores that it and its like hold."""

    def named():
        return encoding_at("somewhere:6379") is encoded_blocks

    task = cluster.remote(num_cpus=1)(named)
    assert cluster.get(task.remote(), timeout=60)
    assert not named(), "this process is no task"


@pytest.mark.ray
def test_the_command_takes_an_address(cluster, road, tokenizer, tmp_path, monkeypatch):
    used, encoded = [], module.encoded_on_cluster
    monkeypatch.setattr(
        module, "encoded_on_cluster", lambda *one, **by: used.append(by) or encoded(*one, **by)
    )
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS))
    address = cluster.get_runtime_context().gcs_address
    line = ("data", "corpus", tmp_path / "text.txt", tmp_path / "shards")
    made = (*line, "--tokenizer", tmp_path / "tokenizer", "--max-length-tokens", 12)
    assert road(*made, "--address", address).code == 0
    assert used
    (there,) = tmp_path.glob("shards/*/shard-*")
    content = there.read_bytes()
    there.parent.rename(tmp_path / "before")
    assert road(*made).code == 0
    assert there.read_bytes() == content


@pytest.mark.ray
def test_a_block_whose_process_is_killed_is_encoded_again_in_its_place(
    cluster, encoder, tmp_path, monkeypatch
):
    mark, encode = str(tmp_path / "died"), Encoder.__getitem__

    def dying(settings, block):
        if block.number == 5 and not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return encode(settings, block)

    monkeypatch.setattr(Encoder, "__getitem__", dying)
    there = rows(encoded_on_cluster(blocks_of([DOCUMENTS]), encoder))
    assert Path(mark).exists(), "the kill did not fire"
    assert len(there) > 8
    assert there == rows(encoded_blocks(blocks_of([DOCUMENTS]), encoder, processes=1))
