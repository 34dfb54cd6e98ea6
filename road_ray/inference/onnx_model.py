"""Run a model that `road export` wrote, with ONNX Runtime instead of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.errors import CheckpointError, ConfigError

ONNX = "onnx"  # the part of road_ray.json on the exported model
_ERRORS_ONLY = 3  # severity of ONNX Runtime's log


class OnnxModel:
    """A model in ONNX Runtime on the CPU; ``model(batch)`` returns its logits.

    It uses as many threads as PyTorch, so ``OMP_NUM_THREADS`` counts. ``singly`` runs every row
    by itself, without padding: int8 scales activations by the largest of a batch, so that the
    answer for a row would depend on its neighbours. Raises ``ConfigError`` if ONNX Runtime is not
    installed, ``CheckpointError`` for a file that it cannot read.
    """

    def __init__(self, path: Path, *, singly: bool = False) -> None:
        self._singly = singly
        try:
            import onnxruntime
        except ImportError as error:
            raise not_installed(error) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime raises a dozen types of its own
            raise CheckpointError(
                f"{path}: ONNX Runtime cannot read it: {' '.join(str(error).split())[:200]}\n"
                "  fix: repeat `road export`"
            ) from error
        self._inputs = [tensor.name for tensor in self._session.get_inputs()]

    def __call__(self, batch: Batch) -> Tensor:
        tensors: Mapping[str, Any] = batch
        # The exported model has an input for segments, also where the tokenizer gives none.
        zeros = torch.zeros_like(batch["input_ids"])
        inputs = {name: tensors.get(name, zeros).numpy() for name in self._inputs}
        if not self._singly:
            return torch.from_numpy(self._run(inputs))
        mask = batch["attention_mask"]  # [B, L], of choices [B, N, L]
        lengths = mask.sum(-1).reshape(len(mask), -1).amax(-1)
        rows = [
            self._run(
                {name: values[row : row + 1, ..., :length] for name, values in inputs.items()}
            )
            for row, length in enumerate(lengths.tolist())
        ]
        shape = [max(sizes) for sizes in zip(*(row.shape[1:] for row in rows), strict=True)]
        logits = torch.zeros(len(rows), *shape)
        for number, row in enumerate(rows):
            place: tuple[int | slice, ...] = (number, *map(slice, row.shape[1:]))
            logits[place] = torch.from_numpy(row[0])
        return logits

    def _run(self, inputs: Mapping[str, Any]) -> Any:
        (logits,) = self._session.run(None, dict(inputs))
        return logits


def not_installed(error: ImportError) -> ConfigError:
    """Return the error for a package of the extra ``onnx`` that is missing."""
    return ConfigError(
        f"ONNX: the package {error.name} is not installed\n  fix: pip install 'road-ray[onnx]'"
    )


def files_of(path: Path) -> list[Path]:
    """Return the ONNX file and, of a model above 1.5 GiB, the file beside it with the weights."""
    return [file for file in (path, path.with_name(f"{path.name}.data")) if file.is_file()]


def onnx_file(place: Path, record: Mapping[str, object]) -> Path | None:
    """Return the file of the exported model in ``place``; None if it is not an export.

    Raises ``CheckpointError`` if ``road_ray.json`` names a file that is not there.
    """
    facts = record.get(ONNX)
    if facts is None:
        return None
    name = facts.get("file") if isinstance(facts, dict) else None
    if not isinstance(name, str) or Path(name).name != name or not (place / name).is_file():
        raise CheckpointError(
            f"{place}: road_ray.json names the ONNX file {name!r}, which is not there\n"
            "  fix: repeat `road export`"
        )
    return place / name
