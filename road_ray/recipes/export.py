"""`road export`: a finished model as an ONNX directory that `road predict` and others run, whose
logits were compared with PyTorch's.
"""

import logging
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from road_ray.data.batching import Batch
from road_ray.data.model_files import MODEL_RECORD, head_directory, model_hashes
from road_ray.data.task_and_dataset import SPECIAL_HEADS, Choose, special_head
from road_ray.data.tokenizer import pad_id_of
from road_ray.errors import CheckpointError, ConfigError, require
from road_ray.evaluation.metrics import threshold_entry
from road_ray.inference.load_model import ONNX, OnnxModel, load
from road_ray.inference.predictor import Predictor
from road_ray.models.architectures import input_names
from road_ray.models.encoder import model_directory
from road_ray.models.multitask import LikeTransformers, MultitaskModel
from road_ray.system.files import check_new, staged_directory, write_json_atomic

_log = logging.getLogger(__name__)
_FORMS = {"pytorch": "PyTorch", "onnx_fp32": "ONNX fp32", "onnx_int8": "ONNX int8"}
_LARGEST_DIFFERENCE = 1e-4  # of fp32 logits, in units of the largest logit if that is above 1


def export(
    model: str, output: Path | None = None, *, head: str | None = None, quantize: str | None = None
) -> tuple[Path, dict[str, Any]]:
    """Write a model with its head as ONNX, with its tokenizer, ``road_ray.json`` and card; return
    the directory and the part of the record on the export.

    ``output`` defaults to ``onnx`` in the run or model directory (``onnx-int8`` with ``quantize``,
    and the name of the head if one is given). The directory takes its name once the logits of ONNX
    equal those of PyTorch. Raises ``ConfigError`` if it exists.
    """
    place = Path(model).expanduser()
    if output is None and not place.is_dir():
        raise ConfigError(
            f"{model}: no such directory; a model of the hub needs --output\n"
            "  fix: check the path, or add --output DIR"
        )
    target = check_new(output or place / "-".join(["onnx", *filter(None, (head, quantize))]))
    require("ONNX", "onnx", "onnx", "onnxruntime", "onnxscript")
    source = head_directory(model_directory(model, "model"), head)
    predictor = load(model, head=head, device="cpu")
    with staged_directory(target) as staged:
        facts = export_onnx(predictor, staged, quantize)
        shutil.copyfile(source / "config.json", staged / "config.json")
        predictor.tokenizer.save_pretrained(staged)
        record = dict(predictor.record) | {
            "max_length_tokens": predictor.max_length_tokens,
            **threshold_entry(predictor.threshold),
            ONNX: facts,
            "files": model_hashes(staged),
        }
        write_json_atomic(staged / MODEL_RECORD, record)
        card = source / "README.md"
        text = card.read_text(encoding="utf-8") if card.is_file() else f"# {target.name}\n"
        (staged / "README.md").write_text(_card(text, facts), encoding="utf-8")
    return target, facts


def _card(text: str, facts: Mapping[str, Any]) -> str:
    """Return the text of the model's card with the use and the measurements of the export."""
    use = (
        "## Use\n\n```python\nimport road_ray\n\n"
        'model = road_ray.load("path/to/this/directory")\n```\n\n'
        f"`{facts['file']}` takes `input_ids`, `attention_mask` and, of models with segments, "
        "`token_type_ids` (int64) of any number of rows and tokens and returns `logits`; ONNX "
        "Runtime runs it without road_ray or PyTorch."
    )
    rows = measured_rows(facts)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    figures = (
        f"## ONNX\n\n{table}\n\nLargest difference of a logit from PyTorch's on random rows.\n"
    )
    if facts["quantization"]:
        figures += (
            "\nThe figures of this card are those of the PyTorch model. int8 is not exact: "
            "evaluate it on your own data before you use it.\n"
        )
    without = re.sub(r"^## Use\n.*?(?=^## |^<!--|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    front = without.replace("library_name: transformers", "library_name: onnx", 1)
    before, limits, after = front.partition("## Limits\n")
    return f"{before.rstrip()}\n\n{use}\n\n{figures}\n{limits}{after}"


def measured_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return size and logit difference, a row for each form of the model."""
    rows = []
    for form, size in facts["bytes"].items():
        difference = facts["largest_logit_difference"].get(form)
        told = "" if difference is None else f"{difference:.2g}"
        rows.append({"form": _FORMS[form], "MB": f"{size / 1e6:.1f}", "logit difference": told})
    return rows


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
    files = [*directory.glob("model.onnx*")]  # above 1.5 GiB a file of weights is beside it
    sizes = {"pytorch": pytorch, "onnx_fp32": sum(part.stat().st_size for part in files)}
    if quantize is not None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        file = directory / "model_int8.onnx"
        with _silenced():  # one scale per channel; activations are quantised at run time
            quantize_dynamic(str(plain), str(file), per_channel=True, weight_type=QuantType.QInt8)
        sizes["onnx_int8"] = sum(x.stat().st_size for x in directory.glob("model_int8.onnx*"))
        differences["onnx_int8"] = _difference(predictor, OnnxModel(file))[0]
        for part in files:
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
    example: Mapping[str, Any] = _batch(predictor, rows=2, tokens=9)
    length = torch.export.Dim("tokens", max=predictor.longest_row_tokens)
    dynamic = {0: torch.export.Dim("rows"), example["input_ids"].dim() - 1: length}
    if len(example["input_ids"].shape) > 2:
        dynamic[1] = torch.export.Dim("choices")
    try:
        with _silenced():
            program: Any = torch.onnx.export(
                LikeTransformers(model, predictor.task.name).eval(),
                kwargs={name: example[name] for name in names},
                dynamo=True,
                dynamic_shapes=dict.fromkeys(names, dynamic),
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


def check_equal(predictor: Predictor, exported: Callable[[Batch], Tensor]) -> float:
    """Return the largest difference of fp32 logits. Raises ``CheckpointError`` if it is large."""
    largest, allowed = _difference(predictor, exported)
    if not largest <= allowed:  # also where it is NaN
        raise CheckpointError(
            f"the logits of ONNX differ from PyTorch's by {largest:.3g}; allowed: {allowed:.3g}\n"
            "  fix: report it with the model's config.json; use `road predict` until then\n"
            "  kept: nothing was written"
        )
    return largest


def _difference(predictor: Predictor, exported: Callable[[Batch], Tensor]) -> tuple[float, float]:
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
    task = predictor.task.name
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments, "task": task}
