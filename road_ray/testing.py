"""Contract tests for what is added by ``package.module:name``; call them in tests of your own."""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from road_ray.data.batching import Batch
from road_ray.data.examples import UNKNOWN
from road_ray.data.readers.layouts import own_rows
from road_ray.data.task_and_dataset import own_metric
from road_ray.distillation.weighting import Rule, resolve, soften
from road_ray.models.encoder import load_encoder
from road_ray.models.heads import OwnHead
from road_ray.objectives.base import Objective
from road_ray.objectives.pretraining.registry import models_of, objective_class
from road_ray.training.monitoring.trackers import own_tracker

_TEACHERS, _ROWS, _CLASSES, _LENGTH = 3, 6, 4, 9
_SHAPES = {  # of the teachers' logits
    "classes": (_TEACHERS, _ROWS, _CLASSES),
    "spans": (_TEACHERS, _ROWS, 2, _LENGTH),
    "tags": (_TEACHERS, _ROWS, _LENGTH, _CLASSES),
    "choices": (_TEACHERS, _ROWS, 2),
}


def check_rule(name: str, **options: object) -> None:
    """Raise ``AssertionError`` unless ``weighting.rule=name`` keeps the contract of a rule, for
    classes, answer spans with padding, tags, choices and regressions.

    The rule must be a pure function whose result is finite, depends neither on the order of the
    teachers nor on other rows, and has the shape of weights or of soft logits. Weights must not be
    negative and must sum to the number of teachers where all are right or the label is unknown.
    One teacher that is right must be returned as it is. Raises ``ConfigError`` for what is no rule.
    """
    rule = resolve(name, **options)
    for kind in _SHAPES:
        logits, targets = rule_case(kind)
        _check(rule, kind, logits, targets, torch.tensor([1, 2]))
        one = soften(rule, logits[:1], targets).logits[1].softmax(-1)
        assert_close(one, logits[0, 1].softmax(-1), msg=f"{kind}: one right teacher is changed")
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(_TEACHERS, _ROWS, 1, generator=generator)
    targets = torch.randn(_ROWS, generator=generator)
    _check(rule, "regression", logits, targets, torch.arange(_ROWS))


def rule_case(kind: str) -> tuple[Tensor, Tensor]:
    """Return logits and targets of a kind: in row 0 no teacher is right, in row 1 all are, in row
    2 the label is unknown. Spans have logits of minus infinity, as behind the end of a row.
    """
    generator, shape = torch.Generator().manual_seed(0), _SHAPES[kind]
    classes = shape[-1] - 2 if kind == "spans" else shape[-1]
    logits = torch.randn(shape, generator=generator)
    targets = torch.randint(classes, shape[1:-1], generator=generator)
    for row, value in ((0, -9.0), (1, 9.0)):
        at = targets[row].expand(logits[:, row].shape[:-1]).unsqueeze(-1)
        logits[:, row] = logits[:, row].scatter(-1, at, value)
    logits[..., classes:] = -torch.inf
    targets[2] = UNKNOWN
    if kind == "tags":
        targets[3, ::2] = UNKNOWN
    return logits, targets


def _check(rule: Rule, kind: str, logits: Tensor, targets: Tensor, whole: Tensor) -> None:
    """Check one kind; the weights of the rows ``whole`` must sum to the number of teachers."""
    before = logits.clone(), targets.clone()
    soft, again = soften(rule, logits, targets), soften(rule, logits, targets)
    assert soft.logits.shape == logits.shape[1:], f"{kind}: soft logits {list(soft.logits.shape)}"
    finite = logits.isfinite().all(0)
    assert soft.logits[finite].isfinite().all(), f"{kind}: soft logits are not finite"
    if (weights := soft.weights) is not None:
        assert weights.shape == logits.shape[:-1], f"{kind}: weights {list(weights.shape)}"
        assert weights.isfinite().all(), f"{kind}: weights are not finite"
        assert (weights >= 0).all(), f"{kind}: a weight is negative"
        total = weights[:, whole].float().sum(0)
        expected = torch.full_like(total, len(logits))
        assert_close(total, expected, msg=f"{kind}: weights do not sum to the number of teachers")
    assert torch.equal(soft.logits, again.logits), f"{kind}: two calls differ"
    is_same = torch.equal(logits, before[0]) and torch.equal(targets, before[1])
    assert is_same, f"{kind}: the rule changes its arguments"
    turned = soften(rule, logits.flip(0), targets).logits
    assert_close(turned, soft.logits, msg=f"{kind}: the order of the teachers matters")
    alone = soften(rule, logits[:, 3:4], targets[3:4]).logits
    assert_close(alone, soft.logits[3:4], msg=f"{kind}: other rows matter")


