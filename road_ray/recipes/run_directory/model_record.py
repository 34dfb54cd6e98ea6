"""Record of a model directory: ``road_ray.json`` with the rows that it was trained on, so that no
later command asks for them, and a card for people.
"""

from pathlib import Path
from typing import Any

from road_ray.config import load, read_yaml
from road_ray.data import catalog
from road_ray.data.config import SourceConfig
from road_ray.data.examples import ChoiceExample, SpanExample, TagExample
from road_ray.data.load_split import Split
from road_ray.data.model_files import MODEL_RECORD, model_hashes, model_record, typed
from road_ray.data.readers.conll import word_and_tag
from road_ray.data.readers.tables import TABLES, suffix_of, table_rows
from road_ray.data.task_and_dataset import KINDS
from road_ray.errors import ConfigError
from road_ray.recipes.config import EvaluateDataConfig
from road_ray.recipes.run_directory.recorded_config import RECORD, known_values
from road_ray.reporting.model_card import write_card
from road_ray.system.files import check_input, write_json_atomic


def write_model_record(directory: Path, **fields: object) -> None:
    """Write record and card of the model in ``directory``, after its other files."""
    write_json_atomic(directory / MODEL_RECORD, fields | {"files": model_hashes(directory)})
    write_card(directory, fields)


_OF_FILES = {"train", "dev", "test", "dev_fraction", "hub", "configuration", "revision"}
_OF_ONE_RUN = {"max_rows", "max_judged_rows"}


def trained_rows(data: SourceConfig, split: Split) -> dict[str, Any]:
    """Return the entries of ``road_ray.json`` on the rows of a training: the columns of each field
    of ``road predict`` (the fields themselves where the layout has no names of columns), the column
    of ids, and the entry of an own data set without its files, which are those of this machine.
    """
    dataset, example = split.dataset, split.examples[0]
    keys = data.model_dump(mode="json", include={"span_head", "pair_head"}, exclude_defaults=True)
    entry = data.sets.get(dataset.name)
    if entry is not None:
        written = entry.model_dump(mode="json", exclude=_OF_FILES, exclude_defaults=True)
        keys["sets"] = {dataset.name: written}
    pairs = zip(("text", "text_pair"), dataset.columns.text, strict=False)
    columns: dict[str, Any] = {field: field if "|" in str(name) else name for field, name in pairs}
    if isinstance(example, SpanExample):
        columns = {"question": "question", "context": "context"}
    elif isinstance(example, TagExample):
        name = str(dataset.splits.get("train")).removesuffix(".gz")
        # A `.tsv` of tags is a file of columns.
        in_table = dataset.hub or (name.endswith(TABLES) and not name.endswith(".tsv"))
        word = word_and_tag(dataset.columns)[0] if in_table else dataset.columns.text[0]
        columns = {"words": word}
    elif isinstance(example, ChoiceExample):
        question, *choices = map(str, dataset.columns.text)
        columns = {"question": question, "choices": choices}
    id_column = dataset.columns.id if isinstance(dataset.columns.id, str) else None
    return {"columns": columns, "id_column": id_column, "data": keys}


def with_trained_data(data: EvaluateDataConfig, model: str) -> EvaluateDataConfig:
    """Return the data of an evaluation: what is not given comes from the training of ``model``, a
    run or model directory; ``data.file`` takes the place of the split of its data set.

    Raises ``ConfigError`` if neither names a data set.
    """
    recorded, trained_on = _recorded(model)
    given = data.model_dump(mode="json", exclude_defaults=True)
    known = set(SourceConfig.model_fields) - _OF_ONE_RUN - given.keys()
    values = {name: value for name, value in recorded.items() if name in known} | given
    sets: dict[str, dict[str, Any]] = dict(recorded.get("sets") or {})
    for entry in sets.values():
        entry.pop("first_rows", None)  # of an earlier version: splits are read whole
    for name, chosen in data.sets.items():  # a key may be given the value that is its default
        sets[name] = sets.get(name, {}) | chosen.model_dump(mode="json", exclude_unset=True)
    names = list(data.datasets) or trained_on
    if not names:
        there = "" if Path(model).expanduser().exists() else ", which is no directory here,"
        raise ConfigError(
            f"data.datasets is not given, and {model}{there} does not say what it was trained on\n"
            "  fix: data.datasets=[NAME] of `road data list`, or `road init FILE`, which writes a "
            f"YAML file: road evaluate NAME.yaml init={model}"
        )
    if data.file is not None:
        names = [_put_file(sets, names, data.file, data.split)]
    for name in names:
        if name in sets and not _OF_FILES & sets[name].keys():
            raise ConfigError(
                f"data.sets.{name}: {model} records its columns and labels, but no files\n"
                f"  fix: road evaluate {model} FILE data.datasets=[{name}], or name the run"
            )
    values |= {"sets": {n: s for n, s in sets.items() if _OF_FILES & s.keys()}}
    values |= {"datasets": names, "file": None}
    return load(EvaluateDataConfig, keys=known_values(EvaluateDataConfig, values))


def _recorded(model: str) -> tuple[dict[str, Any], list[str]]:
    """Return the data section of a training, or what its model records of it, and its data sets."""
    place = Path(model).expanduser()
    for directory in [place, place.parent] if place.name == "hf" else [place]:
        if (directory / RECORD).is_file() and (directory / "hf").is_dir():
            record = typed(directory / RECORD, dict(read_yaml(directory / RECORD).values))
            data: dict[str, Any] = record.get("data") or {}
            name = data.get("dataset")
            return data, [name] if name else list(data.get("datasets") or ())
    for directory in (place / "hf", place):
        if record := model_record(directory):
            names = "head_datasets" if directory.parent.name == "heads" else "datasets"
            return record.get("data") or {}, list(record.get(names) or ())
    return {}, []


def _put_file(sets: dict[str, Any], names: list[str], file: str, split: str) -> str:
    """Put an entry for ``file`` into ``sets``, like that of the data set; return its name."""
    check_input(file)
    if len(names) > 1:
        raise ConfigError(
            f"data.file = {file}: the data sets are several: {', '.join(names)}\n"
            "  fix: name the one whose columns the file has: data.datasets=[NAME]"
        )
    (name,) = names
    path = Path(file).expanduser().resolve()
    entry: dict[str, Any] = sets.get(name) or {}
    if not entry:  # one in tables with the columns of that of the catalogue, which stays as it is
        dataset, columns = catalog.dataset(name), catalog.dataset(name).columns
        task, name = catalog.TASKS[dataset.task], f"my_{name}"
        kind = next(known for known, of in KINDS.items() if isinstance(task.kind, of))
        entry = {"kind": kind, "task": task.name, "metrics": list(dataset.metrics)}
        if kind in ("classify", "regress", "choose"):
            entry |= {"text": list(columns.text), "label": columns.label, "id": columns.id}
            entry["label_map"] = dict(dataset.label_map)
            if isinstance(columns.text[0], int):  # of CoLA: without a header
                entry["layout"] = dataset.layout
    kept = {k: v for k, v in (entry | sets.get(name, {})).items() if k not in _OF_FILES}
    if "id" in kept and suffix_of(path) in TABLES:
        _, first = next(iter(table_rows(path)), ("", {}))
        kept["id"] = kept["id"] if kept["id"] in first else None  # no score needs it
    sets[name] = kept | {split: str(path)}
    return name
