"""Loading of stored models by ``transformers``, from safetensors files alone; what it reports or
lets pass is checked: every weight of the encoder is stored, floating-point and finite.

A LoRA adapter is merged into its base once, into a model directory of the cache, which is read like
any other. PEFT itself merges; here it is checked that the weights are all there and fit the base.

The labels of a stored head are aligned with those of a task by name: their order is arbitrary.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as hugging_face_logging

from road_ray.data.model_files import check_hashes, locate_model, model_hashes, read_config
from road_ray.data.task_and_dataset import Classify, Kind, MultiLabel, Span, Tag, Task, plain_label
from road_ray.errors import CheckpointError, require
from road_ray.models.architectures import auto_class
from road_ray.system.files import cache_home, read_json, sha256_of, staged_directory

_FLOATS = ("F64", "F32", "F16", "BF16")
_BUFFERS = ("position_ids", "token_type_ids")  # older versions stored them; constants
_NAMED = 3  # weights in a message
ADAPTER = "adapter_config.json"
MERGED_FROM = "merged_from.txt"  # in a merged model: the directory of its adapter
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_TOKENIZER = ("*token*.json", "vocab.*", "merges.txt", "*.model")
_PREFIX = "base_model.model."  # of the names of the base's weights in an adapter's file
_KINDS: dict[str, Kind] = {"SEQ_CLS": Classify(()), "TOKEN_CLS": Tag(()), "QUESTION_ANS": Span()}


@contextmanager
def suppress_logging() -> Iterator[None]:
    """Context in which ``transformers`` shows no progress bars and logs errors only."""
    verbosity = hugging_face_logging.get_verbosity()
    bars = hugging_face_logging.is_progress_bar_enabled()
    hugging_face_logging.set_verbosity_error()
    hugging_face_logging.disable_progress_bar()
    try:
        yield
    finally:
        hugging_face_logging.set_verbosity(verbosity)
        if bars:
            hugging_face_logging.enable_progress_bar()


def load_stored(
    kind: Any,  # of transformers, which has no types
    directory: str | Path,
    config: PreTrainedConfig | None = None,
    **options: object,
) -> tuple[PreTrainedModel, list[str]]:
    """Load a model of class ``kind`` (an Auto class, or one of an architecture) from a local
    directory, in fp32. Return it, and the names of weights of heads that the files lack and that
    are random. ``config`` is in the place of that of the directory.

    Raises ``CheckpointError`` if names, shapes or dtypes of the encoder's weights differ from those
    of ``config.json``, if the file is not the one that ``road_ray.json`` records, and if a weight
    is not finite.
    """
    place = Path(directory)
    config = config or read_config(place)
    if (expected := getattr(kind, "config_class", None)) and not isinstance(config, expected):
        raise CheckpointError(
            f"{place / 'config.json'}: its config.json says {config.model_type!r}\n"
            f"  allowed: {expected.model_type}\n  fix: name a model of that family; "
            "encoder.family=init takes that of init"
        )
    check_hashes(place, weights=True)
    for file in sorted(place.glob("model*.safetensors")):  # those that transformers reads
        _check_floats(file)
    weights = _weights_of(place)
    with suppress_logging():
        try:
            model, report = kind.from_pretrained(
                place,
                config=config,
                output_loading_info=True,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                **options,
            )
        except Exception as error:  # transformers raises many types and rarely names the file
            message = " ".join(str(error).split())[:300]
            fix = "\n  fix: name the model that was exported" if any(place.glob("*.onnx")) else ""
            raise CheckpointError(
                f"{weights}: cannot be loaded: {message}\n"
                f"  allowed: weights as safetensors, of the model that config.json describes{fix}"
            ) from error
    check_finite(weights, model.state_dict())
    return model, _check_encoder(weights, model, report)


def _check_encoder(weights: Path, model: PreTrainedModel, report: Mapping[str, Any]) -> list[str]:
    """Return the names of a head's weights that the files lack or have in another shape, as
    ``transformers`` reports them; those of the encoder raise ``CheckpointError``.
    """
    prefix = f"{model.base_model_prefix}."
    parts = [f"{name}." for name, _ in model.base_model.named_children()]  # of an encoder's file
    unexpected = [n for n in report["unexpected_keys"] if n.startswith((prefix, *parts))]
    other_shapes = {name for name, *_ in report["mismatched_keys"]}  # empty unless allowed
    missing = sorted({*report["missing_keys"], *other_shapes})
    is_base = model.base_model is model
    lacking = [name for name in missing if is_base or name.startswith(prefix)]
    for names, problem in (
        (lacking, "encoder weights are missing"),
        (
            unexpected,
            "encoder weights of the files are not in the model that config.json describes",
        ),
    ):
        # A pooler counts as a head.
        encoder = [n for n in names if not n.removeprefix(prefix).startswith("pooler.")]
        if found := [name for name in encoder if not name.endswith(_BUFFERS)]:
            raise CheckpointError(
                f"{weights}: cannot be loaded: {len(found)} {problem}, the first: "
                f"{', '.join(sorted(found)[:_NAMED])}\n"
                "  fix: name a directory whose config.json and weights are of one model"
            )
    return missing


def _check_floats(file: Path) -> None:
    """Raise ``CheckpointError`` for quantized weights, which would be taken as they are."""
    try:
        with safe_open(file, framework="pt") as opened:
            dtypes = {name: opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{file}: cannot be loaded: no readable safetensors file ({error})\n"
            "  fix: restore the file"
        ) from error
    for name, dtype in dtypes.items():
        if dtype not in _FLOATS and not name.endswith(_BUFFERS):
            raise CheckpointError(
                f"{file}: weight {name} is of dtype {dtype}\n"
                f"  allowed: {', '.join(_FLOATS)}\n  fix: name a model that is not quantized"
            )


def check_finite(file: Path, tensors: dict[str, Tensor]) -> None:
    """Raise ``CheckpointError`` for a weight that is not finite."""
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(
                f"{file}: weight {name} is not finite (NaN or infinite numbers)\n"
                "  fix: restore the file, or name an earlier checkpoint; nothing was computed"
            )


def stored_part(place: Path, part: str) -> dict[str, Tensor]:
    """Return the weights of one part of a stored model, by their names in it; empty without it.
    Raises ``CheckpointError`` for one that is not finite.
    """
    found = dict[str, Tensor]()
    for file in sorted(place.glob("model*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                _, is_found, inner = f".{name}".partition(f".{part}.")
                found |= {inner: opened.get_tensor(name)} if is_found else {}
    check_finite(_weights_of(place), found)
    return found


def _weights_of(place: Path) -> Path:
    """Return the weights file of a directory, or the index of its shards."""
    return next(place.glob("model.safetensors.index.json"), place / "model.safetensors")


@lru_cache  # hashes the files of both once a process
def merge_adapter(adapter: Path) -> Path:
    """Return the directory of the model that an adapter and its base make. It is written at the
    first call and named by the content of both.

    The tokenizer is that of the adapter, else that of the base; the labels are those of a
    ``config.json`` beside the adapter, else those of the base if it has as many. Raises
    ``CheckpointError`` for an adapter without weights as safetensors, of another kind than LoRA,
    without the head of its task, or whose weights are not those of its base.
    """
    fields, base = _checked(adapter)
    config = read_config(base)
    own = read_json(adapter / "config.json") if (adapter / "config.json").is_file() else {}
    files = [sha256_of(adapter / name) for name in (ADAPTER, _ADAPTER_WEIGHTS)]
    content = [files, own.get("id2label"), model_hashes(base), sha256_of(base / "config.json")]
    key = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    final = cache_home() / "adapters" / key[:32]
    if final.is_dir():
        return final
    kind = auto_class(_KINDS[fields["task_type"]])
    _check_floats(adapter / _ADAPTER_WEIGHTS)
    tensors: dict[str, Tensor] = load_file(adapter / _ADAPTER_WEIGHTS)
    with torch.device("meta"):
        named = kind.from_config(config).named_parameters()
    outputs = [_PREFIX + str(n) for n, x in named if x.ndim > 1 and len(x) == config.num_labels]
    if heads := [tensors[name] for name in outputs if name in tensors]:
        config.num_labels = len(heads[-1])
    if own.get("id2label"):
        config.id2label = {int(number): name for number, name in own["id2label"].items()}
    model = _merged(adapter, kind, base, config, tensors)
    source = adapter if (adapter / "tokenizer_config.json").is_file() else base
    final.parent.mkdir(parents=True, exist_ok=True)
    with staged_directory(final) as staged:
        model.save_pretrained(staged)
        (staged / MERGED_FROM).write_text(str(adapter))
        for file in (path for pattern in _TOKENIZER for path in source.glob(pattern)):
            shutil.copyfile(file, staged / file.name)
    return final


def _checked(adapter: Path) -> tuple[dict[str, Any], Path]:
    """Return the configuration of an adapter that can be merged, and the directory of its base."""
    fields, weights = read_json(adapter / ADAPTER), adapter / _ADAPTER_WEIGHTS
    if not weights.is_file():
        raise CheckpointError(
            f"{adapter}: no {_ADAPTER_WEIGHTS}; pickled weights are not read\n"
            "  fix: save the adapter with save_pretrained of a newer peft"
        )
    for field, allowed in (("peft_type", ["LORA"]), ("task_type", list(_KINDS))):
        if fields.get(field) not in allowed:
            raise CheckpointError(
                f"{adapter / ADAPTER}: {field} is {fields.get(field)!r}\n"
                f"  allowed: {', '.join(allowed)}\n"
                "  fix: merge it into its model (merge_and_unload of peft), and name what it saves"
            )
    if fields.get("megatron_config"):  # peft would import the module that megatron_core names
        raise CheckpointError(
            f"{adapter / ADAPTER}: megatron_config makes the loader import foreign code\n"
            "  fix: remove the field if the adapter is right without it; nothing was loaded"
        )
    try:
        base = locate_model(str(fields.get("base_model_name_or_path")))
        read_config(base)
    except CheckpointError as error:
        raise CheckpointError(
            f"{adapter / ADAPTER}: its base (base_model_name_or_path): {error}"
        ) from error
    return fields, base


def _merged(
    adapter: Path, kind: Any, base: Path, config: PreTrainedConfig, tensors: dict[str, Tensor]
) -> Any:
    require(f"{adapter}: an adapter", "adapters", "peft")
    from peft import LoraConfig, get_peft_model
    from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict

    stored, missing = load_stored(kind, base, config, ignore_mismatched_sizes=True)
    if random := [name for name in missing if _PREFIX + name not in tensors]:
        raise CheckpointError(
            f"{adapter / _ADAPTER_WEIGHTS}: neither it nor its base {base} has the head: "
            f"{', '.join(random[:3])}\n  fix: train the adapter with modules_to_save"
        )
    try:
        with suppress_logging():
            model = get_peft_model(stored, LoraConfig(**read_json(adapter / ADAPTER)))
            set_peft_model_state_dict(model, tensors)
            expected = get_peft_model_state_dict(model, save_embedding_layers=False)
            problem = ", ".join(sorted(expected.keys() ^ tensors.keys())[:3])
            merged = None if problem else model.merge_and_unload(safe_merge=True)
    except Exception as error:  # peft and torch raise many types
        problem = " ".join(str(error).split())[:300]
    if problem:
        raise CheckpointError(
            f"{adapter / _ADAPTER_WEIGHTS}: is not an adapter of {base}: {problem}\n"
            f"  fix: name its base as base_model_name_or_path in {ADAPTER}"
        )
    return merged


LabelMap: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Names of a head's labels mapped to those of a task, for all models or by model: a directory or a
name of the hub mapped to the names of its head."""


