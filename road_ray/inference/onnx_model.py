"""Models in ONNX: translation from PyTorch, comparison of the two, and their use."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from road_ray.data.batching import Batch
from road_ray.data.task_and_dataset import SPECIAL_HEADS, Choose, special_head
from road_ray.data.tokenizer import pad_id_of
from road_ray.errors import CheckpointError, ConfigError, require
from road_ray.inference.predictor import Predictor
from road_ray.models.architectures import input_names
from road_ray.models.multitask import MultitaskModel

_log = logging.getLogger(__name__)
ONNX = "onnx"  # the part of road_ray.json on the exported model
_ERRORS_ONLY = 3  # severity of ONNX Runtime's log
_LARGEST_DIFFERENCE = 1e-4  # of fp32 logits, in units of the largest logit if that is above 1

Forward: TypeAlias = Callable[[Batch], Tensor]


class OnnxModel:
    """A model in ONNX Runtime on the CPU; ``model(batch)`` returns its logits.

    It uses as many threads as PyTorch, so ``OMP_NUM_THREADS`` counts. Raises ``ConfigError`` if
    ONNX Runtime is not installed, ``CheckpointError`` for a file that it cannot read.
    """

    def __init__(self, path: Path) -> None:
        require("ONNX", "onnx", "onnxruntime")
        import onnxruntime

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
        (logits,) = self._session.run(None, inputs)
        return torch.from_numpy(logits)


def _files_of(path: Path) -> list[Path]:
    """Return the ONNX file and, of a model above 1.5 GiB, the file beside it with the weights."""
    return [file for file in (path, path.with_name(f"{path.name}.data")) if file.is_file()]


class _FunctionOfTensors(nn.Module):
    """The model as a function of its input tensors only, which the exporter requires."""

    def __init__(self, model: MultitaskModel, task: str, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.task, self.names = model, task, names

    def forward(self, *inputs: Tensor) -> Tensor:
        batch: Any = dict(zip(self.names, inputs, strict=True)) | {"task": self.task}
        logits: Tensor = self.model(batch)
        return logits


def export_onnx(predictor: Predictor, directory: Path, quantize: str | None) -> dict[str, Any]:
    """Write the model of ``predictor`` into ``directory`` as ONNX with dynamic batch and length;
    return its entry in `road_ray.json`: the file, sizes, differences.

    ``quantize`` is ``int8`` or None. Raises ``ConfigError`` if the model is an export already, and
    ``CheckpointError`` for a head or an architecture that cannot be exported, and if logits differ
    from PyTorch's.
    """
    model, special = predictor.model, special_head(predictor.task)
    if not isinstance(model, MultitaskModel):
        raise ConfigError("the model is an ONNX export already\n  fix: name the trained model")
    if special in SPECIAL_HEADS:
        raise CheckpointError(
            f"the {special.name} cannot be exported to ONNX\n"
            "  allowed: heads of transformers (classes, numbers, answers, tags, choices)\n"
            f"  fix: train the model without {special.override}, or use `road predict`"
        )
    plain = directory / "model.onnx"
    _log.info("exporting to ONNX: about half a minute")
    _translate(predictor, model, plain)
    pytorch = sum(weight.nbytes for weight in model.state_dict().values())
    file, differences = plain, {"onnx_fp32": check_equal(predictor, OnnxModel(plain))}
    sizes = {"pytorch": pytorch, "onnx_fp32": sum(x.stat().st_size for x in _files_of(plain))}
    if quantize is not None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        file = directory / "model_int8.onnx"
        with _silenced():  # one scale per channel; activations are quantised at run time
            quantize_dynamic(str(plain), str(file), per_channel=True, weight_type=QuantType.QInt8)
        sizes["onnx_int8"] = sum(part.stat().st_size for part in _files_of(file))
        differences["onnx_int8"] = _difference(predictor, OnnxModel(file))[0]
        for part in _files_of(plain):
            part.unlink()
    return {
        "file": file.name,
        "quantization": quantize,
        "longest_row_tokens": predictor.longest_row_tokens,
        "largest_logit_difference": differences,
        "bytes": sizes,
    }


def _translate(predictor: Predictor, model: MultitaskModel, path: Path) -> None:
    """Write the ONNX file by PyTorch's exporter, its weights beside it above 1.5 GiB."""
    names = input_names(model.encoder)
    function = _FunctionOfTensors(model, predictor.task.name, names).eval()
    example: Mapping[str, Any] = _batch(predictor, rows=2, tokens=9)
    inputs = tuple(example[name] for name in names)
    length = torch.export.Dim("tokens", max=predictor.longest_row_tokens)
    dynamic = {0: torch.export.Dim("rows"), inputs[0].dim() - 1: length}
    try:
        with _silenced():
            program: Any = torch.onnx.export(
                function,
                inputs,
                dynamo=True,
                dynamic_shapes=(tuple(dynamic for _ in names),),
                input_names=list(names),
                output_names=["logits"],
                verbose=False,
            )
    except Exception as error:  # the exporter raises its own types and those of the traced code
        kind = predictor.task.head or type(predictor.task.kind).__name__
        raise CheckpointError(
            f"{model.encoder.config.model_type} with a head of kind {kind}: PyTorch's exporter "
            f"cannot translate it: {' '.join(str(error).split())[:200]}\n"
            "  fix: use `road predict`, or a model of another architecture, such as bert or electra"
        ) from error
    program.save(str(path))


