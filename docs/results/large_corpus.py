"""Memory and disk of a corpus that is larger than both, and its rows on one and two machines.

``python docs/results/large_corpus.py --megabytes 1000 --cache-mb 200`` writes made-up text into an
S3-compatible server (moto, a process of its own, whose memory holds it), builds its shards into the
same server with ``road data corpus``, trains for some steps with ``road pretrain``, reads the
batches of a whole epoch, and prints one JSON line a stage: seconds, the largest resident memory of
its processes, the largest size of the cache. ``--machines 2`` builds it once more on a simulated
cluster of two machines and compares. ``--hub`` reads the text from a folder in the hub's layout and
writes the shards to a ``file://`` address instead. ``MOTO_S3_DEFAULT_KEY_BUFFER_SIZE=65536`` keeps
the server's objects on disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from road_ray.data.tokenizer import train_wordpiece
from road_ray.system.remote_files import Storage

Place = tuple[Storage, str, str]  # where the text is written, its address, that of the shards
FILE_MEGABYTES = 16
STEPS = 60


def documents(seed: int) -> Iterator[str]:
    """Yield documents of 60 out of 20,000 sentences, without end. Their words are made up and as
    frequent as Zipf says.
    """
    chance = np.random.default_rng(seed)
    syllables = [a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "un")]
    names = np.random.default_rng(1)
    words = np.array(["".join(names.choice(syllables, names.integers(1, 5))) for _ in range(5000)])
    edges = np.cumsum(1 / np.arange(1, len(words) + 1))
    drawn = words[np.searchsorted(edges / edges[-1], chance.random((20_000, 20)))]
    sentences = [" ".join(sentence).capitalize() + "." for sentence in drawn]
    while True:
        yield " ".join(sentences[number] for number in chance.integers(0, len(sentences), 60))


def serve() -> None:
    """Run the server until this process is ended."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(":".join(map(str, server.get_host_and_port())), flush=True)
    sys.stdin.read()


def fill(store: Any, megabytes: float) -> int:
    """Write files of JSONL until there is enough text; return the bytes."""
    written = number = 0
    while written < megabytes * 1e6:
        lines, size = [], 0
        for document in documents(number):
            lines.append(json.dumps({"text": document}))
            size += len(lines[-1]) + 1
            if size >= min(FILE_MEGABYTES, megabytes) * 1e6:
                break
        content = "\n".join(lines).encode()
        store.write(f"{store.base}/part-{number:05d}.jsonl", content)
        written, number = written + len(content), number + 1
    return written


def measured(stage: str, command: list[str], cache: Path, **more: Any) -> dict[str, Any]:
    """Run a command; return the largest memory of each of its processes, and of the cache."""
    began, peak, disk = time.monotonic(), 0, 0
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [watched, *watched.children(recursive=True)]
                peak = max([peak, *(one.memory_info().rss for one in family)])
            except psutil.Error:
                pass
            with suppress(FileNotFoundError):  # a shard has just left the cache
                disk = max(disk, sum(path.stat().st_size for path in cache.glob("*.[at]*")))
            time.sleep(0.2)
        log.seek(0)
        text = log.read().decode(errors="replace")
    if process.returncode:
        raise SystemExit(f"{stage} ended with {process.returncode}:\n{text[-3000:]}")
    seconds = round(time.monotonic() - began, 1)
    found = {"stage": stage, "seconds": seconds, "peak_mb": round(peak / 1e6)}
    return found | {"cache_mb": round(disk / 1e6)} | more


def read_epoch(keys: dict[str, str]) -> None:
    """Read all batches of an epoch, as a training of so many steps would."""
    from road_ray.data.batching import BatchStream
    from road_ray.data.config import CorpusConfig
    from road_ray.data.corpus.prepare_corpus import prepare_corpus

    names = ("corpus", "shards", "tokenizer", "shard_cache")
    data = CorpusConfig(
        **{name: keys[f"data.{name}"] for name in names},
        shard_cache_gb=float(keys["data.shard_cache_gb"]),
        shuffled_shards=int(keys["data.shuffled_shards"]),
        batch_size=16,
    )
    corpus, _ = prepare_corpus(data)
    stream = BatchStream(corpus, data.batch_size, seed=0, pad_id=0)
    rows = sum(len(stream[number]["rows"]) for number in range(stream.batches_per_epoch))
    assert rows == len(corpus)


