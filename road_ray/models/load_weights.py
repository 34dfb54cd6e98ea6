"""Loading of stored models by ``transformers``, from safetensors files alone; what it reports or
lets pass is checked: every weight of the encoder is stored, floating-point and finite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils import logging as hugging_face_logging

from road_ray.data.model_files import check_hashes, read_config
from road_ray.errors import CheckpointError

_FLOATS = ("F64", "F32", "F16", "BF16")
_BUFFERS = ("position_ids", "token_type_ids")  # older versions stored them; constants
_NAMED = 3  # weights in a message


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


ModelClass: TypeAlias = Any  # a class of transformers, which has no types


class Stored(NamedTuple):
    """A model loaded from a directory, and the names of weights that the files lack."""

    model: PreTrainedModel
    missing: list[str]


def load_stored(kind: ModelClass, directory: str | Path, **options: object) -> Stored:
    """Load a model of class ``kind`` (an Auto class, or one of an architecture) from a local
    directory, in fp32; weights of heads that the files lack are random and listed in ``missing``.

    Raises ``CheckpointError`` if names, shapes or dtypes of the encoder's weights differ from those
    of ``config.json``, if the file is not the one that ``road_ray.json`` records, and if a weight
    is not finite.
    """
    place = Path(directory)
    config = read_config(place)
    if (expected := getattr(kind, "config_class", None)) and not isinstance(config, expected):
        raise CheckpointError(
            f"{place / 'config.json'}: its config.json says {config.model_type!r}\n"
            f"  allowed: {expected.model_type}\n  fix: name a model of that family"
        )
    check_hashes(place, weights=True)
    files = sorted(place.glob("*.safetensors"))
    for file in files:
        _check_floats(file)
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
            raise CheckpointError(
                f"{_weights_of(place)}: cannot be loaded: {message}\n"
                "  allowed: weights as safetensors, of the model that config.json describes"
            ) from error
    check_finite(_weights_of(place), model.state_dict())
    prefix = f"{model.base_model_prefix}."
    parts = [f"{name}." for name, _ in model.base_model.named_children()]  # of an encoder's file
    unexpected = [n for n in report["unexpected_keys"] if n.startswith((prefix, *parts))]
    missing = sorted(report["missing_keys"])
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
                f"{_weights_of(place)}: cannot be loaded: {len(found)} {problem}, the first: "
                f"{', '.join(sorted(found)[:_NAMED])}\n"
                "  fix: name a directory whose config.json and weights are of one model"
            )
    return Stored(model, missing)


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


def _weights_of(place: Path) -> Path:
    """Return the weights file of a directory, or the index of its shards."""
    index = place / "model.safetensors.index.json"
    return index if index.is_file() else place / "model.safetensors"