def names_for(label_map: LabelMap | None, directory: Path) -> dict[str, str]:
    """Return the names of a map for one model: names given for it override names for all models."""
    shared = {key: name for key, name in (label_map or {}).items() if isinstance(name, str)}
    for place, names in (label_map or {}).items():
        if isinstance(names, str):
            continue
        path = Path(place).expanduser()
        # The directory of the model, or of its run; the files of a model of the hub are in
        # models--OWNER--NAME/snapshots/REVISION.
        places = [path.resolve(), (path / "hf").resolve()]
        if (path / ADAPTER).is_file():
            places.append(merge_adapter(path.resolve()))
        repository = directory.resolve().parent.parent.name
        if directory.resolve() in places or repository == f"models--{place.replace('/', '--')}":
            return shared | dict(names)
    return shared


def label_order(
    directory: Path,
    id2label: Mapping[int, str],
    task: Task,
    label_map: LabelMap | None = None,
    key: str = "label_map",
) -> tuple[int, ...] | None:
    """Return the index in the head of each of the task's labels; None if the order is the same or
    the task has no labels.

    ``aligned[..., i] = logits[..., order[i]]``. ``label_map`` maps the head's names to the task's.
    Case, surrounding spaces, and spaces or hyphens for underscores are ignored unless two names
    differ in nothing else. Raises ``CheckpointError`` for names that are not the task's, such as
    ``LABEL_0``, because a guess could cost accuracy silently. ``key`` is the
    configuration key of the map.
    """
    if not isinstance(task.kind, Classify | MultiLabel | Tag):
        return None
    label_names = names_for(label_map, directory)
    renamed = {head_label.strip(): label for head_label, label in label_names.items()}
    head_labels = [str(id2label[index]) for index in sorted(id2label)]
    names = [renamed.get(name.strip(), name) for name in head_labels]
    labels = list(task.kind.labels)
    if sorted(names) != sorted(labels):
        names, labels = list(map(plain_label, names)), list(map(plain_label, labels))
    if sorted(names) != sorted(labels) or len(set(labels)) < len(labels):
        where = f"{directory}: its labels"  # of a file of answers
        if not directory.is_file():
            where = f"{directory / 'config.json'}: the labels of its head"
        raise CheckpointError(
            f"{where} {head_labels} are not those of task {task.name!r}\n"
            f"  allowed: {list(task.kind.labels)} in any order\n"
            f"{_remedy(head_labels, task.kind.labels, key)}"
        )
    order = tuple(map(names.index, labels))
    return None if order == tuple(range(len(order))) else order


def _remedy(head_labels: list[str], labels: tuple[str, ...], key: str) -> str:
    if len(head_labels) != len(labels) or len(set(head_labels)) < len(head_labels):
        return "  fix: name a model that was trained on this task"
    short = [plain_label(name) for name in head_labels]
    alike = [[x for x in labels if plain_label(x).startswith(name)] for name in short]
    if {*map(tuple, alike)} == {(label,) for label in labels}:  # such as POS of positive
        labels = tuple(found[0] for found in alike)
    written = ", ".join(
        f"{head_label.strip()}: {label}"
        for head_label, label in zip(head_labels, labels, strict=True)
    )
    return (
        "  fix: map its labels to those of the task by a label_map; if they are in this order:\n"
        f"    {key}='{{{written}}}'"
    )