def two_machines(given: argparse.Namespace, text: str, shards: str) -> None:
    """Build the corpus on a simulated cluster of two machines and print its manifest's digest."""
    import ray
    from ray.cluster_utils import Cluster

    from road_ray.data.config import CorpusConfig
    from road_ray.data.corpus.prepare_corpus import prepare_corpus
    from road_ray.distributed.batch_inference import encoding_at

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    data = CorpusConfig(corpus=text, shards=shards, tokenizer=given.tokenizer)
    corpus, _ = prepare_corpus(data, 2, encoding_at(cluster.address))
    print(json.dumps({"machines": 2, "digest": corpus.manifest["digest"]}), flush=True)
    ray.shutdown()
    cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--cache-mb", type=float, default=200)
    parser.add_argument("--shuffled-shards", type=int, default=2)
    parser.add_argument("--machines", type=int, default=1)
    parser.add_argument("--tokenizer", default="")
    parser.add_argument("--hub", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--epoch")
    given = parser.parse_args()
    if given.serve:
        return serve()
    if given.epoch:
        return read_epoch(json.loads(given.epoch))

    with tempfile.TemporaryDirectory() as place:
        given.tokenizer = f"{place}/tokenizer"
        some = [one for one, _ in zip(documents(0), range(100), strict=False)]
        train_wordpiece(some, vocab_size=4000).save_pretrained(given.tokenizer)
        with hub_folder(Path(place)) if given.hub else object_store() as (store, text, shards):
            size = fill(store, given.megabytes)
            print(json.dumps({"stage": "text", "megabytes": round(size / 1e6)}), flush=True)
            stages(given, Path(place), text, shards)


@contextmanager
def hub_folder(place: Path) -> Iterator[Place]:
    yield Storage(f"file://{place}/hub/data/train"), f"hub:{place}/hub", f"file://{place}/shards"


@contextmanager
def object_store() -> Iterator[Place]:
    os.environ |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    command = [sys.executable, __file__, "--serve"]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    host = server.stdout.readline().strip()
    settings = f"endpoint_override={host}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    try:
        text = Storage(f"s3://corpus/text?{settings}")
        text._opened[0].create_dir("corpus")
        yield text, text.address, f"s3://corpus/shards?{settings}"
    finally:
        server.kill()


def stages(given: argparse.Namespace, place: Path, text: str, shards: str) -> None:
    road, cache = [sys.executable, "-m", "road_ray"], place / "cache"
    cache.mkdir()
    line = [*road, "data", "corpus", text, shards, "--tokenizer", given.tokenizer]
    print(json.dumps(measured("build", line, cache)), flush=True)
    keys = {
        "data.corpus": text,
        "data.shards": shards,
        "data.tokenizer": given.tokenizer,
        "data.max_length_tokens": 128,
        "data.batch_size": 16,
        "data.shard_cache": cache,
        "data.shard_cache_gb": given.cache_mb / 1e3,
        "data.shuffled_shards": given.shuffled_shards,
        "training.steps": STEPS,
        "encoder.layers": 1,
        "encoder.hidden_size": 64,
        "encoder.heads": 2,
        "encoder.intermediate_size": 128,
        "console": "plain",
    }
    run = [*road, "pretrain", "--preset", "tiny_electra", "--run-dir", str(place / "run")]
    overrides = [f"{key}={value}" for key, value in keys.items()]
    print(json.dumps(measured("train", run + overrides, cache)), flush=True)
    epoch = [sys.executable, __file__, "--epoch", json.dumps({k: str(v) for k, v in keys.items()})]
    print(json.dumps(measured("epoch", epoch, cache)), flush=True)
    if given.machines > 1:
        from road_ray.data.config import CorpusConfig
        from road_ray.data.corpus.prepare_corpus import prepare_corpus

        data = CorpusConfig(corpus=text, shards=shards, tokenizer=given.tokenizer)
        digest = prepare_corpus(data)[0].manifest["digest"]
        print(json.dumps({"machines": 1, "digest": digest}), flush=True)
        two_machines(given, text, shards.replace("/shards", "/two"))


if __name__ == "__main__":
    main()
