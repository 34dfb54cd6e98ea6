"""Files of model directories: located here or on the hub, checked by their sha256, and read so that
nothing else is loaded.

``transformers`` can import, download or open what configurations and tokenizers name. What names
code, another model's weights or quantization is refused; implementations of attention, which may be
kernels of the hub, are not passed on, nor are objects that the configuration class does not have.
Of the tokenizer's files fields of a list, numbers and booleans are allowed, and a
``tokenizer_class`` of ``transformers``.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.errors import CheckpointError, ConfigError, shorten
from road_ray.system.files import read_json, sha256_of

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from road_ray.data.task_and_dataset import Task


MODEL_RECORD = "road_ray.json"
_REMEDY = "restore it, or repeat the command that trained the model, which writes it again"
_TYPES: dict[str, Any] = {"columns": dict, "data": dict, "files": dict, "datasets": list}
_TYPES |= {"head_datasets": list, "task": str, "id_column": str, "max_length_tokens": int}
_EDITABLE = {MODEL_RECORD, "config.json", "generation_config.json"}  # by hand: not recorded
_RECORDED = (".json", ".safetensors", ".txt", ".model", ".onnx", ".onnx.data")
_TEXTS = ("*.json", "*.txt", "*.model")
# ONNX by the names of `road export`: many repositories have further copies of it in onnx/.
_WEIGHTS = ("*.safetensors", "model.onnx", "model.onnx.data", "model_int8.onnx")


def locate_model(name: str | Path, *, weights: bool = True) -> Path:
    """Return the local directory of a model directory, a run directory (its ``hf/``) or a hub name.

    From the hub only files without code are downloaded.
    """
    directory = Path(name)
    if directory.is_dir():
        return directory / "hf" if (directory / "hf" / "config.json").is_file() else directory
    from huggingface_hub import snapshot_download

    patterns = [*_TEXTS, *(_WEIGHTS if weights else ())]
    try:
        return Path(snapshot_download(str(name), allow_patterns=patterns))
    except Exception as error:  # the hub's client raises dozens of types
        wanted = "config.json and model.safetensors" if weights else "a model or a tokenizer"
        raise CheckpointError(
            f"{name}: no such directory, and no model of the hub that can be reached\n"
            f"  seen: {shorten(' '.join(str(error).split()), 200)}\n"
            f"  allowed: a directory with {wanted}, a run directory, or "
            "ORGANISATION/NAME of the hub; no address such as file:///model\n  fix: check the path "
            "or the connection to the hub (with HF_HUB_OFFLINE=1 it is not asked)"
        ) from error


def head_for(directory: Path, task: Task, dataset: str) -> Path | None:
    """Return the directory of a model's head for ``task``, or for ``dataset``, which a mixture with
    ``mixing.heads=dataset`` has, that which learnt the data set first; None if there is neither.
    """
    own, found = model_record(directory).get("task"), list[Path]()
    for name in (task.name, dataset, dataset.removeprefix("my_")):  # the last of a file, my_NAME
        place = directory / "heads" / name
        has_files = (place / "config.json").is_file()
        found += [place] if has_files else [directory] if name == own else []
    learnt = [head for head in found if dataset in model_record(head).get("head_datasets", ())]
    return next(iter(learnt + found), None)


def head_or_only(directory: Path, task: Task, dataset: str) -> Path:
    """Return the head of ``head_for``, or the only one of a model. Raises ``CheckpointError`` for a
    mixture without one, whose first head may be of another task with equal labels.
    """
    head = head_for(directory, task, dataset)
    heads = sorted(path.name for path in directory.glob("heads/*"))
    if head is None and heads and len(model_record(directory).get("datasets", ())) > 1:
        raise CheckpointError(
            f"{directory}: a mixture without a head for {dataset}, of task {task.name}\n"
            f"  fix: name one of its heads: {directory / 'heads'}/ {', '.join(heads)}"
        )
    return head or directory


def head_directory(model: str | Path, head: str | None) -> Path:
    """Return the directory of the chosen head of a model. A multi-task model has one for each task;
    one with further heads, such as those of QuAC, has its own by default.
    """
    place = locate_model(model)
    heads = {path.parent.name: path.parent for path in sorted(place.glob("heads/*/config.json"))}
    if not heads and head is not None:
        raise ConfigError(f"head = {head}: {place} has one head\n  fix: leave head out")
    own = model_record(place).get("task")
    if not heads or (own is not None and own not in heads and head in (None, own)):
        return place
    if head in heads or (head is None and len(heads) == 1):
        return heads[head or next(iter(heads))]
    raise ConfigError(
        f"head = {head}: {place} has the heads of several tasks\n  allowed: {', '.join(heads)}\n"
        f"  fix: name one, such as --head {next(iter(heads))}, in Python head=..."
    )


def model_record(directory: Path) -> dict[str, Any]:
    """Return the record of a model; models of other programs have an empty one."""
    path = directory / MODEL_RECORD
    return typed(path, read_json(path, fix=_REMEDY)) if path.is_file() else {}


def typed(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record. Raises ``CheckpointError`` for an entry that was edited to another type."""
    for name, kind in _TYPES.items():
        if not isinstance(value := record.get(name), kind | None):
            raise CheckpointError(
                f"{path}: {name} is {shorten(repr(value))}\n"
                f"  allowed: null or a value of type {kind.__name__}\n  fix: {_REMEDY}"
            )
    return record


def model_hashes(directory: Path) -> dict[str, str]:
    """Return the sha256 of each weights and tokenizer file of a model and of its ``generator/``."""
    paths = [path for pattern in ("*", "generator/*") for path in directory.glob(pattern)]
    return {
        path.relative_to(directory).as_posix(): sha256_of(path)
        for path in sorted(paths)
        if path.name.endswith(_RECORDED) and path.name not in _EDITABLE
    }


