"""The model card ``README.md`` of a model directory: what it is, its figures, its lineage, how to
load it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from road_ray.reporting.tables import figures
from road_ray.training.redact import redact

_PIPELINES = {
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
}


def write_card(directory: Path, lineage: Mapping[str, Any]) -> Path:
    """``README.md`` beside ``config.json``, from what ``road_ray.json`` says; secrets masked.

    ``lineage`` may have ``task``, ``datasets``, ``metrics`` (figures by name), ``teachers`` (with
    ``directory`` and ``weights_sha256``) and any plain settings, which are listed as they are.
    """
    kind = json.loads((directory / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    told = redact(lineage)
    named = dict(told.pop("metrics", {}))
    parts = [
        _front(kind, told, named),
        f"# {kind} by road_ray {version('road-ray')}",
        _about(told),
        f"## Figures\n\n```\n{figures(named)}\n```\n\nFigures below `eval/` are percentages.",
        f"## Where it comes from\n\n{_origin(told)}",
        f"## Use\n\n```python\n{_use(kind)}\n```",
    ]
    path = directory / "README.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _front(kind: str, told: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """What the Hub reads: YAML, of which JSON strings and lists are a part."""
    tags = ["road_ray", "electra", *([told["task"]] if told.get("task") else [])]
    judged = {name.rsplit("/", 1)[-1] for name in named if name.startswith("eval/")}
    scores = sorted(judged & {"accuracy", "f1", "exact", "matthews", "pearson", "spearman"})
    fields: dict[str, Any] = {"library_name": "transformers", "tags": tags}
    pipeline = next((name for end, name in _PIPELINES.items() if kind.endswith(end)), None)
    fields |= {"pipeline_tag": pipeline} if pipeline else {}
    fields |= {"metrics": scores} if scores else {}
    lines = (f"{name}: {json.dumps(value)}" for name, value in fields.items())
    return "\n".join(["---", *lines, "---"])


def _about(told: Mapping[str, Any]) -> str:
    sets = ", ".join(told.get("datasets") or ())
    if not told.get("task"):
        return "An ELECTRA encoder, pre-trained on a text corpus."
    how = "distilled from several teachers" if told.get("teachers") else "trained"
    return f"An ELECTRA encoder with a head for the task `{told['task']}`, {how} on {sets}."


def _origin(told: Mapping[str, Any]) -> str:
    """One line a fact, nested ones by their dotted names."""
    lines = [f"- {name}: `{value}`" for name, value in _facts(told) if value not in (None, "")]
    lines += [
        f"- teacher {number}: `{teacher['directory']}`, weights `{teacher['weights_sha256'][:16]}`"
        for number, teacher in enumerate(told.get("teachers") or ())
    ]
    return "\n".join(lines)


def _facts(told: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = []
    for name, value in told.items():
        if isinstance(value, Mapping):
            facts += _facts(value, f"{prefix}{name}.")
        elif name != "teachers":
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            facts.append((prefix + name, shown))
    return facts


def _use(kind: str) -> str:
    return (
        f"from transformers import AutoTokenizer, {kind}\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/directory")\n'
        f'model = {kind}.from_pretrained("path/to/this/directory")'
    )