def check_metric(name: str) -> None:
    """Raise ``AssertionError`` unless ``package.module:name`` keeps the contract of a metric.

    It must be a pure function of true and predicted values whose result is finite, also where all
    values are equal, depends on no order of rows, and is never better than for right predictions.
    Raises ``ConfigError`` for what is no metric.
    """
    metric, generator = own_metric(name), np.random.default_rng(0)
    for count, classes in ((1, 1), (5, 1), (40, 2), (40, 4)):
        gold, predicted = generator.integers(classes, size=(2, count)).astype(float)
        before = gold.copy(), predicted.copy()
        score, right = metric(gold, predicted), metric(gold, gold)
        assert math.isfinite(score), f"{count} rows of {classes} values: {score}"
        assert math.isfinite(right), f"{count} right rows of {classes} values: {right}"
        assert right >= score, f"{score} for some errors, {right} for none: larger must be better"
        assert metric(gold, predicted) == score, "two calls differ"
        same = np.array_equal(gold, before[0]) and np.array_equal(predicted, before[1])
        assert same, "the metric changes its arguments"
        turned = metric(gold[::-1], predicted[::-1])
        assert math.isclose(turned, score, abs_tol=1e-9), "the order of rows matters"


def check_reader(name: str, path: Path | str, columns: Sequence[str]) -> None:
    """Raise ``AssertionError`` unless the reader ``package.module:name`` reads ``path``, a file of
    its layout, into rows that have ``columns``, each with a place of its own, twice the same.

    Raises ``ConfigError`` for what is no reader, ``DataError`` for what is no row.
    """
    rows = list(own_rows(name, Path(path)))
    assert rows, f"{path}: no rows"
    places = [where for where, _ in rows]
    assert len({*places}) == len(places), "two rows have one place: errors could not name them"
    for where, row in rows:
        assert {*columns} <= row.keys(), f"{where}: has {', '.join(row)}"
    assert rows == list(own_rows(name, Path(path))), "two readings differ"


def check_tracker(name: str) -> None:
    """Raise ``AssertionError`` unless the tracker ``package.module:name`` takes rows, values that
    were not finite too (None), and starts again in the run directory of a resumed run.

    Raises ``ConfigError`` for what is no tracker, and whatever it raises; in a run, a tracker that
    raises is left out from there on.
    """
    with TemporaryDirectory() as directory:
        config: dict[str, object] = {"seed": 0, "data": {"dataset": "sst2"}}
        for failed, step in ((True, 10), (False, 20)):
            tracker = own_tracker(name, Path(directory), "run", config)()
            row: dict[str, float] = {"train/loss": 0.5, "eval/sst2/accuracy": None}  # type: ignore[dict-item]
            before = dict(row)
            tracker.log(step, row)
            tracker.log(step + 1, {})
            tracker.close(failed)
            assert row == before, "the tracker changes the row, which others get too"