def check_hashes(directory: Path, *, weights: bool) -> None:
    """Raise ``CheckpointError`` if a weights file (``weights``), or else a tokenizer file, differs
    from its sha256 in ``files`` of ``road_ray.json``.

    Models of other programs and of older versions have no such entries and are not checked.
    ``config.json`` is not recorded, because users may edit its ``id2label``.
    """
    places = (directory, directory.parent)  # a generator is recorded with the model above it
    record = next((p / MODEL_RECORD for p in places if (p / MODEL_RECORD).is_file()), None)
    if record is None:
        return
    for name, digest in (typed(record, read_json(record)).get("files") or {}).items():
        path = record.parent / name
        if path.parent != directory or (path.suffix == ".safetensors") != weights:
            continue
        try:
            problem = "" if sha256_of(path) == digest else "its sha256 differs"
        except OSError as error:
            problem = f"it cannot be read ({error.strerror})"
        if problem:
            raise CheckpointError(
                f"{path}: not the file that {record} records: {problem}\n"
                f"  fix: restore it; to accept a deliberate change, delete {name!r} below `files` "
                f"in {record}"
            )


OWN_HEAD = "road_ray_head"


def stored_head(directory: str | Path) -> str | None:
    """Return the name, ``package.module:Class``, of a head of the user's own in a model directory.

    It names a module of this machine: one that came with the model is refused.
    """
    name = read_json(Path(directory) / "config.json").get(OWN_HEAD)
    if name is not None and (code := next(Path(directory).rglob("*.py"), None)):
        raise CheckpointError(
            f"{code}: code that came with a model, whose head is {name}\n"
            "  fix: remove it; if you trust it, put it where other modules are; nothing was loaded"
        )
    return None if name is None else str(name)


_FOREIGN = ("auto_map", "custom_pipelines", "quantization_config", "fusion_config")
# Names of another file, and what road_ray sets itself.
_NOT_PASSED = {
    *("transformers_weights", "return_dict", "use_return_dict"),
    *("output_hidden_states", "output_attentions", OWN_HEAD),
}
_TOKENIZER_FIELDS = {
    *("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"),
    *("model_specific_special_tokens", "never_split", "model_input_names", "wordpieces_prefix"),
    # Replaced by the files of the directory, or not opened.
    *("name_or_path", "tokenizer_file", "full_tokenizer_file", "special_tokens_map_file"),
    *("tokenizer_class", "processor_class", "backend", "chat_template", "errors", "vocab_type"),
    *("padding", "padding_side", "truncation_side", "truncation_strategy"),
}


def read_config(directory: str | Path) -> PreTrainedConfig:
    """Return the configuration in a model directory, of fields that cannot load anything.

    Raises ``CheckpointError`` naming the file and the field.
    """
    from transformers import CONFIG_MAPPING

    path = Path(directory) / "config.json"
    adapter = path.with_name("adapter_config.json")
    if adapter.is_file():
        raise CheckpointError(
            f"{adapter}: an adapter of another model, which is applied only in a local directory\n"
            "  fix: download it and name its directory"
        )
    fields = read_json(path)
    if named := [name for name in _FOREIGN if name in fields]:
        raise _foreign(path, named[0], fields[named[0]])
    model_type = fields.pop("model_type", None)
    if model_type not in list(CONFIG_MAPPING.keys()):
        raise CheckpointError(
            f"{path}: model_type is {shorten(repr(model_type))}\n"
            "  allowed: a text architecture of transformers, such as electra, bert or albert\n"
            "  fix: name the directory of such a model"
        )
    kind: type[PreTrainedConfig] = CONFIG_MAPPING[model_type]
    known = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map)
    known |= {"num_labels", "torch_dtype", "rope_scaling", "rope_parameters"}
    passed = {
        name: value
        for name, value in fields.items()
        if "implementation" not in name
        and name not in _NOT_PASSED
        # A plain value may be one that some architecture reads without listing its field.
        and (
            name in known
            or not (name.startswith("_") or hasattr(kind, name) or isinstance(value, dict | list))
        )
    }
    try:
        return kind(**passed)
    except Exception as error:  # the checks of its many fields raise many types
        message = " ".join(str(error).split())
        raise CheckpointError(
            f"{path}: no configuration of {kind.model_type!r} can be made of it: "
            f"{type(error).__name__}: {message[:200]}\n  fix: restore the file"
        ) from error


def check_tokenizer_files(directory: str | Path) -> None:
    """Raise ``CheckpointError`` if the configuration of a tokenizer names something to load."""
    import transformers

    place, base = Path(directory), transformers.PreTrainedTokenizerBase
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if not (place / file).is_file():
            continue
        for name, value in read_json(place / file).items():
            known = name in _TOKENIZER_FIELDS or name.endswith(("_token", "_tokens"))
            known = known or not value or isinstance(value, int | float)
            if name == "tokenizer_class":
                names = (str(value), str(value).removesuffix("Fast"))  # of an older version
                kinds = [getattr(transformers, kind, None) for kind in names]
                known = any(isinstance(kind, type) and issubclass(kind, base) for kind in kinds)
            if not known:
                raise _foreign(place / file, name, value)


def _foreign(path: Path, name: str, value: object) -> CheckpointError:
    return CheckpointError(
        f"{path}: field {name!r} is {shorten(repr(value))}, which can make the loader run or fetch "
        "foreign code\n"
        "  allowed: fields of an architecture or tokenizer of transformers, and plain values\n"
        "  fix: remove the field if the model is right without it; nothing was loaded"
    )
