"""Predictions on a pool of actors equal those of one process, byte for byte, whatever dies."""

from __future__ import annotations

import json
import os
import signal
from itertools import islice

import pytest

from road_ray.distributed.predictor_pool import predictor_pool
from road_ray.errors import CheckpointError, ClusterError, DataError
from road_ray.inference import predict_file as predicting
from road_ray.inference.load_model import load
from road_ray.inference.predict_file import predict_file
from tests.published import TEXTS, publish

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
OPTIONS = {"precision": "fp32"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model") / "sentiment"
    return str(publish(directory, "electra", "ForSequenceClassification", labels=("no", "yes")))


@pytest.fixture(scope="module")
def chunks(shared_cluster, model):
    """What predicts chunks on two actors."""
    with predictor_pool(model, OPTIONS, workers=2) as started:
        yield started


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A file of 18 rows that is read in chunks of 3."""
    monkeypatch.setattr(predicting, "CHUNK_ROWS", 3)
    path = tmp_path / "rows.jsonl"
    rows = [{"text": TEXTS[number % 3] * (1 + number % 4)} for number in range(18)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def actor_processes():
    import ray

    return [
        actor["Pid"]
        for actor in ray._private.state.actors().values()
        if actor["ActorClassName"] == "PredictorActor" and actor["State"] == "ALIVE"
    ]


def test_two_actors_write_the_file_of_one_process_though_one_is_killed(
    cluster, chunks, model, source, tmp_path
):
    call = {"model": model, "report_progress": False}
    predictor = load(model)
    alone, pooled = tmp_path / "alone.csv", tmp_path / "pooled.csv"
    predict_file(predictor, source, alone, **call)
    before = actor_processes()
    assert len(before) == 2

    def with_a_kill(waiting):
        predictions = chunks(waiting)
        yield next(predictions)
        os.kill(before[0], signal.SIGKILL)
        yield from predictions

    assert predict_file(predictor, source, pooled, chunks=with_a_kill, **call) == 18
    assert set(actor_processes()) - set(before)  # it was replaced
    assert pooled.read_bytes() == alone.read_bytes()


def test_a_pool_resumes_a_file_that_one_process_began(cluster, chunks, model, source, tmp_path):
    call = {"model": model, "report_progress": False}
    predictor, whole, cut = load(model), tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    predict_file(predictor, source, whole, **call)

    def interrupted(waiting):
        for chunk in islice(waiting, 2):
            yield predictor.predict_rows(chunk)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_file(predictor, source, cut, chunks=interrupted, **call)
    sent = []

    def counted(waiting):
        for chunk in waiting:
            sent.extend(row["id"] for _, row in chunk)
            yield chunk

    resumed = call | {"chunks": lambda waiting: chunks(counted(waiting))}
    predict_file(predictor, source, cut, **resumed)
    assert sent == [str(number) for number in range(6, 18)]
    assert cut.read_bytes() == whole.read_bytes()


def test_no_more_than_two_chunks_an_actor_are_read_ahead(cluster, chunks):
    read = []

    def rows():
        for number in range(50):
            read.append(number)
            yield [(f"row {number}", {"text": TEXTS[0]})]

    next(chunks(rows()))
    assert len(read) == 4


def test_errors_of_the_rows_the_model_and_the_room_keep_their_kind(
    cluster, chunks, model, tmp_path
):
    with pytest.raises(DataError, match="row 7: text = '3' is no text"):
        list(chunks(iter([[("row 7", {"text": 3})]])))
    with (
        pytest.raises(CheckpointError),
        predictor_pool(str(tmp_path / "gone"), OPTIONS, workers=1),
    ):
        pass
    with (
        pytest.raises(ClusterError, match="room for 4 of 9 predictors"),
        predictor_pool(model, OPTIONS, workers=9),
    ):
        pass


def test_road_predict_runs_on_the_cluster_and_needs_a_file(cluster, road, model, source, tmp_path):
    alone, pooled = tmp_path / "alone.jsonl", tmp_path / "pooled.jsonl"
    assert road("predict", model, source, "--output", alone).code == 0
    result = road("predict", model, source, "--output", pooled, "--workers", 1, "--json")
    assert json.loads(result.out) == {"output": str(pooled), "rows": 18}
    assert pooled.read_bytes() == alone.read_bytes()
    assert road("predict", model, source, "--output", pooled, "--workers", 2).code == 2
    assert "add --output FILE" in road("predict", model, source, "--workers", 2).err
