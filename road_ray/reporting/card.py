"""The model card ``README.md`` of a model directory: what it is, its figures, its lineage, how it
was made, how to load it, what it is not fit for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from road_ray.config import flatten
from road_ray.data import catalog
from road_ray.data.special_heads import SPECIAL_HEADS
from road_ray.reporting.lineage import ancestors, describe_model
from road_ray.reporting.pages.run_page import headline
from road_ray.reporting.run_record import CONFIG, RunRecord, is_run, read_run
from road_ray.reporting.tables import figures, metric_title, printable
from road_ray.training.monitoring.secrets import redact

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_PIPELINES = {
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForMaskedLM": "fill-mask",
}
# What the Hub calls our metrics.
_METRICS = {
    "exact": "exact_match",
    "at_threshold_exact": "exact_match",
    "at_threshold_f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
}


def write_card(directory: Path, lineage: Mapping[str, Any]) -> Path:
    """``README.md`` beside ``config.json``, from what ``road_ray.json`` says and, where it lies
    above, from the run; secrets masked.

    ``lineage`` may have ``task``, ``datasets``, ``metrics`` (figures by name), ``teachers`` (with
    ``directory`` and ``weights_sha256``) and any plain settings, which are listed as they are.
    """
    kind = json.loads((directory / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    told = redact(lineage)
    run = _run_of(directory, told)
    named = dict(told.pop("metrics", {}))
    parts = [
        _front(kind, run, named),
        f"# {_plain(run.name if run.config else kind)}",
        _about(kind, told),
        f"## Figures\n\n{_fenced(figures(named))}\n\n{_judged(run, named)}",
        f"## Where it comes from\n\n{_origin(run, told)}",
        f"## How it was made\n\n{_making(run)}",
        f"## Use\n\n{_fenced(_use(kind), 'python')}",
        "## Limits\n\n" + "\n".join(f"- {line}" for line in _limits(run, told)),
        "<!-- Nothing was pushed. To publish this directory: hf upload OWNER/NAME DIRECTORY -->",
    ]
    path = directory / "README.md"
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    return path


def _plain(text: object) -> str:
    """Text of others as Markdown shows it letter by letter, on one line; plain names stay."""
    if re.fullmatch(r"[\w.-]+", str(text), re.ASCII):
        return str(text)
    return re.sub(r"([\\`*_\[\]<>&#|!~$])", r"\\\1", printable(str(text)))


def _code(text: object) -> str:
    """Text of others as a code span, whatever backticks it holds."""
    shown = printable(str(text))
    mark = "`" * (_longest_run(shown) + 1)
    pad = " " if "`" in shown else ""
    return f"{mark}{pad}{shown}{pad}{mark}"


def _fenced(text: str, language: str = "") -> str:
    """A block of code that no line of the text ends."""
    shown = printable(text, keep="\n\t")
    mark = "`" * max(3, _longest_run(shown) + 1)
    return f"{mark}{language}\n{shown}\n{mark}"


def _longest_run(text: str) -> int:
    """The most backticks in a row."""
    return max(map(len, re.findall("`+", text)), default=0)


def _run_of(directory: Path, told: Mapping[str, Any]) -> RunRecord:
    """The run above the model directory, or one that knows only what the model tells."""
    above = directory.parent
    found = read_run(above) if is_run(above) else RunRecord(directory)
    return RunRecord(found.directory, found.config, found.environment, told=told)


def _front(kind: str, run: RunRecord, named: Mapping[str, Any]) -> str:
    """What the Hub reads: YAML with tags, pipeline, data and the figures as ``model-index``."""
    from huggingface_hub import ModelCardData

    told = run.told
    pipeline = next((name for end, name in _PIPELINES.items() if kind.endswith(end)), None)
    made_up = run.settings.get("data.root") == "miniature"  # no data set of the Hub
    results = [*_results(pipeline or "fill-mask", named, made_up=made_up)]
    hub = [h for name in told.get("datasets") or () if not made_up and (h := _hub(str(name)))]
    fields: dict[str, Any] = {
        "library_name": "transformers",
        "tags": [
            "road_ray",
            "electra",
            *([printable(str(told["task"]))] if told.get("task") else []),
        ],
        "pipeline_tag": pipeline,
        "datasets": list(dict.fromkeys(hub)) or None,
        "metrics": sorted({result.metric_type for result in results}) or None,
        "base_model": _on_the_hub(str(told.get("init") or "")),
    }
    if results:
        fields |= {"model_name": printable(run.name), "eval_results": results}
    return f"---\n{ModelCardData(**fields).to_yaml()}\n---"


def _on_the_hub(init: str) -> str | None:
    """``init`` where it is a name of the Hub: an owner and a name, and no directory of ours."""
    owner, _, name = init.partition("/")
    local = "/" in name or not name or owner in ("runs", ".", "..", "~") or Path(owner).exists()
    return None if local or not owner else init


def _results(task: str, named: Mapping[str, Any], *, made_up: bool) -> Iterable[EvalResult]:
    """The principal figures as the Hub's ``model-index`` has them."""
    from huggingface_hub import EvalResult

    for name, value in headline(named).items():
        _, dataset, metric = name.split("/", 2)
        yield EvalResult(
            task_type=task,
            dataset_type="miniature" if made_up else _hub(dataset) or printable(dataset),
            dataset_name=printable(dataset),
            dataset_split="dev",
            metric_type=_METRICS.get(metric, printable(metric)),
            metric_name=printable(metric_title(metric)),
            metric_value=round(float(value), 4),
        )