def check_head(name: str) -> None:
    """Raise ``AssertionError`` unless the head ``package.module:Class`` keeps its contract.

    Logits depend neither on padding nor on other rows, gradients reach the states of each row, and
    a head with the same ``state_dict`` gives the same logits. Raises ``ConfigError`` for what is no
    head, or gives logits of another shape.
    """
    states = torch.randn(3, 7, 64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mask = (torch.arange(7) < torch.tensor([7, 4, 1])[:, None]).long()
    for labels in (1, 3):
        head, other = (OwnHead(name, 64, labels).eval() for _ in range(2))
        logits = head(states, {"attention_mask": mask})
        for row, length in enumerate(mask.sum(1)):
            one = {"attention_mask": mask[row : row + 1, :length]}
            alone = head(states[row : row + 1, :length], one)
            assert_close(alone[0], logits[row], msg="padding, or another row, changes logits")
        (gradient,) = torch.autograd.grad((logits * torch.randn(labels)).sum(), states)
        assert gradient.abs().sum((1, 2)).all(), "no gradient reaches the states of a row"
        other.load_state_dict(head.state_dict())
        again = other(states, {"attention_mask": mask})
        assert torch.equal(again, logits), "two heads of one state_dict give different logits"


_SPECIAL, _MASK, _VOCABULARY, _WIDTH = (0, 2, 3, 4), 4, 60, 16


def check_objective(name: str, **options: object) -> None:
    """Raise ``AssertionError`` unless ``objective.name=name`` with ``objective.options`` keeps the
    contract of a pre-training objective, with tiny ELECTRA models and without dropout.

    Terms have the counts that are known before the forward pass, are finite, are the same in two
    calls and add up over the rows of a batch, so that workers and micro-batches do not change the
    loss; all trained parameters get a gradient unless ``sparse``; ``metric_names`` has the names
    of all terms and metrics; the export loads as an encoder. Raises ``ConfigError`` for
    what is no objective.
    """
    kind = objective_class(name)
    torch.manual_seed(0)
    size = ElectraConfig(
        **{"vocab_size": _VOCABULARY, "embedding_size": 16, "hidden_size": 32},
        **{"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
        **{"max_position_embeddings": _WIDTH, "hidden_dropout_prob": 0.0},
        attention_probs_dropout_prob=0.0,
    )
    made = [
        (ElectraForPreTraining if model == "discriminator" else ElectraForMaskedLM)(size)
        for model in models_of(kind)
    ]
    objective = kind(*made, special_ids=_SPECIAL, mask_id=_MASK, **options)
    whole = _objective_case(objective, slice(None))
    losses, again = objective(whole), objective(whole)
    counts, terms = objective.counts(whole), losses.terms
    assert counts.keys() == terms.keys(), f"counts of {list(counts)}, terms {list(terms)}"
    named, found = {*kind.metric_names}, terms.keys() | losses.metrics.keys()
    assert named == found, f"metric_names are {sorted(named)}, forward returns {sorted(found)}"
    parts = [objective(_objective_case(objective, part)) for part in (slice(0, 3), slice(3, None))]
    for term, loss in terms.items():
        assert loss.total.shape == (), f"{term}: total is of shape {list(loss.total.shape)}"
        assert loss.total.isfinite(), f"{term}: total is {loss.total}"
        assert int(counts[term]) == int(loss.count), f"{term}: counts differ"
        assert torch.equal(loss.total, again.terms[term].total), f"{term}: two calls differ"
        added = torch.stack([part.terms[term].total for part in parts]).sum()
        assert_close(added, loss.total, rtol=1e-4, atol=1e-4, msg=f"{term}: not a sum over rows")
    torch.autograd.backward([loss.total for loss in terms.values()])
    trained = [(n, p) for n, p in objective.named_parameters() if p.requires_grad]
    without = [n for n, p in trained if p.grad is None]
    assert objective.sparse or not without, f"no gradient: {', '.join(without[:3])}"
    with TemporaryDirectory() as directory:
        objective.export(Path(directory))
        load_encoder(directory)  # by transformers; refuses weights that are not finite


def _objective_case(objective: Objective, rows: slice) -> Batch:
    """Return some of seven prepared rows of 6 to 16 tokens, the first as wide as the batch."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, _VOCABULARY, (7, _WIDTH), generator=generator)
    lengths = torch.tensor([16, 6, 9, 16, 12, 7, 16])[:, None]
    ids[:, 0], at = 2, torch.arange(_WIDTH)[None]
    ids = torch.where(at == lengths - 1, 3, ids).where(at < lengths, torch.tensor(0))
    noise = torch.rand(objective.noise_channels, 7, _WIDTH, generator=generator)
    batch: Batch = {
        "input_ids": ids[rows],
        "attention_mask": (at < lengths).long()[rows],
        "token_type_ids": ((at >= 4) & (at < lengths)).long()[rows],
        "noise": noise[:, rows],
    }
    return objective.prepare(batch)
