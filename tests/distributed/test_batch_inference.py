"""Inference on a pool of actors equals that of one process, byte for byte, whatever dies;
corpora built by several machines equal those built by one.
"""

import json
import os
import signal

import numpy as np
import pytest

from road_ray.data.corpus import build_corpus
from road_ray.data.corpus.build_corpus import encoded_blocks
from road_ray.data.tokenizer import train_wordpiece
from road_ray.distributed import batch_inference as module
from road_ray.distributed.batch_inference import batch_inference, encoding_at
from road_ray.errors import CheckpointError, ClusterError, DataError
from road_ray.inference import predict_file as predicting
from road_ray.inference.input_rows import ColumnChoice
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import chunk_predictor, predict_file
from tests.published import TEXTS, publish
from tests.row_files import write_rows

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
OPTIONS = {"precision": "fp32"}
ROWS = [{"text": TEXTS[number % 3] * (1 + number % 4), "stars": number} for number in range(18)]
CALL = {"columns": ColumnChoice(keep={"stars": "stars"})}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model") / "sentiment"
    return str(publish(directory, "electra", "ForSequenceClassification", labels=("no", "yes")))


@pytest.fixture(scope="module")
def pool(shared_cluster, model):
    """The function that predicts chunks on two actors."""
    with batch_inference(chunk_predictor, model, OPTIONS, workers=2) as predict:
        yield predict


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A file of 18 rows that is read in chunks of 3."""
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 3)
    path = tmp_path / "rows.jsonl"
    write_rows(path, ROWS)
    return str(path)


def actor_processes():
    import ray

    return {
        actor["Pid"]
        for actor in ray._private.state.actors().values()
        if "InferenceActor" in actor["ActorClassName"] and actor["State"] == "ALIVE"
    }


def refuses_three():
    def compute(number):
        if number == 3:
            raise DataError("row 3 is no number")
        if number == 7:
            raise ZeroDivisionError("ours")
        return number

    return compute


def test_errors_come_as_they_are_raised_behind_the_results_before_them(cluster):
    def items():
        yield from (0, 1, 2)
        raise DataError("the file ends in the middle")

    with batch_inference(refuses_three, workers=2) as answer:
        for given, error, message in (
            ([0, 1, 2, 3, 4], DataError, "row 3 is no number"),
            (items(), DataError, "ends in the middle"),
            ([0, 1, 2, 7], ZeroDivisionError, "ours"),  # as in this process: a fault of ours
        ):
            seen = []
            with pytest.raises(error, match=message):
                seen.extend(answer(given))  # which keeps what came before the error
            assert seen == [0, 1, 2]
    assert not actor_processes()  # the pool ends with its body


def test_two_actors_write_the_file_of_one_process_though_one_is_killed(
    cluster, pool, model, source, tmp_path
):
    predictor = load(model)
    alone, pooled = tmp_path / "alone.csv", tmp_path / "pooled.csv"
    predict_file(predictor, source, alone, model=model, **CALL)
    processes = []

    def with_a_kill(chunks):
        predictions = pool(chunks)
        yield next(predictions)
        processes.extend(actor_processes())
        os.kill(processes[0], signal.SIGKILL)
        yield from predictions

    call = {"model": model, "predict": with_a_kill, **CALL}
    assert predict_file(predictor, source, pooled, **call) == 18
    assert len(processes) == 2
    assert pooled.read_bytes() == alone.read_bytes()


def total_of(array):
    return float(array.sum())


@pytest.mark.long
def test_items_that_are_together_larger_than_the_object_store_pass(cluster):
    """40 arrays of 10 MB and a store of 100 MiB."""
    arrays = (np.full(1_250_000, float(number)) for number in range(40))
    with batch_inference(lambda: total_of, workers=2) as answer:
        assert list(answer(arrays)) == [1_250_000.0 * number for number in range(40)]


@pytest.mark.parametrize(("gpus", "count"), [(0.0, 512), (1.0, 64), (0.5, 128)])
def test_without_a_number_there_are_as_many_actors_as_the_scarcest_resource_allows(
    cluster, monkeypatch, gpus, count
):
    asked = []

    def room(actors, count, resources):
        asked.append(count)
        raise ClusterError("asked")

    monkeypatch.setattr("road_ray.distributed.room.room", room)
    monkeypatch.setattr(cluster, "available_resources", lambda: {"CPU": 512.0, "GPU": 64.0})
    with pytest.raises(ClusterError, match="asked"), batch_inference(dies, gpus=gpus):
        pass
    assert asked == [count]


def dies():
    os._exit(1)


@pytest.mark.parametrize(
    ("actor", "how", "error", "message"),
    [
        ((chunk_predictor, "/gone", OPTIONS), {"workers": 2}, CheckpointError, "/gone"),
        ((dies,), {"workers": 9}, ClusterError, "room for 4 of 9 teachers"),
        ((dies,), {"workers": 1}, ClusterError, "teachers did not answer"),
    ],
)
def test_what_no_actor_can_start_with_keeps_its_kind(cluster, capfd, actor, how, error, message):
    with pytest.raises(error, match=message), batch_inference(*actor, actors="teachers", **how):
        pass
    assert "Traceback" not in capfd.readouterr().err


def test_road_predict_runs_on_the_cluster_and_needs_a_file(cluster, road, model, source, tmp_path):
    alone, pooled = tmp_path / "alone.jsonl", tmp_path / "pooled.jsonl"
    words = ("predict", model, source, "--keep", "stars")
    assert road(*words, "--output", alone).code == 0
    result = road(*words, "--output", pooled, "--workers", 1, "--json")
    assert json.loads(result.out) == {"output": str(pooled), "rows": 18}
    assert pooled.read_bytes() == alone.read_bytes()
    assert road(*words, "--output", pooled, "--workers", 2).code == 2
    assert "add --output FILE" in road(*words, "--workers", 2).err


@pytest.mark.parametrize(("options", "device"), [(("--workers", 2), "cpu"), ((), None)])
def test_the_driver_leaves_the_gpu_to_the_actors(
    shared_cluster, road, model, tmp_path, monkeypatch, options, device
):
    devices = []

    def recorded(place, **given):
        devices.append(given.get("device"))
        raise DataError("loaded")

    monkeypatch.setattr("road_ray.inference.load_model.load", recorded)
    (tmp_path / "rows.csv").write_text("text\na film\n")
    road("predict", model, tmp_path / "rows.csv", "--output", tmp_path / "o.csv", *options)
    assert devices == [device]


DOCUMENTS = [f"The cat number {n} sat. It sat on mat number {n} again." for n in range(60)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(DOCUMENTS, vocab_size=80)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(build_corpus, "_BLOCK_CHARACTERS", 100)


def test_without_an_address_it_is_this_machine(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert encoding_at(None) is encoded_blocks
    assert encoding_at("somewhere:6379") is not encoded_blocks
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    assert encoding_at(None) is not encoded_blocks, "a job joins its cluster"


def test_inside_a_task_it_is_the_task_itself(cluster):
    """Its tasks would wait for cores that it and its like hold."""

    def named():
        return encoding_at("somewhere:6379") is encoded_blocks

    task = cluster.remote(num_cpus=1)(named)
    assert cluster.get(task.remote(), timeout=60)
    assert not named(), "this process is no task"


def test_the_command_takes_an_address(cluster, road, tokenizer, tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr(
        module, "batch_inference", lambda *one, **by: used.append(by) or batch_inference(*one, **by)
    )
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS))
    address = cluster.get_runtime_context().gcs_address
    line = ("data", "corpus", tmp_path / "text.txt", tmp_path / "shards")
    made = (*line, "--tokenizer", tmp_path / "tokenizer", "--max-length-tokens", 12)
    assert road(*made, "--address", address).code == 0
    assert used[0]["address"] == address
    (there,) = tmp_path.glob("shards/*/shard-*")
    content = there.read_bytes()
    there.parent.rename(tmp_path / "before")
    assert road(*made).code == 0
    assert there.read_bytes() == content
