"""Model card ``README.md`` of a model directory: what ``card.md.jinja`` shows, computed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from road_ray.config import flatten
from road_ray.config.secrets import redact
from road_ray.config.yaml_files import plain_yaml
from road_ray.data import catalog
from road_ray.data.task_and_dataset import SPECIAL_HEADS, Hub
from road_ray.reporting.pages.page import template
from road_ray.reporting.pages.run_page import headline
from road_ray.reporting.records.run_record import (
    RunRecord,
    ancestors,
    describe_model,
    is_run,
    read_run,
)
from road_ray.reporting.text_tables import metric_title, metrics_table, printable
from road_ray.system.files import without_places

_PIPELINES = {
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForMaskedLM": "fill-mask",
}
# Names of metrics on the Hub.
_METRICS = {
    "exact": "exact_match",
    "at_threshold_exact": "exact_match",
    "at_threshold_f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


def write_card(directory: Path, lineage: Mapping[str, object]) -> Path:
    """Write ``README.md`` beside ``config.json`` from ``lineage`` and from the run directory above
    it, if there is one; secrets are masked.

    ``lineage`` may have ``task``, ``datasets``, ``metrics`` (values by name), ``teachers`` (with
    ``directory`` and ``weights_sha256``) and any plain settings, which are listed unchanged.
    """
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    kind, family = config["architectures"][0], str(config.get("model_type") or "")
    known = redact(lineage)
    above = directory.parent
    run = replace(read_run(above) if is_run(above) else RunRecord(directory), model=known)
    model = without_places(known)
    metrics = dict(model.pop("metrics", {}))
    packages = run.environment.get("packages") or {}
    length = run.model.get("max_length_tokens")
    card = template("card.md.jinja", plain=_plain, code=_code)
    text = card.render(
        run=run,
        model=model,
        kind=kind,
        front=_front(kind, family, run, metrics),
        title=_plain(run.directory.resolve().name if run.config else kind),
        family=family,
        version=version("road-ray"),
        figures=metrics_table(metrics),
        evaluated=any(name.startswith("eval/") for name in metrics),
        ancestors=[
            (role, without_places(where), describe_model(facts))
            for role, where, facts in ancestors(run)
            if not role.startswith("teacher")
        ],
        facts=flatten({name: value for name, value in model.items() if name != "teachers"}),
        versions=_plain(", ".join(f"{name} {number}" for name, number in packages.items())),
        configuration=plain_yaml(without_places(dict(run.config))).rstrip(),
        length=length if isinstance(length, int) else 512,
        several=config.get("problem_type") == "multi_label_classification",
        special_head=any(run.settings.get(f"data.{h.key}") == h.value for h in SPECIAL_HEADS),
    )
    path = directory / "README.md"
    path.write_text(text, encoding="utf-8")
    return path


def _plain(text: object) -> str:
    """Return text on one line with its Markdown characters escaped."""
    if re.fullmatch(r"[\w.-]+", str(text), re.ASCII):
        return str(text)
    return re.sub(r"([\\`*_\[\]<>&#|!~$])", r"\\\1", printable(str(text)))


def _code(text: object, language: str | None = None) -> str:
    """Return text as a Markdown code span, or as a fenced block of a language, also if it contains
    backticks.
    """
    shown = printable(str(text), keep="" if language is None else "\n\t")
    least = 1 if language is None else 3
    mark = "`" * max([least, *(len(run) + 1 for run in re.findall("`+", shown))])
    if language is not None:
        return f"{mark}{language}\n{shown}\n{mark}"
    pad = " " if "`" in shown else ""
    return f"{mark}{pad}{shown}{pad}{mark}"


def _front(kind: str, family: str, run: RunRecord, metrics: Mapping[str, object]) -> str:
    """Return the front matter for the Hub: tags, pipeline, data sets, and the principal metrics as
    ``model-index``.
    """
    from huggingface_hub import EvalResult, ModelCardData

    model = run.model
    pipeline = next((name for end, name in _PIPELINES.items() if kind.endswith(end)), None)
    made_up = run.settings.get("data.root") == "miniature"  # not on the Hub
    results = []
    for name, value in headline(metrics).items():
        _, dataset, metric = name.split("/", 2)
        hub = None if made_up else _hub(dataset, run)
        result = EvalResult(
            task_type=pipeline or "fill-mask",
            dataset_type="miniature" if made_up else hub.path if hub else printable(dataset),
            dataset_name=printable(dataset),
            # The Hub merges the results of one type, configuration and split.
            dataset_config=hub.configuration if hub else printable(dataset) if made_up else None,
            dataset_split=hub.splits.get("dev", "validation") if hub else "dev",
            metric_type=_METRICS.get(metric, printable(metric)),
            metric_name=printable(metric_title(metric)),
            metric_value=round(float(value), 4),
        )
        results.append(result)
    known = [_hub(str(name), run) for name in model.get("datasets") or () if not made_up]
    fields: dict[str, Any] = {
        "library_name": "transformers",
        "tags": ["road_ray", *(printable(str(x)) for x in (family, model.get("task")) if x)],
        "pipeline_tag": pipeline,
        "datasets": list(dict.fromkeys(place.path for place in known if place)) or None,
        "metrics": sorted({result.metric_type for result in results}) or None,
        "base_model": _on_the_hub(str(model.get("init") or "")),
    }
    if results:
        fields |= {"model_name": printable(run.directory.resolve().name), "eval_results": results}
    return f"---\n{ModelCardData(**fields).to_yaml()}\n---"


def _on_the_hub(init: str) -> str | None:
    """Return ``init`` if it is a model name on the Hub rather than a local directory."""
    owner, _, name = init.partition("/")
    local = "/" in name or not name or owner in ("runs", ".", "..", "~") or Path(owner).exists()
    return None if local or not owner else init


def _hub(name: str, run: RunRecord) -> Hub | None:
    """Return the place on the Hub of a data set of the catalogue or of the run's own sets."""
    if name in catalog.DATASETS:
        return catalog.DATASETS[name].hub
    own = ((run.config.get("data") or {}).get("sets") or {}).get(name) or {}
    if not own.get("hub") or not _on_the_hub(str(own["hub"])):
        return None
    held_out = (own.get("train") or "train") if own.get("dev_fraction") else "validation"
    splits = {"dev": own.get("dev") or held_out}
    return Hub(str(own["hub"]), own.get("configuration"), splits=splits)
