"""Loading of stored weights: headers are compared with the configuration, then tensors checked.

``transformers`` gets the tensors in memory and never the directory, so that only the safetensors
files checked here decide what a model computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from road_ray.data.model_files.locate_model import check_hashes
from road_ray.data.model_files.remote_code import read_config
from road_ray.errors import CheckpointError
from road_ray.models.architectures import FAMILIES
from road_ray.models.hf_logging import suppress_logging
from road_ray.system.json_file import read_json

_FLOATS = ("F64", "F32", "F16", "BF16")
_BUFFERS = ("position_ids", "token_type_ids")  # older versions stored them; constants
_FREE_NUMBERS = 1_000_000  # parameters of a new head, besides those in the files
_NAMED = 3  # weights in a message

ModelClass: TypeAlias = Any  # a class of transformers, which has no types


class Header(NamedTuple):
    """Header of one tensor in a safetensors file."""

    file: Path
    dtype: str
    shape: tuple[int, ...]


class Stored(NamedTuple):
    """A model loaded from a directory, and the names of weights that the files lack."""

    model: PreTrainedModel
    missing: list[str]


def load_stored(kind: ModelClass, directory: str | Path, **options: object) -> Stored:
    """Load a model of class ``kind`` (an Auto class, or one of an architecture) from a local
    directory, in fp32; weights that the files lack are random and listed in ``missing``.

    Raises ``CheckpointError``, before memory is allocated, if names, shapes or dtypes of the
    encoder's weights differ from those of ``config.json``, if the file is not the one that
    ``road_ray.json`` records, and if a weight is not finite.
    """
    place = Path(directory)
    with suppress_logging():
        config = read_config(place)
        model_class = _class_for(kind, config, place)
        blueprint = _blueprint(model_class, config, place, options)
        headers = read_headers(place)
        check_hashes(place, weights=True)
        _check_floats(headers)
        if config.model_type in FAMILIES:  # of others, only transformers knows old names
            _check_encoder(place, blueprint, headers)
        _check_head(place, blueprint, headers)
        _check_size(place, blueprint, headers)
        try:
            model, report = model_class.from_pretrained(
                None,
                config=config,
                state_dict=read_tensors(headers),
                output_loading_info=True,
                dtype=torch.float32,
                trust_remote_code=False,
                local_files_only=True,
                **options,
            )
        except CheckpointError:
            raise
        except Exception as error:  # transformers raises many types and rarely names the file
            message = " ".join(str(error).split())[:300]
            raise CheckpointError(f"{place}: cannot be loaded: {message}") from error
    model.config.name_or_path = model.name_or_path = str(place)
    prefix = f"{model.base_model_prefix}."
    parts = [f"{name}." for name, _ in model.base_model.named_children()]  # of an encoder's file
    within = [name for name in report["unexpected_keys"] if name.startswith((prefix, *parts))]
    if surplus := [name for name in within if not _idle(name.removeprefix(prefix))]:
        raise _surplus(place, surplus)
    missing = sorted(report["missing_keys"])
    is_base = model.base_model is model
    within = [name.removeprefix(prefix) for name in missing if is_base or name.startswith(prefix)]
    if lacking := [name for name in within if not _idle(name)]:
        raise _lacking(place, lacking)
    return Stored(model, missing)


def read_headers(directory: Path) -> dict[str, Header]:
    """Return the headers of ``model.safetensors``, or of the shards of its index, by name.

    Raises ``CheckpointError`` for files that are absent, damaged or differ from their index.
    """
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.is_file():
        return headers_of(single)
    if not index.is_file():
        raise CheckpointError(
            f"{directory}: cannot be loaded: no model.safetensors there\n"
            "  allowed: weights as safetensors, in one file or in shards with their index\n"
            "  fix: save them with save_pretrained; convert pickles on a machine you trust"
        )
    placed = read_json(index).get("weight_map")
    if not isinstance(placed, dict) or not all(map(_is_shard, placed.values())):
        raise CheckpointError(f"{index}: no weight_map of names to safetensors files beside it")
    headers: dict[str, Header] = {}
    for name in sorted(set(placed.values())):
        headers |= headers_of(directory / name)
    actual = {name: header.file.name for name, header in headers.items()}
    strayed = {name for name in placed if actual.get(name) != placed[name]}
    if strayed or len(headers) != len(placed):
        differing = sorted(strayed | (headers.keys() - placed.keys()))
        raise CheckpointError(
            f"{index}: its shards differ from the index, the first weight: {differing[0]}\n"
            "  fix: restore the files"
        )
    return headers


def read_tensors(headers: Mapping[str, Header]) -> dict[str, Tensor]:
    """Return the tensors that have a header in ``headers``, by name.

    Raises ``CheckpointError`` if one is not finite.
    """
    tensors: dict[str, Tensor] = {}
    for path in dict.fromkeys(header.file for header in headers.values()):
        try:
            with safe_open(path, framework="pt") as file:
                names = [name for name, header in headers.items() if header.file == path]
                tensors |= {name: file.get_tensor(name) for name in names}
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise CheckpointError(
                f"{headers[name].file}: weight {name} is not finite (NaN or infinite numbers)\n"
                "  fix: restore the file, or name an earlier checkpoint; nothing was computed"
            )
    return tensors


def headers_of(path: Path) -> dict[str, Header]:
    """Return the headers of one safetensors file, by name."""
    try:
        with safe_open(path, framework="pt") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {
                name: Header(path, str(part.get_dtype()), tuple(part.get_shape()))
                for name, part in parts.items()
            }
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: cannot be loaded: no readable safetensors file ({error})\n"
            "  fix: restore the file"
        ) from error


def _is_shard(name: object) -> bool:
    return isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name


def _class_for(kind: ModelClass, config: PreTrainedConfig, place: Path) -> ModelClass:
    """Return the class of the architecture that ``kind`` stands for, if it is an Auto class."""
    mapping = getattr(kind, "_model_mapping", None)
    if mapping is None:
        config_class = kind.config_class
        if not isinstance(config, config_class):
            raise CheckpointError(
                f"{place / 'config.json'}: its config.json says {config.model_type!r}\n"
                f"  allowed: {config_class.model_type}\n  fix: name a model of that family"
            )
        return kind
    try:
        model_class = mapping[type(config)]
    except KeyError as error:
        raise CheckpointError(
            f"{place}: transformers has no {kind.__name__} for {config.model_type!r}"
        ) from error
    return model_class[0] if isinstance(model_class, tuple) else model_class


def _blueprint(
    kind: ModelClass, config: PreTrainedConfig, place: Path, options: Mapping[str, object]
) -> PreTrainedModel:
    """Return the model on the meta device, without memory for its weights."""
    try:
        with torch.device("meta"):
            model: PreTrainedModel = kind(config, **options)
    except Exception as error:  # a wrong value raises any: ZeroDivisionError, KeyError ...
        message = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{place / 'config.json'}: no model can be built of it: "
            f"{type(error).__name__}: {message}\n  fix: restore the file"
        ) from error
    return model


def _check_floats(headers: Mapping[str, Header]) -> None:
    for name, header in headers.items():
        if name.endswith((".weight", ".bias", ".gamma", ".beta")) and header.dtype not in _FLOATS:
            raise CheckpointError(
                f"{header.file}: weight {name} is of dtype {header.dtype}\n"
                f"  allowed: {', '.join(_FLOATS)}\n  fix: name a model that is not quantized"
            )


def _check_encoder(place: Path, model: PreTrainedModel, headers: Mapping[str, Header]) -> None:
    """Raise ``CheckpointError`` unless the files have exactly the encoder of ``model``; weights of
    heads may be missing or unexpected.
    """
    prefix = f"{model.base_model_prefix}."
    base: Any = model.base_model
    expected = {
        name: tuple(tensor.shape)
        for name, tensor in base.state_dict().items()
        if not name.startswith("pooler.")
    }
    tops = tuple(f"{name}." for name, _ in base.named_children())
    prefixed = any(name.startswith(prefix) for name in headers)
    stored: dict[str, tuple[int, ...]] = {}
    twice: list[str] = []
    for name, header in headers.items():
        if name.startswith((prefix, *tops)):
            plain = _modern(name.removeprefix(prefix) if prefixed else name)
            if plain in stored:
                twice.append(name)
            stored[plain] = header.shape
    stored = {name: shape for name, shape in stored.items() if not _idle(name)}
    if lacking := sorted(expected.keys() - stored.keys()):
        raise _lacking(place, lacking)
    if surplus := [*sorted(stored.keys() - expected.keys()), *twice]:
        raise _surplus(place, surplus)
    for name, shape in expected.items():
        _check_shape(place, name, stored[name], shape)


def _check_head(place: Path, model: PreTrainedModel, headers: Mapping[str, Header]) -> None:
    for name, tensor in model.state_dict().items():
        if name in headers:
            _check_shape(place, name, headers[name].shape, tuple(tensor.shape))


def _check_shape(
    place: Path, name: str, stored: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    if stored != expected:
        raise CheckpointError(
            f"{_files(place)}: cannot be loaded: weight {name} has the shape {list(stored)} "
            f"in the files and {list(expected)} by config.json\n"
            "  fix: name a directory whose config.json and weights are of one model"
        )


def _check_size(place: Path, model: PreTrainedModel, headers: Mapping[str, Header]) -> None:
    """Raise ``CheckpointError`` if ``model`` is far larger than the files."""
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(math.prod(header.shape) for header in headers.values())
    if described > 2 * stored + _FREE_NUMBERS:
        raise CheckpointError(
            f"{place / 'config.json'}: describes {described} weights, the files have {stored}\n"
            "  fix: name a directory whose config.json and weights are of one model"
        )


def _modern(name: str) -> str:
    """Return the current name of a weight of TensorFlow's first BERT."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{old}"):
            return name.removesuffix(old) + new
    return name


def _idle(name: str) -> bool:
    """Return whether an unexpected weight is harmless: a pooler, which is a head, or a constant."""
    return name.startswith("pooler.") or name.endswith(_BUFFERS)


def _files(place: Path) -> Path:
    """Return the weights file of a directory, or the index of its shards."""
    single = place / "model.safetensors"
    return single if single.is_file() else place / "model.safetensors.index.json"


def _lacking(place: Path, names: list[str]) -> CheckpointError:
    return CheckpointError(
        f"{_files(place)}: cannot be loaded: {len(names)} encoder weights are missing, "
        f"the first: {', '.join(names[:_NAMED])}\n  allowed: only heads may be missing\n"
        "  fix: name a directory whose config.json and weights are of one model"
    )


def _surplus(place: Path, names: list[str]) -> CheckpointError:
    return CheckpointError(
        f"{_files(place)}: cannot be loaded: {len(names)} encoder weights of the files are not in "
        f"the model that config.json describes, the first: {', '.join(sorted(names)[:_NAMED])}\n"
        "  fix: name a directory whose config.json and weights are of one model"
    )
