"""Predictions on a pool of actors equal those of one process, byte for byte, whatever dies."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from functools import partial
from itertools import islice

import pytest

from road_ray.distributed import predictor_pool as pools
from road_ray.distributed.predictor_pool import predictor_pool
from road_ray.errors import CheckpointError, ClusterError, DataError, InterruptedRunError
from road_ray.inference import predict_file as predicting
from road_ray.inference.input_rows import ColumnChoice, RowSource
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import predict_chunks, predict_file
from tests.published import TEXTS, publish

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
OPTIONS = {"precision": "fp32"}
ROWS = [{"text": TEXTS[number % 3] * (1 + number % 4), "stars": number} for number in range(18)]
CALL = {"columns": ColumnChoice(keep={"stars": "stars"}), "report_progress": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model") / "sentiment"
    return str(publish(directory, "electra", "ForSequenceClassification", labels=("no", "yes")))


@pytest.fixture(scope="module")
def pool(shared_cluster, model):
    """The function that predicts a file on two actors."""
    with predictor_pool(model, OPTIONS, workers=2) as predict:
        yield predict


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A file of 18 rows that is read in chunks of 3."""
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 3)
    monkeypatch.setattr(pools, "CHUNK_ROWS", 3)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def actor_processes():
    import ray

    return {
        actor["Pid"]
        for actor in ray._private.state.actors().values()
        if "PredictorActor" in actor["ActorClassName"] and actor["State"] == "ALIVE"
    }


class SlowPredictorActor(pools.PredictorActor):
    """Actor that takes half a second for each chunk."""

    def __call__(self, block):
        time.sleep(0.5)
        return super().__call__(block)


def test_two_actors_write_the_file_of_one_process_though_one_is_killed(
    cluster, pool, model, source, tmp_path, monkeypatch
):
    monkeypatch.setattr(pools, "PredictorActor", SlowPredictorActor)
    predictor = load(model)
    alone, pooled = tmp_path / "alone.csv", tmp_path / "pooled.csv"
    predict_file(predictor, source, alone, model=model, **CALL)
    processes = []

    def with_a_kill(rows, done):
        predictions = pool(rows, done)
        yield next(predictions)
        processes.extend(actor_processes())
        os.kill(processes[0], signal.SIGKILL)
        yield from predictions

    call = {"model": model, "predict": with_a_kill, **CALL}
    assert predict_file(predictor, source, pooled, **call) == 18
    assert len(processes) == 2
    assert pooled.read_bytes() == alone.read_bytes()
    assert not actor_processes()  # the pool ends with the file


def test_a_pool_resumes_a_file_that_one_process_began(cluster, pool, model, source, tmp_path):
    predictor, whole, cut = load(model), tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    predict_file(predictor, source, whole, model=model, **CALL)

    def interrupted(rows, done):
        yield from islice(predict_chunks(predictor, rows.rows()), 2)
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        predict_file(predictor, source, cut, model=model, predict=interrupted, **CALL)
    skipped = []

    def resumed(rows, done):
        skipped.append(done)
        return pool(rows, done)

    predict_file(predictor, source, cut, model=model, predict=resumed, **CALL)
    assert skipped == [6]
    assert cut.read_bytes() == whole.read_bytes()


def test_standard_input_is_predicted_and_its_rows_are_named(
    cluster, pool, model, source, tmp_path, monkeypatch
):
    predictor, alone, pooled = load(model), tmp_path / "alone.jsonl", tmp_path / "pooled.jsonl"

    def piped(text, output, **more):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        predict_file(predictor, "-", output, model=model, **CALL, **more)

    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    piped(text, alone)
    piped(text, pooled, predict=pool)
    assert pooled.read_bytes() == alone.read_bytes()
    broken = text + json.dumps({"text": 3, "stars": 0})
    with pytest.raises(DataError, match="<stdin>:19: text = '3' is no text"):
        piped(broken, tmp_path / "broken.jsonl", predict=pool)
    assert (tmp_path / ".broken.jsonl.partial").read_bytes() == alone.read_bytes()