def _hub(name: str) -> str | None:
    """The name of a data set on the Hub, None where it is not there."""
    entry = catalog.DATASETS.get(name)
    return entry.hub.path if entry and entry.hub else None


def _about(kind: str, told: Mapping[str, Any]) -> str:
    sets = ", ".join(map(_plain, told.get("datasets") or ()))
    made = f"Made by road_ray {version('road-ray')} as {_code(kind)}."
    if not told.get("task"):
        return f"An ELECTRA encoder, pre-trained on a text corpus. {made}"
    how = "distilled from several teachers" if told.get("teachers") else "trained"
    head = f"An ELECTRA encoder with a head for the task {_code(told['task'])}"
    return f"{head}, {how} on {sets}. {made}"


def _judged(run: RunRecord, named: Mapping[str, Any]) -> str:
    if not any(name.startswith("eval/") for name in named):
        return ""
    said = "Figures below `eval/` are percentages, on dev splits, of this one run."
    most = run.settings.get("data.max_judged_rows")
    if isinstance(most, int):
        said += f" Judged on {most:,} rows: not comparable with published figures."
    if run.told.get("no_answer_threshold") is not None:
        said += " The no-answer threshold was tuned on the first dev set and used on all."
    return said


def _origin(run: RunRecord, told: Mapping[str, Any]) -> str:
    """Ancestors back to the corpus, then one line a fact, nested ones by their dotted names."""
    lines = [
        f"- {role}: {_code(where)} ({_plain(describe_model(facts))})"
        for role, where, facts in ancestors(run)
        if not role.startswith("teacher")
    ]
    facts = [(name, value) for name, value in _facts(told) if value not in (None, "")]
    lines += [f"- {_plain(name)}: {_code(value)}" for name, value in facts]
    lines += [
        f"- teacher {number}: {_code(teacher['directory'])}, "
        f"weights {_code(teacher['weights_sha256'][:16])}"
        for number, teacher in enumerate(told.get("teachers") or ())
    ]
    return "\n".join(lines)


def _facts(model: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the facts of a model but for its teachers, by dotted name."""
    for name, value in flatten(model).items():
        if name != "teachers":
            yield name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _making(run: RunRecord) -> str:
    """The command and the configuration that it takes."""
    if not run.config:
        return "The run directory that tells it is not beside this model."
    packages = run.environment.get("packages") or {}
    made = _plain(", ".join(f"{name} {number}" for name, number in packages.items()))
    stream = StringIO()
    YAML().dump(dict(run.config), stream)
    written = stream.getvalue().rstrip()
    return (
        f"```\nroad {run.verb} {CONFIG}\n```\n\nwith {made or 'unknown versions'}, and\n\n"
        f"<details><summary>{CONFIG}</summary>\n\n{_fenced(written, 'yaml')}\n\n</details>"
    )


def _use(kind: str) -> str:
    return (
        f"from transformers import AutoTokenizer, {kind}\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/this/directory")\n'
        f'model = {kind}.from_pretrained("path/to/this/directory")'
    )


def _limits(run: RunRecord, told: Mapping[str, Any]) -> Iterable[str]:
    """What follows from how it was made."""
    if run.settings.get("data.root") == "miniature":
        yield "Trained on a made-up miniature world: good for trying things out, for nothing else."
    if told.get("max_length_tokens"):
        yield f"Trained on rows of at most {told['max_length_tokens']} tokens; longer ones are cut."
    if isinstance(most := run.settings.get("data.max_rows"), int):
        yield f"Trained on {most:,} rows of the data only."
    if any(run.settings.get(f"data.{head.key}") == head.value for head in SPECIAL_HEADS):
        yield "Its head is read by road_ray alone; plain transformers loads the encoder."
    if told.get("task"):
        yield "One seed. Figures of other seeds differ, on small data sets by points."
        yield "Fit for text like that of its data sets; elsewhere expect less, and measure it."
    else:
        yield "An encoder without a task: fine-tune it before use."
    yield "Not examined for bias; it has learnt what its data says of people."
