"""The ensemble of a script: with no cluster at hand, and with teachers in this very process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from road_ray.distillation import weighting
from road_ray.distributed.ensemble import Ensemble
from road_ray.errors import CheckpointError, ConfigError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrs"]
LABELS = ("negative", "positive")


def make_teacher(directory: Path, seed: int, words=WORDS) -> Path:
    from transformers import ElectraConfig, ElectraForSequenceClassification, ElectraTokenizer

    config = ElectraConfig(
        vocab_size=len(WORDS),
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        id2label=dict(enumerate(LABELS)),
        label2id={label: index for index, label in enumerate(LABELS)},
    )
    torch.manual_seed(seed)
    model = ElectraForSequenceClassification(config)
    torch.nn.init.normal_(model.classifier.out_proj.weight, std=2.0)
    model.save_pretrained(directory)
    ElectraTokenizer(vocab={w: i for i, w in enumerate(words)}).save_pretrained(directory)
    return directory


def batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(5, len(WORDS), (6, 8), generator=torch.Generator().manual_seed(0))
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "labels": torch.tensor([0, 1] * 3),
    }


@pytest.fixture
def directories(tmp_path):
    return [make_teacher(tmp_path / str(seed), seed) for seed in range(3)]


def test_soft_targets_are_the_weighted_logits(directories):
    one = batch()
    with Ensemble(directories, task="sst2", host="process") as ensemble:
        logits = ensemble.logits(one)
        assert logits.shape == (3, 6, 2)
        for rule, options in (("mean", {}), ("correctness", {"wrong": 0.5, "all_wrong": "mean"})):
            weights = weighting.resolve(rule, **options)(logits, one["labels"])
            expected = weighting.combine(logits, weights)
            assert torch.equal(ensemble.soft_targets(one, weighting=rule, **options), expected)
            stream = ensemble.annotate([one, one], weighting=rule, **options)
            assert all(torch.equal(x["soft_logits"], expected) for x in stream)


def test_with_a_store_each_row_is_asked_once(directories, tmp_path):
    one = batch()
    with Ensemble(directories, task="sst2", store=tmp_path / "store", host="process") as ensemble:
        said = ensemble.logits(one)
        assert torch.equal(ensemble.logits(one), said)
        assert ensemble.members.num_asked == 18
        assert torch.equal(ensemble.soft_targets(one, weighting="mean"), said.mean(0))
    with Ensemble(directories, task="sst2", store=tmp_path / "store") as again:
        assert torch.equal(again.logits(one), said)  # in actors, but none was started
        assert again.members.num_asked == 0


def test_a_run_directory_is_as_good_as_its_model(tmp_path):
    make_teacher(tmp_path / "run" / "hf", 0)
    with Ensemble([tmp_path / "run"], task="sst2", host="process") as ensemble:
        assert ensemble.size == 1


def test_teachers_in_this_process_need_no_ray(directories):
    script = (
        "import sys; from road_ray.distributed.ensemble import Ensemble; "
        f"Ensemble([{str(directories[0])!r}], task='sst2', host='process'); "
        "sys.exit('ray' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, timeout=120).returncode == 0


def test_what_cannot_be_done_is_refused_before_anything_starts(directories, tmp_path):
    with pytest.raises(ConfigError, match="'actors', 'process'"):
        Ensemble(directories, task="sst2", host="cloud")
    with pytest.raises(ConfigError, match="a list of directories"):
        Ensemble([], task="sst2")
    with pytest.raises(ConfigError, match="did you mean 'sst2'"):
        Ensemble(directories, task="sst3")
    with pytest.raises(CheckpointError, match="task 'nli' has 3"):
        Ensemble(directories, task="mnli")


def test_teachers_of_different_tokenizers_are_refused(directories, tmp_path):
    swapped = [*WORDS[:5], WORDS[6], WORDS[5], *WORDS[7:]]
    stranger = make_teacher(tmp_path / "stranger", 3, swapped)
    with pytest.raises(CheckpointError, match=r"(?s)stranger.*2 with another id"):
        Ensemble([*directories, stranger], task="sst2", host="process")


@pytest.mark.ray
def test_without_a_cluster_it_brings_its_own_and_takes_it_away(directories, monkeypatch):
    import ray

    assert not ray.is_initialized()
    place = tempfile.mkdtemp(prefix="rr", dir="/tmp")  # short: sockets have a length limit
    monkeypatch.setenv("RAY_TMPDIR", place)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    one = batch()
    with Ensemble(directories, task="sst2") as ensemble:  # three, also on two cores
        assert ray.is_initialized()
        assert ensemble.logits(one).shape == (3, 6, 2)
    assert not ray.is_initialized()
    shutil.rmtree(place, ignore_errors=True)
