"""Fine-tuning from the command line: it resumes to the bit, leaves a model that needs no road_ray,
and tells a user's mistake without a traceback.
"""

import os
import signal
import subprocess
import sys
import threading

import pytest
import torch
from transformers import ElectraModel

from road_ray.config import load
from road_ray.errors import DivergedError
from road_ray.objectives.supervised import Supervised
from road_ray.recipes.train.config import FinetuneConfig
from road_ray.recipes.train.prepare import prepare
from road_ray.training.monitoring.metrics_journal import read_rows
from road_ray.training.worker import Worker
from tests.cluster import until
from tests.runs import weights


def test_sigterm_then_the_same_command_gives_the_very_same_weights(
    road, flags, sentiment, tmp_path
):
    long = sentiment | {"training.steps": 40, "console": "plain"}
    command = ["finetune", *flags(long), "--run-dir"]
    journal = tmp_path / "stopped" / "metrics.jsonl"

    def terminate() -> None:
        """Send the signal to this process, which trains, after three rows."""
        if until(lambda: journal.is_file() and journal.read_text().count("\n") >= 3, 200, 0.005):
            os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=terminate)
    killer.start()
    stopped = road(*command, tmp_path / "stopped")
    killer.join()
    assert stopped.code == 6, stopped.err
    assert "error[INTERRUPTED] stopped after step" in stopped.err
    assert "run the same command" in stopped.err
    assert road(*command, tmp_path / "stopped").code == 0
    assert road(*command, tmp_path / "whole").code == 0
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")
    steps = [row["step"] for row in read_rows(journal) if "train/sst2" in row]
    assert steps == list(range(1, 41))


def test_a_damaged_checkpoint_is_passed_over(road, flags, sentiment, tmp_path, caplog):
    saving = sentiment | {"training.save_every_steps": 3, "training.keep_checkpoints_at_end": 2}
    command = ["finetune", *flags(saving), "--run-dir", tmp_path]
    assert road(*command).code == 0
    expected = weights(tmp_path)
    newest = tmp_path / "checkpoints" / "step-00000006" / "model.safetensors"
    os.truncate(newest, newest.stat().st_size // 2)
    (tmp_path / "metrics.json").unlink()
    road(*command).good()
    assert "damaged checkpoint skipped" in caplog.text
    assert "step-00000006" in caplog.text
    assert f"resuming from {tmp_path}/checkpoints/step-00000003" not in caplog.text, "quiet"
    (tmp_path / "metrics.json").unlink()
    loud = saving | {"console": "plain"}
    road("finetune", *flags(loud), "--run-dir", tmp_path)
    road("finetune", *flags(loud), "--run-dir", tmp_path)
    assert f"resuming from {tmp_path}/checkpoints/step-00000006" in caplog.text
    assert f"{tmp_path} is finished; nothing is left to do" in caplog.text
    assert weights(tmp_path) == expected
    kinds = [event["kind"] for event in read_rows(tmp_path / "events.jsonl")]
    assert kinds[:3] == ["initialized", "checkpoint_damaged", "resumed"]


def test_a_loss_that_is_not_finite_ends_the_run_and_names_what_is_kept(
    road, flags, sentiment, tmp_path, monkeypatch
):
    forward, calls = Supervised.forward, iter(range(100))

    def poisoned(self, batch):
        losses = forward(self, batch)
        if self.training and next(calls) >= 3:
            losses.terms["sst2"].total.data.fill_(torch.nan)
        return losses

    monkeypatch.setattr(Supervised, "forward", poisoned)
    saving = sentiment | {"training.save_every_steps": 2}
    result = road("finetune", *flags(saving), "--run-dir", tmp_path)
    assert result.code == DivergedError.exit_code == 5
    assert "error[DIVERGED] step 3" in result.err
    assert f"kept: {tmp_path}/checkpoints/step-00000002" in result.err
    assert "lower optimizer.peak_lr" in result.err


BLOCKED = """
import sys
sys.modules["road_ray"] = None  # cannot be imported
import torch
from transformers import (AutoModelForQuestionAnswering, AutoModelForSequenceClassification,
                          AutoTokenizer, ElectraForMaskedLM, ElectraForPreTraining)
ids = torch.arange(5, 25)[None]
for directory, kind in zip(sys.argv[1::2], sys.argv[2::2]):
    model, report = globals()[kind].from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    assert all(logits.isfinite().all() for logits in model.eval()(ids).values())
AutoTokenizer.from_pretrained(sys.argv[1])
"""


def test_models_load_without_road_ray(span_run, pretrained, teachers):
    settings = {
        teachers.directory / "teacher-0" / "hf": "AutoModelForSequenceClassification",
        span_run.hf_dir: "AutoModelForQuestionAnswering",
        pretrained.hf_dir: "ElectraForPreTraining",
        pretrained.hf_dir / "generator": "ElectraForMaskedLM",
    }
    pairs = [str(part) for pair in settings.items() for part in pair]
    subprocess.run([sys.executable, "-I", "-c", BLOCKED, *pairs], check=True)


def test_from_scratch_keeps_the_shape_and_the_tokenizer_and_no_weight(sentiment, pretrained):
    config = load(FinetuneConfig, overrides=sentiment | {"init_weights": "none"})
    made = prepare(config, Worker.alone()).model.encoder.state_dict()
    there = ElectraModel.from_pretrained(pretrained.hf_dir).state_dict()
    assert made.keys() == there.keys()
    name = "embeddings.word_embeddings.weight"
    assert made[name].shape == there[name].shape
    assert not torch.allclose(made[name], there[name])


class TestMistakes:
    """Every one is a message and an exit code."""

    @pytest.mark.parametrize("kibibytes", [4, 150, 400])
    def test_on_a_full_disk(self, road, flags, sentiment, small_disk, kibibytes):
        """Full before the record, at the first checkpoint and at the last model."""
        disk = small_disk(kibibytes)
        road("finetune", *flags(sentiment), "--run-dir", disk / "run").refused(
            4, str(disk), "No space left", "fix: free space there"
        )
