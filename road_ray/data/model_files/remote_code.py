"""Configurations and tokenizers of model directories, read so that nothing else is loaded.

``transformers`` can import, download or open what these files name. What names code, another
model's weights or quantization is refused; implementations of attention, which may be kernels of
the hub, are not passed on, nor are objects that the configuration class does not have. Of the
tokenizer's files fields of a list, numbers and booleans are allowed, and a ``tokenizer_class`` of
``transformers``.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from road_ray.errors import CheckpointError, shorten
from road_ray.system.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_FOREIGN = ("auto_map", "custom_pipelines", "quantization_config", "fusion_config")
# Names of another file, and what road_ray sets itself.
_NOT_PASSED = {
    *("transformers_weights", "return_dict", "use_return_dict"),
    *("output_hidden_states", "output_attentions"),
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
            f"{adapter}: an adapter of another model, which is not applied here\n"
            "  fix: merge it into its model (merge_and_unload) and save that"
        )
    fields = read_json(path)
    if named := [name for name in _FOREIGN if name in fields]:
        raise _foreign(path, named[0])
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
        and (name in known or _is_plain(kind, name, value))
    }
    try:
        return kind(**passed)
    except Exception as error:  # the checks of its many fields raise many types
        message = " ".join(str(error).split())
        raise CheckpointError(
            f"{path}: no configuration of {kind.model_type!r} can be made of it: "
            f"{type(error).__name__}: {message[:200]}\n  fix: restore the file"
        ) from error


def _is_plain(kind: type[PreTrainedConfig], name: str, value: object) -> bool:
    """Return True for a value that some architecture reads without listing its field."""
    return not (name.startswith("_") or hasattr(kind, name) or isinstance(value, dict | list))


def check_tokenizer_files(directory: str | Path) -> None:
    """Raise ``CheckpointError`` if the configuration of a tokenizer names something to load."""
    place = Path(directory)
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if not (place / file).is_file():
            continue
        for name, value in read_json(place / file).items():
            if name == "tokenizer_class" and not _is_tokenizer(value):
                raise CheckpointError(
                    f"{place / file}: tokenizer_class is {shorten(repr(value))}\n"
                    "  allowed: a tokenizer of transformers, such as ElectraTokenizer\n"
                    "  fix: remove the field, or name a tokenizer that transformers has"
                )
            listed = name in _TOKENIZER_FIELDS or name.endswith(("_token", "_tokens"))
            if not listed and value and not isinstance(value, int | float):
                raise _foreign(place / file, name)


def _is_tokenizer(name: object) -> bool:
    """Return True for the name of a tokenizer class of ``transformers``, also an older one."""
    import transformers

    names = (str(name), str(name).removesuffix("Fast"))
    kinds = [getattr(transformers, name, None) for name in names]
    base = transformers.PreTrainedTokenizerBase
    return any(isinstance(kind, type) and issubclass(kind, base) for kind in kinds)


def _foreign(path: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: field {name!r} can make the loader run or fetch foreign code\n"
        "  allowed: fields of an architecture or tokenizer of transformers, and plain values\n"
        "  fix: remove the field if the model is right without it; nothing was loaded"
    )
