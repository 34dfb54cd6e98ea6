"""Refuses remote code: checks the JSON files of a model directory before a loader reads them.

``transformers`` can import, download or open what these files name (``auto_map``, an attention
kernel of the hub, another weights file, an adapter's base model). Its loaders therefore never read
``config.json`` or the weights themselves. These are the rules for what reaches them:

- ``model_type`` is a text architecture of ``transformers`` without configurations inside its own.
- Fields of its configuration class are passed on. Of all other fields only numbers, booleans and
  lists of numbers are, under names that mean nothing to the class: they name nothing that could be
  loaded. Other plain values are left out, so they have no effect. Objects are refused, except
  empty and unused ones.
- An attention implementation is one that PyTorch or ``transformers`` brings; it is not passed on.
- ``tokenizer_config.json`` and ``special_tokens_map.json`` are read by ``transformers``: fields are
  of the list below, or a number, a boolean or null; ``tokenizer_class`` is one of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from road_ray.errors import CheckpointError, shorten
from road_ray.system.json_file import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_ATTENTION = {None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"}
_DTYPES = {None, "float32", "float16", "bfloat16", "float64"}
# Set by road_ray itself.
_PRESENTATION = {"return_dict", "use_return_dict", "output_hidden_states", "output_attentions"}
# Words that DeBERTa reads from its configuration, whose class does not list them.
_UNLISTED_WORDS = ("norm_rel_ebd", "conv_act")
_IDLE_OBJECTS = {"task_specific_params", "label2id", "prefix"}
_LEGACY_OBJECTS = {"rope_scaling", "rope_parameters"}
_MOST_LAYERS = 1000
_MOST_LABELS = 100_000
_MOST = 2**31 - 1
_TOKENIZER_FIELDS = {
    *("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"),
    *("model_specific_special_tokens", "never_split", "model_input_names", "wordpieces_prefix"),
    # Replaced by the files of the directory, or not opened.
    *("name_or_path", "tokenizer_file", "full_tokenizer_file", "special_tokens_map_file"),
    *("tokenizer_class", "processor_class", "backend", "chat_template", "errors", "vocab_type"),
    *("padding", "padding_side", "truncation_side", "truncation_strategy"),
}


def read_config(directory: str | Path) -> PreTrainedConfig:
    """Return the configuration in a model directory, from fields that cannot load anything.

    Raises ``CheckpointError`` naming the file and the field.
    """
    path = Path(directory) / "config.json"
    adapter = path.with_name("adapter_config.json")
    if adapter.is_file():
        raise CheckpointError(
            f"{adapter}: an adapter of another model, which is not applied here\n"
            "  fix: merge it into its model (merge_and_unload) and save that"
        )
    fields = read_json(path)
    kind = _config_class(path, fields)
    passed = dict(_passed_on(path, fields, kind))
    _check_values(path, passed)
    try:
        return kind(**passed)
    except Exception as error:  # the checks of its many fields raise many types
        message = " ".join(str(error).split())
        raise CheckpointError(
            f"{path}: no configuration of {kind.model_type!r} can be made of it: "
            f"{type(error).__name__}: {message[:200]}\n  fix: restore the file"
        ) from error


def _config_class(path: Path, fields: Mapping[str, object]) -> type[PreTrainedConfig]:
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_MASKED_LM_MAPPING_NAMES as FILLING,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFYING,
    )

    for name in ("auto_map", "custom_pipelines"):
        if name in fields:
            raise _foreign(path, name)
    model_type = fields.get("model_type")
    if not isinstance(model_type, str) or not (model_type in FILLING or model_type in CLASSIFYING):
        raise CheckpointError(
            f"{path}: model_type is {shorten(repr(model_type))}\n"
            "  allowed: a text architecture of transformers, such as electra, bert or albert\n"
            "  fix: name the directory of such a model"
        )
    kind: type[PreTrainedConfig] = CONFIG_MAPPING[model_type]
    if kind.sub_configs:
        raise CheckpointError(
            f"{path}: model_type {model_type!r} has configurations inside its own\n"
            "  allowed: one plain text model"
        )
    return kind


def _passed_on(
    path: Path, fields: Mapping[str, object], kind: type[PreTrainedConfig]
) -> Iterator[tuple[str, Any]]:
    known = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map)
    known |= {"num_labels", "torch_dtype"} | _LEGACY_OBJECTS
    for name, value in fields.items():
        if "attn_implementation" in name:
            if not isinstance(value, str | None) or value not in _ATTENTION:
                raise CheckpointError(
                    f"{path}: field {name!r} is {shorten(repr(value))}, "
                    "which may load foreign code\n"
                    f"  allowed: {', '.join(sorted(filter(None, _ATTENTION)))}\n"
                    "  fix: remove the field"
                )
        elif name in _PRESENTATION or name == "model_type":
            continue
        elif name in known or (name in _UNLISTED_WORDS and isinstance(value, str)):
            yield name, value
        elif _nested(value):
            if name not in _IDLE_OBJECTS:
                raise _foreign(path, name)
        elif not name.startswith("_") and not hasattr(kind, name) and _numeric(value):
            yield name, value


def _check_values(path: Path, fields: Mapping[str, Any]) -> None:
    """Raise ``CheckpointError`` for a value that would exhaust time or memory."""
    for name, value in fields.items():
        least, most = _limits(name)
        if isinstance(value, int | float) and not least <= value <= most:
            raise CheckpointError(
                f"{path}: {name} is {value}\n  allowed: {least} to {most}\n  fix: restore the file"
            )
        if name == "architectures" and not _listed(value):
            raise CheckpointError(
                f"{path}: architectures is {shorten(repr(value))}\n"
                "  allowed: a list of names of classes\n  fix: restore the file"
            )
        if name in ("dtype", "torch_dtype") and (
            not isinstance(value, str | None) or value not in _DTYPES
        ):
            raise CheckpointError(
                f"{path}: {name} is {shorten(repr(value))}\n"
                f"  allowed: {', '.join(sorted(filter(None, _DTYPES)))}\n  fix: restore the file"
            )
    names = fields.get("id2label")
    if names is None:
        return
    numbered = isinstance(names, dict) and all(str(key).isdecimal() for key in names)
    if not numbered or sorted(map(int, names)) != list(range(len(names))):
        raise CheckpointError(
            f"{path}: id2label is {shorten(repr(names))}\n"
            '  allowed: a name for each number from "0" on\n  fix: restore the file'
        )


def _limits(name: str) -> tuple[int, int]:
    """Return the least and the greatest value of a field, for any architecture."""
    if "dropout" in name or name.endswith("_prob"):
        return 0, 1
    if name == "num_labels":
        return 0, _MOST_LABELS
    if "size" in name:
        return 0, _MOST
    if any(part in name for part in ("layer", "group", "block")):
        return 0, _MOST_LAYERS
    if name == "max_relative_positions":  # -1 in DeBERTa: as many as there are positions
        return -1, _MOST
    return (0 if name.startswith(("num_", "max_")) else -_MOST), _MOST


def _listed(value: object) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(name, str) for name in value)
    )


def check_tokenizer_files(directory: str | Path) -> None:
    """Raise ``CheckpointError`` if a tokenizer file is damaged or names something to load."""
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    place = Path(directory)
    allowed = {"PreTrainedTokenizerFast", "TokenizersBackend", *TOKENIZER_MAPPING_NAMES.values()}
    allowed |= {f"{name}Fast" for name in allowed if name}
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if not (place / file).is_file():
            continue
        for name, value in read_json(place / file).items():
            if name == "tokenizer_class" and not (
                isinstance(value, str) and (value in allowed or _is_tokenizer(value))
            ):
                raise CheckpointError(
                    f"{place / file}: tokenizer_class is {shorten(repr(value))}\n"
                    "  allowed: a tokenizer of transformers, such as ElectraTokenizer\n"
                    "  fix: remove the field, or name a tokenizer that transformers has"
                )
            if name == "model_max_length" and not isinstance(value, int | float | None):
                raise CheckpointError(
                    f"{place / file}: model_max_length is {shorten(repr(value))}\n"
                    "  allowed: a number\n  fix: remove the field"
                )
            listed = name in _TOKENIZER_FIELDS or name.endswith(("_token", "_tokens"))
            if not listed and value and not isinstance(value, int | float):
                raise _foreign(place / file, name)
    for file, holds in (("tokenizer.json", "model"), ("added_tokens.json", None)):
        if (place / file).is_file():
            content = read_json(place / file)
            if not isinstance(content, dict) or (
                holds and not isinstance(content.get(holds), dict)
            ):
                raise CheckpointError(
                    f"{place / file}: holds no tokenizer but {shorten(repr(content))}\n"
                    "  fix: restore the file"
                )


def _is_tokenizer(name: str) -> bool:
    """Return True for a tokenizer class of ``transformers``, also one of an older name."""
    import transformers

    kind = getattr(transformers, name, None)
    return isinstance(kind, type) and issubclass(kind, transformers.PreTrainedTokenizerBase)


def _foreign(path: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: field {name!r} can make the loader run or fetch foreign code\n"
        "  allowed: fields of an architecture or tokenizer of transformers, and plain values\n"
        "  fix: remove the field if the model is right without it; nothing was loaded"
    )


def _nested(value: object) -> bool:
    """Return True if ``value`` contains a non-empty object."""
    if isinstance(value, list):
        return any(map(_nested, value))
    return isinstance(value, dict) and bool(value)


def _numeric(value: object) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, list) and all(isinstance(item, int | float) for item in value)
    )