@contextmanager
def _silenced() -> Iterator[None]:
    """Context without the warnings of exporter and quantiser, which are for their developers."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def check_equal(predictor: Predictor, exported: Forward) -> float:
    """Return the largest difference of fp32 logits. Raises ``CheckpointError`` if it is large."""
    largest, allowed = _difference(predictor, exported)
    if not largest <= allowed:  # also where it is NaN
        raise CheckpointError(
            f"the logits of ONNX differ from PyTorch's by {largest:.3g}; allowed: {allowed:.3g}\n"
            "  fix: report it with the model's config.json; use `road predict` until then\n"
            "  kept: nothing was written"
        )
    return largest


def _difference(predictor: Predictor, exported: Forward) -> tuple[float, float]:
    """Return the largest difference of logits over batches of several shapes, and the largest that
    is allowed for fp32.
    """
    longest = predictor.longest_row_tokens
    differences, scales = [], [1.0]
    for rows, tokens in ((1, 3), (2, 8), (5, 33), (3, 128), (1, longest)):
        batch = _batch(predictor, rows=rows, tokens=min(tokens, longest))
        with torch.inference_mode():
            logits, exported_logits = predictor.model(batch), exported(batch)
        differences.append((logits - exported_logits).abs().max())
        scales.append(float(logits.abs().max()))
    # As tensors, because their maximum is NaN if one of them is.
    return float(torch.stack(differences).max()), _LARGEST_DIFFERENCE * max(scales)


def _batch(predictor: Predictor, *, rows: int, tokens: int) -> Batch:
    """Return random rows. The last one has half the length; the second half of each row is its
    second segment.
    """
    kind = predictor.task.kind
    choices = (kind.choices,) if isinstance(kind, Choose) else ()
    drawn = torch.Generator().manual_seed(0)
    shape = (rows, *choices, tokens)
    ids = torch.randint(0, len(predictor.tokenizer), shape, generator=drawn)
    mask, segments = torch.ones_like(ids), torch.zeros_like(ids)
    segments[..., tokens // 2 :] = 1
    if rows > 1:
        mask[-1, ..., tokens // 2 :] = 0
        ids[-1, ..., tokens // 2 :] = pad_id_of(predictor.tokenizer)
        segments *= mask
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": segments,
        "task": predictor.task.name,
    }