def test_a_row_that_cannot_be_read_is_an_error_behind_those_before_it(
    cluster, pool, model, source, tmp_path
):
    with open(source, "a") as file:
        file.write("{broken\n")
    with pytest.raises(DataError, match=r"rows\.jsonl:19"):
        predict_file(load(model), source, tmp_path / "o.csv", model=model, predict=pool, **CALL)
    assert len((tmp_path / ".o.csv.partial").read_text().splitlines()) == 1 + 18


@pytest.mark.long
def test_an_input_larger_than_the_object_store_is_read_as_it_is_predicted(
    cluster, pool, tmp_path, monkeypatch
):
    """40 chunks of 10 MB and a store of 100 MiB."""
    monkeypatch.setattr(pools, "CHUNK_ROWS", 1)
    path, read = tmp_path / "long.jsonl", tmp_path / "read"
    row = json.dumps({"text": TEXTS[0], "long": "x" * 10_000_000}) + "\n"
    path.write_text(row * 40)
    monkeypatch.setattr(pools, "_chunks", partial(counted_chunks, str(read)))
    predictions = pool(RowSource(str(path), ColumnChoice(keep={"long": "long"}), ("text",)), 0)
    next(predictions)
    time.sleep(3)
    assert read.stat().st_size < 20
    assert sum(1 for _ in islice(predictions, 12)) == 12  # together larger than the store
    predictions.close()


def counted_chunks(read, source, done, chunk_rows):
    """Yield the blocks of a source, and write a byte to ``read`` for each."""
    for chunk in predicting.chunks_of(source.rows(), chunk_rows):
        with open(read, "a") as file:
            file.write("x")
        yield pools._packed(chunk)


def test_errors_of_the_model_and_of_the_room_keep_their_kind(
    cluster, model, source, tmp_path, capfd
):
    rows = RowSource(source, CALL["columns"], ("text",))
    gone = str(tmp_path / "gone")
    with predictor_pool(gone, OPTIONS, workers=2) as predict, pytest.raises(CheckpointError):
        next(predict(rows, 0))
    assert "Traceback" not in capfd.readouterr().err
    with (
        pytest.raises(ClusterError, match="room for 4 of 9 predictors"),
        predictor_pool(model, OPTIONS, workers=9),
    ):
        pass


def test_road_predict_runs_on_the_cluster_and_needs_a_file(cluster, road, model, source, tmp_path):
    alone, pooled = tmp_path / "alone.jsonl", tmp_path / "pooled.jsonl"
    words = ("predict", model, source, "--keep", "stars")
    assert road(*words, "--output", alone).code == 0
    result = road(*words, "--output", pooled, "--workers", 1, "--json")
    assert json.loads(result.out) == {"output": str(pooled), "rows": 18}
    assert pooled.read_bytes() == alone.read_bytes()
    assert road(*words, "--output", pooled, "--workers", 2).code == 2
    assert "add --output FILE" in road(*words, "--workers", 2).err


def test_a_file_without_rows_is_refused_before_a_cluster_starts(
    cluster, road, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(pools, "predictor_pool", None)
    empty = tmp_path / "empty.csv"
    empty.write_text("text\n")
    result = road("predict", model, empty, "--output", tmp_path / "o.csv", "--workers", 2)
    assert result.code == 3
    assert "empty.csv" in result.err
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(("options", "device"), [(("--workers", 2), "cpu"), ((), None)])
def test_the_driver_leaves_the_gpu_to_the_actors(
    shared_cluster, road, model, tmp_path, monkeypatch, options, device
):
    devices = []

    def recorded(place, **given):
        devices.append(given["device"])
        raise DataError("loaded")

    monkeypatch.setattr("road_ray.inference.load_model.load", recorded)
    (tmp_path / "rows.csv").write_text("text\na film\n")
    road("predict", model, tmp_path / "rows.csv", "--output", tmp_path / "o.csv", *options)
    assert devices == [device]
